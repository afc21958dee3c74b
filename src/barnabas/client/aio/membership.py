"""A member of a consumer group with asyncio, whose heartbeats a task sends."""

from __future__ import annotations

import asyncio

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.both.membership import AnyMembership
from barnabas.client.group_options import GroupMachine
from barnabas.client.waits.poll_interval import PollInterval

__all__ = ["AsyncMembership"]


class AsyncMembership(AnyMembership):
    """`await AsyncMembership(cluster, ClassicMember(...)).rebalance(reader)`; see `AnyMembership`."""

    def __init__(
        self,
        cluster: AsyncCluster,
        member: GroupMachine,
        *,
        stable: bool = False,
        interval: PollInterval | None = None,
    ) -> None:
        super().__init__(cluster, member, asyncio.Lock(), stable=stable, interval=interval)
        self._task: asyncio.Task[None] | None = None

    def _start_heartbeats(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._send_heartbeats(), name="barnabas-heartbeat")

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self.member.heartbeat_interval)
            await self._live_on()

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await super().leave()  # also while another task waits for its join, which ends then
