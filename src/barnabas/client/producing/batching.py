"""What a producer holds back: records gathered into batches, a queue per partition; no thread, no socket.

Of each partition at most one batch is under way; the others wait behind it.  That keeps the order
whatever is repeated, lets the sequence number of a batch be given when it is first encoded, and batches
grow by themselves while the broker is busy.  `producer` drives this machine from its sending thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.errors import BarnabasError
from barnabas.model import NO_OFFSET, Offset, ProducerId, TopicPartition
from barnabas.wire.records import Record, write_batch

__all__ = ["Accumulator", "AccumulatorStatistics", "Batch", "Identity", "Queue"]

RECORD_OVERHEAD = 21
"""Bytes of a record beside key, value and headers, at the most usual (varints at full length)."""
_SEQUENCE_MASK = 0x7FFFFFFF  # sequences go on at 0 after 2147483647


class Identity(NamedTuple):
    """The id and epoch of an idempotent producer for one partition."""

    producer_id: ProducerId
    epoch: int


class Batch:
    """Records of one partition that travel together, and what became of them."""

    __slots__ = (
        "appended_ms",
        "attempts",
        "base_offset",
        "callbacks",
        "created",
        "done",
        "encoded",
        "error",
        "halves",
        "not_before",
        "open_attempts",
        "records",
        "sequence",
        "size",
        "target",
    )

    def __init__(self, target: TopicPartition, now: float) -> None:
        self.target = target
        self.records: list[Record] = []
        self.size = 0
        self.created = now
        self.callbacks: list[tuple[int, Callable[[Any], None]]] = []
        self.attempts = 0
        self.not_before = 0.0
        self.sequence: int | None = None
        self.encoded: bytearray | None = None
        self.base_offset: Offset = NO_OFFSET
        self.appended_ms = -1
        self.error: BarnabasError | None = None
        self.done = False
        self.halves: tuple[Batch, Batch] | None = None
        self.open_attempts = 0
        """Attempts that may have stored it, as far as this producer knows."""

    def part_of(self, index: int) -> tuple[Batch, int]:
        """The batch that has the record of that index now: this one, or a half of it after a split."""
        batch = self
        while batch.halves is not None:
            first, second = batch.halves
            batch, index = (
                (first, index) if index < len(first.records) else (second, index - len(first.records))
            )
        return batch, index

    def __repr__(self) -> str:
        state = "failed" if self.error else "done" if self.done else f"attempts={self.attempts}"
        return f"<Batch {self.target} records={len(self.records)} bytes={self.size} {state}>"


class Queue:
    """The batches of one partition, and its place in the sequence of an idempotent producer."""

    __slots__ = ("batches", "identity", "next_sequence", "spent", "target", "under_way")

    def __init__(self, target: TopicPartition) -> None:
        self.target = target
        self.batches: deque[Batch] = deque()
        self.under_way = False
        self.identity: Identity | None = None
        self.spent: Identity | None = None
        self.next_sequence = 0

    def __repr__(self) -> str:
        return f"<Queue {self.target} batches={len(self.batches)} under_way={self.under_way}>"

    def new_identity(self) -> None:
        """Go on as another producer, from sequence 0, after a failure that may have left a gap."""
        self.identity, self.spent = None, self.identity
        self.next_sequence = 0
        for batch in self.batches:
            batch.sequence = None
            batch.encoded = None


class AccumulatorStatistics(NamedTuple):
    """What is held back: records and bytes not yet acknowledged, and batches among them under way."""

    records: int
    bytes: int
    under_way: int


class Accumulator:
    """`Accumulator(batch_size=65536, linger=0.005).add(target, now, size, timestamp, key, value)`."""

    def __init__(self, *, batch_size: int, linger: float) -> None:
        self.batch_size = batch_size
        self.linger = linger
        self.buffered = 0
        """Bytes of records that are not acknowledged yet."""
        self.records = 0
        self.queues: dict[TopicPartition, Queue] = {}
        self._waiting: dict[TopicPartition, Queue] = {}  # with something to send and nothing under way

    def __repr__(self) -> str:
        return f"<Accumulator records={self.records} bytes={self.buffered} partitions={len(self.queues)}>"

    def statistics(self) -> AccumulatorStatistics:
        """`accumulator.statistics().records`: not yet acknowledged."""
        under_way = sum(queue.under_way for queue in self.queues.values())
        return AccumulatorStatistics(self.records, self.buffered, under_way)

    def add(
        self,
        target: TopicPartition,
        now: float,
        size: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> tuple[Batch, int, bool]:
        """Put a record of about `size` bytes into the newest batch of its partition or begin another.

        Returns the batch, the record's place in it, and whether it began a batch (so that the sender must
        look when to send).
        """
        queue = self.queues.get(target)
        if queue is None:
            queue = self.queues[target] = Queue(target)
        batches = queue.batches
        batch = batches[-1] if batches else None
        begun = batch is None or batch.attempts > 0 or batch.size + size > self.batch_size
        if batch is None or begun:
            batch = Batch(target, now)
            batches.append(batch)
            if not queue.under_way:
                self._waiting[target] = queue
        index = len(batch.records)
        batch.records.append(Record(index, timestamp, key, value, headers))
        batch.size += size
        self.buffered += size
        self.records += 1
        return batch, index, begun or batch.size >= self.batch_size

    def is_full(self, target: TopicPartition, size: int) -> bool:
        """Whether a record of `size` bytes would begin another batch after one that is there."""
        queue = self.queues.get(target)
        return bool(queue and queue.batches) and queue.batches[-1].size + size > self.batch_size  # type: ignore[union-attr]

    def take_ready(self, now: float, *, flushing: bool) -> tuple[list[Batch], float | None]:
        """Batches to send now, under way from here; and when to look again (monotonic s; None: at news).

        A batch is ready when it is full, has lingered, has others after it, or everything is flushed; one
        that failed waits for its pause.
        """
        ready: list[Batch] = []
        look_again: float | None = None
        for target, queue in list(self._waiting.items()):
            batch = queue.batches[0]
            if batch.attempts:
                due = batch.not_before
            elif flushing or len(queue.batches) > 1 or batch.size >= self.batch_size:
                due = now
            else:
                due = batch.created + self.linger
            if due <= now:
                del self._waiting[target]
                queue.under_way = True
                batch.attempts += 1
                batch.open_attempts += 1
                ready.append(batch)
            elif look_again is None or due < look_again:
                look_again = due
        return ready, look_again

    def encode(
        self, batch: Batch, identity: Identity | None, codec: int, *, transactional: bool = False
    ) -> bytearray:
        """The batch's bytes; its sequence is given at the first time and stays the same when repeated."""
        queue = self.queues[batch.target]
        if batch.encoded is None:
            if identity is None:
                batch.encoded = write_batch(batch.records, codec=codec)
            else:
                if batch.sequence is None:
                    batch.sequence = queue.next_sequence
                    queue.next_sequence = (batch.sequence + len(batch.records)) & _SEQUENCE_MASK
                batch.encoded = write_batch(
                    batch.records,
                    codec=codec,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    base_sequence=batch.sequence,
                    transactional=transactional,
                )
        return batch.encoded

    def give_back(self, batch: Batch, not_before: float) -> None:
        """Keep a failed batch first in its queue, to be repeated at that time at the earliest."""
        queue = self.queues[batch.target]
        batch.not_before = not_before
        queue.under_way = False
        self._waiting[batch.target] = queue

    def split(self, batch: Batch) -> None:
        """Replace a batch that is too large for the broker by its two halves."""
        queue = self.queues[batch.target]
        if batch.sequence is not None:
            queue.next_sequence = batch.sequence
        middle = len(batch.records) // 2
        halves: list[Batch] = []
        for records in (batch.records[:middle], batch.records[middle:]):
            half = Batch(batch.target, batch.created)
            half.records = [record._replace(offset=index) for index, record in enumerate(records)]
            half.size = batch.size * len(records) // len(batch.records)
            half.attempts = 1
            half.open_attempts = batch.open_attempts
            halves.append(half)
        halves[1].size = batch.size - halves[0].size
        batch.halves = (halves[0], halves[1])
        for index, callback in batch.callbacks:
            half, at = batch.part_of(index)
            half.callbacks.append((at, callback))
        queue.batches.popleft()
        queue.batches.extendleft(reversed(halves))
        queue.under_way = False
        self._waiting[batch.target] = queue

    def finish(self, batch: Batch) -> None:
        """Remove a batch that is acknowledged or given up: the next one of its partition may go."""
        queue = self.queues[batch.target]
        queue.batches.popleft()
        queue.under_way = False
        self.buffered -= batch.size
        self.records -= len(batch.records)
        batch.done = True
        batch.encoded = None
        if queue.batches:
            self._waiting[batch.target] = queue

    def expire(self, target: TopicPartition, limit: float, error: BarnabasError) -> list[Batch]:
        """Fail the first batches of a partition that were begun before `limit` (monotonic s) and never left.

        Returns them.
        """
        queue = self.queues[target]
        expired: list[Batch] = []
        while queue.batches and queue.batches[0].created < limit and not queue.batches[0].attempts:
            batch = queue.batches[0]
            batch.error = error
            self.finish(batch)
            expired.append(batch)
        if not queue.batches:
            self._waiting.pop(target, None)
        return expired

    def give_up(self, error: BarnabasError, *, under_way: bool = False) -> list[Batch]:
        """Fail every batch that is not under way (`under_way`: those, too) with this error; return them."""
        given_up: list[Batch] = []
        for queue in self.queues.values():
            kept = [queue.batches[0]] if queue.under_way and not under_way else []
            gone = list(queue.batches)[len(kept) :]
            queue.batches = deque(kept)
            for batch in gone:
                self.buffered -= batch.size
                self.records -= len(batch.records)
                batch.error, batch.done, batch.encoded = error, True, None
            given_up += gone
        self._waiting.clear()
        return given_up
