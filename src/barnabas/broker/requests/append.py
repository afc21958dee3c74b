"""Append one batch to a partition that this node leads: the last checks of a produce request, and the log."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.broker.replicas.batch_checks import RefusedError
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.validation import (
    LeftToAThread,
    Rules,
    check_at_once,
    check_content,
    plain_header,
    restamp,
)
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.producers.state import Duplicate, VerificationGuard
from barnabas.model import Now, Offset
from barnabas.ports import Buffer
from barnabas.wire.records import read_batch_header

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.wire.records import BatchHeader
    from barnabas.wire.walk import Plain

__all__ = [
    "NotAppendedError",
    "PlainBatches",
    "admit",
    "append_checked",
    "append_control",
    "append_own",
    "append_plain",
    "append_read",
    "may_hold",
]


_producer = Struct(">qhi").unpack_from
_READ_BYTES, _READ_RECORDS = 1 << 19, 1 << 19
"""More than one read may bring."""
_PRODUCER_AT = 43
"""Where a batch has the id and the epoch of its producer, and its sequence."""


class NotAppendedError(KafkaError):
    """The log refused a batch that had passed every check.

    Its bytes may be patched already (append time, base offset, epoch): they are not to be checked again.
    """


def may_hold(partition: Partition, found: Plain, wall_ms: int) -> bool:
    """Whether the topic of a partition takes batches like these: of their times and sizes, keyed or not."""
    _, _, plain_size, compact, before_max_ms, after_max_ms, _, _ = partition.settings
    return (
        found.newest - wall_ms <= after_max_ms
        and wall_ms - found.oldest <= before_max_ms
        and found.largest <= plain_size
        and not (compact and found.keyless)
    )


class PlainBatches(Acknowledgement):
    """Plain batches that arrive in one read for one partition, acknowledged together, up to `end`.

    No write is between them.  `records` and `size` (bytes) are of those that were appended, which `count` adds to
    the traffic when all are.
    """

    __slots__ = ("_begin", "epoch", "log", "partition", "records", "size", "until")

    def __init__(self, partition: Partition, everywhere: bool) -> None:
        self.end = -1
        self.everywhere = everywhere
        self.partition = partition
        self.log = partition.log
        self.epoch = partition.leader_epoch
        self.records = self.size = 0
        self.until = -1
        self._begin = (0, 0)

    def takes(self, found: Plain, most: int) -> bool:
        """Whether the partition takes `most` of these batches as they are, as far as their producers go.

        If so, it also takes all that a read may bring, if none of it is of a later time than `until`.
        """
        partition, log = self.partition, self.log
        if (
            not partition.is_leader
            or partition.offline
            or partition.no_room
            or (self.everywhere and not partition.leading.enough_in_sync)
        ):
            return False
        newest = found.newest
        self._begin = log.log_end_offset, log.active.end_position
        if log.has_room(_READ_BYTES, _READ_RECORDS, newest):
            if log.active.end_position:
                self.until = log.active.roll_at
            return True
        fits = log.fits if most == 1 else log.has_room
        return fits(found.size, found.records, newest)

    def expects(self, records: memoryview) -> bool:
        """Whether a batch is the next one of its producer."""
        return self.log.producers.expects(*_producer(records, _PRODUCER_AT))

    def append(self, records: memoryview, count: int, newest: int, producer: int) -> Offset:
        """Append a batch that it takes; returns its first offset."""
        first = self.log.append_fitting(records, count, newest, self.epoch)
        self.end = end = first + count
        self.records += count
        self.size += len(records)
        if producer >= 0:
            self.log.producers.append(read_batch_header(records), first, end - 1)
        return first

    def appended(self) -> None:
        """All that was appended to the log since it was asked whether it `takes` them are these batches."""
        log, (offset, position) = self.log, self._begin
        self.end = end = log.log_end_offset
        self.records, self.size = end - offset, log.active.end_position - position
        self.count()

    def count(self) -> None:
        """Count what was appended in the traffic of the partition."""
        traffic = self.partition.leading.traffic
        traffic.bytes_in += self.size
        traffic.records_in += self.records


def append_plain(
    broker: Broker,
    partition: Partition,
    records: memoryview,
    acks: int,
    most_codec: int,
    now: Now,
    transactional: int = 0,
) -> Offset:
    """Append one plain batch (most are) and return its first offset.

    -1 when the batch needs a closer look: nothing has been done, and the caller uses `append_checked`.
    `most_codec` is the highest codec the request's version may carry, `transactional` the attribute of batches of
    transactions if it may have them; the first one of a transaction is left to the caller.  Raises KafkaError,
    NotAppendedError where bytes may be patched already.
    """
    header = plain_header(records, most_codec, partition, now, transactional)
    if (
        header is None
        or not partition.is_leader
        or partition.offline
        or partition.no_room
        or (acks < 0 and not partition.leading.enough_in_sync)
        or (transactional & header.attributes and not _is_open(partition, header))
        or (header.producer_id >= 0 and _is_known_or_counted(partition, header))
    ):
        return -1
    return _append(broker, partition, records, header, now)


def _is_known_or_counted(partition: Partition, header: BatchHeader) -> bool:
    """Whether it is there already, or counts as sent behind a refused one: the closer look counts it, once."""
    producers = partition.log.producers
    return producers.counts(header.producer_id) or producers.check(header) is not None


def _is_open(partition: Partition, header: BatchHeader) -> bool:
    return partition.log.producers.ongoing(header.producer_id, header.producer_epoch)


def append_checked(
    broker: Broker,
    partition: Partition,
    records: Buffer,
    header: BatchHeader,
    acks: int,
    now: Now,
    *,
    later: bool = False,
    guard: VerificationGuard | None = None,
) -> tuple[Offset, Offset, int]:
    """Rows 10 to 17, then the append: (first offset, end offset, append time or -1) of what is in the log.

    A batch that is there already gives the offsets it got the first time.  `guard` is what the first batch of
    a transaction was verified with.  Raises KafkaError; LeftToAThread when its records are too much for the
    loop, or `later` says that others come first.
    """
    admit(partition, header, acks)
    check_content(records, header, partition.config)
    if later:
        raise LeftToAThread
    batch, header = check_at_once(records, header, Rules.of(partition, now))
    return append_read(broker, partition, batch, header, now, guard)


def append_own(
    broker: Broker,
    partition: Partition,
    batch: bytearray,
    header: BatchHeader,
    now: Now,
    guard: VerificationGuard | None = None,
) -> Offset:
    """Append a batch that this node wrote itself; returns where it ends.  Raises KafkaError.

    One of a transaction has a producer, and is not numbered; `guard` is what it was verified with.
    """
    admit(partition, header, -1)
    check_content(batch, header, partition.config)
    return append_read(broker, partition, batch, header, now, guard, coordinator=True)[1]


def append_control(
    broker: Broker, partition: Partition, batch: bytearray, header: BatchHeader, now: Now
) -> Offset:
    """Append a control batch of one record that a coordinator decided on; returns where it ends.

    A disk that is nearly full takes it: it is small, and readers wait for it.  Raises KafkaError.
    """
    if not partition.is_leader or partition.offline:
        raise KafkaError(partition.unavailable())
    if not partition.leading.enough_in_sync:
        raise _too_few_in_sync(partition)
    if partition.settings.log_append_time:
        header = restamp(batch, header, 1, now.wall_ms)
    return _append(broker, partition, batch, header, now) + 1


def admit(partition: Partition, header: BatchHeader, acks: int) -> None:
    """Rows 10 and 11: leader and in-sync replicas.  Raises KafkaError."""
    if not partition.is_leader or partition.offline:
        raise KafkaError(partition.unavailable())
    if acks < 0 and not partition.leading.enough_in_sync:
        _refused_for_now(partition, header, ErrorCode.NOT_ENOUGH_REPLICAS)
        raise _too_few_in_sync(partition)


def _too_few_in_sync(partition: Partition) -> RefusedError:
    return RefusedError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"{len(partition.leading.isr)} replicas are in sync, "
        f"min.insync.replicas is {partition.config.min_insync_replicas}",
    )


def append_read(
    broker: Broker,
    partition: Partition,
    batch: bytearray | memoryview,
    header: BatchHeader,
    now: Now,
    guard: VerificationGuard | None = None,
    *,
    coordinator: bool = False,
) -> tuple[Offset, Offset, int]:
    """Rows 15 to 17 and the append of a batch whose records are all right.  Raises KafkaError."""
    config = partition.config
    if len(batch) > config.segment_bytes:
        raise RefusedError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {len(batch)} bytes; segment.bytes is {config.segment_bytes}",
        )
    if header.producer_id >= 0:
        known = _known(broker, partition, header, guard, coordinator)
        if known is not None:
            return known.first_offset, known.last_offset + 1, known.timestamp
    if partition.no_room:
        _refused_for_now(partition, header, ErrorCode.KAFKA_STORAGE_ERROR)
        raise RefusedError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            "the disk is (nearly) full: records are accepted again when there is room",
        )
    append_time = -1
    if partition.settings.log_append_time:
        append_time = now.wall_ms
        header = restamp(batch, header, 1, append_time)
    first = _append(broker, partition, batch, header, now)
    return first, first + header.count, append_time


def _known(
    broker: Broker,
    partition: Partition,
    header: BatchHeader,
    guard: VerificationGuard | None,
    coordinator: bool,
) -> Duplicate | None:
    """Where the batch is already, if it is.  Raises KafkaError for one that is refused in any case."""
    try:
        return partition.log.producers.check(
            header, guard=guard, verify=broker.verifications.enabled, coordinator=coordinator
        )
    except KafkaError as error:
        if partition.no_room and error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return None  # what it was sent after found no room, nor will it
        raise


def _refused_for_now(partition: Partition, header: BatchHeader, code: ErrorCode) -> None:
    if header.producer_id >= 0 and header.base_sequence >= 0:
        partition.log.producers.refused(header, code)


def _append(
    broker: Broker, partition: Partition, batch: bytearray | memoryview, header: BatchHeader, now: Now
) -> Offset:
    try:
        return partition.append(batch, header, now)
    except StorageError as error:
        broker.storage_failed(partition, error, now)
        _refused_for_now(partition, header, ErrorCode.KAFKA_STORAGE_ERROR)
        raise NotAppendedError(ErrorCode.KAFKA_STORAGE_ERROR, error.message) from error
