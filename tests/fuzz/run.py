"""Frames against a real node in a process of its own, beside a client that asks as always."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.conftest import NodeProcess
from tests.fuzz.messages import TOPICS, World, draw_request
from tests.fuzz.mutations import MUTATIONS
from tests.fuzz.pinger import Ping, pings

from barnabas.client.aio import AsyncConnection
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

__all__ = ["Report", "frames", "fuzz"]

CONNECTIONS = 4
FRAMES_PER_CONNECTION = 25
PAUSE_S = 0.02
"""After a connection's frames: the node is fuzzed, not overloaded."""
WARM_UP_FRAMES = 4000
TIDY_EVERY = 20_000
LONGEST_BROKERLESS_S = 2.0
"""A frame of chance may be an order to forget the broker (UnregisterBroker 1): then it registers anew."""
MAX_RSS_GROWTH_KIB = 32 * 1024
BAD_LINES = re.compile(
    r"Traceback|request\.failed|task-failed|never retrieved|node\.failed|quorum\.failed|MemoryError"
)
WELL_FORMED = ("as_it_is",)


@dataclass
class Report:
    """What came of it.  Times in ms, memory in KiB."""

    seed: int
    frames: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    hung_up: int = 0
    ping_before: tuple[float, float] = (0.0, 0.0)
    ping_during: tuple[float, float] = (0.0, 0.0)
    rss_before: int = 0
    rss_after: int = 0
    log_bytes: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Sent:
    """One frame as it was drawn."""

    number: int
    kind: str
    mutation: str
    api: str
    data: bytes


def frames(seed: int, world: World, mutations: Sequence[str] = tuple(MUTATIONS)) -> Iterator[Sent]:
    """The frames of a seed, without end: number, kind of listener and bytes depend on nothing else."""
    number = 0
    while True:
        rng = random.Random(f"{seed}:{number}")
        kind = rng.choice("BBC")
        row, version, frame = draw_request(rng, world, kind)
        _, _, other = draw_request(rng, world, kind)
        name = rng.choice(mutations)
        data = MUTATIONS[name](frame, rng, other)
        yield Sent(number, kind, name, f"{row.key} v{version}", data)
        number += 1


def fuzz(seed: int, count: int, folder: Path, say: Callable[[int, int], object]) -> Report:
    """Send `count` frames of `seed` to a fresh node whose data lie in `folder`."""
    report = Report(seed)
    node = NodeProcess(
        folder / "node", log_flush_interval_messages=str(2**63 - 1), offsets_topic_num_partitions="4"
    )
    try:
        node.start()
        asyncio.run(_Fuzzer(node, report, say).run(seed, count))
        if node.process is not None and node.process.poll() is not None:
            report.problems.append(f"the node ended with {node.process.returncode}")
        else:
            report.problems += _stopped(node)
    finally:
        node.discard()
    text = node.log.read_text(errors="replace")
    report.log_bytes = len(text)
    report.problems += [line[:400] for line in text.splitlines() if BAD_LINES.search(line)][:20]
    return report


def _stopped(node: NodeProcess) -> list[str]:
    """Stop the node; what was wrong with that."""
    try:
        return [] if node.stop() == 0 else ["the node did not stop cleanly"]
    except AssertionError as error:
        return [str(error).splitlines()[0]]


class _Fuzzer:
    """The connections of one run."""

    def __init__(self, node: NodeProcess, report: Report, say: Callable[[int, int], object]) -> None:
        self.node = node
        self.report = report
        self.say = say
        self.ping_file = node.folder / "pings"
        self.ports = {"B": node.port, "C": node.controller_port}

    async def run(self, seed: int, count: int) -> None:
        """Warm up, measure beside well-formed frames, then beside the mutated ones."""
        admin = await AsyncConnection.connect("127.0.0.1", self.node.port)
        world = await _prepare(admin)
        pinger = self._start_pinger()
        drawn = frames(seed, world)
        began = time.monotonic()
        try:
            await self._send_all(frames(seed + 1, world, WELL_FORMED), WARM_UP_FRAMES, None)
            self.report.rss_before = self._rss()
            warm = time.monotonic()
            await self._send_all(frames(seed + 2, world, WELL_FORMED), WARM_UP_FRAMES, None)
            self.report.ping_before = self._quantiles(warm)
            fuzzed = time.monotonic()
            while self.report.frames < count and self._alive():
                await self._send_all(drawn, min(TIDY_EVERY, count - self.report.frames), self.report)
                await _tidy(admin)
            self.report.ping_during = self._quantiles(fuzzed)
            self.report.rss_after = self._rss()
        finally:
            pinger.kill()
            pinger.wait()
            await admin.close()
            self.report.seconds = time.monotonic() - began
        growth = self.report.rss_after - self.report.rss_before
        if growth > MAX_RSS_GROWTH_KIB:
            self.report.problems.append(f"memory grew by {growth / 1024:.0f} MiB")

    def _start_pinger(self) -> subprocess.Popen[bytes]:
        where = ("127.0.0.1", str(self.node.port), TOPICS[0], str(self.ping_file))
        return subprocess.Popen([sys.executable, "-m", "tests.fuzz.pinger", *where])

    def _alive(self) -> bool:
        return self.node.process is not None and self.node.process.poll() is None

    async def _send_all(self, drawn: Iterator[Sent], count: int, report: Report | None) -> None:
        left = [count]

        def batch() -> list[Sent]:
            size = min(FRAMES_PER_CONNECTION, left[0])
            left[0] -= size
            return [next(drawn) for _ in range(size)]

        async def worker() -> None:
            while (sent := batch()) and self._alive():
                for kind in "BC":
                    await self._connection(kind, [one for one in sent if one.kind == kind], report)
                if report is not None:
                    report.frames += len(sent)
                    report.kinds.update(one.mutation for one in sent)
                    report.requests.update(one.api for one in sent)
                    self.say(report.frames, report.hung_up)

        await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))

    async def _connection(self, kind: str, sent: list[Sent], report: Report | None) -> None:
        """Send frames one after the other; where the node hangs up, the rest goes over a new connection."""
        while sent and self._alive():
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[kind])
            received = asyncio.create_task(_drain(reader))
            try:
                while sent and not received.done():
                    one = sent.pop(0)
                    writer.write(one.data)
                    await writer.drain()
                    await asyncio.sleep(0)
                await asyncio.wait([received], timeout=PAUSE_S)
            except ConnectionError:
                pass
            if report is not None:
                report.hung_up += received.done()
            writer.close()
            received.cancel()
            await asyncio.gather(received, return_exceptions=True)

    def _quantiles(self, since: float) -> tuple[float, float]:
        """p50 and p99 in ms of the good client's answers since then."""
        asked = [ping for ping in pings(self.ping_file) if ping.at >= since]
        times = sorted(ping.ms for ping in asked)
        if not times:
            self.report.problems.append("the good client got no answer")
            return 0.0, 0.0
        if (seconds := _longest_without_broker(asked)) > LONGEST_BROKERLESS_S:
            self.report.problems.append(f"for {seconds:.1f} s Metadata named no broker")
        return times[len(times) // 2], times[len(times) * 99 // 100]

    def _rss(self) -> int:
        assert self.node.process is not None
        status = Path(f"/proc/{self.node.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


def _longest_without_broker(asked: list[Ping]) -> float:
    longest, since = 0.0, None
    for ping in asked:
        if ping.brokers:
            since = None
            continue
        since = ping.at if since is None else since
        longest = max(longest, ping.at - since)
    return longest


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


async def _prepare(admin: AsyncConnection) -> World:
    topics = [CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in TOPICS]
    await admin.request(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
    answer = await admin.request(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS]))
    return World(answer.cluster_id, [topic.topic_id for topic in answer.topics])


async def _tidy(admin: AsyncConnection) -> None:
    """Delete the topics that mutated names made, so that memory is not what was asked for."""
    answer: Any = await admin.request(MetadataRequest(topics=None))
    made = [topic.name for topic in answer.topics if topic.name not in TOPICS and not topic.is_internal]
    states = [DeleteTopicState(name=name) for name in made]
    if states:
        await admin.request(DeleteTopicsRequest(topics=states, timeout_ms=30_000))
