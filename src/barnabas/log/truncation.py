"""Truncation: a log loses its end back to an offset (a follower whose leader has another history), or everything.

The recovery point in the directory is lowered first, so that after a crash in the middle the next start
checks the rest again.  Segments go from the newest to the oldest, so that a crash leaves a prefix of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, StorageError
from barnabas.log.recovery import replay_producers
from barnabas.model import Now, Offset
from barnabas.ports import Buffer
from barnabas.wire.records import read_batch_header

if TYPE_CHECKING:
    from barnabas.log.log import Log

__all__ = ["take_back", "truncate_fully_and_start_at", "truncate_to"]

_PRODUCER_ID, _NO_PRODUCER = slice(43, 51), b"\xff" * 8
"""Where a batch names its producer, and what stands there without one."""


def truncate_to(log: Log, offset: Offset, now: Now) -> bool:
    """See `Log.truncate_to`."""
    log.write()
    if log.failed is not None:
        raise log.failed
    if offset >= log.log_end_offset:
        return False
    if offset <= log.bases[0]:
        truncate_fully_and_start_at(log, offset, now)
        return True
    log.lower_recovery_point(offset)
    try:
        while log.bases[-1] >= offset:
            log.doom(log.segments.pop(), now)
            log.bases.pop()
        end = log.segments[-1].truncate(offset)
        log.cut(end)
        log.activate()
        log.epochs.truncate_from_end(end)
        if log.producers.latest_offset >= end:
            for _ in replay_producers(log):
                pass
        else:
            log.snapshots.remove_after(end)
        log.high_watermark = log.high_watermark  # markers below it are decided
    except StorageError as error:
        error.full = False  # half cut: nobody can go on from here
        log.fail(error)
        raise
    return True


def truncate_fully_and_start_at(log: Log, offset: Offset, now: Now) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    log.write()
    if log.failed is not None:
        raise log.failed
    log.lower_recovery_point(min(offset, log.log_start_offset))
    try:
        while log.segments:
            log.doom(log.segments.pop(), now)
            log.bases.pop()
        log.snapshots.remove_after(-1)
        log.producers.replace(())
        log.epochs.clear()
        log.add_segment(offset, now)
        log.log_start_offset = offset
        log.cut(offset)
        log.durable_end_offset = offset
        log.log_start_offset = offset
        log.high_watermark = offset
    except StorageError as error:
        error.full = False
        log.fail(error)
        raise


def take_back(log: Log, pending: list[Buffer]) -> None:
    """The disk had no room for the batches in `pending`: the log ends again where it is written.

    Nobody was told of them.  The epoch in which the log would have gone on stays known; producers are back at
    what they had before, and what they have sent after these batches gets the same answer.  Raises
    StorageError when that cannot be read.
    """
    end = log.written_end_offset
    producers = [read_batch_header(batch) for batch in pending if bytes(batch[_PRODUCER_ID]) != _NO_PRODUCER]
    pending.clear()
    try:
        log.active.truncate(end)
        log.log_end_offset = end
        log.activate()
        log.epochs.truncate_from_end(end + 1)
        if producers:
            for _ in replay_producers(log):
                pass
            for header in producers:
                log.producers.refused(header, ErrorCode.KAFKA_STORAGE_ERROR)
        log.high_watermark = log.high_watermark
    except StorageError as error:
        error.full = False
        log.fail(error)
        raise
