"""What a follower checks before it appends batches that a leader sent."""

from __future__ import annotations

from barnabas.errors import CorruptRecordError
from barnabas.model import Epoch, Offset, TopicPartition
from barnabas.ports import Buffer
from barnabas.wire.records import BatchHeader, batches, check_crc

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
    for position, header in batches(view):
        epoch = header.leader_epoch
        if leader_epoch is not None and epoch > leader_epoch:
            break
        if header.base_offset < log_end or header.last_offset < header.base_offset:
            raise _wrong(topic_partition, header, f"comes where {log_end} is next")
        if epoch < latest_epoch:
            raise _wrong(topic_partition, header, f"has epoch {epoch} after epoch {latest_epoch}")
        if not check_crc(view, position, header):
            raise _wrong(topic_partition, header, "has a wrong CRC")
        taken.append((view[position : position + header.size], header))
        log_end, latest_epoch = header.last_offset + 1, epoch
    return taken


def _wrong(topic_partition: TopicPartition, header: BatchHeader, what: str) -> CorruptRecordError:
    return CorruptRecordError(f"{topic_partition}: the batch at offset {header.base_offset} {what}")
