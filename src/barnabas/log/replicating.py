"""What a follower checks before it appends batches that a leader sent."""

from __future__ import annotations

from crc32c import crc32c

from barnabas.errors import CorruptRecordError
from barnabas.model import Epoch, Offset, TopicPartition
from barnabas.ports import Buffer
from barnabas.wire.records import CRC_COUNTS_FROM, HEADER_SIZE, BatchHeader, read_batch_header

__all__ = ["take_batches"]


def take_batches(
    records: Buffer,
    *,
    log_end: Offset,
    latest_epoch: Epoch,
    leader_epoch: Epoch | None,
    topic_partition: TopicPartition,
) -> list[tuple[memoryview, BatchHeader]]:
    """Split `records` into checked batches: CRC, offsets from `log_end` on and growing, epochs never falling.

    A partial last batch is left out, and so is everything from the first batch of an epoch above
    `leader_epoch` on.  Raises CorruptRecordError when anything before that is wrong.
    """
    view = memoryview(records)
    taken: list[tuple[memoryview, BatchHeader]] = []
    position, end = 0, len(view)  # (the loop of `batches`, without what a generator costs each batch)
    while position + HEADER_SIZE <= end:
        header = read_batch_header(view, position)
        begin, position = position, position + header.size
        if position > end:
            break
        base, epoch = header.base_offset, header.leader_epoch
        last = base + header.last_offset_delta
        if leader_epoch is not None and epoch > leader_epoch:
            break
        if base < log_end or last < base:
            raise _wrong(topic_partition, header, f"comes where {log_end} is next")
        if epoch < latest_epoch:
            raise _wrong(topic_partition, header, f"has epoch {epoch} after epoch {latest_epoch}")
        batch = view[begin:position]
        if crc32c(batch[CRC_COUNTS_FROM:]) != header.crc:
            raise _wrong(topic_partition, header, "has a wrong CRC")
        taken.append((batch, header))
        log_end, latest_epoch = last + 1, epoch
    return taken


def _wrong(topic_partition: TopicPartition, header: BatchHeader, what: str) -> CorruptRecordError:
    return CorruptRecordError(f"{topic_partition}: the batch at offset {header.base_offset} {what}")
