"""Reading records with asyncio: `async for message in Consumer("127.0.0.1:9092", "topic"): ...`.

Alone, a consumer reads the partitions it is assigned (all of its topics unless told).  With `group` it shares them
with the other members and goes on where the group stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any
from uuid import uuid4

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.fetcher import AsyncFetcher
from barnabas.client.aio.membership import AsyncMembership, AsyncReader
from barnabas.client.consumer import COMMIT_INTERVAL, Message
from barnabas.client.consuming.fetched import Fetched
from barnabas.client.consuming.growth import Growth
from barnabas.client.group_options import GroupOptions, Listener, make_member
from barnabas.client.metadata import METADATA_AGE
from barnabas.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetAt,
    checked_start,
    isolation_level,
    offsets_request,
    read_offsets,
    special_time,
)
from barnabas.client.producing.transaction_machine import GroupMember
from barnabas.client.security.options import SecurityOptions
from barnabas.client.waits.forks import check_process, forked_since, forks
from barnabas.client.waits.poll_interval import MAX_POLL_INTERVAL, PollInterval
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NodeId, Offset, TopicPartition, Uuid

__all__ = ["AsyncConsumer"]

_LOOK = 0.2  # seconds between looks at the group and the topics while nothing comes


class AsyncConsumer:
    """`async with Consumer("127.0.0.1:9092", "topic", group="g") as c: async for message in c: ...`.

    start: "latest" or "earliest": where to begin without a committed offset, and where to go on when the offset is
    gone ("error": raise OFFSET_OUT_OF_RANGE instead).  group: share the topics with others.  isolation:
    "read_committed" hides open and aborted transactions.  auto_commit: with a group, commit by itself.  idle:
    iteration ends after so many seconds without a record (None: never).  One task at a time.

    group_protocol, pattern, assignor, instance_id, max_poll_interval, rebalance_timeout, metadata_max_age,
    on_assigned, on_revoked, on_lost: as with `barnabas.Consumer`; the last three may be coroutine functions.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *topics: str,
        group: str | None = None,
        auto_commit: bool = True,
        session_timeout: float = 45.0,
        rebalance_timeout: float | None = None,
        security: SecurityOptions = None,
        start: str = "latest",
        isolation: str = READ_UNCOMMITTED,
        idle: float | None = None,
        client_id: str = "barnabas-consumer",
        timeout: float = 30.0,
        group_protocol: str = "classic",
        pattern: str | None = None,
        assignor: str | None = None,
        instance_id: str | None = None,
        on_assigned: Callable[[list[TopicPartition]], Awaitable[None] | None] | None = None,
        on_revoked: Callable[[list[TopicPartition]], Awaitable[None] | None] | None = None,
        on_lost: Callable[[list[TopicPartition]], Awaitable[None] | None] | None = None,
        max_poll_interval: float = MAX_POLL_INTERVAL,
        metadata_max_age: float = METADATA_AGE,
    ) -> None:
        self.start = checked_start(start)
        self.topics = topics
        self.idle = idle
        self._level = isolation_level(isolation)
        view = partial(
            AsyncCluster, bootstrap, client_id=client_id, timeout=timeout, metadata_max_age=metadata_max_age
        )
        self._cluster = view(security=security)
        self._fetcher = AsyncFetcher(self._cluster, isolation=self._level)
        self._member: AsyncMembership | None = None
        options = GroupOptions(
            group_protocol,
            pattern,
            assignor,
            instance_id,
            session_timeout,
            rebalance_timeout,
            max_poll_interval,
        )
        member = make_member(group, topics, options, Uuid(uuid4().bytes))
        if member is not None:
            self._member = AsyncMembership(
                view(security=self._cluster.security),
                member,
                stable=isolation == READ_COMMITTED,
                interval=PollInterval(max_poll_interval),
            )
        self._listener = Listener(on_assigned, on_revoked, on_lost)
        self._rebalancing = False
        self._auto_commit = auto_commit and group is not None
        self._positions: dict[TopicPartition, Offset] = {}  # the next offset to hand out
        self._fetched_to: dict[TopicPartition, Offset] = {}  # the next offset to fetch
        self._committed: dict[TopicPartition, Offset] = {}
        self._passed: dict[TopicPartition, tuple[Offset, Offset]] = {}
        """The last record fetched, and the offset after the markers and aborted batches behind it."""
        self._ready: deque[Message] = deque()
        self._growth = Growth(topics, metadata_max_age) if group is None else None
        """The partitions of its topics, where it reads all of them."""
        self._made = forks()
        self._commit_due = 0.0
        self._closed = False

    def __repr__(self) -> str:
        who = f" {self._member!r}" if self._member else ""
        return f"<AsyncConsumer partitions={len(self._fetched_to)} buffered={len(self._ready)}{who}>"

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(commit=kind is None)

    # -- what to read ----------------------------------------------------------------------------

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """`await consumer.assign([("topic", 0)])`: read exactly these partitions, without a group."""
        if self._member is not None:
            raise BarnabasError(
                "a member of a group cannot choose its partitions", next_step="leave `group` out"
            )
        await self._take(TopicPartition(*p) for p in partitions)

    async def assignment(self) -> list[TopicPartition]:
        """`await consumer.assignment()` -> the partitions read now; a member joins its group first."""
        await self._look()
        return sorted(self._fetched_to)

    async def seek(self, topic: str, partition: int, offset: Offset | str) -> None:
        """`await consumer.seek("topic", 0, 42)`: go on from there; also "earliest" or "latest"."""
        await self._look(topic)
        target = TopicPartition(topic, partition)
        if target not in self._fetched_to:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{target} is not assigned to this consumer"
            )
        if isinstance(offset, str):
            offset = (await self._offsets_at([target], offset))[target].offset
        self._ready = deque(m for m in self._ready if (m.topic, m.partition) != target)
        self._positions[target] = self._fetched_to[target] = offset
        self._passed.pop(target, None)

    async def position(self, topic: str, partition: int) -> Offset:
        """`await consumer.position("topic", 0)` -> the offset of the next record handed out."""
        await self._look(topic)
        return self._positions[TopicPartition(topic, partition)]

    # -- reading ---------------------------------------------------------------------------------

    async def poll(self, timeout: float = 1.0, max_messages: int = 500) -> list[Message]:  # noqa: ASYNC109  [] after it
        """`await consumer.poll(1.0)` -> up to `max_messages` records; [] when none came in `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._look()
        while not self._ready:
            left = deadline - loop.time()
            if left < 0:
                return []
            await self._fill(min(left, _LOOK))
            await self._look()
        return [self._hand_out() for _ in range(min(max_messages, len(self._ready)))]

    async def __aiter__(self) -> AsyncIterator[Message]:
        """All records from here on; ends only when `idle` says so."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await self._look()
            while self._ready:
                yield self._hand_out()
                last = loop.time()
                if self._member is not None:
                    self._member.polled()
                    if self._member.must_join:
                        break
            if self.idle is not None and loop.time() - last >= self.idle:
                return
            if not self._ready:
                await self._fill(_LOOK if self.idle is None else min(_LOOK, self.idle))

    def _hand_out(self) -> Message:
        message = self._ready.popleft()
        target = TopicPartition(message.topic, message.partition)
        self._positions[target] = message.offset + 1
        if self._passed and (passed := self._passed.get(target)) is not None and passed[0] == message.offset:
            self._positions[target] = self._passed.pop(target)[1]
        return message

    async def _fill(self, timeout: float) -> None:  # noqa: ASYNC109  returns after it
        if not self._fetched_to:
            await asyncio.sleep(timeout)
            return
        for fetched in await self._fetcher.poll(dict(self._fetched_to), timeout):
            if fetched.error is not None:
                await self._recover(fetched, fetched.error)
                continue
            topic, partition = fetched.target
            self._fetched_to[fetched.target] = fetched.next_offset
            self._ready.extend(
                Message(topic, partition, offset, timestamp, key, value, tuple(headers))
                for offset, timestamp, key, value, headers in fetched.records
            )
            self._pass(fetched.target, fetched.next_offset)

    def _pass(self, target: TopicPartition, reached: Offset) -> None:
        """Markers and aborted batches are passed with the record before them, or at once where none waits."""
        last = next((m.offset for m in reversed(self._ready) if m[:2] == target), None)
        if last is None:
            self._positions[target] = reached
        elif reached > last + 1:
            self._passed[target] = last, reached

    async def _recover(self, fetched: Fetched, error: BarnabasError) -> None:
        """The offset is gone (or not there yet): go on where `start` says."""
        gone = isinstance(error, KafkaError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE
        if not gone or self.start == "error":
            raise error
        await self.seek(*fetched.target, self.start)

    # -- the assignment --------------------------------------------------------------------------

    async def _look(self, *asked: str) -> None:
        """Follow the group, or the growth of the topics, where needed; commit when it is time.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION if one of the topics `asked` about is not there.
        """
        check_process(self._made)
        member = self._member
        if self._closed:
            raise BarnabasError("the consumer is closed", next_step="make another Consumer")
        if self._rebalancing:  # a listener asks
            return
        if member is None:
            await self._look_for_growth(*asked)
            return
        member.polled()
        if member.must_join:
            self._rebalancing = True
            try:
                await member.rebalance(AsyncReader(self._release, self._acquire))
            finally:
                self._rebalancing = False
        elif self._auto_commit and asyncio.get_running_loop().time() >= self._commit_due:
            await self._commit_quietly()

    async def _look_for_growth(self, *asked: str) -> None:
        """Read all partitions of the topics, also those that come later."""
        growth = self._growth
        if growth is None:
            return
        now = asyncio.get_running_loop().time
        if growth.due(now(), asked):
            try:
                there = await self._cluster.find(self.topics)
                await self._read(growth.new(there), EARLIEST if growth.begun else self.start)
                growth.looked(there, now())
            except BarnabasError:  # the next look may succeed
                growth.later(now())
                if not growth.begun:
                    raise
        growth.check(asked)

    async def _take(self, partitions: Iterable[TopicPartition]) -> None:
        await self._fetcher.close()
        self._growth = None
        self._forget(list(self._positions))
        await self._read(list(partitions))

    async def _release(self, partitions: Collection[TopicPartition] | None, *, lost: bool) -> None:
        """These partitions (None: all) are another member's from now on, or already."""
        mine = sorted(self._positions if partitions is None else partitions)
        if not mine:
            return
        if self._auto_commit and not lost:
            await self._commit_quietly()
        await _told(self._listener.on_lost if lost else self._listener.on_revoked, mine)
        self._forget(mine)

    async def _acquire(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, too, from where the group has committed."""
        await self._read(list(partitions))
        await _told(self._listener.on_assigned, sorted(partitions))

    def _forget(self, gone: Collection[TopicPartition]) -> None:
        for target in gone:
            for known in (self._positions, self._fetched_to, self._committed):
                known.pop(target, None)
            self._passed.pop(target, None)
        self._ready = deque(m for m in self._ready if TopicPartition(m.topic, m.partition) not in gone)

    async def _read(self, targets: list[TopicPartition], start: str = "") -> None:
        points = await self._member.committed(targets) if self._member is not None and targets else {}
        if missing := [target for target in targets if target not in points]:
            where = EARLIEST if (start or self.start) == EARLIEST else LATEST
            found = await self._offsets_at(missing, where)
            points |= {target: found[target].offset for target in missing}
        self._positions.update(points)
        self._fetched_to.update(points)
        if self._member is not None:
            self._committed.update(points)
        self._commit_due = asyncio.get_running_loop().time() + COMMIT_INTERVAL

    async def _offsets_at(self, targets: list[TopicPartition], when: str) -> dict[TopicPartition, OffsetAt]:
        """The offset of each partition at a time, asked of the leaders, again where they have moved."""
        found: dict[TopicPartition, OffsetAt] = {}

        async def attempt() -> None:
            by_leader: dict[NodeId, dict[TopicPartition, int]] = {}
            for target in targets:
                if target not in found:
                    leader = (await self._cluster.leader(*target)).id
                    by_leader.setdefault(leader, {})[target] = special_time(when)
            for leader, theirs in by_leader.items():
                request = offsets_request(theirs, self._level, self._cluster.timeout)
                connection = await self._cluster.connection(leader, leads=True)
                read_offsets(await connection.request(request), found)

        def forget() -> None:
            for target in targets:
                self._cluster.metadata.forget(target.topic)

        await self._cluster.retrying(attempt, on_retry=forget)
        return found

    def positions(self) -> dict[TopicPartition, Offset]:
        """`consumer.positions()` -> the next offset to hand out of each assigned partition."""
        return dict(self._positions)

    def member(self) -> GroupMember:
        """`consumer.member()` -> its group and who it is there, for `TransactionalProducer.send_offsets`.

        Raises BarnabasError for a consumer without a group.
        """
        if self._member is None:
            raise BarnabasError("this consumer has no group", next_step="make it with group=...")
        member = self._member.member
        return GroupMember(member.group, member.member_id, member.generation)

    # -- committing and ending -------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        """`await consumer.commit()`: everything handed out so far counts as done for the group.

        Raises KafkaError (ILLEGAL_GENERATION and the like when the partitions are another member's now).
        """
        if self._member is None:
            raise BarnabasError(
                "only a member of a group can commit", next_step="give the consumer a `group`"
            )
        chosen = dict(self._positions if offsets is None else offsets)
        changed = {t: o for t, o in chosen.items() if self._committed.get(t) != o or offsets is not None}
        await self._member.commit(changed)
        self._committed.update(changed)
        self._commit_due = asyncio.get_running_loop().time() + COMMIT_INTERVAL

    async def _commit_quietly(self) -> None:
        """Commit without raising: what cannot be committed now is read again by the next consumer."""
        self._commit_due = asyncio.get_running_loop().time() + COMMIT_INTERVAL
        with contextlib.suppress(BarnabasError):
            await self.commit()

    async def close(self, *, commit: bool = True) -> None:
        """`await consumer.close()`: commit (with auto_commit), leave the group, close the connections."""
        if self._closed:
            return
        if forked_since(self._made):
            self._closed = True  # the membership and the connections are the parent's
            return
        self._rebalancing = True  # it leaves
        await self._fetcher.close()
        if self._member is not None:
            self._auto_commit = self._auto_commit and commit
            await self._release(None, lost=self._member.member.lost)
            await self._member.leave()
            await self._member.cluster.close()
        self._closed = True
        await self._cluster.close()


async def _told(tell: Callable[[list[TopicPartition]], Any] | None, partitions: list[TopicPartition]) -> None:
    """Call a listener, and await what it returns if that can be awaited."""
    if tell is not None:
        outcome = tell(partitions)
        if inspect.isawaitable(outcome):
            await outcome
