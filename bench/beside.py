"""`python -m bench beside`: how long one record takes at 500 a second while the cluster does something else.

Three nodes, three replicas, acks=all; an idempotent librdkafka producer without linger sends 500 messages a
second to one partition.  Meanwhile, one after the other:

  nothing      (after a warm-up)
  topics       a topic of 100 partitions is created, and deleted again, over and over
  compaction   a compacted topic takes 1,000 records of 1 KiB a second, of 500 keys, in segments of 1 MiB
  snapshots    the settings of a topic change 20 times a second, and the metadata gets a snapshot every second
  all          these together

1,000 idle partitions make the snapshots large.  Apache Kafka with the same settings and the same harness
comes right after (`--alone`: it does not).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic

from bench.beside_work import Beside
from bench.peers import apache_is_here
from bench.processes import cpu_seconds, load, machine
from bench.report import number, put_between, revision
from bench.steady import RATE, Steady
from bench.trio import ApacheTrio, BarnabasTrio, Trio

BEGIN = "<!-- begin: written by make bench ARGS=beside -->"
END = "<!-- end: written by make bench ARGS=beside -->"
IDLE = 1000
PHASES: dict[str, list[str]] = {
    "nothing": [],
    "topics": ["topics"],
    "compaction": ["compaction"],
    "snapshots": ["snapshots"],
    "all": ["topics", "compaction", "snapshots"],
}
SETTINGS = {
    "metadata.log.max.snapshot.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "delete.topic.enable": "true",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
Found = dict[str, dict[str, float]]


class Timed(Steady):
    """It remembers how long each message took."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic, 1, linger_ms=0)
        self.took: list[tuple[float, float]] = []
        self.late: list[tuple[float, float]] = []

    def _delivered(self, error: object, message: Any) -> None:
        super()._delivered(error, message)
        if error is None:
            self.took.append((time.monotonic(), message.latency()))

    def woke(self, due: float) -> None:
        now = time.monotonic()
        self.late.append((now, now - due))

    def between(self, begin: float, end: float) -> list[float]:
        """In ms, sorted: how long messages took."""
        return sorted(1000 * took for at, took in list(self.took) if begin <= at < end)

    def late_between(self, begin: float, end: float) -> list[float]:
        """In ms, sorted: how late this process sent them, although it had slept until they were due."""
        return sorted(1000 * late for at, late in list(self.late) if begin <= at < end)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench beside", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="of each phase (40)")
    parser.add_argument("--port", type=int, default=31592, help="the first of some 80 ports (31592)")
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    before = load()
    print(f"{machine()}; load {before:.1f}", flush=True)
    why = "as asked" if options.alone else apache_is_here()
    if why:
        print(f"measuring alone: {why}")
    sides: list[type[Trio]] = [BarnabasTrio] if why else [BarnabasTrio, ApacheTrio]
    found: dict[str, Found] = {}
    lost = 0
    for place, kind in enumerate(sides):
        with tempfile.TemporaryDirectory(prefix="barnabas-beside-") as folder:
            trio = kind(Path(folder), options.port + 40 * place, fsync=False, settings=SETTINGS)
            try:
                trio.start()
                found[trio.name], gone = measure(trio, options.seconds)
                lost += gone
            finally:
                trio.stop()
    text = table(found, options.seconds, before)
    print(text)
    if not options.no_write:
        print(f"written: {put_between(BEGIN, END, text)}")
    return int(bool(lost))


def measure(trio: Trio, seconds: float) -> tuple[Found, int]:
    """Percentiles of each phase, and how many messages were lost, there twice or refused."""
    trio.create_all(
        [
            NewTopic("idle", IDLE, 3),
            NewTopic("compacted", 3, 3, config=COMPACTED),
            NewTopic("changed", 1, 3),
        ]
    )
    trio.create("steady", [[1, 2, 3]])
    found: Found = {}
    with Timed(trio.bootstrap, "steady") as steady:
        steady.flowing()
        time.sleep(10 if isinstance(trio, BarnabasTrio) else 40)  # a JVM is not warm before
        for name, others in PHASES.items():
            with Beside(trio.bootstrap, others) as beside:
                time.sleep(4 if others else 0)
                nodes, clients = trio.pids, [os.getpid(), *beside.pids]
                begin = time.monotonic()
                cpu, own = total(nodes), total(clients)
                time.sleep(seconds)
                end = time.monotonic()
                cpu, own = total(nodes) - cpu, total(clients) - own
            found[name] = {
                **percentiles(steady.between(begin, end)),
                "late": percentiles(steady.late_between(begin, end))["p99"],
                "cores": cpu / (end - begin),
                "clients": own / (end - begin),
                "deeds": beside.deeds,
            }
            print(
                f"{trio.name:13} {name:11}", {key: round(v, 2) for key, v in found[name].items()}, flush=True
            )
            time.sleep(3)
    verdict = steady.verdict()
    print(f"{trio.name:13} {verdict}", flush=True)
    return found, verdict.lost + verdict.twice + verdict.failed


def total(pids: Sequence[int]) -> float:
    return sum(map(cpu_seconds, pids))


def percentiles(took: list[float]) -> dict[str, float]:
    def at(share: float) -> float:
        return took[min(len(took) - 1, int(share * len(took)))]

    return {"p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": took[-1]}


# -- the table -------------------------------------------------------------------------------------------


def table(found: dict[str, Found], seconds: float, before: float) -> str:
    lines = [
        f"Measured {time.strftime('%Y-%m-%d')} at {revision()}; {machine()}; load before {before:.1f}; "
        f"{seconds:.0f} s of each, {RATE} messages a second, three replicas, acks=all from the page cache, "
        f"{IDLE:,} idle partitions. p50 / p99 / p999 / longest in ms; cores of all nodes, and of all clients; "
        "how late the producer's process wakes to send, 99th percentile in ms.",
        "",
        "| beside | " + " | ".join(f"{name} | cores | clients' | late" for name in found) + " |",
        "|---|" + "---:|---:|---:|---:|" * len(found),
    ]
    for phase in next(iter(found.values())):
        cells = []
        for side in found.values():
            row = side[phase]
            cells += [
                " / ".join(number(row[key]) for key in ("p50", "p99", "p999", "max")),
                *(f"{row[key]:.2f}" for key in ("cores", "clients")),
                number(row["late"]),
            ]
        lines.append(f"| {phase} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
