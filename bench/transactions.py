"""What a transaction costs a broker, by its partitions, and an offset commit (`python -m bench coordinators`)."""

from __future__ import annotations

import asyncio
import time

from barnabas import Admin, TransactionalProducer
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.group_offsets import commit_request
from barnabas.model import TopicPartition
from barnabas.wire.schemas.groups import OffsetCommitRequest
from bench.clients import quantile
from bench.coordinator import coordinator_of
from bench.peers import Peer
from bench.processes import cpu_seconds

__all__ = ["transactions"]

SIZES = (1, 10, 100)
AT_ONCE, COMMITS = 16, 5_000


def transactions(peer: Peer, seconds: float) -> dict[str, float]:
    """Transactions of our own client (transaction.version 2), one after the other, then offset commits."""
    found: dict[str, float] = {}
    try:
        peer.start()
        peer.wait()
        with Admin(peer.bootstrap, timeout=60) as admin:
            admin.create_topic("many", partitions=max(SIZES))
        with TransactionalProducer(peer.bootstrap, "bench", linger=0.0) as producer:
            for size in SIZES:
                _run(producer, size, seconds / 2)  # warms
                before = cpu_seconds(peer.pid)
                times = _run(producer, size, seconds)
                found[f"{size}_cpu_ms"] = (cpu_seconds(peer.pid) - before) / len(times) * 1000
                found[f"{size}_p50_ms"] = quantile(times, 0.5) * 1000
                found[f"{size}_p99_ms"] = quantile(times, 0.99) * 1000
                found[f"{size}_per_s"] = len(times) / sum(times)
        for _ in range(2):
            before = cpu_seconds(peer.pid)
            asyncio.run(_commit(peer))
            found["offset_commits_per_cpu_s"] = COMMITS / (cpu_seconds(peer.pid) - before)
    finally:
        peer.stop()
    return found


def _run(producer: TransactionalProducer, size: int, seconds: float) -> list[float]:
    """How long each transaction took, in order of length."""
    times: list[float] = []
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        with producer.transaction():
            for partition in range(size):
                producer.send("many", b"x" * 100, partition=partition)
        times.append(time.monotonic() - begun)
    return sorted(times)


async def _commit(peer: Peer) -> None:
    async with AsyncCluster(peer.bootstrap, timeout=60) as cluster:
        coordinator = await coordinator_of(cluster, "offsets")
        served = coordinator.version_of(OffsetCommitRequest)
        numbers = iter(range(COMMITS))

        async def some() -> None:
            for number in numbers:
                position = {TopicPartition("many", number % max(SIZES)): number}
                request, version = commit_request("offsets", position, served, member_id="", generation=-1)
                await coordinator.request(request, version)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
