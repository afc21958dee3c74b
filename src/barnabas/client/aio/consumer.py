"""Reading records with asyncio: `async for message in Consumer("127.0.0.1:9092", "topic"): ...`.

Alone, a consumer reads the partitions it is assigned (all of its topics unless told).  With `group` it shares them
with the other members and goes on where the group stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Literal

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.fetcher import AsyncFetcher
from barnabas.client.aio.membership import AsyncMembership
from barnabas.client.both.consumer import TURN_S, Consuming
from barnabas.client.consuming.fetched import Fetched, FetchLimits
from barnabas.client.consuming.reading import Message
from barnabas.client.offsets import READ_COMMITTED
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.model import Offset, TopicPartition

__all__ = ["AsyncConsumer"]


class AsyncConsumer(Consuming):
    """`async with Consumer("127.0.0.1:9092", "topic", group="g") as c: async for message in c: ...`.

    Options and methods are those of `barnabas.Consumer`; on_assigned, on_revoked and on_lost may be coroutine
    functions.  One task at a time.
    """

    AWAITED: ClassVar[Literal[True]] = True
    """See `either_way`."""

    def _connect(
        self,
        bootstrap: str | Iterable[str],
        view: Mapping[str, Any],
        limits: FetchLimits,
        interval: PollInterval,
    ) -> None:
        cluster = AsyncCluster(bootstrap, **view)
        self._cluster = cluster
        self._fetcher = AsyncFetcher(cluster, isolation=self._level, limits=limits)
        self._member = None
        if self._machine is not None:
            stable = self.isolation == READ_COMMITTED
            own = AsyncCluster(bootstrap, **view)
            self._member = AsyncMembership(own, self._machine, stable=stable, interval=interval)

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(commit=kind is None)

    async def _fetch(self, wanted: dict[TopicPartition, Offset], seconds: float) -> list[Fetched]:
        return await self._fetcher.poll(dict(wanted), seconds)

    async def _drop_fetches(self) -> None:
        await self._fetcher.close()

    async def assignment(self) -> list[TopicPartition]:
        """`await consumer.assignment()` -> the partitions read now; a member joins its group first."""
        await self._look()
        return sorted(self._fetched_to)

    async def poll(self, timeout: float = 1.0, max_messages: int = 500) -> list[Message]:  # noqa: ASYNC109  [] after it
        """`await consumer.poll(1.0)` -> up to `max_messages` records; [] when none came in `timeout` seconds."""
        await self._gather(timeout)
        return self._hand_out_up_to(max_messages)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """All records from here on; ends only when `idle` or `stop_at` says so."""
        loop = asyncio.get_running_loop()
        await self._look()
        last = loop.time()  # (joining a group, or asking where to begin, is not idle)
        while True:
            await self._look()
            if not self._ready:
                if self._finished:
                    return
                await self._fill(TURN_S if self.idle is None else min(TURN_S, self.idle))
                if self._fetcher.outdated(self._to_fetch()):
                    last = loop.time()
                if not self._ready and self.idle is not None and loop.time() - last >= self.idle:
                    return
                continue
            while self._ready:
                yield self._hand_out()
                if self._member is not None:
                    self._member.polled()
                    if self._member.must_join:
                        break
            last = loop.time()
