"""Reading records with asyncio: `async for message in Consumer("127.0.0.1:9092", "topic"): ...`.

Alone, a consumer reads the partitions it is assigned (all of its topics unless told).  With `group` it shares them
with the other members and goes on where the group stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Any

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.fetcher import AsyncFetcher
from barnabas.client.aio.membership import AsyncMembership
from barnabas.client.both.membership import Reader
from barnabas.client.consuming.fetched import FetchLimits
from barnabas.client.consuming.reading import COMMIT_INTERVAL, Message, Reading
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets_at, special_time
from barnabas.client.waits.forks import forked_since
from barnabas.client.waits.poll_interval import PollInterval
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["AsyncConsumer"]

_LOOK = 0.2  # seconds between looks at the group and the topics while nothing comes


class AsyncConsumer(Reading):
    """`async with Consumer("127.0.0.1:9092", "topic", group="g") as c: async for message in c: ...`.

    Options and methods are those of `barnabas.Consumer`; on_assigned, on_revoked and on_lost may be coroutine
    functions.  One task at a time.
    """

    def _connect(
        self,
        bootstrap: str | Iterable[str],
        view: Mapping[str, Any],
        limits: FetchLimits,
        interval: PollInterval,
    ) -> None:
        self._cluster = AsyncCluster(bootstrap, **view)
        self._fetcher = AsyncFetcher(self._cluster, isolation=self._level, limits=limits)
        self._member: AsyncMembership | None = None
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

    # -- what to read ----------------------------------------------------------------------------

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """`await consumer.assign([("topic", 0)])`: read exactly these partitions, without a group."""
        self._check_alone("cannot choose its partitions")
        await self._fetcher.close()
        self._forget(list(self._positions))
        self._ends, self._growth = {}, None
        await self._read([TopicPartition(*p) for p in partitions])

    async def assignment(self) -> list[TopicPartition]:
        """`await consumer.assignment()` -> the partitions read now; a member joins its group first."""
        await self._look()
        return sorted(self._fetched_to)

    async def seek(self, topic: str, partition: int, offset: Offset | str) -> None:
        """`await consumer.seek("topic", 0, 42)`: go on from there; also "earliest" or "latest"."""
        await self._look(topic)
        target = TopicPartition(topic, partition)
        self._check_assigned(target)
        if isinstance(offset, str):
            offset = (await self._offsets_at([target], offset))[target]
        self._go_to(target, offset)

    async def offsets_at(self, when: int | str) -> dict[TopicPartition, Offset]:
        """`await consumer.offsets_at("latest")` -> the offset in each assigned partition.

        `when` is "earliest", "latest" or a time in ms since 1970; a time after the last record is the end.
        """
        await self._look(*self.topics)
        found = await self._offsets_at(list(self._fetched_to), when)
        late = [target for target, offset in found.items() if offset < 0]
        return found | await self._offsets_at(late, LATEST)

    async def seek_to_time(self, timestamp: int) -> None:
        """`await consumer.seek_to_time(1700000000000)`: to the first records not older (ms since 1970)."""
        for target, offset in (await self.offsets_at(timestamp)).items():
            await self.seek(*target, offset)

    async def stop_at(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """`await consumer.stop_at({TopicPartition("t", 0): 42})`: read these up to before the offset.

        Iteration ends once every partition that is read has reached its end.  Not for members of a group.
        """
        self._check_alone("reads without an end")
        await self._look(*self.topics)
        self._end_at(ends)

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
        """All records from here on; ends only when `idle` or `stop_at` says so."""
        loop = asyncio.get_running_loop()
        await self._look()
        last = loop.time()  # (joining a group, or asking where to begin, is not idle)
        while True:
            await self._look()
            if not self._ready:
                if self._finished:
                    return
                await self._fill(_LOOK if self.idle is None else min(_LOOK, self.idle))
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

    async def _fill(self, timeout: float) -> None:  # noqa: ASYNC109  returns after it
        wanted = dict(self._to_fetch())
        if not wanted:
            await asyncio.sleep(timeout)
            return
        for target, error in self._took(await self._fetcher.poll(wanted, timeout)):
            self._check_gone(error)
            await self.seek(*target, self.start)

    # -- the assignment --------------------------------------------------------------------------

    async def _look(self, *asked: str) -> None:
        """Follow the group, or the growth of the topics, where needed; commit when it is time.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION if one of the topics `asked` about is not there.
        """
        self._check_open()
        member = self._member
        if self._rebalancing:  # a listener asks
            return
        if member is None:
            await self._look_for_growth(*asked)
            return
        member.polled()
        if member.must_join:
            self._rebalancing = True
            try:
                await member.rebalance(Reader(self._release, self._acquire))
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

    async def _read(self, targets: list[TopicPartition], start: str = "") -> None:
        points = await self._member.committed(targets) if self._member is not None and targets else {}
        missing = [target for target in targets if target not in points]
        where = EARLIEST if (start or self.start) == EARLIEST else LATEST
        self._begin(points | await self._offsets_at(missing, where))
        self._commit_due = asyncio.get_running_loop().time() + COMMIT_INTERVAL

    async def _offsets_at(
        self, targets: list[TopicPartition], when: int | str
    ) -> dict[TopicPartition, Offset]:
        """The offset of each partition at a time, asked of the leaders; -1 where no record is that young."""
        question = dict.fromkeys(targets, special_time(when))
        [found] = await list_offsets_at(self._cluster, [question], isolation=self.isolation)
        return {target: found[target].offset for target in targets}

    # -- committing and ending -------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        """`await consumer.commit()`: everything handed out so far counts as done for the group.

        Raises KafkaError (ILLEGAL_GENERATION and the like when the partitions are another member's now).
        """
        if self._member is None:
            raise BarnabasError(
                "only a member of a group can commit", next_step="give the consumer a `group`"
            )
        chosen = self._to_commit(offsets)
        await self._member.commit(chosen)
        self._committed.update(chosen)
        self._commit_due = asyncio.get_running_loop().time() + COMMIT_INTERVAL

    async def committed(self) -> dict[TopicPartition, Offset]:
        """`await consumer.committed()` -> what the group has committed of the assigned partitions."""
        if self._member is None:
            return {}
        await self._look()
        return await self._member.committed(self._fetched_to)

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
