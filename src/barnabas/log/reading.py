"""The result of a read of a log: a slice of one segment's file, from the batch that holds an offset on.

If a batch must be there and is missing, or is not what its header says, the reader gets an error (`damage`).
The recipient checks what is inside a slice: a consumer checks the CRC, a follower everything.  Only if a log is
read again from the same offset, as a reader does that found something wrong, the batch there is checked here
too: at the second read of a sealed segment, at the ninth of the newest one, where groups read side by side.  What
a follower asks for once more is checked as a whole (`check`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError
from barnabas.log.segments.damage import Damage, DamagedError, examine
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.log.segments.scan import FileSlice, batches_of, misfit
from barnabas.log.segments.segment import Segment
from barnabas.model import NO_EPOCH, Offset
from barnabas.wire.records import BatchHeader

if TYPE_CHECKING:
    from barnabas.log.state import LogState

__all__ = ["check", "damage_of", "damaged_at", "just_written", "read", "readable_headers"]

_SMALL_BYTES = 64 * 1024
"""Up to so many bytes are cheaper copied than read back."""
_STUCK = 8
"""Reads at one offset of the newest segment, behind the first: by readers that found something wrong, as more
groups than that hardly ever read one record after the other."""
_PLENTY = 1 << 31
"""More bytes than a reader can wait for."""


def read(log: LogState, offset: Offset, max_bytes: int, end: Offset, *, at_least_one: bool) -> FileSlice:
    """See `Log.read`."""
    if log.failed is not None:
        raise log.failed
    if end > log.written_end_offset:
        end = log.written_end_offset
    if offset < log.log_start_offset or offset > log.log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition} has {log.log_start_offset} to {log.log_end_offset}, not {offset}",
        )
    active = log.active
    if offset >= end:
        return FileSlice(active.file, 0, 0)
    wanted = end
    if log.damage:
        end = _up_to_damage(log, offset, end)
    try:
        if offset >= active.base:
            positions = log.positions
            segment, start = active, positions.get(offset, -1)
            if start < 0:
                start = active.locate(offset)
            stop = positions.get(end, -1)
            if stop < 0:
                stop = _locate_end(active, end, start)
            if log.read_again(offset) == _STUCK:
                _check_batch(active, start)
        else:
            segment, start, stop = _find(log, offset, end)
    except CorruptRecordError as error:
        raise damaged_at(log, offset, error.message) from error
    counts_for = size = stop - start
    if size > max_bytes:
        size = segment.boundary(start, start + max_bytes) - start if max_bytes > 0 else 0
        if size <= 0:
            size = segment.batch_size(start) if at_least_one else 0
        counts_for = max(size, max_bytes)  # as Apache Kafka counts, which cuts within a batch
    if counts_for and (end < wanted or (segment is not active and end > segment.limit)):
        counts_for = _PLENTY  # nothing more comes here, however long it waits
    return FileSlice(segment.file, start, size, counts_for)


def just_written(log: LogState, offset: Offset, max_bytes: int, end: Offset) -> bytes | None:
    """What `Log.read` would read, if that is what the last write wrote and kept."""
    if (fresh := log.active.fresh) is None:
        return None
    begin, stop, written = fresh
    if begin != offset or not stop == end == log.written_end_offset:
        return None
    if not isinstance(written, bytes):
        if sum(map(len, written)) > _SMALL_BYTES:
            return None
        written = b"".join(written)  # once for all who read it
        log.active.fresh = begin, stop, written
    return written if len(written) <= max_bytes else None


def _up_to_damage(log: LogState, offset: Offset, end: Offset) -> Offset:
    """Up to where it can be read from `offset` on.  Raises DamagedError if not at all."""
    for damage in log.damage:
        if damage.start <= offset < damage.end:
            raise DamagedError(log.topic_partition, damage)
        if offset < damage.start < end:
            return damage.start
    return end


def _locate_end(segment: Segment, end: Offset, start: int) -> int:
    """Where a slice from the boundary `start` ends: before the batch of offset `end`, or what is no batch."""
    try:
        return segment.locate(end, start)
    except CorruptRecordError:
        stop = segment.whole_until(start)
        if stop == start:
            raise
        return stop


def _find(log: LogState, offset: Offset, end: Offset) -> tuple[Segment, int, int]:
    """The segment of `offset` that is not the active one, and the range to read in it."""
    place = bisect_right(log.bases, offset) - 1
    while True:
        segment = log.segments[place]
        OPEN_FILES.used(segment)
        start = segment.locate(offset)
        if log.read_again(offset):
            _check_batch(segment, start)
        last = place + 1 == len(log.segments)
        ends_here = last or end < log.bases[place + 1]
        stop = _locate_end(segment, end, start) if ends_here else segment.end_position
        if stop > start or ends_here:
            return segment, start, stop
        if segment.base >= log.recovery.gaps_below:
            raise CorruptRecordError(f"{segment.path('.log')} ends before offset {offset}")
        place += 1  # compaction left nothing at or after `offset` in this one


def _check_batch(segment: Segment, position: int) -> None:
    """Raise CorruptRecordError if the batch at `position` is not what its header and its CRC say."""
    for _ in batches_of(segment.file, position, position + segment.batch_size(position)):
        break


def check(log: LogState, offset: Offset, found: FileSlice) -> None:
    """Raise DamagedError if a batch of what was read at `offset` is not what its header and its CRC say, or lies
    where others belong: no CRC covers its offset and its epoch."""
    next_ = offset
    try:
        for _, header, _ in batches_of(found.file, found.position, found.position + found.size):
            base, last = header.base_offset, header.last_offset
            least = base if base <= next_ == offset <= last else next_  # (a read may begin within a batch)
            known = log.epoch_at(base) if base >= log.log_start_offset else NO_EPOCH
            if wrong := misfit(header, least, log.written_end_offset, NO_EPOCH, known):
                raise CorruptRecordError(f"{found.file.path}: {wrong}")
            next_ = last + 1
    except CorruptRecordError as error:
        raise damaged_at(log, next_, error.message) from error


def _examine(log: LogState, segment: Segment, end: Offset, near: Offset = 0) -> list[Damage]:
    gaps, compacted = segment.base < log.recovery.gaps_below, log.may_have_gaps(segment.base)
    return examine(segment, end, gaps=gaps, compacted=compacted, near=near)


def damaged_at(log: LogState, offset: Offset, reason: str) -> DamagedError:
    """A reader met no batch at `offset`, or one that is not what it says: find out how much is gone.

    Raises StorageError.
    """
    place = max(0, bisect_right(log.bases, offset) - 1)
    segment = log.segments[place]
    end = min(segment.limit, log.written_end_offset)
    found = _examine(log, segment, end, offset)
    at = next((one for one in found if one.start <= offset < one.end), None)
    if at is None:  # its headers are right, what is in it is not
        last = next((h.last_offset for _, h in segment.headers(segment.locate(offset))), offset)
        at = Damage(offset, max(offset, min(last, end - 1)) + 1, reason)
        found.append(at)
    return DamagedError(log.topic_partition, at, log.note_damage(found))


def damage_of(log: LogState, path: str) -> DamagedError | None:
    """Find out what is gone of a segment whose file somebody cut or deleted; None: it is whole, or not part of the
    log any more.

    Raises StorageError.
    """
    segment = next((one for one in log.segments if one.path(".log") == path), None)
    if segment is None:
        return None
    end = min(segment.limit, log.written_end_offset)
    if log.disk.exists(path):
        found = _overwritten(log, end) if segment is log.active else []
        found = found or _examine(log, segment, end)
    else:
        found = [Damage(segment.base, end, f"{path} is missing")] if end > segment.base else []
    return DamagedError(log.topic_partition, found[0], log.note_damage(found)) if found else None


def _overwritten(log: LogState, end: Offset) -> list[Damage]:
    """Return what is gone of the newest segment if its file was cut, and whole batches were written there since.

    They lie where the file ended, not where they were expected, and nobody misses the offsets between.
    """
    segment = log.active
    next_, gaps = segment.base, []
    if log.is_short:
        with suppress(CorruptRecordError):
            for _, header in segment.headers():
                if header.base_offset > next_:
                    gaps.append((next_, header.base_offset))
                next_ = header.last_offset + 1
    if next_ != end or not gaps:
        return []
    segment.place_again()
    log.positions.clear()
    return [
        Damage(*gap, f"{segment.path('.log')} was cut, and written again behind {gap[0]}") for gap in gaps
    ]


def readable_headers(
    log: LogState, segment: Segment, offset: Offset = 0
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of its batches that can be read, from the one that holds `offset` on at the latest.

    What cannot be read is noted, and does not end it: a log with damage opens and serves the rest.
    """
    position, next_ = 0, segment.base
    with suppress(CorruptRecordError):
        position = segment.locate(offset)
    while True:
        try:
            for at, header in segment.headers(position):
                position, next_ = at, header.last_offset + 1
                yield at, header
            return
        except CorruptRecordError as error:
            damaged_at(log, next_, error.message)
        resumed = segment.sound_row(position, next_)
        if resumed is None:
            return
        position = resumed[0]
