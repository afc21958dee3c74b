"""Cutting a log at its end: back to an offset (a follower whose leader went another way), or altogether.

The recovery point that the directory remembers is lowered first, so that a crash in the middle finds the
rest checked again; segments go from the newest to the oldest, so that what a crash leaves is a prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import StorageError
from barnabas.log.recovery import replay_producers
from barnabas.model import Now, Offset

if TYPE_CHECKING:
    from barnabas.log.log import Log

__all__ = ["truncate_fully_and_start_at", "truncate_to"]


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
    try:
        log.lower_recovery_point(offset)
        while log.bases[-1] >= offset:
            log.doom(log.segments.pop(), now)
            log.bases.pop()
        end = log.segments[-1].truncate(offset)
        log.cut(end)
        log.activate()
        log.epochs.truncate_from_end(end)
        for _ in replay_producers(log):
            pass
        log.high_watermark = log.high_watermark  # markers below it are decided
    except StorageError as error:
        log.fail(error)
        raise
    return True


def truncate_fully_and_start_at(log: Log, offset: Offset, now: Now) -> None:
    """See `Log.truncate_fully_and_start_at`."""
    log.write()
    if log.failed is not None:
        raise log.failed
    try:
        log.lower_recovery_point(min(offset, log.log_start_offset))
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
        log.fail(error)
        raise
