"""Append one batch to a partition that this node leads: the last checks of a produce request, and the log."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from barnabas.broker.replicas.batch_checks import RefusedError
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.validation import (
    LeftToAThread,
    Rules,
    check_at_once,
    check_content,
    restamp,
)
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.producers.state import Duplicate, VerificationGuard
from barnabas.model import Now, Offset
from barnabas.ports import Buffer
from barnabas.wire.records import read_batch_header

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.requests.produced import Batches, Destination
    from barnabas.wire.plane.produce_asked import ProduceRows
    from barnabas.wire.records import BatchHeader

__all__ = [
    "NotAppendedError",
    "admit",
    "append_checked",
    "append_control",
    "append_numbered",
    "append_own",
    "append_read",
    "takes",
    "unavailable",
]


_producer = Struct(">qhi").unpack_from
_ROOM_BYTES, _ROOM_RECORDS = 8 << 20, 2 << 20
"""A segment with so much room is not looked at again until that much was appended: no batch has more records."""
_PRODUCER_AT = 43
"""Where a batch has the id and the epoch of its producer, and its sequence."""


class NotAppendedError(KafkaError):
    """The log refused a batch that had passed every check.

    Its bytes may be patched already (append time, base offset, epoch): they are not to be checked again.
    """


def append_numbered(batches: Batches, records: memoryview, count: int, newest: int) -> Offset:
    """Append a plain batch that fits (`takes`), if it is the next one of the producer that numbers it.

    Returns its first offset; -1, and nothing was done, for one that is not.
    """
    log = batches.log
    if not log.producers.expects(*_producer(records, _PRODUCER_AT)):
        return -1
    first = log.append_fitting(records, count, newest, batches.epoch)
    log.producers.append(read_batch_header(records), first, first + count - 1)
    return first


def takes(destination: Destination, everywhere: bool, found: ProduceRows) -> bool:
    """Return whether a partition takes the plain ones of these batches as they are.

    Others check their producers, and what the topic asks of records (`validation.all_within`).
    """
    partition = destination.partition
    if unavailable(partition, everywhere) or partition.no_room:
        return False
    log, size, newest = partition.log, found.size, found.newest
    segment = log.active
    position = segment.end_position
    if (
        segment is destination.segment
        and position + size <= destination.most
        and newest <= destination.until
        and log.failed is None
    ):
        return True
    if position and log.has_room(_ROOM_BYTES, _ROOM_RECORDS, newest):
        destination.segment, destination.most, destination.until = (
            segment,
            position + _ROOM_BYTES,
            segment.roll_at,
        )
        if size <= _ROOM_BYTES:
            return True
    fits = log.fits if len(found.rows) == 1 else log.has_room
    return fits(size, found.records, newest)


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
    if code := unavailable(partition, everywhere=True):
        raise _too_few_in_sync(partition) if code is ErrorCode.NOT_ENOUGH_REPLICAS else KafkaError(code)
    if partition.settings.log_append_time:
        header = restamp(batch, header, 1, now.wall_ms)
    return _append(broker, partition, batch, header, now) + 1


def unavailable(partition: Partition, everywhere: bool) -> ErrorCode:
    """Rows 10 and 11: why nothing is taken now, that is to be in all in-sync replicas or in this one; 0: it is."""
    if not partition.is_leader or partition.offline:
        return partition.unavailable()
    if everywhere and not partition.leading.enough_in_sync:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def admit(partition: Partition, header: BatchHeader, acks: int) -> None:
    """Raise KafkaError where the partition is not available for a batch."""
    if code := unavailable(partition, acks < 0):
        if code is not ErrorCode.NOT_ENOUGH_REPLICAS:
            raise KafkaError(code)
        _refused_for_now(partition, header, code)
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
