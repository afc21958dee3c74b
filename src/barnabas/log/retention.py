"""Which old segments are deleted: below the log start, beyond the size, older than the time.

Each rule walks from the oldest segment and stops at the first that does not match, so a timestamp in the
future keeps everything after it.  Only segments that end at or below the high watermark are deleted, and
never an empty last one.  If all match, a new segment starts first.  The log start is raised before any file
is renamed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.errors import StorageError
from barnabas.log.segments.segment import Segment, file_name
from barnabas.model import Now, Offset

if TYPE_CHECKING:
    from barnabas.log.log import Log

__all__ = ["retain"]

Rule = Callable[[Segment, Offset], bool]


def retain(log: Log, now: Now) -> list[str]:
    """See `Log.retain`."""
    if log.failed is not None:
        raise log.failed
    deleted = _delete_while(log, lambda segment, end: end <= log.log_start_offset, now)
    config = log.config
    if "delete" not in config.cleanup_policy:
        return deleted
    if config.retention_bytes >= 0:
        excess = log.size - config.retention_bytes

        def too_much(segment: Segment, end: Offset) -> bool:
            nonlocal excess
            excess -= segment.end_position
            return excess >= 0

        deleted += _delete_while(log, too_much, now)
    if config.retention_ms >= 0:
        deleted += _delete_while(log, lambda segment, end: _age(segment, now) > config.retention_ms, now)
    return deleted


def _age(segment: Segment, now: Now) -> int:
    """Milliseconds since the largest timestamp; since the last write where records have no timestamps."""
    newest = segment.largest_timestamp
    if newest < 0:
        newest = segment.disk.modified_ms(segment.path(".log"))
    return now.wall_ms - newest


def _delete_while(log: Log, rule: Rule, now: Now) -> list[str]:
    doomed = 0
    for place, segment in enumerate(log.segments):
        last = place + 1 == len(log.segments)
        end = log.log_end_offset if last else log.bases[place + 1]
        if end > log.high_watermark or (last and not segment.end_position) or not rule(segment, end):
            break
        doomed += 1
    if not doomed:
        return []
    try:
        if doomed == len(log.segments):
            log.roll(now)
        log.increment_log_start(log.bases[doomed])
        going = log.segments[:doomed]
        del log.segments[:doomed], log.bases[:doomed]
        for segment in going:
            log.doom(segment, now)
        log.snapshots.prune(log.bases)
    except StorageError as error:
        log.fail(error)
        raise
    return [file_name(segment.base, ".log") for segment in going]
