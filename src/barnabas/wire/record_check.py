"""One pass over the records of a batch, without objects for records: does everything match the header?

`check_records` checks bytes that are all there.  `check_stream` checks what a codec returns piece by piece,
and holds no more than a piece, whatever length a record claims.  It is a generator that yields after every
bounded bit of work, so that its caller can do something else in between.

An error is a CorruptRecordError; a length that no varint can have is an UnreadableError (Apache Kafka's answers
distinguish the two).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum
from typing import NamedTuple

from barnabas.errors import CorruptRecordError, UnreadableError, WireError
from barnabas.wire.codec.primitives import read_uvarint, read_uvarlong, read_varlong

__all__ = [
    "Lengths",
    "RecordFacts",
    "Stream",
    "after_headers",
    "check_records",
    "check_stream",
    "stamps",
    "start_of_record",
]

_new = tuple.__new__
_RECORDS_PER_STEP = 500
_SLOW_PER_STEP = 50
"""Records, or headers of one, that are looked at one by one."""
_NO_ROOM = (1 << 30) - 1
_LONGEST_START = 32
"""Bytes of a record before its key: length, attributes, timestamp, offset and the key's length, at most."""
_NEVER = -1 << 70
_CUT = 1 << 62
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


class Lengths(Enum):
    """What the lengths in front of the records are to whoever asks.

    Apache Kafka skips through packed records by what stands in them, as long as they stay packed as they are;
    only where it packs them anew, or gets them unpacked, it reads as many bytes as the length says.
    """

    CHECKED = 1
    CHECKED_UNPACKED = 2
    """The same, but of records that came packed.  It makes room for a record before it reads it: what is
    as large as its whole memory (1 GiB, where nobody sets another) ends in an error of its own."""
    IGNORED = 3


class _EndlessError(WireError):
    """The length in front of a record takes more bytes than a varint may."""


class _Found:
    """What the records were found to be, so far."""

    __slots__ = ("contiguous", "keyless", "newest", "oldest")

    def __init__(self) -> None:
        self.newest, self.oldest, self.keyless, self.contiguous = _NEVER, -_NEVER, 0, True

    def add(self, newest: int, oldest: int, keyless: int, contiguous: bool) -> None:
        self.newest = max(self.newest, newest)
        self.oldest = min(self.oldest, oldest)
        self.keyless += keyless
        self.contiguous &= contiguous

    def facts(self) -> RecordFacts:
        return RecordFacts(self.newest, self.oldest, self.keyless, self.contiguous)


def check_records(data: bytes, count: int) -> RecordFacts:
    """All records of a batch that should be `count` (at least one).  Raises CorruptRecordError."""
    try:
        p, index, newest, oldest, keyless, contiguous = _scan(data, 0, 0, count)
    except (IndexError, WireError) as error:
        raise CorruptRecordError(f"a broken record: {error}") from error
    if index != count or p != len(data):
        raise _miscounted(index, count, len(data) - p)
    return _new(RecordFacts, (newest, oldest, keyless, contiguous))


def _miscounted(index: int, count: int, left: int) -> CorruptRecordError:
    if index < count:
        return CorruptRecordError(f"the header says {count} records, record {index} is not whole")
    return CorruptRecordError(f"{left} bytes follow the last record")


def _scan(data: bytes, p: int, index: int, stop: int) -> tuple[int, int, int, int, int, bool]:
    """The whole records from position `p` on, up to the one with the index `stop`.

    Returns position and index after the last whole one, the newest and the oldest timestamp delta, how many
    records have no key, and whether the offset deltas are the indexes.  One loop and nothing but integers in
    it: it runs for every record that is produced.
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
            n, p = (n & 127 | data[p] << 7, p + 1) if p < whole and data[p] < 128 else _length(data, start)
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


def _length(data: bytes, p: int) -> tuple[int, int]:
    """The length in front of a record, zigzag; very much where the bytes end inside it."""
    try:
        return read_uvarint(data, p)
    except WireError as error:
        if len(data) - p < 5 and all(byte > 127 for byte in data[p:]):
            return _CUT, p
        raise _EndlessError(str(error)) from error


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


# ---- piece by piece --------------------------------------------------------------------------------------


def check_stream(
    pieces: Iterator[bytes], count: int, lengths: Lengths = Lengths.CHECKED
) -> Generator[None, None, RecordFacts]:
    """`check_records` over bytes that come in pieces; returns its facts.  Raises CorruptRecordError."""
    stream, found, index = Stream(pieces), _Found(), 0
    while index < count:
        stop = min(count, index + _RECORDS_PER_STEP)
        try:
            try:
                p, after, new, old, without, ordered = _scan(stream.data, stream.p, index, stop)
            except (IndexError, WireError, CorruptRecordError):
                if lengths is not Lengths.IGNORED:
                    raise
                yield from _by_content(stream, index, stop, found)
                after = stop
            else:
                stream.p = p
                found.add(new, old, without, ordered)
                if index == after:
                    if stream.left() and not stream.over:
                        yield from _across(stream, index, found, lengths)
                        after += 1
                    elif not stream.more():
                        raise _miscounted(index, count, 0)
        except _EndlessError as error:
            kind = UnreadableError if lengths is Lengths.CHECKED else CorruptRecordError
            raise kind(f"the length of a record: {error}") from error
        except (IndexError, WireError) as error:
            raise CorruptRecordError(f"a broken record: {error}") from error
        index = after
        yield
    left = stream.left()
    while stream.more():  # to its end: there the codec says whether the bytes were all right
        left += stream.left()
        stream.p = len(stream.data)
        yield
        if left:
            break
    if left:
        raise _miscounted(count, count, left)
    return found.facts()


def stamps(pieces: Iterator[bytes], count: int) -> Iterator[tuple[int, int]]:
    """(offset delta, timestamp delta) of each of `count` records, with no more unpacked than is asked for.

    Raises CorruptRecordError at the first record that is not as long as it says (unless it is larger than a
    piece: of such a one only the start is looked at).
    """
    stream, checked = Stream(pieces), 0
    try:
        for index in range(count):
            if index == checked:
                checked = max(index + 1, _good_until(stream, index, count))
            later, offset, rest = start_of_record(stream, index)
            yield (offset >> 1) ^ -(offset & 1), later
            for _ in stream.skip(rest if index + 1 < count else 0):
                pass
    except (IndexError, WireError) as error:
        raise CorruptRecordError(f"a broken record: {error}") from error


def _good_until(stream: Stream, index: int, count: int) -> int:
    """The index after some of the next records, which are whole here and right.

    Raises CorruptRecordError, IndexError, WireError when the next one is not right.
    """
    stream.want(_LONGEST_START)
    try:
        return _scan(stream.data, stream.p, index, min(count, index + _SLOW_PER_STEP))[1]
    except (IndexError, WireError, CorruptRecordError):
        return _scan(stream.data, stream.p, index, index + 1)[1]


def start_of_record(stream: Stream, index: int) -> tuple[int, int, int]:
    """Timestamp delta, offset delta (still zigzag), and how many bytes are left of the record after them."""
    stream.want(_LONGEST_START)
    n, p = _length(stream.data, stream.p)
    if n == _CUT or n & 1:
        raise CorruptRecordError(f"record {index} is not whole")
    later, at = read_varlong(stream.data, p + 1)
    offset, at = read_uvarint(stream.data, at)
    rest = (n >> 1) - (at - p)
    if rest < 0:
        raise CorruptRecordError(f"record {index} is longer than it says")
    stream.p = at
    return later, offset, rest


class Stream:
    """Bytes that come in pieces: the present one, and the position in it."""

    __slots__ = ("_pieces", "data", "over", "p")

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.data = b""
        self.p = 0
        self.over = False

    def left(self) -> int:
        return len(self.data) - self.p

    def more(self) -> bool:
        """Put the next piece after what is left.  False: there is none."""
        piece = next(self._pieces, None)
        if piece is None:
            self.over = True
            return False
        self.data = self.data[self.p :] + piece if self.left() else piece
        self.p = 0
        return True

    def want(self, size: int) -> None:
        """Have at least `size` bytes in `data`, if there are so many."""
        while self.left() < size and self.more():
            pass

    def skip(self, size: int) -> Generator[None, None, None]:
        """Go `size` bytes on.  Raises CorruptRecordError when there are fewer."""
        while size > self.left():
            size -= self.left()
            self.p = len(self.data)
            if not self.more():
                raise CorruptRecordError("a record is not whole")
            yield
        self.p += size


def _across(stream: Stream, index: int, found: _Found, lengths: Lengths) -> Generator[None, None, None]:
    """One record that may be larger than a piece.  Nothing of it is kept."""
    if lengths is Lengths.IGNORED:
        yield from _by_content(stream, index, index + 1, found)
        return
    delta, offset, rest = start_of_record(stream, index)
    if rest >= _NO_ROOM - _LONGEST_START and lengths is Lengths.CHECKED_UNPACKED:
        raise UnreadableError(f"record {index} claims {rest} bytes")
    n, used = _counted(stream)
    rest -= used
    has_key = not n & 1
    if has_key:
        rest -= yield from _sized(stream, n, rest)
    n, used = _counted(stream)
    rest -= used
    if not n & 1:
        rest -= yield from _sized(stream, n, rest)
    n, used = _counted(stream)
    rest -= used
    if n & 1 or n > 2 * max(0, rest):
        raise CorruptRecordError("a record claims more headers than it can hold")
    for _ in range(n >> 1):
        for must in (True, False):
            n, used = _counted(stream)
            rest -= used
            if not n & 1:
                rest -= yield from _sized(stream, n, rest)
            elif must:
                raise CorruptRecordError("a header has no name")
    if rest:
        raise CorruptRecordError("a record ends elsewhere than its length says")
    found.add(delta, delta, not has_key, offset == 2 * index)


def _by_content(stream: Stream, index: int, stop: int, found: _Found) -> Generator[None, None, None]:
    """The records from `index` to `stop`, whatever the lengths in front of them say."""
    for number in range(index, stop):
        stream.want(_LONGEST_START)
        _, at = read_uvarint(stream.data, stream.p)
        delta, at = read_varlong(stream.data, at + 1)
        offset, stream.p = read_uvarint(stream.data, at)
        key, _ = _counted(stream)
        yield from _skipped(stream, key)
        yield from _skipped(stream, _counted(stream)[0])
        headers, _ = _counted(stream)
        if headers & 1:
            raise CorruptRecordError("a record has a negative number of headers")
        for header in range(1, (headers >> 1) + 1):
            name, _ = _counted(stream)
            if name & 1:
                raise CorruptRecordError("a header has no name")
            yield from _skipped(stream, name)
            yield from _skipped(stream, _counted(stream)[0])
            if header % _SLOW_PER_STEP == 0:
                yield
        found.add(delta, delta, key & 1, offset == 2 * number)
        if (number - index) % _SLOW_PER_STEP == _SLOW_PER_STEP - 1:
            yield


def _skipped(stream: Stream, n: int) -> Generator[None, None, None]:
    """Skip as many bytes as the zigzag length `n` says; none if it is below zero."""
    if not n & 1:
        yield from stream.skip(n >> 1)


def _counted(stream: Stream) -> tuple[int, int]:
    """An unsigned varint, and how many bytes it took."""
    stream.want(5)
    value, p = read_uvarint(stream.data, stream.p)
    used = p - stream.p
    stream.p = p
    return value, used


def _sized(stream: Stream, n: int, rest: int) -> Generator[None, None, int]:
    """Skip as many bytes as the zigzag length `n` says; returns how many."""
    size = n >> 1
    if size > rest:
        raise CorruptRecordError("a part of a record reaches beyond it")
    yield from stream.skip(size)
    return size
