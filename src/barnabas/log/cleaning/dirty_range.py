"""What part of a log can be compacted, and whether it is worth it.

Compaction takes nothing of the active segment, nothing at or after the last stable offset (so nothing after
the high watermark, and no transaction that is not decided), and nothing younger than `min.compaction.lag.ms`.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model import Now, Offset

if TYPE_CHECKING:
    from barnabas.log.segments.segment import Segment
    from barnabas.log.state import LogState

__all__ = ["DirtyRange", "find_dirty_range"]


class DirtyRange(NamedTuple):
    """The part of a log that may be compacted.  Offsets, bytes, milliseconds."""

    first_dirty: Offset
    limit: Offset
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """For how long a record waits beyond `max.compaction.lag.ms`; 0: none does."""

    @property
    def ratio(self) -> float:
        """Which part of these bytes was never compacted."""
        whole = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / whole if whole else 0.0

    def due(self, log: LogState) -> bool:
        """Whether it is to be compacted now."""
        if not self.dirty_bytes:
            return False
        return self.overdue_ms > 0 or self.ratio > log.config.compaction.min_cleanable_dirty_ratio


def find_dirty_range(log: LogState, now: Now) -> DirtyRange:
    """Look at one log.  Raises StorageError."""
    first_dirty = log.compacted_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    place = max(0, bisect_right(log.bases, first_dirty) - 1)
    dirty = [(log.segments[n], log.bases[n + 1]) for n in range(place, len(log.segments) - 1)]
    limit = min(log.last_stable_offset, log.bases[-1])
    lag = log.config.compaction.min_lag_ms
    if lag > 0:
        for segment, _ in dirty:
            if segment.largest_timestamp > now.wall_ms - lag:
                limit = min(limit, segment.base)
                break
    whole = [segment for segment, end in dirty if first_dirty < end <= limit]
    return DirtyRange(
        first_dirty,
        limit,
        sum(segment.end_position for segment in log.segments[:place]),
        sum(segment.end_position for segment in whole),
        _overdue(log, whole, now),
    )


def _overdue(log: LogState, dirty: list[Segment], now: Now) -> int:
    longest = log.config.compaction.max_lag_ms
    if longest >= now.wall_ms:
        return 0
    times = []
    for segment in dirty:
        if (oldest := segment.oldest_timestamp()) > 0:
            times.append(oldest)
    return max(0, now.wall_ms - longest - min(times, default=now.wall_ms))
