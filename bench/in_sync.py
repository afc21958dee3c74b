"""`python -m bench isr`: does an in-sync set ever shrink although nobody has failed?

Three nodes, `--idle` partitions with three replicas and a record each, one busy partition (an idempotent
librdkafka producer at `--rate` messages a second, and a consumer of it), for `--minutes`.  Nobody is killed.  Each
second the counters of all nodes are read (replicas that left an in-sync set; they miss nothing between two looks),
every five seconds the in-sync sets of all partitions as clients see them.  It ends with 1 if one shrank or a
record is missing.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from barnabas import Producer
from bench.processes import cpu_seconds, load, machine, resident_mb
from bench.report import revision
from bench.steady import Steady
from bench.trio import BarnabasTrio, until

TOPIC, EACH = "busy", 500
_SHRINKS = re.compile(rb"^kafka_server_ReplicaManager_IsrShrinksPerSec_total\S* (\S+)$", re.MULTILINE)
_EXPANDS = re.compile(rb"^kafka_server_ReplicaManager_IsrExpandsPerSec_total\S* (\S+)$", re.MULTILINE)


class Seen(NamedTuple):
    """What was seen in all the time."""

    counted: int
    looked: int
    shrinks: int
    expands: int
    partitions: int
    fewest: int


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench isr", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--idle", type=int, default=2000, help="idle partitions (2,000)")
    parser.add_argument("--rate", type=int, default=500, help="messages a second on the busy one (500)")
    parser.add_argument("--port", type=int, default=31392, help="the first of some 40 ports (31392)")
    options = parser.parse_args(words)
    print(f"{machine()}; load {load():.1f}; {revision()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="barnabas-isr-") as folder:
        trio = BarnabasTrio(Path(folder), options.port, fsync=False)
        pages = []
        for number, seat in trio.seats.items():
            http = f"127.0.0.1:{options.port + 35 + number}"
            with seat.properties.open("a", encoding="utf-8") as file:
                file.write(f"barnabas.http.listener={http}\n")
            pages.append(f"http://{http}/metrics")
        try:
            trio.start()
            return run(trio, pages, options)
        finally:
            trio.stop()


def run(trio: BarnabasTrio, pages: list[str], options: argparse.Namespace) -> int:
    """Fill, watch, read back."""
    names = fill(trio, options.idle)
    trio.create(TOPIC, [[1, 2, 3]])
    before = [cpu_seconds(pid) for pid in trio.pids]
    begun = time.monotonic()
    reader = Reader(trio.bootstrap)
    with Steady(trio.bootstrap, TOPIC, 1, rate=options.rate) as steady:
        reader.start()
        steady.flowing()
        seen = watch(trio, pages, [*names, TOPIC], begun + 60 * options.minutes)
    took = time.monotonic() - begun
    reader.over.set()
    reader.join(30)
    cores = [(cpu_seconds(pid) - was) / took for pid, was in zip(trio.pids, before, strict=True)]
    verdict = steady.verdict()
    print(f"{took:.0f} s; {seen}; the consumer read {reader.count}; {verdict}")
    print(
        f"cores of the nodes {', '.join(f'{one:.3f}' for one in cores)}; "
        f"memory {', '.join(f'{resident_mb(pid):.0f}' for pid in trio.pids)} MB; load {load():.1f}"
    )
    wrong = seen.shrinks or seen.expands or seen.fewest < 3 or verdict.lost or verdict.twice or verdict.failed
    print("failed" if wrong else "no in-sync set shrank, nothing is missing, nothing is there twice")
    return int(bool(wrong))


def fill(trio: BarnabasTrio, count: int) -> list[str]:
    """Topics of idle partitions, with a record in each."""
    names = [f"idle-{first}" for first in range(0, count, EACH)]
    sizes = [min(EACH, count - first) for first in range(0, count, EACH)]
    trio.create_all([NewTopic(name, size, 3) for name, size in zip(names, sizes, strict=True)])
    with Producer(trio.bootstrap) as producer:
        for name, size in zip(names, sizes, strict=True):
            for index in range(size):
                producer.send(name, b"x", partition=index)
        producer.flush(120)
    until(lambda: all(trio.full(name) for name in names), 180, "all replicas in sync")
    return names


def watch(trio: BarnabasTrio, pages: list[str], topics: list[str], end: float) -> Seen:
    """Look until then."""
    first = counters(pages)
    counted = looked = partitions = 0
    now, fewest, next_look = first, 3, 0.0
    while time.monotonic() < end:
        now = counters(pages)
        counted += 1
        if now != first and counted % 10 == 1:
            print(f"shrinks and expands were {first}, are {now}", flush=True)
        if time.monotonic() >= next_look:
            next_look = time.monotonic() + 5
            known = trio.admin.list_topics(timeout=10).topics
            sets = [len(p.isrs) for name in topics for p in known[name].partitions.values()]
            partitions, fewest, looked = len(sets), min(fewest, *sets), looked + 1
        time.sleep(1)
    return Seen(counted, looked, now[0] - first[0], now[1] - first[1], partitions, fewest)


def counters(pages: list[str]) -> tuple[int, int]:
    """How often, on all nodes, a replica left an in-sync set, and came back."""
    shrinks = expands = 0
    for page in pages:
        with urllib.request.urlopen(page, timeout=10) as answer:
            text = answer.read()
        for found in _SHRINKS.findall(text):
            shrinks += int(float(found))
        for found in _EXPANDS.findall(text):
            expands += int(float(found))
    return shrinks, expands


class Reader(threading.Thread):
    """A consumer of the busy partition."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.over, self.count = threading.Event(), 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def run(self) -> None:
        while not self.over.is_set():
            self.count += sum(1 for message in self._consumer.consume(1000, 0.2) if message.error() is None)
        self._consumer.close()
