"""`python -m bench partitions`: one node with many partitions, from their creation to a start after kill -9.

  create     10 topics of 1,000 partitions (`--topics`, `--each`), then a record in each, many partitions a request
  idle       CPU and memory when nobody asks for anything, and the CPU of a Metadata request for all of it
  stop       SIGTERM until the process is gone
  start      from the start of the process to the first record that it acknowledges: after that stop, and after a
             kill -9 with a record more in each partition
  requests   Produce requests with a batch of 1 KiB for each of 1, 10 and 100 partitions, five in flight

Apache Kafka comes next, with the same requests (`--alone`: it does not; `--old COMMIT`: Barnabas at that commit
does instead, and nothing is written).  All data is deleted afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barnabas import Admin
from barnabas.client.aio.connection import AsyncConnection
from barnabas.errors import BarnabasError
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bench.earlier import Earlier, checkout
from bench.peers import ApacheKafka, Barnabas, Peer, apache_is_here
from bench.processes import cpu_seconds, load, machine, resident_mb
from bench.report import put_between, sides_table
from bench.warmth import run_until_still

BEGIN = "<!-- begin: written by make bench ARGS=partitions -->"
END = "<!-- end: written by make bench ARGS=partitions -->"
PRODUCE_VERSION, METADATA_VERSION = 9, 12
IN_FLIGHT = 5
ALL_AT_ONCE = 100
"""Partitions in one request that fills them."""
WIDTHS = (1, 10, 100)
Figures = dict[str, float]
Where = tuple[str, int]

ROWS = {
    "create_cpu_s": "create all partitions, until each has acknowledged a record: CPU s",
    "create_s": "the same, s",
    "rss_mb": "memory then, MB",
    "idle_cores": "idle, cores",
    "metadata_ms": "a Metadata request for all of them: CPU ms",
    "stop_s": "SIGTERM until the process is gone, s",
    "clean_s": "start after that, until the first record is acknowledged, s",
    "clean_cpu_s": "the same, CPU s",
    "killed_s": "start after kill -9, every partition written since the last start, s",
    "killed_cpu_s": "the same, CPU s",
    "started_mb": "memory after that start, MB",
    **{
        f"width_{width}_us": f"a request with 1 KiB for each of {width} partitions: CPU us"
        for width in WIDTHS
    },
}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench partitions", description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=10, help="topics (10)")
    parser.add_argument("--each", type=int, default=1000, help="partitions of each (1,000)")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of idling that are measured (30)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of the requests; the least counts (3)")
    parser.add_argument("--only", default="life,requests", help="life, requests, or both")
    parser.add_argument("--port", type=int, default=32092, help="the first of some 120 ports (32092)")
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--old", metavar="COMMIT", help="Barnabas at this commit in Apache Kafka's place")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    before = load()
    print(f"{machine()}; load {before:.1f}", flush=True)
    why = "as asked" if options.alone or options.old else apache_is_here()
    if why and not options.old:
        print(f"measuring alone: {why}")
    kinds: list[type[Peer]] = [Barnabas, *([Earlier] if options.old else [] if why else [ApacheKafka])]
    found: dict[str, Figures] = {}
    with checkout(options.old):
        for place, kind in enumerate(kinds):
            measure(kind, options, options.port + 10 * place, found.setdefault(kind.name, {}))
    said = f"{options.topics * options.each:,} partitions on one node, acknowledgements from the page cache."
    text = sides_table(found, ROWS, said, before)
    print(text)
    if not options.no_write and not options.old:
        print(f"written: {put_between(BEGIN, END, text)}")
    return 0


def measure(kind: type[Peer], options: argparse.Namespace, port: int, figures: Figures) -> None:
    """Measure what was asked for of one side."""
    if "life" in options.only:
        with tempfile.TemporaryDirectory(prefix="barnabas-partitions-") as folder:
            peer = kind(Path(folder) / "many", port, fsync=False)
            try:
                life(peer, options.topics, options.each, options.idle, figures)
            except SystemExit as gone:
                if kind is not ApacheKafka:
                    raise
                print(
                    f"{gone}\n  what it did until then counts, the rest of its life is left out",
                    flush=True,
                )
    if "requests" in options.only:
        with tempfile.TemporaryDirectory(prefix="barnabas-partitions-") as folder:
            requests(kind(Path(folder) / "wide", port + 100, fsync=False), options.rounds, figures)


def tell(peer: Peer, figures: Figures, **new: float) -> None:
    figures.update(new)
    print(f"{peer.name:13}", ", ".join(f"{key} {value:.3f}" for key, value in new.items()), flush=True)


# -- the life of a node with many partitions ------------------------------------------------------------


def life(peer: Peer, topics: int, each: int, idle_s: float, figures: Figures) -> None:
    """Create, idle, stop, start, kill, start."""
    names = [f"many-{number}" for number in range(topics)]
    every = [(name, index) for name in names for index in range(each)]
    try:
        peer.start()
        peer.wait()
        time.sleep(2)
        before, begun = cpu_seconds(peer.pid), time.monotonic()
        with Admin(peer.bootstrap, timeout=120) as admin:
            for name in names:
                admin.create_topic(name, partitions=each)
        tell(peer, figures, named_s=time.monotonic() - begun, named_cpu_s=cpu_seconds(peer.pid) - before)
        asyncio.run(fill(peer, every))
        spent, took = cpu_seconds(peer.pid) - before, time.monotonic() - begun
        tell(peer, figures, create_cpu_s=spent, create_s=took, rss_mb=resident_mb(peer.pid))
        settle(peer)
        tell(peer, figures, idle_cores=idle(peer, idle_s))
        tell(peer, figures, metadata_ms=asyncio.run(metadata(peer)))
        begun = time.monotonic()
        peer.stop()
        tell(peer, figures, stop_s=time.monotonic() - begun)
        took, spent = first_ack(peer, every[-1])
        tell(peer, figures, clean_s=took, clean_cpu_s=spent)
        asyncio.run(fill(peer, every))
        assert peer.process is not None
        peer.process.kill()
        peer.process.wait()
        took, spent = first_ack(peer, every[-1])
        asyncio.run(fill(peer, every))  # whoever is not there yet would refuse it
        tell(peer, figures, killed_s=took, killed_cpu_s=spent, started_mb=resident_mb(peer.pid))
    finally:
        peer.stop()


def first_ack(peer: Peer, where: Where) -> tuple[float, float]:
    """Start the node; seconds, and CPU seconds of the node, until it acknowledges a record."""
    begun = time.monotonic()
    peer.start()
    peer.wait(180)
    asyncio.run(fill(peer, [where]))
    return time.monotonic() - begun, cpu_seconds(peer.pid)


def settle(peer: Peer, seconds: float = 60.0) -> None:
    """Until the node has done what the creation left to do (syncs, checkpoints), or for so long."""
    end = time.monotonic() + seconds
    time.sleep(5)
    while idle(peer, 3) > 0.15 and time.monotonic() < end:
        continue


def idle(peer: Peer, seconds: float) -> float:
    """Cores that the node uses while nobody asks for anything."""
    before, begun = cpu_seconds(peer.pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(peer.pid) - before) / (time.monotonic() - begun)


async def fill(peer: Peer, every: Sequence[Where]) -> None:
    """A record in each of these partitions, repeated where the node does not lead yet."""
    async with await connected(peer) as connection:
        end = time.monotonic() + 180
        for first in range(0, len(every), ALL_AT_ONCE):
            left = every[first : first + ALL_AT_ONCE]
            while left := refused(await connection.request(produce(left, 100), PRODUCE_VERSION)):
                if time.monotonic() > end:
                    raise BarnabasError(f"{len(left)} partitions take no records, the first is {left[0]}")
                await asyncio.sleep(0.02)


async def metadata(peer: Peer, times: int = 30) -> float:
    """CPU milliseconds for an answer about every partition."""
    async with await connected(peer) as connection:
        await connection.request(MetadataRequest(topics=None), METADATA_VERSION)
        before = cpu_seconds(peer.pid)
        for _ in range(times):
            await connection.request(MetadataRequest(topics=None), METADATA_VERSION)
    return (cpu_seconds(peer.pid) - before) * 1000 / times


async def connected(peer: Peer) -> AsyncConnection:
    host, _, port = peer.bootstrap.partition(":")
    return await AsyncConnection.connect(host, int(port), client_id="bench", timeout=120)


def produce(where: Sequence[Where], size: int) -> ProduceRequest:
    """A batch of one record for each of these partitions, `size` bytes in all."""
    topics: dict[str, list[PartitionProduceData]] = {}
    batch = write_batch([Record(0, int(time.time() * 1000), None, bytes(max(1, size - 75)), ())])
    for name, index in where:
        topics.setdefault(name, []).append(PartitionProduceData(index=index, records=batch))
    data = [TopicProduceData(name=name, partition_data=rows) for name, rows in topics.items()]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)


def refused(answer: Any) -> list[Where]:
    """The partitions whose batch was not taken."""
    return [(t.name, p.index) for t in answer.responses for p in t.partition_responses if p.error_code]


# -- requests with many partitions ----------------------------------------------------------------------


def requests(peer: Peer, rounds: int, figures: Figures) -> None:
    """The CPU of the node for a request of each width."""
    try:
        peer.start()
        peer.wait()
        with Admin(peer.bootstrap, timeout=60) as admin:
            admin.create_topic("wide", partitions=max(WIDTHS))
        asyncio.run(fill(peer, [("wide", index) for index in range(max(WIDTHS))]))
        for width in WIDTHS:
            count = 150_000 // (5 + width)  # some tenths of a second: CPU is counted in hundredths

            def run(width: int = width, count: int = count) -> float:
                return asyncio.run(wide(peer, width, count))

            if isinstance(peer, ApacheKafka):
                run_until_still(run)
            spent = min(run() for _ in range(rounds))
            tell(peer, figures, **{f"width_{width}_us": spent})
    finally:
        peer.stop()


async def wide(peer: Peer, width: int, count: int) -> float:
    """CPU microseconds of the node for each of `count` requests; five are in flight."""
    request = produce([("wide", index) for index in range(width)], 1024)
    left = iter(range(count))

    async def send() -> None:
        for _ in left:
            if bad := refused(await connection.request(request, PRODUCE_VERSION)):
                raise BarnabasError(f"refused: {bad}")

    async with await connected(peer) as connection:
        before = cpu_seconds(peer.pid)
        await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))
    return (cpu_seconds(peer.pid) - before) * 1e6 / count
