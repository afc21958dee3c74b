"""Checks at a start, for segments that are not read again: is each there, and does it end where it must?

Each segment ends where the next one begins.  Our compaction preserves that (`compaction`); Apache Kafka's
does not.  So the end of every segment but the last is checked: the last entry of its offset index and the few
batches after it.  Only a segment that does not end well is read by its headers.  The inside of a segment is
not checked here: damage there is found when it is read, compacted, or by `barnabas log verify`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError
from barnabas.log.segments.damage import Damage, examine
from barnabas.log.segments.index import OFFSET_ROW
from barnabas.log.segments.names import file_name
from barnabas.log.segments.scan import headers_of
from barnabas.model import Offset

if TYPE_CHECKING:
    from barnabas.log.segments.segment import Segment
    from barnabas.log.state import LogState

__all__ = ["check_first", "check_sealed"]

_ROW = Struct(">ii").unpack


def check_first(log: LogState, first: Offset, gone: set[Offset]) -> list[Damage]:
    """Whether the log begins where its directory says (`first`, -1: it does not say).

    `gone`: the segments that were deleted on purpose, which that may not know yet.
    """
    if not 0 <= first < log.bases[0] or any(base < log.bases[0] for base in gone):
        return []
    return [Damage(first, log.bases[0], f"{log.path}: the segments before {log.bases[0]} are missing")]


def check_sealed(log: LogState, count: int, orphans: set[Offset], gone: set[Offset]) -> list[Damage]:
    """What is wrong with the first `count` segments, none of them the last.

    `orphans`: tables that are there without their segment, which are no segments that were deleted (`gone`).
    Raises StorageError.
    """
    found: list[Damage] = []
    missing = orphans - gone
    for segment in log.segments[:count]:
        end = segment.limit
        lost = min((base for base in missing if segment.base < base < end), default=None)
        limit = end if lost is None else lost
        gaps = segment.base < log.recovery.gaps_below
        if not _ends_well(segment, limit, gaps):
            found += examine(segment, limit, gaps=gaps)
        if lost is not None:
            found.append(Damage(lost, end, f"{log.path}/{file_name(lost, '.log')} is missing"))
    return found


def _ends_well(segment: Segment, end: Offset, gaps: bool) -> bool:
    """Whether its last batch is whole, and ends where the next segment begins (`gaps`: or before that)."""
    size = segment.end_position
    row = _last_row(segment, ".index")
    if not size:
        return gaps and not row and not _last_row(segment, ".timeindex")
    position = _ROW(row)[1] if len(row) == OFFSET_ROW else 0
    next_ = segment.base
    if not 0 <= position < size:
        return False
    try:
        for at, header in headers_of(segment.file, position, size):
            if not next_ <= header.base_offset <= header.last_offset < end:
                return False
            next_, position = header.last_offset + 1, at + header.size
    except CorruptRecordError:
        return False
    finally:
        segment.close()
    return position == size and (next_ == end or gaps)


def _last_row(segment: Segment, suffix: str) -> bytes:
    """The last bytes of a table, as many as a row of the offset index has; none where there are none."""
    disk, path = segment.disk, segment.path(suffix)
    if not disk.exists(path):
        return b""
    file = disk.open(path, read_only=True)
    try:
        return file.read_at(max(0, file.size() - OFFSET_ROW), OFFSET_ROW)
    finally:
        file.close()
