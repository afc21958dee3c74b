"""State of both consumers: the partitions, what was fetched of them, is handed out, is committed.

No thread, no socket, no clock.  `Consumer` and `aio.Consumer` are each a `Reading` with what waits: fetches, the
group, the metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import uuid4

from barnabas.client.consuming.fetched import Fetched, FetchLimits
from barnabas.client.consuming.growth import Growth
from barnabas.client.group_options import GroupOptions, Listener, make_member
from barnabas.client.metadata import METADATA_AGE
from barnabas.client.offsets import READ_UNCOMMITTED, checked_start, isolation_level
from barnabas.client.producing.transaction_machine import GroupMember
from barnabas.client.security.options import Security, SecurityOptions
from barnabas.client.waits.forks import check_process, forks
from barnabas.client.waits.poll_interval import MAX_POLL_INTERVAL, PollInterval
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition, Uuid

__all__ = ["ConsumerStatistics", "Message", "Reading"]

COMMIT_INTERVAL = 5.0
"""Seconds between two commits that a consumer makes by itself."""


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


class Reading:
    """Part of a consumer that does not wait; its options are those of `Consumer`."""

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
        fetch_wait: float = 0.5,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 16 << 20,
        partition_max_bytes: int = 4 << 20,
        rack: str = "",
    ) -> None:
        self.start = checked_start(start)
        self.topics = topics
        self.isolation = isolation
        self.idle = idle
        self._level = isolation_level(isolation)
        times = (session_timeout, rebalance_timeout, max_poll_interval)
        options = GroupOptions(group_protocol, pattern, assignor, instance_id, *times)
        self._machine = make_member(group, topics, options, Uuid(uuid4().bytes))
        self._listener = Listener(on_assigned, on_revoked, on_lost)
        self._rebalancing = False
        self._auto_commit = auto_commit and group is not None
        self._commit_due = 0.0
        self._growth = Growth(topics, metadata_max_age) if group is None else None
        """The partitions of its topics, where it reads all of them."""
        self._positions: dict[TopicPartition, Offset] = {}  # the next offset to hand out
        self._fetched_to: dict[TopicPartition, Offset] = {}  # the next offset to fetch
        self._committed: dict[TopicPartition, Offset] = {}
        self._passed: dict[TopicPartition, tuple[Offset, Offset]] = {}
        """The last record fetched, and the offset after the markers and aborted batches behind it."""
        self._ready: deque[Message] = deque()
        self._paused: dict[TopicPartition, list[Message]] = {}
        """Records that were fetched of a partition before it was paused."""
        self._ends: dict[TopicPartition, Offset] = {}
        self._messages = 0
        self._made = forks()
        self._closed = False
        limits = FetchLimits(fetch_wait, fetch_max_bytes, partition_max_bytes, fetch_min_bytes, rack).checked(
            timeout
        )
        view = {"client_id": client_id, "timeout": timeout, "metadata_max_age": metadata_max_age}
        view["security"] = Security.parse(security)
        self._connect(bootstrap, view, limits, PollInterval(max_poll_interval))

    def _connect(
        self,
        bootstrap: str | Iterable[str],
        view: Mapping[str, Any],
        limits: FetchLimits,
        interval: PollInterval,
    ) -> None:
        """Make what waits: a cluster of these options, its fetches, a second cluster for the member."""
        raise NotImplementedError

    def __repr__(self) -> str:
        who = f" {self._machine!r}" if self._machine else ""
        reads = f"partitions={len(self._fetched_to)} buffered={len(self._ready)}"
        return f"<{type(self).__name__} {reads}{who}>"

    # -- what users ask --------------------------------------------------------------------------

    def statistics(self) -> ConsumerStatistics:
        """`consumer.statistics().messages`: records handed out so far."""
        held = sum(map(len, self._paused.values()))
        return ConsumerStatistics(len(self._fetched_to), self._messages, len(self._ready) + held)

    def positions(self) -> dict[TopicPartition, Offset]:
        """`consumer.positions()` -> the next offset to hand out of each assigned partition."""
        return dict(self._positions)

    def member(self) -> GroupMember:
        """`consumer.member()` -> its group and who it is there, for `TransactionalProducer.send_offsets`.

        Raises BarnabasError for a consumer without a group.
        """
        if self._machine is None:
            raise BarnabasError("this consumer has no group", next_step="make it with group=...")
        return GroupMember(self._machine.group, self._machine.member_id, self._machine.generation)

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """`consumer.pause([("topic", 0)])`: hand out and fetch nothing of these until `resume`.

        A member goes on polling meanwhile, and so stays in its group.  A partition that goes to another member and
        comes back is not paused.  Raises KafkaError for one that is not assigned.
        """
        targets = {TopicPartition(*partition) for partition in partitions}
        for target in targets:
            self._check_assigned(target)
        new: dict[TopicPartition, list[Message]] = {
            target: [] for target in targets if target not in self._paused
        }
        self._paused |= new
        ready, self._ready = self._ready, deque()
        for message in ready:
            new.get(TopicPartition(message.topic, message.partition), self._ready).append(message)

    def resume(self, partitions: Iterable[tuple[str, int]] | None = None) -> None:
        """`consumer.resume([("topic", 0)])`: go on with these where they were (None: with all)."""
        chosen = list(self._paused) if partitions is None else [TopicPartition(*p) for p in partitions]
        for target in chosen:
            self._ready.extend(self._paused.pop(target, ()))

    def paused(self) -> list[TopicPartition]:
        """`consumer.paused()` -> the partitions that wait for `resume`."""
        return sorted(self._paused)

    # -- the partitions --------------------------------------------------------------------------

    def _check_open(self) -> None:
        check_process(self._made)
        if self._closed:
            raise BarnabasError("the consumer is closed", next_step="make another Consumer")

    def _check_alone(self, otherwise: str) -> None:
        if self._machine is not None:
            raise BarnabasError(f"a member of a group {otherwise}", next_step="leave `group` out")

    def _check_assigned(self, target: TopicPartition) -> None:
        if target not in self._fetched_to:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{target} is not assigned to this consumer"
            )

    def _begin(self, points: Mapping[TopicPartition, Offset]) -> None:
        """Read these partitions, too, from these offsets on."""
        self._positions.update(points)
        self._fetched_to.update(points)
        if self._machine is not None:
            self._committed.update(points)

    def _forget(self, gone: Collection[TopicPartition]) -> None:
        for target in gone:
            for known in (self._positions, self._fetched_to, self._committed, self._passed, self._paused):
                known.pop(target, None)
        self._ready = deque(m for m in self._ready if TopicPartition(m.topic, m.partition) not in gone)

    def _go_to(self, target: TopicPartition, offset: Offset) -> None:
        self._ready = deque(m for m in self._ready if (m.topic, m.partition) != target)
        if target in self._paused:
            self._paused[target] = []
        self._positions[target] = self._fetched_to[target] = offset
        self._passed.pop(target, None)

    def _end_at(self, ends: Mapping[TopicPartition, Offset]) -> None:
        self._ends = dict(ends)
        self._ready = deque(m for m in self._ready if m.offset < self._end_of(m.topic, m.partition))
        for target, held in self._paused.items():
            self._paused[target] = [m for m in held if m.offset < self._end_of(*target)]
        self._leave_finished()

    def _end_of(self, topic: str, partition: int) -> float:
        return self._ends.get(TopicPartition(topic, partition), float("inf"))

    def _leave_finished(self) -> None:
        """Fetch no more of the partitions whose end is reached."""
        for target, end in self._ends.items():
            if self._fetched_to.get(target, -1) >= end:
                del self._fetched_to[target]

    @property
    def _finished(self) -> bool:
        """Tell if every partition has reached its end, and all is handed out."""
        return bool(self._ends) and not (self._fetched_to or self._ready or any(self._paused.values()))

    # -- records ---------------------------------------------------------------------------------

    def _to_fetch(self) -> dict[TopicPartition, Offset]:
        """The offsets to fetch from; not of paused partitions."""
        if not self._paused:
            return self._fetched_to
        return {target: at for target, at in self._fetched_to.items() if target not in self._paused}

    def _took(self, answers: Iterable[Fetched]) -> list[tuple[TopicPartition, BarnabasError]]:
        """Take what was fetched.  Returns what failed, once all others got what came for them."""
        failed: list[tuple[TopicPartition, BarnabasError]] = []
        for fetched in answers:
            if fetched.error is not None:
                failed.append((fetched.target, fetched.error))
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
        return failed

    def _pass(self, target: TopicPartition, reached: Offset) -> None:
        """Markers and aborted batches are passed with the record before them, or at once where none waits."""
        last = next((m.offset for m in reversed(self._ready) if m[:2] == target), None)
        if last is None:
            self._positions[target] = reached
        elif reached > last + 1:
            self._passed[target] = last, reached

    def _check_gone(self, error: BarnabasError) -> None:
        """Raise the error of a fetch unless its offset is gone, or not there yet, and `start` says where to go."""
        gone = isinstance(error, KafkaError) and error.code == ErrorCode.OFFSET_OUT_OF_RANGE
        if not gone or self.start == "error":
            raise error

    def _hand_out(self) -> Message:
        message = self._ready.popleft()
        target = TopicPartition(message.topic, message.partition)
        self._positions[target] = message.offset + 1
        if self._passed and (passed := self._passed.get(target)) is not None and passed[0] == message.offset:
            self._positions[target] = self._passed.pop(target)[1]
        self._messages += 1
        return message

    # -- commits ---------------------------------------------------------------------------------

    def _to_commit(self, offsets: Mapping[TopicPartition, Offset] | None) -> dict[TopicPartition, Offset]:
        """Return what a commit of these (None: of all that was handed out) has to tell the group."""
        if offsets is not None:
            return dict(offsets)
        return {t: at for t, at in self._positions.items() if self._committed.get(t) != at}
