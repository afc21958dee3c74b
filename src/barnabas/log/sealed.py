"""Checks at a start, for segments that are not read again: is each there, and does it end where it must?

Each segment ends where the next one begins.  Our compaction preserves that (`compaction`); Apache Kafka's
does not.  So the end of every segment but the last is checked: the last entry of its offset index and the few
batches after it.  Only a segment that does not end well is read by its headers.  The inside of a segment is
not checked here: damage there is found when it is read, compacted, or by `barnabas log verify`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError
from barnabas.log.segments.damage import Damage, examine
from barnabas.log.segments.index import OFFSET_ROW, TIME_ROW
from barnabas.log.segments.names import file_name
from barnabas.log.segments.scan import headers_of
from barnabas.model import NO_TIMESTAMP, Offset
from barnabas.wire.records import BatchHeader

if TYPE_CHECKING:
    from barnabas.log.segments.segment import Segment
    from barnabas.log.state import LogState

__all__ = ["check_first", "check_sealed", "last_headers", "remake_tables", "write_tables_again"]

_ROW = Struct(">ii").unpack
_TIME = Struct(">qi").unpack


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
        newest = _ends_well(segment, limit, gaps)
        if newest is None:
            damage = examine(segment, limit, gaps=gaps, compacted=True)  # (settings come later)
            found += damage
            if not damage:  # its offset index is another segment's: a reader would look within a batch
                remake_tables(log, segment, [".index"])
        elif not _times_well(segment, newest):  # a search by time would pass over records
            remake_tables(log, segment, [".timeindex"])
        if lost is not None:
            found.append(Damage(lost, end, f"{log.path}/{file_name(lost, '.log')} is missing"))
    return found


def remake_tables(log: LogState, segment: Segment, wrong: list[str]) -> None:
    """Make the indexes of a segment anew, and note those that were gone or wrong.  Raises StorageError."""
    segment.rebuild_tables()
    log.unsynced.paths += segment.write_tables()
    segment.close()
    log.remade.extend(map(segment.path, wrong))


def write_tables_again(log: LogState, segment: Segment, wrong: list[str]) -> None:
    """While the log is in use, make index files again that say something else than the batches.

    Raises StorageError.
    """
    if segment is not log.active:
        remake_tables(log, segment, wrong)
        return
    segment.index.written = (
        segment.time_index.written
    ) = -1  # (its rows in memory are made of what was appended)
    log.unsynced.paths += segment.write_tables()
    log.remade.extend(map(segment.path, wrong))


def last_headers(segment: Segment) -> Iterator[BatchHeader]:
    """Yield the headers of the few batches at its end, from where the last row of the offset index points.

    Raises CorruptRecordError, StorageError.
    """
    position = _last_position(segment)
    try:
        if position >= 0:
            yield from (header for _, header in headers_of(segment.file, position, segment.end_position))
    finally:
        segment.close()


def _last_position(segment: Segment) -> int:
    """Return where the last row of the offset index points, 0 without rows, -1 if that is not in the file."""
    row = _last_row(segment, ".index")
    position = _ROW(row)[1] if len(row) == OFFSET_ROW else 0
    return position if 0 <= position < segment.end_position else -1


def _ends_well(segment: Segment, end: Offset, gaps: bool) -> int | None:
    """Return the largest timestamp of the batches at its end; None if the last one is not whole, or does not end
    where the next segment begins (`gaps`: or before that)."""
    size, newest = segment.end_position, NO_TIMESTAMP
    if not size:
        rows = _last_row(segment, ".index") or _last_row(segment, ".timeindex")
        return newest if gaps and not rows else None
    position, next_ = _last_position(segment), segment.base
    if position < 0:
        return None
    try:
        for at, header in headers_of(segment.file, position, size):
            if not next_ <= header.base_offset <= header.last_offset < end:
                return None
            next_, position = header.last_offset + 1, at + header.size
            newest = max(newest, header.max_timestamp)
    except CorruptRecordError:
        return None
    finally:
        segment.close()
    return newest if position == size and (next_ == end or gaps) else None


def _times_well(segment: Segment, newest: int) -> bool:
    """Return whether the last row of the time index can be right: it says the largest timestamp of the segment, at
    whose end `newest` is the largest.  A segment without time index has none that is wrong."""
    if not segment.disk.exists(segment.path(".timeindex")):
        return True
    row = _last_row(segment, ".timeindex", TIME_ROW)
    time, relative = _TIME(row) if len(row) == TIME_ROW else (NO_TIMESTAMP, 0)
    if time <= newest:
        return bool(time == newest)
    try:  # timestamps do not grow here, or it is the index of another segment
        first = islice(segment.headers(segment.locate(segment.base + relative)), 1)
        return any(header.max_timestamp == time for _, header in first)
    except CorruptRecordError:
        return True
    finally:
        segment.release()
        segment.close()


def _last_row(segment: Segment, suffix: str, length: int = OFFSET_ROW) -> bytes:
    """Return the last bytes of a table, as many as a row has; none where there are none."""
    disk, path = segment.disk, segment.path(suffix)
    if not disk.exists(path):
        return b""
    file = disk.open(path, read_only=True)
    try:
        return file.read_at(max(0, file.size() - length), length)
    finally:
        file.close()
