"""One pass over the records of a batch, without objects for records: does everything match the header?

`check_records` checks bytes that are all there; `record_stream` those that come piece by piece.

An error is a CorruptRecordError; a length that no varint can have is an EndlessError.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.errors import CorruptRecordError, WireError
from barnabas.wire import walk
from barnabas.wire.codec.primitives import read_uvarint, read_uvarlong

__all__ = [
    "CUT",
    "SLOW_PER_STEP",
    "EndlessError",
    "Found",
    "RecordFacts",
    "after_headers",
    "check_records",
    "length",
    "miscounted",
    "scan",
    "walk_records",
]

_new = tuple.__new__
SLOW_PER_STEP = 50
"""Records, or headers of one, that are looked at one by one."""
_NEVER = -1 << 70
CUT = 1 << 62
"""The length of a record whose length is not there whole."""
_ONE_BYTE, _TWO_BYTES = 64, 8192
"""The first offset deltas that need a byte more than those before."""
_ONE = bytes(range(0, 2 * _ONE_BYTE, 2))
_LOW = bytes(2 * n & 127 | 128 for n in range(_TWO_BYTES))
_HIGH = bytes(2 * n >> 7 for n in range(_TWO_BYTES))
"""The bytes of offset deltas, in their order."""
_FEWEST = 4
"""Fewer records alike are read one by one."""
_PATIENCE = 16
"""Records that are read one by one after some that turned out not to be alike."""


class RecordFacts(NamedTuple):
    """What the records of a batch were found to be.  Timestamps are deltas to the header's base timestamp."""

    newest: int
    oldest: int
    keyless: int
    """How many have no key."""
    contiguous: bool
    """Whether the offset deltas are 0, 1, 2 and so on."""


class EndlessError(WireError):
    """The length in front of a record takes more bytes than a varint may."""


class Found:
    """What the records were found to be, so far: `add` more of them, then `facts`."""

    __slots__ = ("contiguous", "keyless", "newest", "oldest")

    def __init__(self) -> None:
        self.newest, self.oldest, self.keyless, self.contiguous = _NEVER, -_NEVER, 0, True

    def add(self, newest: int, oldest: int, keyless: int, contiguous: bool) -> None:
        """These are true of further records."""
        self.newest = max(self.newest, newest)
        self.oldest = min(self.oldest, oldest)
        self.keyless += keyless
        self.contiguous &= contiguous

    def facts(self) -> RecordFacts:
        """What is true of all of them."""
        return RecordFacts(self.newest, self.oldest, self.keyless, self.contiguous)


def check_records(data: bytes, count: int) -> RecordFacts:
    """All records of a batch that should be `count` (at least one).  Raises CorruptRecordError."""
    try:
        p, index, newest, oldest, keyless, contiguous = scan(data, 0, 0, count)
    except (IndexError, WireError) as error:
        raise CorruptRecordError(f"a broken record: {error}") from error
    if index != count or p != len(data):
        raise miscounted(index, count, len(data) - p)
    return _new(RecordFacts, (newest, oldest, keyless, contiguous))


def walk_records(data: bytes, count: int) -> RecordFacts | None:
    """`check_records` where it is quick, whoever made the records; None: it is not, or something is wrong."""
    if not walk.COMPILED:
        return None
    p, index, newest, oldest, keyless, contiguous = walk.good_records(data, 0, 0, count)
    if index != count or p != len(data):
        return None
    return _new(RecordFacts, (newest, oldest, keyless, contiguous))


def miscounted(index: int, count: int, left: int) -> CorruptRecordError:
    """The error of a batch with `index` records where its header says `count`, and `left` bytes after them."""
    if index < count:
        return CorruptRecordError(f"the header says {count} records, record {index} is not whole")
    return CorruptRecordError(f"{left} bytes follow the last record")


def scan(data: bytes, p: int, index: int, stop: int) -> tuple[int, int, int, int, int, bool]:
    """The whole records from position `p` on, up to the one with the index `stop`.

    Returns position and index after the last whole one, the newest and the oldest timestamp delta, how many
    records have no key, and whether the offset deltas are the indexes.
    """
    if not walk.COMPILED:
        return _scan_each(data, p, index, stop)
    found = Found()
    while index < stop and p < len(data):
        begun = index
        p, index, newest, oldest, keyless, contiguous = walk.good_records(data, p, index, stop)
        if index > begun:
            found.add(newest, oldest, keyless, contiguous)
        if index == stop or p == len(data):
            break
        some = min(stop, index + SLOW_PER_STEP)
        p, after, newest, oldest, keyless, contiguous = _scan_each(data, p, index, some)
        if after == index:
            break
        index = after
        found.add(newest, oldest, keyless, contiguous)
    return p, index, found.newest, found.oldest, found.keyless, found.contiguous


def _scan_each(data: bytes, p: int, index: int, stop: int) -> tuple[int, int, int, int, int, bool]:
    """The same without the compiled walk, and for what that leaves: records that are unusual or wrong.

    One loop and nothing but integers in it: it runs for every record that is produced where nothing is compiled.
    """
    whole = len(data)
    stamps: set[int] = set()
    keyless, contiguous = 0, True
    want, last, try_at = 2 * index, -1, index + 1
    while index < stop and p < whole:
        start, counted = p, keyless
        n = data[p]
        p += 1
        if n > 127:
            n, p = (n & 127 | data[p] << 7, p + 1) if p < whole and data[p] < 128 else length(data, start)
        end = p + (n >> 1)
        if n & 1:
            raise CorruptRecordError(f"a record of {(n >> 1) ^ -1} bytes")
        if end > whole:
            p = start
            break
        t = data[p + 1]  # (before it: attributes, which mean nothing yet)
        p += 2
        if t > 127:
            t, p = (t & 127 | data[p] << 7, p + 1) if data[p] < 128 else read_uvarlong(data, p - 1)
        if t != last:
            last = t
            stamps.add(t)
        o = data[p]
        p += 1
        if o > 127:
            o, p = (o & 127 | data[p] << 7, p + 1) if data[p] < 128 else read_uvarint(data, p - 1)
        if o != want:
            contiguous = False
        want += 2
        n = data[p]
        p += 1
        if n > 127:
            n, p = read_uvarint(data, p - 1)
        if n & 1:
            keyless += 1
        else:
            p += n >> 1
        n = data[p]
        p += 1
        if n > 127:
            n, p = (n & 127 | data[p] << 7, p + 1) if data[p] < 128 else read_uvarint(data, p - 1)
        if not n & 1:
            p += n >> 1
        p = after_headers(data, p, end) if data[p] else p + 1
        if p != end:
            raise CorruptRecordError("a record ends elsewhere than its length says")
        index += 1
        if index == try_at and index < stop and p < whole and data[p] == data[start]:
            alike, some = _alike(data, start, index, min(stop - index, (whole - p) // (p - start)))
            p += alike * (p - start)
            index += alike
            want += 2 * alike
            keyless += alike if keyless > counted else 0
            stamps |= some
            try_at = index + (1 if alike else _PATIENCE)
        elif index >= try_at:
            try_at = index + 1
    if len(stamps) == 1:
        only = (last >> 1) ^ -(last & 1)
        return p, index, only, only, keyless, contiguous
    deltas = [(t >> 1) ^ -(t & 1) for t in stamps]
    return p, index, max(deltas, default=_NEVER), min(deltas, default=-_NEVER), keyless, contiguous


def _alike(data: bytes, start: int, index: int, most: int) -> tuple[int, set[int]]:
    """How many of the records after the one at `start`, the first with this `index`, have its layout: every
    length in them is the same, byte for byte.  And their timestamp deltas, zigzag.

    Producers of rows write hundreds of such records into a batch.  They are looked at across: the bytes at
    one place of each are one slice, so that C compares them.  At most `most` of them lie in `data`.
    """
    same, stamp_at, offset_at, size = _layout(data, start)
    if offset_at - stamp_at > 1 or data[start + size - 1] or same[-1] != start + size - 1:
        return 0, set()
    wide = data[offset_at] > 127
    most = min(most, (_TWO_BYTES if wide else _ONE_BYTE) - index)
    while most >= _FEWEST:
        end = start + size * (most + 1)
        for at in same:
            if data[at + size : end : size].count(data[at]) != most:
                break
        else:
            stamps = data[stamp_at + size : end : size]
            offsets = data[offset_at + size : end : size]
            right = offsets == _LOW[index : index + most] if wide else offsets == _ONE[index : index + most]
            if wide and right:
                right = data[offset_at + 1 + size : end : size] == _HIGH[index : index + most]
            if right and max(stamps) < 128:
                return most, set(stamps)
        most //= 4
    return 0, set()


def _layout(data: bytes, start: int) -> tuple[list[int], int, int, int]:
    """Where in a good record lie the bytes of its lengths, its timestamp and its offset delta, and its size."""
    n, p = read_uvarint(data, start)
    same = list(range(start, p))
    size = p - start + (n >> 1)
    p = stamp_at = p + 1
    while data[p] > 127:
        p += 1
    p = offset_at = p + 1
    while data[p] > 127:
        p += 1
    for _ in ("key", "value"):
        at = p + 1
        n, p = read_uvarint(data, at)
        same += range(at, p)
        p += -1 if n & 1 else (n >> 1) - 1
    same.append(p + 1)  # the number of headers
    return same, stamp_at, offset_at, size


def length(data: bytes, p: int) -> tuple[int, int]:
    """The length in front of a record, zigzag; very much where the bytes end inside it."""
    try:
        return read_uvarint(data, p)
    except WireError as error:
        if len(data) - p < 5 and all(byte > 127 for byte in data[p:]):
            return CUT, p
        raise EndlessError(str(error)) from error


def after_headers(data: bytes, p: int, end: int) -> int:
    """The position after the headers of a record.  A name may be any bytes; a value may be null."""
    n, p = read_uvarint(data, p)
    if n & 1 or n > 2 * (end - p):
        raise CorruptRecordError("a record claims more headers than it can hold")
    for _ in range(n >> 1):
        size, p = read_uvarint(data, p)
        if size & 1:
            raise CorruptRecordError("a header has no name")
        p += size >> 1
        size, p = read_uvarint(data, p)
        if not size & 1:
            p += size >> 1
        if p > end:
            break
    return p
