"""Being a member of a consumer group with asyncio: what is asked and answered is `client.group_member`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.connection import AsyncConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.client.group_member import ClassicMember
from barnabas.client.group_offsets import (
    check_committed,
    commit_request,
    committed_request,
    read_committed_offsets,
)
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import Offset, TopicPartition
from barnabas.wire.schemas.groups import LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest

__all__ = ["AsyncMembership"]

T = TypeVar("T")


class AsyncMembership:
    """`await AsyncMembership(cluster, ClassicMember(...)).join()` -> the partitions this member may read.

    `cluster` is for this membership alone, for heartbeats must not wait for fetches.  `stable`: offsets that an
    open transaction may change are waited for.
    """

    def __init__(self, cluster: AsyncCluster, member: ClassicMember, *, stable: bool = False) -> None:
        self.cluster = cluster
        self.member = member
        self.stable = stable
        self.failure: BarnabasError | None = None
        self._coordinator: AsyncConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<AsyncMembership {self.member!r}>"

    async def join(self) -> list[TopicPartition]:
        """`await membership.join()` -> the partitions this member may read now.

        Waits until the group has come together.  Raises KafkaError for what no repetition mends.
        """
        while True:
            try:
                assigned = await self._with_coordinator(self._join_once)
            except KafkaError as error:
                self.member.join_failed(error)
                continue
            if self._task is None:
                self._task = asyncio.create_task(self._send_heartbeats(), name="barnabas-heartbeat")
            return assigned

    async def _join_once(self, coordinator: AsyncConnection) -> list[TopicPartition]:
        member = self.member
        patience = member.times.rebalance + 10.0
        wanted = None
        while wanted is None:
            response = await coordinator.request(member.join_request(), timeout=patience)
            wanted = member.joined(response)
        counts = {
            topic: await self._count(topic) for topic in {t for topics in wanted.values() for t in topics}
        }
        request = member.sync_request(response, wanted, counts)
        return member.synced(await coordinator.request(request, timeout=patience))

    async def _count(self, topic: str) -> int:
        try:
            return len((await self.cluster.topic(topic, refresh=True)).partitions)
        except KafkaError:
            return 0  # nobody can read what is not there (yet)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self.member.times.heartbeat)
            if self.member.must_join:
                continue
            try:
                response = await self._with_coordinator(
                    lambda connection: connection.request(self.member.heartbeat_request())
                )
                if self.member.heard(response):
                    self._coordinator = None
            except ConnectionFailed:
                continue  # the next heartbeat tries again; the session may outlive it
            except BarnabasError as error:
                self.failure = error
                self.member.must_join = True

    async def leave(self) -> None:
        """`await membership.leave()`: tell the group, so that it need not wait for the session to end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.member.generation >= 0:
            try:
                coordinator = await self.cluster.coordinator(self.member.group)
                request = self.member.leave_request(coordinator.version_of(LeaveGroupRequest))
                if request is not None:
                    await coordinator.request(request, timeout=5.0)
            except BarnabasError:
                pass  # the session's end will do it

    async def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`await membership.commit({TopicPartition("t", 0): 42})`: the next record to read is 42.

        Raises KafkaError; ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID when the partitions are another's now.
        """
        member = self.member

        async def attempt(coordinator: AsyncConnection) -> None:
            request, version = commit_request(
                member.group,
                offsets,
                coordinator.version_of(OffsetCommitRequest),
                member_id=member.member_id,
                generation=member.generation,
            )
            check_committed(await coordinator.request(request, version), member.group)

        if offsets:
            await self._with_coordinator(attempt)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """`await membership.committed([...])` -> offsets committed by the group, where there are any."""
        wanted, group = list(partitions), self.member.group

        async def attempt(coordinator: AsyncConnection) -> dict[TopicPartition, Offset]:
            served = coordinator.version_of(OffsetFetchRequest)
            request, version = committed_request(group, wanted, served, stable=self.stable)
            return read_committed_offsets(await coordinator.request(request, version), version, group)

        return await self._with_coordinator(attempt)

    async def _with_coordinator(self, talk: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Talk to the coordinator, found again where it moved or broke."""

        async def attempt() -> T:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = await self.cluster.coordinator(self.member.group)
            return await talk(self._coordinator)

        def look_again() -> None:
            self._coordinator = None

        return await self.cluster.retrying(attempt, on_retry=look_again)
