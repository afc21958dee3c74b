"""`python -m bench spark`: `format("barnabas")` beside Spark's own connector, in one session, in turn.

  source   a batch over a whole topic: rows per second, and CPU of the JVM with its Python workers per row
  tasks    68 partitions of ten records: how long a batch takes that is nothing but tasks
  sink     a copy of a topic in micro-batches: exactly once, at least once, and Spark's own sink
  commit   micro-batches of 100 rows: what one takes

Both read the same topics of one broker, Barnabas or (--apache) Apache Kafka.  The first rounds warm Java's
compiler and do not count (five where CPU is compared, else one); of the others the least of each side does.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.testing.cluster import free_ports
from bench.peers import ApacheKafka, Barnabas, Peer, apache_is_here
from bench.processes import TICKS, load, machine
from bench.report import put_between
from bench.stock import connector_jars, why_no_connector

OURS, STOCK = "barnabas", "kafka"
CELLS = ((100, "none"), (100, "lz4"), (1000, "none"), (1000, "lz4"))
ONE_COPY = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
BEGIN, END = (
    "<!-- begin: written by make bench ARGS=spark -->",
    "<!-- end: written by make bench ARGS=spark -->",
)
WARM = 5
"""Rounds of a read after which its CPU stands still."""
Line = tuple[str, str, str, str]
"""What, ours, Spark's connector, ratio."""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench spark", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="that count, of each side (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the topics' sizes (1)")
    parser.add_argument("--only", default="source,tasks,sink,commit", help="which, separated by commas")
    parser.add_argument("--apache", action="store_true", help="read from and write to Apache Kafka")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    if why := why_no_connector() or (apache_is_here() if options.apache else None):
        print(f"error: there is nothing to compare with: {why}")
        return 1
    begun = load()
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as name:
        kind = ApacheKafka if options.apache else Barnabas
        peer: Peer = kind(Path(name) / "peer", free_ports(2), fsync=False, settings=ONE_COPY)
        try:
            peer.start()
            peer.wait()
            lines = Comparison(peer, Path(name), options.rounds, options.scale).lines(options.only.split(","))
        finally:
            peer.stop()
    text = "\n".join(
        [
            f"Broker: {peer.name}. {machine()}; load {begun:.1f} before; {options.rounds} rounds each, in turn.",
            "",
            "| what | `barnabas` | Spark's own | ratio |",
            "|---|---:|---:|---:|",
            *(f"| {' | '.join(line)} |" for line in lines),
        ]
    )
    print(text)
    if not options.no_write:
        print(f"written: {put_between(BEGIN, END, text)}")
    return 0


class Comparison:
    """One session and one broker."""

    def __init__(self, peer: Peer, folder: Path, rounds: int, scale: float) -> None:
        from barnabas.pipeline.session import session

        self.peer, self.folder, self.rounds, self.scale = peer, folder, rounds, scale
        warehouse = {"spark.jars": connector_jars(), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        self.spark: Any = session("bench", "local[2]", **warehouse)
        java: Any = self.spark._jvm
        self.jvm = int(java.java.lang.ProcessHandle.current().pid())
        self._numbers = itertools.count()

    def lines(self, only: list[str]) -> list[Line]:
        parts = {"source": self.source, "tasks": self.tasks, "sink": self.sink, "commit": self.commit}
        found: list[Line] = []
        for name in only:
            for line in parts[name]():
                print("  ".join(line), flush=True)
                found.append(line)
        self.spark.stop()
        return found

    # -- the four parts ----------------------------------------------------------------------------

    def source(self) -> Iterator[Line]:
        for size, codec in CELLS:
            rows = int((2_000_000 if size == 100 else 400_000) * self.scale)
            topic = self.filled(f"source-{size}-{codec}", rows, size, codec)
            took = self.in_turn(self.reads(topic), warm=WARM)
            ours, stock = took[OURS], took[STOCK]
            what = f"source, {size} B, {codec}"
            yield _line(f"{what}: rows/s", rows / ours[0], rows / stock[0])
            yield _line(f"{what}: CPU us/row", ours[1] / rows * 1e6, stock[1] / rows * 1e6)

    def tasks(self) -> Iterator[Line]:
        topic = self.filled("tasks", 680, 100, "none", partitions=68)
        took = self.in_turn(self.reads(topic))
        yield _line("68 tasks of ten rows: s", took[OURS][0], took[STOCK][0])

    def sink(self) -> Iterator[Line]:
        rows = int(200_000 * self.scale)
        topic = self.filled("copied", rows, 1000, "none")
        took = self.in_turn(self.copies(topic, rows // 4))
        for delivery in ("exactly-once", "at-least-once"):
            what = f"sink, 1 KB, 4 micro-batches, {delivery}"
            yield _line(f"{what}: rows/s", rows / took[delivery][0], rows / took[STOCK][0])
            yield _line(f"{what}: CPU us/row", took[delivery][1] / rows * 1e6, took[STOCK][1] / rows * 1e6)
        cost = took["exactly-once"][0] / took["at-least-once"][0]
        yield ("sink: wall time of exactly once over at least once", f"{cost:.2f}", "", "")

    def commit(self) -> Iterator[Line]:
        topic = self.filled("little", 1000, 100, "none")
        took = self.in_turn(self.copies(topic, 100, of_one=True))
        for delivery in ("exactly-once", "at-least-once"):
            what = f"micro-batch of 100 rows, {delivery}: ms"
            yield _line(what, took[delivery][0] * 1000, took[STOCK][0] * 1000)

    # -- steps -------------------------------------------------------------------------------------

    def filled(self, topic: str, rows: int, size: int, codec: str, partitions: int = 4) -> str:
        with Admin(self.peer.bootstrap) as admin:
            admin.create_topic(topic, partitions=partitions)
        with Producer(self.peer.bootstrap, compression=None if codec == "none" else codec) as producer:
            half = os.urandom(size // 2)
            for number in range(rows):
                value = (b"%012d" % number + half).ljust(size, b".")
                producer.send(topic, value, b"%d" % (number % 1000), partition=number % partitions)
        return topic

    def reads(self, topic: str) -> dict[str, Callable[[], float | None]]:
        """A batch over the whole topic, each way."""

        def read(kind: str) -> None:
            sums = ("count(*)", "sum(length(value))", "sum(length(key))")
            self.frame(self.spark.read, kind, topic).selectExpr(*sums).collect()

        return {kind: partial(read, kind) for kind in (OURS, STOCK)}

    def frame(self, start: Any, kind: str, topic: str, **options: str) -> Any:
        made = start.format(kind).option("kafka.bootstrap.servers", self.peer.bootstrap)
        for name, value in {"subscribe": topic, "startingOffsets": "earliest", **options}.items():
            made = made.option(name, value)
        return made.load()

    def copies(
        self, topic: str, at_once: int, *, of_one: bool = False
    ) -> dict[str, Callable[[], float | None]]:
        """A copy each way; the figure of each is its wall time, or that of one micro-batch."""

        def copy(way: str) -> float:
            frame = self.frame(self.spark.readStream, OURS, topic, maxOffsetsPerTrigger=str(at_once))
            out = f"{topic}-{way}-{next(self._numbers)}"
            with Admin(self.peer.bootstrap) as admin:
                admin.create_topic(out, partitions=4)
            writer = frame.select("key", "value").writeStream.format(STOCK if way == STOCK else OURS)
            if way != STOCK:
                writer = writer.option("delivery", way)
            writer = writer.option("kafka.bootstrap.servers", self.peer.bootstrap).option("topic", out)
            query = (
                writer.option("checkpointLocation", str(self.folder / out)).trigger(availableNow=True).start()
            )
            query.awaitTermination()
            took = [float(p.durationMs["triggerExecution"]) for p in query.recentProgress if p.numInputRows]
            return (statistics.median(took) if of_one else sum(took)) / 1000

        ways = ("exactly-once", "at-least-once", STOCK)
        return {way: partial(copy, way) for way in ways}

    def in_turn(
        self, ways: dict[str, Callable[[], float | None]], *, warm: int = 1
    ) -> dict[str, tuple[float, float]]:
        """Least seconds and CPU seconds of each way; one may say its own seconds."""
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(warm + self.rounds):
            for way, run in ways.items():
                cpu, begun = self.cpu(), time.monotonic()
                said = run()
                seconds = time.monotonic() - begun if said is None else said
                found[way].append((seconds, self.cpu() - cpu))
        return {
            way: (min(s for s, _ in runs[warm:]), min(c for _, c in runs[warm:]))
            for way, runs in found.items()
        }

    def cpu(self) -> float:
        """CPU seconds of the JVM and all its Python workers so far, also of those that have ended."""
        parents: dict[int, list[int]] = {}
        ticks: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))
        total, left = 0, [self.jvm]
        while left:
            process = left.pop()
            total += ticks.get(process, 0)
            left += parents.get(process, ())
        return total / TICKS


def _line(what: str, ours: float, stock: float) -> Line:
    def shown(value: float) -> str:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    return what, shown(ours), shown(stock), f"{ours / stock:.2f}"
