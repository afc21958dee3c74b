"""Which old segments are deleted: below the log start, beyond the size, older than the time.

Each rule walks from the oldest segment and stops at the first that does not match, so a timestamp in the
future keeps everything after it.  A segment that is lost goes with the one behind it.  Only segments that end at
or below the high watermark are deleted, and never an empty last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.log.state import LogState
from barnabas.model import Now, Offset

__all__ = ["EVERYTHING", "Retention", "expired"]

Rule = Callable[[int, Offset], bool]
"""Rule: is the segment at a place, which ends at an offset, to go?"""


class Retention(NamedTuple):
    """The decisions that a node may make about a log, besides deleting what lies below the log start."""

    by_size: bool
    by_age: bool


EVERYTHING = Retention(by_size=True, by_age=True)


def expired(log: LogState, now: Now, may: Retention) -> Iterator[int]:
    """Yield how many of the oldest segments are to be deleted, rule by rule.

    They are deleted before the next rule is asked.
    """
    yield _count(log, lambda place, end: end <= log.log_start_offset)
    config = log.config
    if "delete" not in config.cleanup_policy:
        return
    if may.by_size and config.retention_bytes >= 0:
        excess = log.size - config.retention_bytes

        def too_much(place: int, end: Offset) -> bool:
            nonlocal excess
            excess -= log.segments[place].end_position
            return excess >= 0

        yield _count(log, too_much)
    if may.by_age and config.retention_ms >= 0:
        yield _count(log, lambda place, end: _age(log, place, now) > config.retention_ms)


def _age(log: LogState, place: int, now: Now) -> int:
    """Milliseconds since the largest timestamp; since the last write where records have no timestamps.

    A segment that is known to be lost is as old as the next one.  Raises StorageError.
    """
    while place + 1 < len(log.segments) and _is_lost(log, place):
        place += 1
    segment = log.segments[place]
    newest = segment.largest_timestamp
    if newest < 0:
        newest = segment.disk.modified_ms(segment.path(".log"))
    return now.wall_ms - newest


def _is_lost(log: LogState, place: int) -> bool:
    """Return whether nothing of a segment can be read."""
    segment = log.segments[place]
    return any(damage.start <= segment.base and segment.limit <= damage.end for damage in log.damage)


def _count(log: LogState, rule: Rule) -> int:
    for place, segment in enumerate(log.segments):
        last = place + 1 == len(log.segments)
        end = log.log_end_offset if last else log.bases[place + 1]
        if end > log.high_watermark or (last and not segment.end_position) or not rule(place, end):
            return place
    return len(log.segments)
