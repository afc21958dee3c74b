"""A consumer of either kind: which partitions it reads, from where, and for which group.

Fetching runs one request ahead.  Offsets of a group are committed every few seconds and at the end, after the
records were handed out.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from barnabas.client.both.cluster import AnyCluster
from barnabas.client.both.membership import AnyMembership, Reader
from barnabas.client.both.methods import either_way
from barnabas.client.consuming.fetched import Fetched
from barnabas.client.consuming.reading import COMMIT_INTERVAL, Message, Reading
from barnabas.client.offsets import EARLIEST, LATEST, list_offsets_at, special_time
from barnabas.client.waits.forks import forked_since
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["TURN_S", "Consuming"]

TURN_S = 0.2
"""Seconds between looks at the group and the topics while nothing comes."""


class Consuming(Reading):
    """Part of both consumers that is the same; each says how it fetches, and iterates."""

    _cluster: AnyCluster
    _member: AnyMembership | None

    async def _fetch(self, wanted: dict[TopicPartition, Offset], seconds: float) -> list[Fetched]:
        """Return what came within so many seconds."""
        raise NotImplementedError

    async def _drop_fetches(self) -> None:
        """Forget what is under way: the assignment has changed, or the consumer closes."""
        raise NotImplementedError

    # -- what to read ----------------------------------------------------------------------------

    @either_way
    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """`consumer.assign([("topic", 0)])`: read exactly these partitions, without a group."""
        self._check_alone("cannot choose its partitions")
        await self._drop_fetches()
        self._forget(list(self._positions))
        self._ends, self._growth = {}, None
        await self._read([TopicPartition(*p) for p in partitions])

    @either_way
    async def seek(self, topic: str, partition: int, offset: Offset | str) -> None:
        """`consumer.seek("topic", 0, 42)`: go on from there; also "earliest" or "latest"."""
        await self._seek(TopicPartition(topic, partition), offset)

    async def _seek(self, target: TopicPartition, offset: Offset | str) -> None:
        await self._look(target.topic)
        self._check_assigned(target)
        if isinstance(offset, str):
            offset = (await self._offsets_of([target], offset))[target]
        self._go_to(target, offset)

    @either_way
    async def offsets_at(self, when: int | str) -> dict[TopicPartition, Offset]:
        """`consumer.offsets_at("latest")` -> the offset in each assigned partition.

        `when` is "earliest", "latest" or a time in ms since 1970; a time after the last record is the end.
        """
        return await self._offsets_at(when)

    async def _offsets_at(self, when: int | str) -> dict[TopicPartition, Offset]:
        await self._look(*self.topics)
        found = await self._offsets_of(list(self._fetched_to), when)
        late = [target for target, offset in found.items() if offset < 0]
        return found | await self._offsets_of(late, LATEST)

    @either_way
    async def seek_to_time(self, timestamp: int) -> None:
        """`consumer.seek_to_time(1700000000000)`: to the first records not older (ms since 1970)."""
        for target, offset in (await self._offsets_at(timestamp)).items():
            await self._seek(target, offset)

    @either_way
    async def stop_at(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """`consumer.stop_at({TopicPartition("t", 0): 42})`: read these partitions up to before the offset.

        Iteration ends once every partition that is read has reached its end.  Not for members of a group.
        """
        self._check_alone("reads without an end")
        await self._look(*self.topics)
        self._end_at(ends)

    @either_way
    async def position(self, topic: str, partition: int) -> Offset:
        """`consumer.position("topic", 0)` -> the offset of the next record handed out."""
        await self._look(topic)
        return self._positions[TopicPartition(topic, partition)]

    # -- reading ---------------------------------------------------------------------------------

    async def _fill(self, seconds: float) -> None:
        """Wait for records, for so many seconds at most."""
        wanted = self._to_fetch()
        if not wanted:
            await self._cluster.pause(seconds)
            return
        for target, error in self._took(await self._fetch(wanted, seconds)):
            self._check_gone(error)
            await self._seek(target, self.start)

    async def _gather(self, seconds: float) -> None:
        """Look, and wait until something is ready, for so many seconds at most."""
        deadline = self._cluster.now() + seconds
        await self._look()
        while not self._ready and (left := deadline - self._cluster.now()) >= 0:
            await self._fill(min(left, TURN_S))
            await self._look()

    def _hand_out_up_to(self, most: int) -> list[Message]:
        return [self._hand_out() for _ in range(min(most, len(self._ready)))]

    # -- the assignment --------------------------------------------------------------------------

    def _nothing_due(self, asked: tuple[str, ...] = ()) -> bool:
        """Tell if `_look` has nothing to do; for a member this is a poll, as far as its group is concerned."""
        self._check_open()
        if self._rebalancing:  # a listener asks
            return True
        member = self._member
        if member is None:
            growth = self._growth
            return growth is None or (
                not asked and (bool(self._ends) or not growth.due(self._cluster.now(), ()))
            )
        member.polled()
        return not member.must_join and not (self._auto_commit and self._cluster.now() >= self._commit_due)

    async def _look(self, *asked: str) -> None:
        """Follow the group, or the growth of the topics, where needed; commit when it is time.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION if one of the topics `asked` about is not there.
        """
        if self._nothing_due(asked):
            return
        member = self._member
        if member is None:
            await self._look_for_growth(*asked)
        elif member.must_join:
            self._rebalancing = True
            try:
                await member.rebalance(Reader(self._release, self._acquire))
            finally:
                self._rebalancing = False
        else:
            await self._commit_quietly()

    async def _look_for_growth(self, *asked: str) -> None:
        """Read all partitions of the topics, also those that come later."""
        growth = self._growth
        if growth is None:
            return
        now = self._cluster.now
        if not self._ends and growth.due(now(), asked):
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
        self._begin(points | await self._offsets_of(missing, where))
        self._commit_due = self._cluster.now() + COMMIT_INTERVAL

    async def _offsets_of(
        self, targets: list[TopicPartition], when: int | str
    ) -> dict[TopicPartition, Offset]:
        """The offset of each partition at a time, asked of the leaders; -1 where no record is that young."""
        if not targets:
            return {}
        question = dict.fromkeys(targets, special_time(when))
        [found] = await list_offsets_at(self._cluster, [question], isolation=self.isolation)
        return {target: found[target].offset for target in targets}

    # -- committing and ending -------------------------------------------------------------------

    @either_way
    async def commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        """`consumer.commit()`: everything handed out so far counts as done for the group.

        Raises KafkaError (ILLEGAL_GENERATION and the like when the partitions are another member's now).
        """
        await self._commit(offsets)

    async def _commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        if self._member is None:
            raise BarnabasError(
                "only a member of a group can commit", next_step="give the consumer a `group`"
            )
        chosen = self._to_commit(offsets)
        await self._member.commit(chosen)
        self._committed.update(chosen)
        self._commit_due = self._cluster.now() + COMMIT_INTERVAL

    @either_way
    async def committed(self) -> dict[TopicPartition, Offset]:
        """`consumer.committed()` -> what the group has committed of the assigned partitions."""
        if self._member is None:
            return {}
        await self._look()
        return await self._member.committed(self._fetched_to)

    async def _commit_quietly(self) -> None:
        """Commit without raising: what cannot be committed now is read again by the next consumer."""
        self._commit_due = self._cluster.now() + COMMIT_INTERVAL
        with contextlib.suppress(BarnabasError):
            await self._commit()

    @either_way
    async def close(self, *, commit: bool = True) -> None:
        """`consumer.close()`: commit what was handed out, leave the group, close connections."""
        if self._closed:
            return
        if forked_since(self._made):
            self._closed = True  # the membership and the connections are the parent's
            return
        self._rebalancing = True  # it leaves
        await self._drop_fetches()
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
