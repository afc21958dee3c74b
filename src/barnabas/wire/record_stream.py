"""One pass over the records of a batch that come piece by piece: does everything match the header?

It is `record_check` for what a codec returns, and holds no more than a piece, whatever length a record claims.
The checks are generators that yield after every bounded bit of work, so that callers can do something else in
between.

An error is a CorruptRecordError; a length that no varint can have is an UnreadableError (Apache Kafka's answers
distinguish the two).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum

from barnabas.errors import CorruptRecordError, UnreadableError, WireError
from barnabas.wire.codec.primitives import read_uvarint, read_varlong
from barnabas.wire.record_check import (
    CUT,
    SLOW_PER_STEP,
    EndlessError,
    Found,
    RecordFacts,
    length,
    miscounted,
    scan,
)

__all__ = ["Lengths", "Stream", "check_stream", "stamps", "start_of_record"]

_RECORDS_PER_STEP = 500
_LONGEST = 2_147_483_639
"""The longest record that there is room for in Java, in bytes."""
_LONGEST_START = 32
"""Bytes of a record before its key: length, attributes, timestamp, offset and the key's length, at most."""


class Lengths(Enum):
    """What the lengths in front of the records are to whoever asks.

    Apache Kafka skips through packed records by what stands in them, as long as they stay packed as they are,
    and looks only that a length is possible; where it packs them anew, or gets them unpacked, it reads as many
    bytes as the length says.
    """

    CHECKED = 1
    CHECKED_UNPACKED = 2
    """The same, but of records that came packed: no length of theirs is unreadable, only wrong."""
    POSSIBLE = 3


def check_stream(
    pieces: Iterator[bytes], count: int, lengths: Lengths = Lengths.CHECKED, longest: int = _LONGEST
) -> Generator[None, None, RecordFacts]:
    """`check_records` over bytes that come in pieces; returns its facts.  Raises CorruptRecordError.

    `longest`: the bytes that a record may say to have where its length is not checked otherwise.
    """
    stream, found, index = Stream(pieces), Found(), 0
    while index < count:
        stop = min(count, index + _RECORDS_PER_STEP)
        try:
            try:
                p, after, new, old, without, ordered = scan(stream.data, stream.p, index, stop)
            except (IndexError, WireError, CorruptRecordError):
                if lengths is not Lengths.POSSIBLE:
                    raise
                yield from _by_content(stream, index, stop, found, longest)
                after = stop
            else:
                stream.p = p
                found.add(new, old, without, ordered)
                if index == after:
                    if stream.left() and not stream.over:
                        if lengths is Lengths.POSSIBLE:
                            yield from _by_content(stream, index, index + 1, found, longest)
                        else:
                            yield from _across(stream, index, found)
                        after += 1
                    elif not stream.more():
                        raise miscounted(index, count, 0)
        except EndlessError as error:
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
        raise miscounted(count, count, left)
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
        return scan(stream.data, stream.p, index, min(count, index + SLOW_PER_STEP))[1]
    except (IndexError, WireError, CorruptRecordError):
        return scan(stream.data, stream.p, index, index + 1)[1]


def start_of_record(stream: Stream, index: int) -> tuple[int, int, int]:
    """Timestamp delta, offset delta (still zigzag), and how many bytes are left of the record after them."""
    stream.want(_LONGEST_START)
    n, p = length(stream.data, stream.p)
    if n == CUT or n & 1:
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


def _across(stream: Stream, index: int, found: Found) -> Generator[None, None, None]:
    """One record that may be larger than a piece.  Nothing of it is kept."""
    delta, offset, rest = start_of_record(stream, index)
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


def _by_content(
    stream: Stream, index: int, stop: int, found: Found, longest: int
) -> Generator[None, None, None]:
    """The records from `index` to `stop`, whatever possible lengths in front of them say."""
    for number in range(index, stop):
        stream.want(_LONGEST_START)
        size, at = read_uvarint(stream.data, stream.p)
        if size & 1 or size >> 1 > longest:
            raise CorruptRecordError(f"record {number} claims an impossible length")
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
            if header % SLOW_PER_STEP == 0:
                yield
        found.add(delta, delta, key & 1, offset == 2 * number)
        if (number - index) % SLOW_PER_STEP == SLOW_PER_STEP - 1:
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
