"""`python -m tests.sink_kills --seed 1 --runs 3`: each run fills a topic, copies it through kills, and compares.

--seed 1      the first run's; each run has the next one
--runs 1      how many
--records N   in the topic (12000)
--kills N     in a run, then the query is left alone (5)
--apache      on three nodes of Apache Kafka
--voters      the voters of the quorum move from 1, 2, 3 to 4, 5, 6 meanwhile (not with --apache)
--standalone  on a standalone Spark with two workers, where slow tasks run twice; its executors are killed, too
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.trio import until
from tests.pipeline.sink_histories import committed
from tests.pipeline.standalone import Standalone
from tests.sink_kills.ground import MOVING, Apache, Ground, move_voters, ours, voters
from tests.sink_kills.processes import kill, of_the_query

from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.errors import KafkaError

__all__ = ["main"]

PARTITIONS = 4
PATIENCE_S = 300.0
"""Seconds that one start of the query may take to its end, once nothing is killed any more."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="sink_kills", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--records", type=int, default=12_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--settings", nargs="*", default=[], metavar="NAME=VALUE", help="of the nodes")
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--voters", action="store_true")
    parser.add_argument("--standalone", action="store_true")
    options = parser.parse_args()
    if options.apache and options.voters:
        parser.error("--voters moves voters by KIP-642, which Apache Kafka has not")
    wrong = 0
    for seed in range(options.seed, options.seed + options.runs):
        with (
            tempfile.TemporaryDirectory() as folder,
            ground_of(options, Path(folder)) as kafka,
            spark_of(options, Path(folder)) as spark,
        ):
            run = Run(kafka, Path(folder), seed, spark)
            with moved_meanwhile(kafka, run.rng.uniform(8, 16)) if options.voters else nothing():
                wrong += run.copy(options.records, options.kills)
    print(f"{options.runs - wrong} passed, {wrong} failed", flush=True)
    return 1 if wrong else 0


@contextmanager
def ground_of(options: argparse.Namespace, folder: Path) -> Iterator[Ground]:
    """The cluster of one run."""
    settings = dict(one.split("=", 1) for one in options.settings)
    if options.apache:
        with Apache(folder / "kafka", settings) as apache:
            yield apache
        return
    with ours(settings, moving=options.voters) as kafka:
        if options.voters:
            move_voters(kafka.bootstrap, MOVING[0], wait=True)
        yield kafka


@contextmanager
def spark_of(options: argparse.Namespace, folder: Path) -> Iterator[Standalone | None]:
    """The standalone Spark of one run, if it has one."""
    if not options.standalone:
        yield None
        return
    work = folder / "spark"
    work.mkdir()
    with Standalone(work) as spark:
        yield spark


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def moved_meanwhile(kafka: Ground, after: float) -> Iterator[None]:
    """The voters move, so many seconds after the beginning; at the end they have arrived."""
    failed: list[BaseException] = []

    def move() -> None:
        try:
            move_voters(kafka.bootstrap, MOVING[1], wait=False)
        except BaseException as error:
            failed.append(error)

    timer = threading.Timer(after, move)
    timer.start()
    yield
    timer.join()
    if failed:
        raise failed[0]
    with Admin(kafka.bootstrap) as admin:
        until(lambda: voters(admin) == [*MOVING[1]], 120, f"voters {MOVING[1]}")
    print(f"the voters moved from {MOVING[0]} to {MOVING[1]}", flush=True)


class Run:
    """One seed's."""

    def __init__(self, kafka: Ground, folder: Path, seed: int, spark: Standalone | None = None) -> None:
        self.kafka = kafka
        self.folder = folder
        self.seed = seed
        self.rng = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.spark = spark
        self.starts = 0
        self.down: int | None = None

    def copy(self, records: int, kills: int) -> bool:
        """Whether the copy differs from what it was made of."""
        began = time.monotonic()
        with Admin(self.kafka.bootstrap) as admin:
            for topic in ("in", "out"):
                admin.create_topic(topic, partitions=PARTITIONS, replication=3)
        with Producer(self.kafka.bootstrap) as producer:
            for number in range(records):
                producer.send("in", str(number), str(number % 97))
        ended = False
        while not ended:
            ended = self._start(kills)
        found = committed(self.kafka.bootstrap, "out")
        lost = records - sum(1 for number in range(records) if str(number) in found)
        twice = sum(count - 1 for count in found.values())
        killed = ", ".join(f"{count} {kind}" for kind, count in sorted(self.killed.items()))
        again = len(list(self.folder.glob("again-*")))
        twin = f"{again} attempts more than tasks, " if self.spark is not None else ""
        print(
            f"seed {self.seed}: {records} records, killed {killed or 'nothing'}, {twin}{self.starts} starts, "
            f"{time.monotonic() - began:.0f} s: lost {lost}, twice {twice}",
            flush=True,
        )
        return bool(lost or twice)

    def _start(self, kills: int) -> bool:
        """Start the query, and kill until it ends or there was enough; whether it ended by itself."""
        self.starts += 1
        log = self.folder / f"query-{self.starts}.log"
        with log.open("wb") as out:
            query = self._query(out)
            try:
                pause = self.rng.uniform(6, 12)  # (Spark takes some seconds to start)
                while self.killed.total() < kills:
                    if _ends(query, pause):
                        return query.returncode == 0
                    self._kill_one(self._roots(query))
                    pause = self.rng.uniform(1, 4)
                self._all_up()
                if not _ends(query, PATIENCE_S):
                    raise TimeoutError(f"the query does not end: {log.read_text()[-4000:]}")
                return query.returncode == 0
            finally:
                for processes in of_the_query(self._roots(query)).values():
                    for process in processes:
                        kill(process)
                query.wait()

    def _query(self, out: IO[bytes]) -> subprocess.Popen[bytes]:
        checkpoint = str(self.folder / "checkpoint")
        command = [sys.executable, "-m", "tests.sink_kills.copy", self.kafka.bootstrap, checkpoint]
        if self.spark is not None:
            command.append(self.spark.master)
        return subprocess.Popen(command, stdout=out, stderr=out)

    def _roots(self, query: subprocess.Popen[bytes]) -> list[int]:
        """The driver, and what started the executors."""
        return [query.pid, *(process.pid for process in self.spark.processes)] if self.spark else [query.pid]

    def _kill_one(self, roots: list[int]) -> None:
        self._all_up()
        kinds = ("worker", "worker", "jvm", "driver", "leader", "coordinator")
        kind = self.rng.choice(kinds if self.spark is None else (*kinds, "executor", "executor"))
        if kind in ("leader", "coordinator"):
            topic = "out" if kind == "leader" else "__transaction_state"
            try:
                number = self.kafka.leader_of(topic, self.rng.randrange(PARTITIONS))
            except KafkaError:  # there is no coordinator before the first transaction
                return
            if number < 1:
                return
            self.kafka.kill(number)
            self.down = number
        else:
            processes = of_the_query(roots)[kind]
            if not processes:
                return
            kill(self.rng.choice(processes))
        self.killed[kind] += 1

    def _all_up(self) -> None:
        if self.down is not None:
            self.kafka.start(self.down)
            self.down = None


def _ends(query: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        query.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
