"""What `python -m bench rf3` measures: each part runs once against one trio and returns its figures.

CPU is that of all three nodes together; every topic has three replicas, min.insync.replicas 2, acks=all, and is
deleted after the run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from barnabas.client.aio.connection import AsyncConnection
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from bench.cells import SIZES, Figures, Load
from bench.partitions import produce as request_of
from bench.partitions import refused
from bench.processes import cpu_seconds, resident_mb
from bench.trio import Trio

__all__ = ["IDLE", "IDLE_TOPIC", "Part", "parts"]

IDLE = (0, 1000, 5000)
"""Partitions at rest beside the one that is measured."""
IDLE_TOPIC = "idle"
READERS = 20
FANOUT_PER_S = 100
WIDTH = 10
PRODUCE_VERSION = 9
FETCH_VERSION = 12
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Of a partition that was created a moment ago."""
PER_REQUEST, PER_GB = ("cpu_s_per_kreq", "CPU ms/request"), ("cpu_s_per_GB", "CPU s/GB")
PAGE_CACHE, FSYNC = "page cache", "fsync"


@dataclass(frozen=True)
class Part:
    """One row: `key` is the figure that is compared (lower is better), `idle` how many partitions rest."""

    group: str
    name: str
    key: str
    unit: str
    run: Callable[[Trio], Figures]
    mode: str = PAGE_CACHE
    idle: int = 0


def parts(client: Load, seconds: float) -> list[Part]:
    """All of them, in the order they run: those with partitions at rest last."""
    found = []
    for mode in (PAGE_CACHE, FSYNC):
        for size in SIZES:
            key, unit = PER_REQUEST if size in ("1 KiB", "16 KiB") else PER_GB
            found.append(Part("produce", size, key, unit, _produce(client, size, seconds), mode))
    single, load = _single(client, seconds), _produce(client, "1 KiB", seconds)
    wide, fanout, read = _wide(client, seconds), _fanout(client, seconds), _read(client, seconds)
    found += [
        Part("single", "one record, one in flight", *PER_REQUEST, single),
        Part("wide", f"{WIDTH} partitions in a request, 1 KiB in all", *PER_REQUEST, wide),
        Part(
            "fanout",
            f"{FANOUT_PER_S} requests/s of 16 KiB, read by {READERS} consumers",
            *PER_REQUEST,
            fanout,
        ),
        Part(
            "connections",
            "1 KiB, 1,000 connections, one in flight each",
            *PER_REQUEST,
            _produce(client, "1 KiB", seconds, conns=1000, inflight=1),
        ),
    ]
    for idle in IDLE:
        beside = f", {idle:,} idle partitions"
        found += [
            Part("idle", f"1 KiB{beside}", *PER_REQUEST, load, idle=idle),
            Part("idle", f"one record, one in flight{beside}", *PER_REQUEST, single, idle=idle),
            Part(
                "idle", f"one record, and a consumer of all of a node{beside}", *PER_REQUEST, read, idle=idle
            ),
        ]
    return found


@contextlib.contextmanager
def _topic(client: Load, trio: Trio, leaders: Sequence[int] = ()) -> Iterator[str]:
    """A topic with a partition led by each of these nodes (each of the three, unless said)."""
    topic, nodes = client.topic(), list(trio.seats)
    places = [nodes.index(leader) for leader in leaders] or range(len(nodes))
    trio.create(topic, [nodes[n:] + nodes[:n] for n in places])
    try:
        yield topic
    finally:
        trio.admin.delete_topics([topic])[topic].result(60)


def _load(
    client: Load, trio: Trio, topic: str, mode: str, seconds: float, size: str, conns: int, inflight: int
) -> Figures:
    batch, record = SIZES[size]
    figures = client.on(
        trio.bootstrap.partition(",")[0],
        trio.pids,
        mode,
        *("--batch", str(batch), "--record", str(record), "--codec", "none", "--acks", "all"),
        *("--conns", str(conns), "--inflight", str(inflight), "--secs", f"{seconds}", "--warmup", "1"),
        topic=topic,
    )
    figures["MB"] = sum(resident_mb(pid) for pid in trio.pids)
    return figures


def _produce(
    client: Load, size: str, seconds: float, *, conns: int = 3, inflight: int = 5
) -> Callable[[Trio], Figures]:
    def run(trio: Trio) -> Figures:
        with _topic(client, trio) as topic:
            return _load(client, trio, topic, "produce", seconds, size, conns, inflight)

    return run


def _single(client: Load, seconds: float) -> Callable[[Trio], Figures]:
    def run(trio: Trio) -> Figures:
        with _topic(client, trio, [min(trio.seats)]) as topic:
            return _load(client, trio, topic, "latency", seconds, "1 KiB", 1, 1)

    return run


def _read(client: Load, seconds: float) -> Callable[[Trio], Figures]:
    """Single records, and one consumer whose fetch session has all partitions that the first node leads."""

    def run(trio: Trio) -> Figures:
        first = min(trio.seats)
        with _topic(client, trio, [first]) as topic:
            found = trio.admin.list_topics(timeout=30).topics.get(IDLE_TOPIC)
            idle = [p.id for p in found.partitions.values() if p.leader == first] if found else []

            async def both() -> Figures:
                async with _reading(trio, {topic: [0], IDLE_TOPIC: idle}):
                    return await asyncio.to_thread(
                        _load, client, trio, topic, "latency", seconds, "1 KiB", 1, 1
                    )

            return asyncio.run(both())

    return run


def _wide(client: Load, seconds: float) -> Callable[[Trio], Figures]:
    """Requests with a batch for each of ten partitions of one leader; one connection, five in flight."""

    def run(trio: Trio) -> Figures:
        with _topic(client, trio, [min(trio.seats)] * WIDTH) as topic:
            message = request_of([(topic, index) for index in range(WIDTH)], 1024)
            return asyncio.run(_requests(trio, message, seconds, in_flight=5))

    return run


def _fanout(client: Load, seconds: float) -> Callable[[Trio], Figures]:
    """One partition, a steady rate of requests, and consumers that all read everything."""

    def run(trio: Trio) -> Figures:
        with _topic(client, trio, [min(trio.seats)]) as topic:
            message = request_of([(topic, 0)], 16384)

            async def all_of_them() -> Figures:
                async with contextlib.AsyncExitStack() as stack:
                    readers = [
                        await stack.enter_async_context(_reading(trio, {topic: [0]})) for _ in range(READERS)
                    ]
                    figures = await _requests(trio, message, seconds, in_flight=1, per_s=FANOUT_PER_S)
                    end = int(figures["requests_in_all"])
                    for _ in range(1500):
                        if all(reader[topic, 0] >= end for reader in readers):
                            return figures
                        await asyncio.sleep(0.02)
                raise BarnabasError(f"consumers did not read all {end} records in 30 s")

            return asyncio.run(all_of_them())

    return run


async def _requests(
    trio: Trio, message: Message, seconds: float, *, in_flight: int, per_s: float = 0.0
) -> Figures:
    """CPU and times of a produce request sent over and over; the first second does not count."""
    loop, took = asyncio.get_running_loop(), list[float]()
    begun = loop.time()

    async def send() -> None:
        while (now := loop.time()) < end:
            answer = await connection.request(message, PRODUCE_VERSION)
            took.append(loop.time() - now)
            if bad := refused(answer):
                raise BarnabasError(f"refused: {bad}")
            if per_s:
                await asyncio.sleep(max(0.0, begun + len(took) / per_s - loop.time()))

    async with await _connected(trio) as connection:
        for _ in range(1000):  # a node may lead its new partitions a moment later
            if not refused(await connection.request(message, PRODUCE_VERSION)):
                break
            await asyncio.sleep(0.02)
        begun = loop.time()
        end = begun + 1
        await asyncio.gather(*(send() for _ in range(in_flight)))
        counted, before, end = len(took), sum(map(cpu_seconds, trio.pids)), begun + 1 + seconds
        await asyncio.gather(*(send() for _ in range(in_flight)))
    spent, asked = sum(map(cpu_seconds, trio.pids)) - before, sorted(took[counted:])
    return {
        "cpu_s_per_kreq": spent * 1000 / len(asked),
        "req_s": len(asked) / seconds,
        "p50_ms": asked[len(asked) // 2] * 1000,
        "MB": sum(resident_mb(pid) for pid in trio.pids),
        "requests_in_all": len(took) + 1,
    }


@contextlib.asynccontextmanager
async def _reading(trio: Trio, topics: dict[str, list[int]]) -> AsyncIterator[dict[tuple[str, int], int]]:
    """A consumer with a fetch session (KIP-227) on the first node; its positions."""
    positions = {(name, index): 0 for name, indexes in topics.items() for index in indexes}
    async with await _connected(trio) as connection:
        session, epoch = 0, 0

        async def fetch(asked: list[tuple[str, int]]) -> list[tuple[str, int]]:
            """One fetch that names these partitions; those that the next one has to name."""
            nonlocal session, epoch
            rows: dict[str, list[FetchPartition]] = {}
            for name, index in asked:
                rows.setdefault(name, []).append(
                    FetchPartition(
                        partition=index, fetch_offset=positions[name, index], partition_max_bytes=1 << 20
                    )
                )
            message = FetchRequest(
                max_wait_ms=500 if epoch else 0,
                min_bytes=1,
                max_bytes=50 << 20,
                session_id=session,
                session_epoch=epoch,
                topics=[FetchTopic(topic=name, partitions=found) for name, found in rows.items()],
            )
            answer: FetchResponse = await connection.request(message, FETCH_VERSION)
            if answer.error_code or not answer.session_id:
                raise BarnabasError(f"the fetch session is refused: {answer.error_code}")
            session, epoch = answer.session_id, epoch + 1
            return list(_moved(answer, positions))

        async def read() -> None:
            moved = await fetch(list(positions))
            ready.set()
            while True:
                moved = await fetch(moved)

        ready = asyncio.Event()
        reader = asyncio.create_task(read())
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([reader, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            yield positions
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader


def _moved(answer: FetchResponse, positions: dict[tuple[str, int], int]) -> Iterator[tuple[str, int]]:
    """Advance the positions behind the records of an answer; what is to be named in the next fetch."""
    for topic in answer.responses:
        for row in topic.partitions:
            if row.error_code in NOT_YET:
                yield topic.topic, row.partition_index
            elif row.error_code:
                raise BarnabasError(f"{topic.topic}-{row.partition_index}: error {row.error_code}")
            data = memoryview(row.records or b"")  # type: ignore[arg-type]
            place = 0
            while place + 61 <= len(data):
                size = 12 + int.from_bytes(data[place + 8 : place + 12], "big")
                if place + size > len(data):
                    break
                base = int.from_bytes(data[place : place + 8], "big")
                last = int.from_bytes(data[place + 23 : place + 27], "big")
                positions[topic.topic, row.partition_index] = base + last + 1
                place += size
            if place:
                yield topic.topic, row.partition_index


async def _connected(trio: Trio) -> AsyncConnection:
    host, _, port = trio.bootstrap.partition(",")[0].partition(":")
    return await AsyncConnection.connect(host, int(port), client_id="bench", timeout=120)
