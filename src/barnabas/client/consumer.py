"""Reading records: `for message in Consumer("127.0.0.1:9092", "topic", start="earliest"): ...`.

Alone, a consumer reads the partitions it is assigned (all of its topics unless told).  With `group` it
shares them with the other members and goes on where the group stopped.  Fetching runs one request ahead;
offsets of a group are committed every few seconds and at the end, after the records were handed out.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import NamedTuple
from uuid import uuid4

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.fetched import Fetched
from barnabas.client.consuming.growth import Growth
from barnabas.client.group_options import GroupOptions, Listener, make_member
from barnabas.client.membership import Membership, Reader
from barnabas.client.metadata import METADATA_AGE
from barnabas.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    checked_start,
    isolation_level,
    list_offsets,
)
from barnabas.client.prefetch import Prefetcher
from barnabas.client.producing.transaction_machine import GroupMember
from barnabas.client.security.options import SecurityOptions
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.forks import check_process, forked_since, forks
from barnabas.client.waits.poll_interval import MAX_POLL_INTERVAL, PollInterval
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition, Uuid

__all__ = ["Consumer", "ConsumerStatistics", "Message"]

COMMIT_INTERVAL = 5.0
_TURN = 0.2  # seconds between looks at the group and the topics while nothing comes


class Message(NamedTuple):
    """One record.  `timestamp` in ms since 1970; `headers` are (name, value) pairs."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class ConsumerStatistics(NamedTuple):
    """Partitions assigned, records handed out, and records fetched but not yet handed out."""

    partitions: int
    messages: int
    buffered: int


class Consumer:
    """`for message in Consumer("127.0.0.1:9092", "topic", start="earliest"): print(message.value)`.

    start: "latest" or "earliest": where to begin without a committed offset, and where to go on when the
    offset is gone ("error": raise OFFSET_OUT_OF_RANGE instead).  group: share the topics with others.
    isolation: "read_committed" hides open and aborted transactions.  auto_commit: with a group, commit by
    itself.  idle: iteration ends after so many seconds without a record (None: never).  One thread.
    security: TLS and login, options by Kafka's names.

    group_protocol: "classic", or "consumer" (KIP-848: the coordinator makes the assignments, and only the
    partitions that move stop).  With "consumer": pattern, topics that match it (RE2, beside those named), and
    assignor, one of the broker's.  instance_id: a static member, which comes back as the same one.
    on_revoked is called before partitions go, on_lost when they are gone already, on_assigned before the first
    record of new ones; each with a list of partitions, in the thread that reads.
    max_poll_interval: seconds for which a member may work between two polls; after them it leaves its group, and
    joins again with the next poll.  rebalance_timeout: seconds for which a rebalance waits for it (None: as long).
    metadata_max_age: seconds after which new partitions of its topics are seen at the latest.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *topics: str,
        group: str | None = None,
        start: str = "latest",
        isolation: str = READ_UNCOMMITTED,
        auto_commit: bool = True,
        idle: float | None = None,
        client_id: str = "barnabas-consumer",
        timeout: float = 30.0,
        session_timeout: float = 45.0,
        rebalance_timeout: float | None = None,
        security: SecurityOptions = None,
        group_protocol: str = "classic",
        pattern: str | None = None,
        assignor: str | None = None,
        instance_id: str | None = None,
        on_assigned: Callable[[list[TopicPartition]], object] | None = None,
        on_revoked: Callable[[list[TopicPartition]], object] | None = None,
        on_lost: Callable[[list[TopicPartition]], object] | None = None,
        max_poll_interval: float = MAX_POLL_INTERVAL,
        metadata_max_age: float = METADATA_AGE,
    ) -> None:
        self.start = checked_start(start)
        self.topics = topics
        self.isolation = isolation
        self.idle = idle
        view = partial(
            Cluster, bootstrap, client_id=client_id, timeout=timeout, metadata_max_age=metadata_max_age
        )
        self._cluster = view(security=security)
        self._prefetcher = Prefetcher(self._cluster, isolation=isolation_level(isolation))
        self._member: Membership | None = None
        self._auto_commit = auto_commit and group is not None
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
            self._member = Membership(
                view(security=self._cluster.security),
                member,
                stable=isolation == READ_COMMITTED,
                interval=PollInterval(max_poll_interval),
            )
        self._listener = Listener(on_assigned, on_revoked, on_lost)
        self._rebalancing = False
        self._positions: dict[TopicPartition, Offset] = {}  # the next offset to hand out
        self._fetched_to: dict[TopicPartition, Offset] = {}  # the next offset to fetch
        self._committed: dict[TopicPartition, Offset] = {}
        self._passed: dict[TopicPartition, tuple[Offset, Offset]] = {}
        """The last record fetched, and the offset after the markers and aborted batches behind it."""
        self._ready: deque[Message] = deque()
        self._ends: dict[TopicPartition, Offset] = {}
        self._growth = Growth(topics, metadata_max_age) if group is None else None
        """The partitions of its topics, where it reads all of them."""
        self._made = forks()
        self._commit_due = monotonic() + COMMIT_INTERVAL
        self._messages = 0
        self._closed = False

    def __repr__(self) -> str:
        who = f" {self._member!r}" if self._member else ""
        return f"<Consumer partitions={len(self._fetched_to)} buffered={len(self._ready)}{who}>"

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=kind is None)

    def statistics(self) -> ConsumerStatistics:
        """`consumer.statistics().messages`: records handed out so far."""
        return ConsumerStatistics(len(self._fetched_to), self._messages, len(self._ready))

    # -- what to read ----------------------------------------------------------------------------

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """`consumer.assign([("topic", 0)])`: read exactly these partitions, without a group."""
        if self._member is not None:
            raise BarnabasError(
                "a member of a group cannot choose its partitions", next_step="leave `group` out"
            )
        self._take(TopicPartition(*p) for p in partitions)

    def assignment(self) -> list[TopicPartition]:
        """`consumer.assignment()` -> the partitions read now."""
        return sorted(self._fetched_to)

    def seek(self, topic: str, partition: int, offset: Offset | str) -> None:
        """`consumer.seek("topic", 0, 42)`: go on from there; also "earliest" or "latest"."""
        self._look(topic)
        target = TopicPartition(topic, partition)
        if target not in self._fetched_to:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{target} is not assigned to this consumer"
            )
        if isinstance(offset, str):
            offset = list_offsets(self._cluster, topic, offset, [partition], isolation=self.isolation)[
                partition
            ].offset
        self._ready = deque(m for m in self._ready if (m.topic, m.partition) != target)
        self._positions[target] = self._fetched_to[target] = offset
        self._passed.pop(target, None)

    def offsets_at(self, when: int | str) -> dict[TopicPartition, Offset]:
        """`consumer.offsets_at("latest")` -> the offset in each assigned partition.

        `when` is "earliest", "latest" or a time in ms since 1970; a time after the last record is the end.
        """
        self._look(*self.topics)
        found: dict[TopicPartition, Offset] = {}
        for topic in {t.topic for t in self._fetched_to}:
            mine = [t.partition for t in self._fetched_to if t.topic == topic]
            at = list_offsets(self._cluster, topic, when, mine, isolation=self.isolation)
            if late := [p for p in mine if at[p].offset < 0]:
                at |= list_offsets(self._cluster, topic, "latest", late, isolation=self.isolation)
            found.update({TopicPartition(topic, p): at[p].offset for p in mine})
        return found

    def seek_to_time(self, timestamp: int) -> None:
        """`consumer.seek_to_time(1700000000000)`: to the first records not older (ms since 1970)."""
        for target, offset in self.offsets_at(timestamp).items():
            self.seek(*target, offset)

    def stop_at(self, ends: Mapping[TopicPartition, Offset]) -> None:
        """`consumer.stop_at({TopicPartition("t", 0): 42})`: read these partitions up to before the offset.

        Iteration ends once every partition that is read has reached its end.  Not for members of a group.
        """
        if self._member is not None:
            raise BarnabasError("a member of a group reads without an end", next_step="leave `group` out")
        self._look(*self.topics)
        self._ends = dict(ends)
        self._ready = deque(m for m in self._ready if m.offset < self._end_of(m.topic, m.partition))
        self._leave_finished()

    def _end_of(self, topic: str, partition: int) -> float:
        return self._ends.get(TopicPartition(topic, partition), float("inf"))

    def _leave_finished(self) -> None:
        """Fetch no more of the partitions whose end is reached."""
        for target, end in self._ends.items():
            if self._fetched_to.get(target, -1) >= end:
                del self._fetched_to[target]

    def position(self, topic: str, partition: int) -> Offset:
        """`consumer.position("topic", 0)` -> the offset of the next record handed out."""
        self._look(topic)
        return self._positions[TopicPartition(topic, partition)]

    # -- reading ---------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0, max_messages: int = 500) -> list[Message]:
        """`consumer.poll(1.0)` -> up to `max_messages` records; [] when none came in `timeout` seconds."""
        deadline = monotonic() + timeout
        self._look()
        while not self._ready:
            left = deadline - monotonic()
            if left < 0:
                return []
            self._fill(min(left, _TURN))
            self._look()
        count = min(max_messages, len(self._ready))
        return [self._hand_out() for _ in range(count)]

    def __iter__(self) -> Iterator[Message]:
        """All records from here on; ends only when `idle` or `stop_at` says so."""
        last = monotonic()
        while True:
            self._look()
            if not self._ready:
                if self._ends and not self._fetched_to:
                    return
                self._fill(_TURN if self.idle is None else min(_TURN, self.idle))
                if self._prefetcher.outdated(self._fetched_to):
                    last = monotonic()
                if not self._ready and self.idle is not None and monotonic() - last >= self.idle:
                    return
                continue
            while self._ready:
                yield self._hand_out()
                if self._member is not None:
                    self._member.polled()
                    if self._member.must_join:
                        break
            last = monotonic()

    def _hand_out(self) -> Message:
        message = self._ready.popleft()
        target = TopicPartition(message.topic, message.partition)
        self._positions[target] = message.offset + 1
        if self._passed and (passed := self._passed.get(target)) is not None and passed[0] == message.offset:
            self._positions[target] = self._passed.pop(target)[1]
        self._messages += 1
        return message

    def _fill(self, timeout: float) -> None:
        if not self._fetched_to:
            time.sleep(timeout)
            return
        trouble: list[tuple[Fetched, BarnabasError]] = []
        for fetched in self._prefetcher.poll(self._fetched_to, timeout):
            if fetched.error is not None:
                trouble.append((fetched, fetched.error))
                continue
            topic, partition = fetched.target
            end = self._end_of(topic, partition)
            self._fetched_to[fetched.target] = fetched.next_offset
            self._ready.extend(
                Message(topic, partition, offset, timestamp, key, value, tuple(headers))
                for offset, timestamp, key, value, headers in fetched.records
                if offset < end
            )
            self._pass(fetched.target, int(min(fetched.next_offset, end)))
        self._leave_finished()
        for failed, error in trouble:  # once all others got what came for them
            self._recover(failed, error)

    def _pass(self, target: TopicPartition, reached: Offset) -> None:
        """Markers and aborted batches are passed with the record before them, or at once where none waits."""
        last = next((m.offset for m in reversed(self._ready) if m[:2] == target), None)
        if last is None:
            self._positions[target] = reached
        elif reached > last + 1:
            self._passed[target] = last, reached

    def _recover(self, fetched: Fetched, error: BarnabasError) -> None:
        """The offset is gone (or not there yet): go on where `start` says."""
        gone = isinstance(error, KafkaError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE
        if not gone or self.start == "error":
            raise error
        self.seek(*fetched.target, self.start)

    # -- the assignment --------------------------------------------------------------------------

    def _look(self, *asked: str) -> None:
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
            self._look_for_growth(*asked)
            return
        member.polled()
        if member.must_join:
            self._rebalancing = True
            try:
                member.rebalance(Reader(self._release, self._acquire))
            finally:
                self._rebalancing = False
        elif self._auto_commit and monotonic() >= self._commit_due:
            self._commit_quietly()

    def _look_for_growth(self, *asked: str) -> None:
        """Read all partitions of the topics, also those that come later."""
        growth = self._growth
        if growth is None:
            return
        if not self._ends and growth.due(monotonic(), asked):
            try:
                there = self._cluster.find(self.topics)
                self._read(growth.new(there), EARLIEST if growth.begun else self.start)
                growth.looked(there, monotonic())
            except BarnabasError:  # the next look may succeed
                growth.later(monotonic())
                if not growth.begun:
                    raise
        growth.check(asked)

    def _take(self, partitions: Iterable[TopicPartition]) -> None:
        self._forget(None)
        self._prefetcher.forget()
        self._ends = {}
        self._growth = None
        self._read(list(partitions))

    def _release(self, partitions: Collection[TopicPartition] | None, *, lost: bool) -> None:
        """These partitions (None: all) are another member's from now on, or already."""
        mine = sorted(self._positions if partitions is None else partitions)
        if not mine:
            return
        if self._auto_commit and not lost:
            self._commit_quietly()
        tell = self._listener.on_lost if lost else self._listener.on_revoked
        if tell is not None:
            tell(mine)
        self._forget(mine)

    def _acquire(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, too, from where the group has committed."""
        self._read(list(partitions))
        if self._listener.on_assigned is not None:
            self._listener.on_assigned(sorted(partitions))

    def _forget(self, partitions: Collection[TopicPartition] | None) -> None:
        gone = set(self._positions if partitions is None else partitions)
        for target in gone:
            for known in (self._positions, self._fetched_to, self._committed):
                known.pop(target, None)
            self._passed.pop(target, None)
        self._ready = deque(m for m in self._ready if TopicPartition(m.topic, m.partition) not in gone)

    def _read(self, partitions: list[TopicPartition], where: str = "") -> None:
        points = self._starting_points(partitions, where or self.start)
        self._positions.update(points)
        self._fetched_to.update(points)
        if self._member is not None:
            self._committed.update(points)

    def _starting_points(self, targets: list[TopicPartition], start: str) -> dict[TopicPartition, Offset]:
        points = self._member.committed(targets) if self._member is not None and targets else {}
        for topic in {t.topic for t in targets}:
            missing = [t.partition for t in targets if t.topic == topic and t not in points]
            if missing:
                where = EARLIEST if start == EARLIEST else LATEST
                found = list_offsets(self._cluster, topic, where, missing, isolation=self.isolation)
                points.update({TopicPartition(topic, p): found[p].offset for p in missing})
        return points

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

    # -- committing ------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, Offset] | None = None) -> None:
        """`consumer.commit()`: everything handed out so far counts as done for the group.

        Raises KafkaError (ILLEGAL_GENERATION and the like when the partitions are another member's now).
        """
        if self._member is None:
            raise BarnabasError(
                "only a member of a group can commit", next_step="give the consumer a `group`"
            )
        chosen = dict(self._positions if offsets is None else offsets)
        changed = {t: o for t, o in chosen.items() if self._committed.get(t) != o or offsets is not None}
        self._member.commit(changed)
        self._committed.update(changed)
        self._commit_due = monotonic() + COMMIT_INTERVAL

    def committed(self) -> dict[TopicPartition, Offset]:
        """`consumer.committed()` -> what the group has committed of the assigned partitions."""
        if self._member is None:
            return {}
        self._look()
        return self._member.committed(self._fetched_to)

    def _commit_quietly(self) -> None:
        """Commit without raising: what cannot be committed now is read again by the next consumer."""
        self._commit_due = monotonic() + COMMIT_INTERVAL
        with contextlib.suppress(BarnabasError):
            self.commit()

    def close(self, *, commit: bool = True) -> None:
        """`consumer.close()`: commit what was handed out, leave the group, close connections."""
        if self._closed:
            return
        if forked_since(self._made):
            self._closed = True  # the membership and the connections are the parent's
            return
        if self._member is not None:
            self._rebalancing = True  # it leaves
            self._auto_commit = self._auto_commit and commit
            self._release(None, lost=self._member.member.lost)
            self._member.leave()
            self._member.cluster.close()
        self._closed = True
        self._prefetcher.forget()
        self._cluster.close()
