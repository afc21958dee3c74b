"""Truncation: a log loses its end back to an offset (a follower whose leader has another history), or everything.

The recovery point in the directory is lowered first, so that after a crash in the middle the next start
checks the rest again.  Segments go from the newest to the oldest, so that a crash leaves a prefix of the log.
"""

from __future__ import annotations

from bisect import bisect_left

from barnabas.errors import ErrorCode, StorageError
from barnabas.log.producers.replay import replay_producers
from barnabas.log.state import LogState
from barnabas.model import Now, Offset
from barnabas.ports import Buffer
from barnabas.wire.records import read_batch_header

__all__ = ["end_after", "roll_back_unwritten", "truncate_fully_and_start_at", "truncate_to"]

_PRODUCER_ID, _NO_PRODUCER = slice(43, 51), b"\xff" * 8
"""Where a batch names its producer, and what stands there without one."""


def end_after(log: LogState, offset: Offset) -> Offset:
    """Where the log ends once it is cut at `offset`: there, or where the batch begins that holds it, or a gap."""
    segment = log.segments[bisect_left(log.bases, offset) - 1]
    return segment.place_of_cut(offset, gaps=log.may_have_gaps(offset - 1))[1]


def truncate_to(log: LogState, offset: Offset, now: Now) -> None:
    """Cut the log so that `offset`, which lies above its first base and below its end, is (at most) its end."""
    try:
        while log.bases[-1] >= offset:
            log.mark_deleted(log.drop_last(), now)
        end = log.segments[-1].truncate(offset, gaps=log.may_have_gaps(offset - 1))
        log.cut(end)
        log.activate()
        log.epochs.truncate_from_end(end)
        if log.producers.latest_offset >= end:
            for _ in replay_producers(log):
                pass
        else:
            log.snapshots.remove_after(end)
        log.adjust_high_watermark()  # markers below it are decided
    except StorageError as error:
        error.full = False  # half cut: nobody can go on from here
        log.fail(error)
        raise


def truncate_fully_and_start_at(log: LogState, offset: Offset, now: Now) -> None:
    """Forget every record; the log starts and ends at `offset`."""
    try:
        while log.segments:
            log.mark_deleted(log.drop_last(), now)
        log.snapshots.remove_after(-1)
        log.producers.replace(())
        log.epochs.clear()
        log.restart_at(offset, now)
    except StorageError as error:
        error.full = False
        log.fail(error)
        raise


def roll_back_unwritten(log: LogState, pending: list[Buffer]) -> None:
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
        log.forget_unwritten()
        log.activate()
        log.epochs.truncate_from_end(end + 1)
        if producers:
            for _ in replay_producers(log):
                pass
            for header in producers:
                if header.base_sequence >= 0:  # not a marker: its coordinator sends it again
                    log.producers.refused(header, ErrorCode.KAFKA_STORAGE_ERROR)
        log.adjust_high_watermark()
    except StorageError as error:
        error.full = False
        log.fail(error)
        raise
