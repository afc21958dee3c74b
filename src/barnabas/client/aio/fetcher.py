"""Fetching with asyncio from all leaders at once: a fetch under way per broker, whichever answers first counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.connection import ConnectionFailed
from barnabas.client.consuming.fetched import PAUSE, Fetched, Fetches, FetchLimits, outdated
from barnabas.errors import KafkaError
from barnabas.model import NodeId, Offset, TopicPartition
from barnabas.wire.schemas.fetch import FetchRequest

__all__ = ["AsyncFetcher"]

_LIMITS = FetchLimits()


class _UnderWay(NamedTuple):
    """A fetch without an answer."""

    task: asyncio.Task[list[Fetched]]
    asked: dict[TopicPartition, Offset]


class AsyncFetcher:
    """`await AsyncFetcher(cluster, isolation=0).poll({TopicPartition("t", 0): 42}, timeout=1)`."""

    def __init__(self, cluster: AsyncCluster, *, isolation: int, limits: FetchLimits = _LIMITS) -> None:
        self.cluster = cluster
        self._fetches = Fetches(cluster.metadata, cluster.timeout, isolation=isolation, limits=limits)
        self._under_way: dict[NodeId, _UnderWay] = {}
        self._look: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<AsyncFetcher under way={sorted(self._under_way)}>"

    async def poll(self, positions: Mapping[TopicPartition, Offset], timeout: float) -> list[Fetched]:  # noqa: ASYNC109  [] after it
        """Records from these positions on, from whichever broker answers first; [] after `timeout` seconds.

        What a seek has made stale meanwhile is dropped.  Raises BarnabasError for what no repetition mends, or
        what has lasted for the cluster's timeout.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            await self._send(positions)
            left = max(deadline - loop.time(), 0.0)
            if not self._under_way:
                await asyncio.sleep(min(left, PAUSE))
            else:
                done, _ = await asyncio.wait(
                    [under_way.task for under_way in self._under_way.values()],
                    timeout=left,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                fetched = [f for task in done for f in self._hear(task) if positions.get(f.target) == f.asked]
                self._look_past(positions)
                if fetched:
                    return fetched
            if loop.time() >= deadline:
                return []

    def outdated(self, positions: Mapping[TopicPartition, Offset]) -> bool:
        """Tell if a fetch under way was sent before a seek: nothing is known of these positions yet."""
        return outdated((under_way.asked for under_way in self._under_way.values()), positions)

    async def close(self) -> None:
        """Drop what is under way (the assignment has changed, or the consumer closes)."""
        tasks: list[asyncio.Task[Any]] = [under_way.task for under_way in self._under_way.values()]
        tasks += [self._look] if self._look else []
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, positions: Mapping[TopicPartition, Offset]) -> None:
        now = asyncio.get_running_loop().time()
        if not self._fetches.is_time(now):
            return
        by_broker: dict[NodeId, dict[TopicPartition, Offset]] = {}
        try:
            for target, offset in positions.items():
                node = self._fetches.broker_of(target, (await self.cluster.leader(*target)).id, now)
                if node not in self._under_way:
                    by_broker.setdefault(node, {})[target] = offset
        except (ConnectionFailed, KafkaError) as error:
            self._fetches.trouble(error, positions, asyncio.get_running_loop().time())
        for node, asked in by_broker.items():
            self._under_way[node] = _UnderWay(asyncio.create_task(self._fetch(node, asked)), asked)

    async def _fetch(self, node: NodeId, asked: dict[TopicPartition, Offset]) -> list[Fetched]:
        """One request, and what came of it; an error that may pass counts as an answer without records."""
        now = asyncio.get_running_loop().time
        try:
            connection = await self.cluster.connection(node, leads=True)
            ids = {t: (await self.cluster.topic(t)).id for t in {target.topic for target in asked}}
            served = connection.version_of(FetchRequest)
            response = await connection.request(*self._fetches.request(asked, ids, served))
        except (ConnectionFailed, KafkaError) as error:
            self._fetches.trouble(error, asked, now())
            return []
        return self._fetches.heard(node, response, asked, now())

    def _look_past(self, positions: Mapping[TopicPartition, Offset]) -> None:
        if self._look is not None and self._look.done():
            self._look.result()
            self._look = None
        resting = self._fetches.resting(positions, asyncio.get_running_loop().time())
        if resting and self._look is None:
            self._look = asyncio.create_task(self.cluster.look_past(resting))

    def _hear(self, task: asyncio.Task[list[Fetched]]) -> list[Fetched]:
        self._under_way = {node: other for node, other in self._under_way.items() if other.task is not task}
        return task.result()
