"""Records that must be in a log and cannot be read: a segment is missing, truncated or garbled.

Only the disk or a person does that.  A crash harms only what was not synced, and recovery truncates that.  So
nothing is truncated here.  The rest is served, and a read at a lost offset gets an error: never the next
record that happens to be there, never an empty answer for ever.

The damage found is recorded in the log's directory (`barnabas-damage`: a line for each range, "start end
reason"), so that it is known before anybody reads there again.  It is forgotten when the log starts after it,
or is made again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, StorageError
from barnabas.log.segments.scan import headers_of
from barnabas.model import Offset, TopicPartition
from barnabas.ports import Disk
from barnabas.wire.records import check_crc

if TYPE_CHECKING:
    from barnabas.log.segments.segment import Segment

__all__ = ["FILE", "Damage", "DamagedError", "clipped", "examine", "merged", "read_damage", "write_damage"]

FILE = "barnabas-damage"
_NEXT = "see docs/disks.md, 'Records that cannot be read'"


class Damage(NamedTuple):
    """Offsets from `start` up to, but not including, `end` cannot be read (some of them may be there)."""

    start: Offset
    end: Offset
    reason: str

    def __str__(self) -> str:
        return f"{self.start} {self.end} {self.reason}"


class DamagedError(KafkaError, CorruptRecordError):
    """An offset was asked for that cannot be read.  `news`: what was not known before."""

    def __init__(self, tp: TopicPartition, damage: Damage, news: tuple[Damage, ...] = ()) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"offsets {damage.start} to {damage.end - 1} of {tp} cannot be read: {damage.reason}",
            next_step=_NEXT,
        )
        self.damage = damage
        self.news = news


def read_damage(disk: Disk, path: str) -> list[Damage]:
    """Read the file beside the log in the directory `path`; unreadable lines are left out."""
    file = f"{path}/{FILE}"
    found: list[Damage] = []
    if disk.exists(file):
        for line in disk.read(file).decode("utf-8", "replace").splitlines():
            start, _, rest = line.partition(" ")
            end, _, reason = rest.partition(" ")
            if start.isdecimal() and end.isdecimal() and int(start) < int(end):
                found.append(Damage(int(start), int(end), reason))
    return found


def merged(
    known: list[Damage], found: list[Damage], log_start: Offset
) -> tuple[list[Damage], tuple[Damage, ...]]:
    """Merge what is known with what was found, above the log start; returns (all of it, what is new)."""
    present = [one for one in known if one.end > log_start]
    news = [
        one
        for one in found
        if one.end > log_start and not any(k.start <= one.start and one.end <= k.end for k in present)
    ]
    if not news and present == known:
        return known, ()
    kept = [k for k in present if not any(n.start <= k.start and k.end <= n.end for n in news)]
    return sorted(kept + news), tuple(news)


def clipped(known: list[Damage], start: Offset, end: Offset) -> list[Damage]:
    """The parts of it between `start` and `end`."""
    return [
        Damage(max(one.start, start), min(one.end, end), one.reason)
        for one in known
        if one.start < end and one.end > start
    ]


def write_damage(disk: Disk, path: str, damage: list[Damage]) -> None:
    """Write it down in the directory `path`.  Raises StorageError."""
    file = f"{path}/{FILE}"
    try:
        if damage:
            disk.replace(file, "".join(f"{one}\n" for one in damage).encode())
        elif disk.exists(file):
            disk.remove(file)
    except StorageError as error:
        if not error.full:  # else it is found again
            raise


def examine(segment: Segment, end: Offset, *, gaps: bool, compacted: bool, near: Offset = 0) -> list[Damage]:
    """Return the ranges of a segment, which ends at offset `end`, that cannot be read: by its headers.

    `compacted`: its first records may be left out; `gaps`: compaction by others than us may have left out its
    last ones, too.  Behind what is garbled it goes on where a row of the offset index leads to a batch that is
    what the row says.  `near` an offset: only the first range that a reader of it would meet.  Raises
    StorageError.
    """
    found = [] if compacted else _first_lost(segment, end)
    if near and found and near < found[0].end:
        return found
    position, next_ = segment.row_before(near)
    before, enough = next_, near if near else end
    while True:
        position, before, next_, reason = _walk(segment, position, before, next_, end, enough)
        if not reason and near < next_ and near:
            return found
        if not reason and next_ < end and not (gaps and position):
            reason = f"{segment.path('.log')} ends before offset {end}"
        if not reason:
            return found
        start = min(next_, end - 1)
        if before < start and _is_torn(segment, before):
            start = before  # somebody cut the file within it, and what was written since lies in its place
        resumed = segment.sound_row(position)
        if resumed is not None and resumed[1] <= start:
            start = before  # the batch before this one claims offsets that are not its own
        if resumed is None or not start < resumed[1] < end:
            found.append(Damage(start, end, reason))
            return found
        position, next_ = resumed
        before = next_
        found.append(Damage(start, next_, reason))
        if near and next_ > near:
            return found


def _first_lost(segment: Segment, end: Offset) -> list[Damage]:
    """Return what is missing before the first batch of a segment that was never compacted: others lie there."""
    with suppress(CorruptRecordError):
        for _, header in segment.headers():
            if segment.base < header.base_offset < end:
                reason = f"{segment.path('.log')} begins with offset {header.base_offset}"
                return [Damage(segment.base, header.base_offset, reason)]
            break
    return []


def _is_torn(segment: Segment, offset: Offset) -> bool:
    """Return whether the batch of this offset, whose header is right, is not what its CRC says."""
    file = segment.file
    with suppress(CorruptRecordError):  # (it cannot be found where offsets are wrong)
        for at, header in headers_of(file, segment.locate(offset), file.size()):
            return not check_crc(file.read_at(at, header.size), 0, header)
    return False


def _walk(
    segment: Segment, position: int, before: Offset, next_: Offset, end: Offset, enough: Offset
) -> tuple[int, Offset, Offset, str]:
    """Over the headers from `position` on, where offset `next_` is or comes later, to the first that is wrong,
    or to that of offset `enough`.

    Returns (where, the offset before the last good batch, the one after it, what is wrong or "").
    """
    file = segment.file
    size = file.size()
    try:
        for at, header in headers_of(file, position, size):
            if not next_ <= header.base_offset <= header.last_offset < end:
                wrong = f"{file.path}: offset {header.base_offset} at {at} does not follow {next_ - 1}"
                return position, before, next_, wrong
            position, before, next_ = at + header.size, next_, header.last_offset + 1
            if next_ > enough:
                return position, before, next_, ""
    except CorruptRecordError as error:
        return position, before, next_, error.message
    wrong = f"{file.path} ends within a batch at {position}" if position != size else ""
    return position, before, next_, wrong
