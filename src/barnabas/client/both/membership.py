"""Being a member of a consumer group: join, heartbeat, commit, leave.

What is asked and what an answer means is `group_member`, for KIP-848 `consumer_member`.  A thread or a task sends
heartbeats while the user's code works (`Membership`, `AsyncMembership`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol, TypeVar

from barnabas.client.both.awaited import AnyConnection
from barnabas.client.both.cluster import AnyCluster
from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.client.group_member import ClassicMember
from barnabas.client.group_offsets import commit_offsets, committed_offsets
from barnabas.client.group_options import GroupMachine, may_pass
from barnabas.client.waits.background import as_ours
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicId, TopicPartition
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatRequest

__all__ = ["AnyMembership", "Reader", "Release"]

T = TypeVar("T")


class Release(Protocol):
    """Give these up (None: all); `lost`: they are another member's already."""

    def __call__(self, partitions: Collection[TopicPartition] | None, *, lost: bool) -> Awaitable[None]: ...


class Reader(NamedTuple):
    """Reader of the partitions of a membership, as what it can do."""

    release: Release
    acquire: Callable[[Collection[TopicPartition]], Awaitable[None]]
    """Read these, too, from where the group has committed."""


class AnyMembership:
    """`await membership.rebalance(reader)`: one member's part in its group.

    `cluster` is for this membership alone, for heartbeats must not wait for fetches.  Whatever is asked holds
    `talking`: answers come in order, and behind a join they wait for the other members.  `stable`: offsets that an
    open transaction may change are waited for.
    """

    def __init__(
        self,
        cluster: AnyCluster,
        member: GroupMachine,
        talking: AbstractAsyncContextManager[None],
        *,
        stable: bool = False,
        interval: PollInterval | None = None,
    ) -> None:
        self.cluster = cluster
        self.member = member
        self.stable = stable
        self.interval = interval or PollInterval()
        self.failure: BarnabasError | None = None
        self._count_due = monotonic() + cluster.metadata.max_age
        self._coordinator: AnyConnection | None = None
        self._talking = talking
        self._left = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.member!r}>"

    @property
    def must_join(self) -> bool:
        """Whether the partitions are (or may be) others now: `rebalance`."""
        return self.member.must_join

    def polled(self) -> None:
        """`membership.polled()`: the application asks for records."""
        self.interval.polled(monotonic())

    async def rebalance(self, reader: Reader) -> None:
        """`await membership.rebalance(reader)`: the reader reads what the group has given to this member.

        In a classic group it gives up all, and waits until the group has come together.  Raises KafkaError for
        what no repetition mends.
        """
        member = self.member
        if isinstance(member, ClassicMember):
            await reader.release(None, lost=member.lost)
            self._raise_failure()
            partitions = await self._join(member)
            self._start_heartbeats()
            try:
                await reader.acquire(partitions)
            except BaseException:
                member.fence()  # it reads nothing now: join again
                raise
        else:
            await self._reconcile(member, reader)
        self.polled()

    def _raise_failure(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    async def _reconcile(self, member: ConsumerGroupMember, reader: Reader) -> None:
        """One step of KIP-848: join where needed, give up, take over, and tell the coordinator at once."""
        change = member.change()
        if change.release:
            await reader.release(member.partitions(change.release), lost=change.lost)
            member.released(change)
        self._raise_failure()
        if not member.generation:
            async with self._talking:
                await self._with_coordinator(lambda c: self._beat(c, joins=True))
                self.polled()
        self._start_heartbeats()
        if member.names_missing:
            async with self._talking:
                member.learn_names(await self._names(member.subscription))
        change = member.change()
        if change.acquire and not change.lost:
            await reader.acquire(member.partitions(change.acquire))
            member.acquired(change)
        if member.acknowledges and not member.change().release:
            await self.heartbeat()

    async def _names(self, subscription: Subscription) -> dict[TopicId, str]:
        if subscription.pattern is not None:
            return {info.id: info.name for info in (await self.cluster.refresh()).values()}
        found: dict[TopicId, str] = {}
        for topic in subscription.topics:
            with contextlib.suppress(KafkaError):  # it is not there (yet)
                found[(await self.cluster.topic(topic, refresh=True)).id] = topic
        return found

    async def _join(self, member: ClassicMember) -> list[TopicPartition]:
        while True:
            try:
                async with self._talking:
                    partitions = await self._with_coordinator(lambda c: self._join_once(member, c))
                    self.polled()
                    return partitions
            except KafkaError as error:
                member.join_failed(error)

    async def _join_once(self, member: ClassicMember, coordinator: AnyConnection) -> list[TopicPartition]:
        if self._left:  # meanwhile: it would be a member that nobody reads for
            raise BarnabasError(f"the member has left group {member.group}")
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

    # -- staying ---------------------------------------------------------------------------------

    def _start_heartbeats(self) -> None:
        """Have `_live_on` run again and again, if it does not yet, until this member leaves."""
        raise NotImplementedError

    async def _live_on(self) -> None:
        """Send what is due after a `heartbeat_interval`; what goes wrong is told at the next `rebalance`."""
        try:
            await self._stay()
        except Exception as error:
            self.failure = as_ours("the heartbeat of the group's member", error)
            self.member.fence()

    async def _stay(self) -> None:
        """Keep this member in the group; once its application has worked for too long, it leaves."""
        async with self._talking:
            if self.member.joined_in and self.interval.is_over(monotonic()):
                self.interval.tell(self.member.group)
                await self._say_goodbye()
                self.member.fence()
            else:
                await self._tell_that_it_lives()
                await self._count_partitions()

    async def _count_partitions(self) -> None:
        """Look from time to time whether topics of a classic group have grown or are new."""
        member = self.member
        if monotonic() < self._count_due or not isinstance(member, ClassicMember):
            return
        self._count_due = monotonic() + self.cluster.metadata.max_age
        if topics := member.counted_topics:
            with contextlib.suppress(BarnabasError):  # the next look may succeed
                found = await self.cluster.find(topics)
                member.counted({name: len(info.partitions) for name, info in found.items()})

    async def heartbeat(self) -> None:
        """`await membership.heartbeat()`: tell that this member is alive; learn whether the group rebalances."""
        async with self._talking:
            await self._tell_that_it_lives()

    async def _tell_that_it_lives(self) -> None:
        if self._left:
            return
        try:
            await self._with_coordinator(self._beat)
        except BarnabasError as error:
            if not may_pass(error):
                raise
            self._coordinator = None  # the next heartbeat tries again; the session may outlive it

    async def _beat(self, coordinator: AnyConnection, *, joins: bool = False) -> None:
        member = self.member
        request: Message | None
        if joins and isinstance(member, ConsumerGroupMember):
            request = member.join_request(coordinator.version_of(ConsumerGroupHeartbeatRequest))
        else:
            request = member.heartbeat_request()
        if request is not None:
            member.heard(await coordinator.request(request))

    async def leave(self) -> None:
        """`await membership.leave()`: tell the group, so that it need not wait for the session to end."""
        self._left = True
        if self.member.generation >= 0:
            await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        async def found(coordinator: AnyConnection) -> AnyConnection:
            return coordinator

        with contextlib.suppress(BarnabasError):  # the session's end will do it
            coordinator = await self._with_coordinator(found)
            request = self.member.leave_request(coordinator.version_of(self.member.LEAVES_WITH))
            if request is not None:
                await coordinator.request(request, timeout=5.0)

    # -- offsets ---------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """`await membership.commit({TopicPartition("t", 0): 42})`: the next record to read is 42.

        Raises KafkaError; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH when the partitions are
        another's now.
        """
        try:
            await self._commit(offsets)
        except KafkaError as error:
            if error.code != ErrorCode.STALE_MEMBER_EPOCH:
                raise
            await self.heartbeat()  # its answer has the member's epoch as it is now
            await self._commit(offsets)

    async def _commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        member = self.member

        async def attempt(coordinator: AnyConnection) -> None:
            id_, generation = member.member_id, member.generation
            await commit_offsets(coordinator, member.group, offsets, member_id=id_, generation=generation)

        if offsets:
            async with self._talking:
                await self._with_coordinator(attempt)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """`await membership.committed([...])` -> offsets committed by the group, where there are any."""
        wanted, group = list(partitions), self.member.group
        async with self._talking:
            return await self._with_coordinator(
                lambda coordinator: committed_offsets(coordinator, group, wanted, stable=self.stable)
            )

    async def _with_coordinator(self, talk: Callable[[AnyConnection], Awaitable[T]]) -> T:
        """Talk to the coordinator, found again where it moved or broke."""

        async def attempt() -> T:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = await self.cluster.coordinator(self.member.group)
            return await self.cluster.ask_coordinator(self._coordinator, talk)

        def look_again() -> None:
            self._coordinator = None

        return await self.cluster.retrying(attempt, on_retry=look_again)
