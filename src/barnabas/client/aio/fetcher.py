"""Fetching with asyncio from all leaders at once: a fetch under way per broker, whichever answers first counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.connection import ConnectionFailed
from barnabas.client.consuming.fetched import Fetched, FetchErrors, FetchLimits, fetch_request, read_answer
from barnabas.client.waits.silence import Resting
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import NodeId, Offset, TopicPartition
from barnabas.wire.schemas.fetch import FetchRequest

__all__ = ["AsyncFetcher"]

PAUSE = 0.1
"""Seconds to wait before asking again after an error."""
_LIMITS = FetchLimits()


class AsyncFetcher:
    """`await AsyncFetcher(cluster, isolation=0).poll({TopicPartition("t", 0): 42}, timeout=1)`."""

    def __init__(self, cluster: AsyncCluster, *, isolation: int, limits: FetchLimits = _LIMITS) -> None:
        self.cluster = cluster
        self.isolation = isolation
        self.limits = limits
        self._under_way: dict[NodeId, asyncio.Task[list[Fetched]]] = {}
        self._errors = FetchErrors(cluster.timeout)
        self._resting = Resting(cluster.metadata.max_age)
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
                    self._under_way.values(), timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                fetched = [f for task in done for f in self._hear(task) if positions.get(f.target) == f.asked]
                self._look_past(positions)
                if fetched:
                    return fetched
            if loop.time() >= deadline:
                return []

    async def close(self) -> None:
        """Drop what is under way (the assignment has changed, or the consumer closes)."""
        tasks: list[asyncio.Task[Any]] = [*self._under_way.values(), *([self._look] if self._look else [])]
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, positions: Mapping[TopicPartition, Offset]) -> None:
        by_leader: dict[NodeId, dict[TopicPartition, Offset]] = {}
        try:
            for target, offset in positions.items():
                leader = (await self.cluster.leader(*target)).id
                if leader not in self._under_way:
                    by_leader.setdefault(leader, {})[target] = offset
        except (ConnectionFailed, KafkaError) as error:
            await self._trouble(error, {target.topic for target in positions})
        for leader, asked in by_leader.items():
            self._under_way[leader] = asyncio.create_task(self._fetch(leader, asked))

    async def _fetch(self, leader: NodeId, asked: dict[TopicPartition, Offset]) -> list[Fetched]:
        """One request, and what came of it; an error that may pass counts as an answer without records."""
        answered: list[Fetched] = []
        try:
            connection = await self.cluster.connection(leader, leads=True)
            topics = {target.topic for target in asked}
            ids = {topic: (await self.cluster.topic(topic)).id for topic in topics}
            served = connection.version_of(FetchRequest)
            request, version = fetch_request(asked, ids, served, isolation=self.isolation, limits=self.limits)
            response = await connection.request(request, version)
            for fetched in read_answer(response, asked, self.cluster.metadata.topic_name):
                if self._errors.for_the_reader(fetched, asyncio.get_running_loop().time()):
                    answered.append(fetched)
                elif fetched.error is not None:
                    await self._trouble(fetched.error, {fetched.target.topic})
            self._errors.over()
        except (ConnectionFailed, KafkaError) as error:
            await self._trouble(error, {target.topic for target in asked})
        return answered

    def _look_past(self, positions: Mapping[TopicPartition, Offset]) -> None:
        if self._look is not None and self._look.done():
            self._look.result()
            self._look = None
        resting = self._resting.due(positions, asyncio.get_running_loop().time())
        if resting and self._look is None:
            self._look = asyncio.create_task(self.cluster.look_past(resting))

    def _hear(self, task: asyncio.Task[list[Fetched]]) -> list[Fetched]:
        self._under_way = {leader: other for leader, other in self._under_way.items() if other is not task}
        return task.result()

    async def _trouble(self, error: BarnabasError, topics: Iterable[str]) -> None:
        """Ask for metadata anew and pause; raise an error that no retry mends, or that has lasted too long."""
        self._errors.seen(error, asyncio.get_running_loop().time())
        for topic in topics:
            self.cluster.metadata.forget(topic)
        await asyncio.sleep(PAUSE)
