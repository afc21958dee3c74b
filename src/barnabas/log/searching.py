"""From a time to an offset: what ListOffsets by timestamp answers (KIP-33, KIP-734).

The time index leads to a batch; only that batch is looked into, as far as must be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError
from barnabas.log.segments.damage import DamagedError
from barnabas.log.segments.scan import FileSlice
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.transactions import AbortedTransaction
from barnabas.model import Epoch, Offset
from barnabas.wire.compression import pieces
from barnabas.wire.record_stream import stamps
from barnabas.wire.records import HEADER_SIZE, BatchHeader, check_crc

if TYPE_CHECKING:
    from barnabas.log.state import LogState

__all__ = [
    "TimestampOffset",
    "UnreadableRecordsError",
    "aborted_transactions",
    "max_timestamp_offset",
    "offset_for_timestamp",
]


_MOST_UNPACKED_BYTES = 4 << 20
_MOST_RECORDS = 50_000
"""Bytes unpacked, and records, of one batch at most."""


class UnreadableRecordsError(CorruptRecordError):
    """The producer sent the batch with unreadable records: its CRC is right, its records are not."""


class TimestampOffset(NamedTuple):
    """A record's timestamp (ms) and offset, and the leader epoch of its batch."""

    timestamp: int
    offset: Offset
    epoch: Epoch


def offset_for_timestamp(log: LogState, timestamp: int, end: Offset) -> TimestampOffset | None:
    """The first record in [log start, end) whose timestamp is at least `timestamp`.

    Raises CorruptRecordError where that may be one that cannot be read.
    """
    found = _search(log, timestamp, end)
    for damage in log.damage:
        if found is not None and damage.end == found.offset > log.log_start_offset:
            raise DamagedError(log.topic_partition, damage)
    return found


def _search(log: LogState, timestamp: int, end: Offset) -> TimestampOffset | None:
    start = log.log_start_offset
    for place, segment in enumerate(log.segments):
        if place + 1 < len(log.segments) and log.bases[place + 1] <= start:
            continue
        if segment.base >= end:
            break
        if segment.largest_timestamp < timestamp:
            continue
        scan_from = segment.index.floor(segment.time_index.floor(timestamp))
        for position, header in segment.headers(scan_from):
            if header.base_offset >= end:
                return None
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            for offset, found in _stamps(segment, position, header):
                if found >= timestamp and start <= offset:
                    if offset >= end:
                        return None
                    return TimestampOffset(found, offset, header.leader_epoch)
    return None


def max_timestamp_offset(log: LogState, end: Offset) -> TimestampOffset | None:
    """The first record with the largest timestamp among those in [log start, end)."""
    best: tuple[int, Segment, int, BatchHeader] | None = None
    for segment in log.segments:
        if segment.base >= end or (best is not None and segment.largest_timestamp <= best[0]):
            continue
        start = 0
        if segment.end_position and segment.base + _last_row(segment) < end:
            rows = segment.time_index
            if len(rows) and rows.last_timestamp == segment.largest_timestamp:
                start = segment.locate(segment.base + rows.offsets[-1])
                if not all(header.count for _, header in islice(segment.headers(start), 1)):
                    start = 0  # compaction left nothing of that batch
        for position, header in segment.headers(start):
            if header.last_offset >= end:
                break
            if (
                header.count
                and header.last_offset >= log.log_start_offset
                and (best is None or header.max_timestamp > best[0])
            ):
                best = header.max_timestamp, segment, position, header
    if best is None or best[0] < 0:
        return None
    timestamp, segment, position, header = best
    for offset, found in _stamps(segment, position, header):
        if found == timestamp:
            return TimestampOffset(timestamp, offset, header.leader_epoch)
    return TimestampOffset(timestamp, header.last_offset, header.leader_epoch)


def aborted_transactions(
    log: LogState, offset: Offset, end: Offset, read: FileSlice | None = None
) -> list[AbortedTransaction]:
    """Aborted transactions with records in [offset, end), no more than concern the slice `read` of them.

    Where the slice ends is looked up in the sparse index, so some that begin shortly after it may be given.
    """
    found: list[AbortedTransaction] = []
    first = max(0, bisect_right(log.bases, offset) - 1)
    if read is not None:
        for segment in log.segments[first:]:
            if segment.path(".log") == read.file.path:
                after = segment.index.at_or_after(read.position + read.size)
                end = min(end, segment.limit if after is None else segment.base + after)
                break
    for segment in log.segments[first:]:
        if segment.transactions.collect(offset, end, found):
            break
    return found


def _last_row(segment: Segment) -> int:
    return segment.time_index.offsets[-1] if len(segment.time_index) else 0


def _stamps(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[Offset, int]]:
    """Offset and timestamp of the records of a batch, in their order.

    The search runs on the loop.  A batch that would hold it for long is looked into only so far: the first
    record beyond counts as the newest of the batch, so that a reader begins too early rather than too late.
    Raises CorruptRecordError, UnreadableRecordsError.
    """
    batch = segment.file.read_at(position, header.size)
    offset = header.base_offset - 1
    try:
        unpacked = _at_most(pieces(header.codec, memoryview(batch)[HEADER_SIZE:]))
        for index, (delta, later) in enumerate(stamps(unpacked, header.count)):
            offset = header.base_offset + delta
            yield offset, header.max_timestamp if header.timestamp_type else header.base_timestamp + later
            if index == _MOST_RECORDS:
                raise _Enough
    except _Enough:
        yield offset + 1, header.max_timestamp
    except CorruptRecordError as error:
        kind = UnreadableRecordsError if check_crc(batch, 0, header) else CorruptRecordError
        raise kind(f"{segment.path('.log')}: the batch at offset {header.base_offset}: {error}") from error


class _Enough(Exception):  # noqa: N818  # nothing is wrong
    """Looked far enough."""


def _at_most(source: Iterator[bytes]) -> Iterator[bytes]:
    seen = 0
    for piece in source:
        if seen > _MOST_UNPACKED_BYTES:
            raise _Enough
        seen += len(piece)
        yield piece
