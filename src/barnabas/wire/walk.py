"""What runs for every record, and every batch of a Produce request, in Python that mypyc compiles where a C
compiler is at hand.

Compiled, a record takes ten nanoseconds instead of a microsecond.  Only good records are walked over: at the
first that is unusual, or wrong, a walk stops in front of it, and the callers' own loops say what it is.  So
nothing depends on whether this file was compiled but time.

Plain loops over machine integers, therefore: what is fast compiled is slower than need be when interpreted, and
callers do not come here then (`COMPILED`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

if TYPE_CHECKING:  # (mypyc knows it; nothing is imported when the file runs)
    from mypy_extensions import i64

    _Facts = tuple[i64, i64, i64, i64]

__all__ = [
    "CLOSER",
    "COMPILED",
    "EMPTY",
    "NUMBERED",
    "PACKED",
    "PART",
    "TOPIC",
    "TRANSACTION",
    "ProduceRows",
    "good_records",
    "starts_of_records",
]

COMPILED = not __file__.endswith(".py")
"""Whether these loops are machine code."""
_BROKEN = -1
_HEADER_SIZE = 61
_UNCOUNTED = 12
"""Bytes of a batch in front of what its length counts."""
_LATEST: Final = 1 << 56
"""A timestamp (ms) that no plain batch reaches: with what records add to it, it stays a machine integer."""
_ID_BYTES: Final = 16
_CRC_FROM: Final = 21
_IN_FRONT: Final = 8
"""Bytes of a request up to its correlation id, and with it."""
_LEAST_REQUEST: Final = 24
_FLEXIBLE: Final = 9
_BY_ID: Final = 13
_ZSTD: Final = 7
"""The first versions of Produce of that kind."""
_LAST_CODEC: Final = 4


def _varint(data: bytes, p: i64, end: i64, most: i64) -> tuple[i64, i64]:
    """An unsigned varint of at most `most` bits at `p`, and what follows it; (-1, p) where there is none."""
    value: i64 = 0
    shift: i64 = 0
    while p < end and shift < most:
        byte: i64 = data[p]
        value |= (byte & 127) << shift
        p += 1
        if byte < 128:
            return value, p
        shift += 7
    return _BROKEN, p


def _skipped(data: bytes, p: i64, end: i64) -> tuple[i64, i64]:
    """What follows the sized bytes at `p`, and 1 where they are null; (-1, 0) where they do not fit."""
    size: i64
    size, p = _varint(data, p, end, 28)
    if size < 0:
        return _BROKEN, 0
    if size & 1:
        return p, 1
    if size >> 1 > end - p:
        return _BROKEN, 0
    return p + (size >> 1), 0


def _after_headers(data: bytes, p: i64, end: i64) -> i64:
    """What follows the headers at `p`; -1 where something about them is wrong."""
    count: i64
    count, p = _varint(data, p, end, 28)
    if count < 0 or count & 1:
        return _BROKEN
    null: i64
    while count > 0:
        p, null = _skipped(data, p, end)
        if p < 0 or null:
            return _BROKEN
        p, null = _skipped(data, p, end)
        if p < 0:
            return _BROKEN
        count -= 2
    return p


def good_records(data: bytes, p: i64, index: i64, stop: i64) -> tuple[i64, i64, i64, i64, i64, bool]:
    """Walk over the good records from position `p` on, up to the one with the index `stop`.

    Returns position and index after the last of them, their newest and oldest timestamp delta (0 without any), how
    many have no key, and whether the offset deltas are the indexes.
    """
    return _records(data, p, len(data), index, stop)


def _records(data: bytes, p: i64, whole: i64, index: i64, stop: i64) -> tuple[i64, i64, i64, i64, i64, bool]:
    """`good_records` in data[:whole]."""
    newest: i64 = 0
    oldest: i64 = 0
    keyless: i64 = 0
    contiguous = True
    first = True
    while index < stop and p < whole:
        size: i64
        at: i64
        size, at = _varint(data, p, whole, 35)
        if size < 0 or size & 1 or size >> 1 > whole - at:
            break
        end: i64 = at + (size >> 1)
        stamp: i64
        offset: i64
        null: i64
        stamp, at = _varint(data, at + 1, end, 56)  # (before it: attributes, which mean nothing yet)
        if stamp < 0:
            break
        offset, at = _varint(data, at, end, 28)
        if offset < 0:
            break
        at, null = _skipped(data, at, end)
        if at < 0:
            break
        without: i64 = null
        at, null = _skipped(data, at, end)
        if at < 0 or at >= end:
            break
        at = at + 1 if data[at] == 0 else _after_headers(data, at, end)
        if at != end:
            break
        delta: i64 = (stamp >> 1) ^ -(stamp & 1)
        if first or delta > newest:
            newest = delta
        if first or delta < oldest:
            oldest = delta
        first = False
        if offset != 2 * index:
            contiguous = False
        keyless += without
        p = at
        index += 1
    return p, index, newest, oldest, keyless, contiguous


def starts_of_records(data: bytes, position: i64, end: i64, count: i64, starts: list[int]) -> bool:
    """Append to `starts` where each of `count` records begins in data[position:end].

    False, and `starts` as it was, when they do not fill it exactly, or `data` is shorter.
    """
    before: i64 = len(starts)
    size: i64
    if end <= len(data):
        for _ in range(count):
            if position >= end:
                break
            starts.append(position)
            size, position = _varint(data, position, end, 35)
            if size < 0:
                break
            position += (size & 0xFFFFFFFF) >> 1
        else:
            if position == end:
                return True
    del starts[before:]
    return False


def _int32(data: bytes, p: i64) -> i64:
    """The four bytes at `p`, which are there, as a signed number."""
    high: i64 = data[p]
    value: i64 = data[p + 1]
    value = high << 24 | value << 16
    byte: i64 = data[p + 2]
    value |= byte << 8
    byte = data[p + 3]
    value |= byte
    return value - 0x100000000 if high >= 128 else value


def _int64(data: bytes, p: i64) -> i64:
    """The eight bytes at `p`, which are there, as a signed number."""
    return _int32(data, p) << 32 | (_int32(data, p + 4) & 0xFFFFFFFF)


def _usual(data: bytes, p: i64, end: i64, most: i64) -> bool:
    """Whether the header of the batch in data[p:end] says what those of most producers say.

    That is: whole, of no transaction, from offset 0 on, at most `most` records, numbered without a gap, a sequence
    where there is a producer, and times as times are.  The CRC is not looked at.
    """
    count: i64 = _int32(data, p + 57)
    first: i64 = _int64(data, p + 27)
    return (
        data[p + 16] == 2
        and _int32(data, p + 8) + _UNCOUNTED == end - p
        and 0 < count <= most
        and count == _int32(data, p + 23) + 1
        and not data[p + 21]
        and data[p + 22] <= _LAST_CODEC
        and not _int32(data, p)
        and not _int32(data, p + 4)
        and (data[p + 43] >= 128 or data[p + 53] < 128)
        and 0 <= first < _LATEST
    )


NUMBERED: Final = 1
PART: Final = 2
TOPIC: Final = 4
CLOSER: Final = 8
TRANSACTION: Final = 16
EMPTY: Final = 32
PACKED: Final = 64
"""What is said of a row, see `ProduceRows`."""
_Row = tuple[int, int, int, memoryview, int, int, int]


class ProduceRows:
    """The batches of the Produce requests that stand first in a read and begin alike: a row for each, in order.

    A row: the number of its place, flags, the correlation id of its request, its records, their count and newest
    timestamp, and what follows in its request (0: nothing).  `places` has topic (its id, or its name in UTF-8) and
    partition; no place is there twice.  `head` are the bytes of each request up to the count of its topics, but
    for the correlation id.

    Flags: PART, of a request with more rows than one; TOPIC, a part with which a topic of the request begins;
    NUMBERED, a producer numbers the batch; CLOSER, it is not plain, or nobody looked; TRANSACTION, it is one of a
    transaction; EMPTY, no batch at all, but a topic without partitions, or (partition -2) no topic; PACKED, it has
    to be unpacked before more is known (`unpacked`).  A row without CLOSER is a plain batch: whole, with the right
    CRC, of magic 2, of no transaction, its records good and numbered from 0 on, its newest timestamp the header's.

    The numbers below are of all plain rows together.
    """

    def __init__(self, records: i64 = 0, rows: i64 = 0, packed: i64 = 0) -> None:
        """A batch of more records is not plain, a request of more rows not plain to read, and a packed batch of
        more bytes not unpacked."""
        self._most_records = records
        self._most_rows = rows
        self._most_packed = packed
        self.head = b""
        self.rows: list[_Row] = []
        self.places: list[tuple[bytes, int]] = []
        self.requests: i64 = 0
        self.end: i64 = 0
        """Where the last request ends."""
        self.newest: i64 = -1
        self.oldest: i64 = _LATEST
        self.keyless: i64 = 0
        """How many records have no key."""
        self.largest: i64 = 0
        """Bytes of the largest batch."""
        self.size: i64 = 0
        self.records: i64 = 0
        self.closer: i64 = 0
        """How many rows are not plain."""
        self.transactions: i64 = 0
        """How many rows are of transactions."""
        self.packed: i64 = 0
        """How many rows have to be unpacked."""
        self._key = b""
        self._rest = b""
        """Of the head: what is in front of the correlation id, and behind it."""
        self._topic = b""
        self._slots: dict[int, int] = {}
        """The places of that topic by their partition."""
        self._topics: dict[bytes, dict[int, int]] = {}
        """Of those before."""
        self._index: i64 = 0
        self._place: i64 = _BROKEN
        """The partition before, and its place; below 0: none of that topic."""

    def read(
        self,
        buffer: memoryview,
        p: i64,
        total: i64,
        window: i64,
        largest: i64,
        room: i64,
    ) -> None:
        """Take in the requests that stand first in buffer[p:total], each behind its length, `room` at most.

        Only those in the first `window` bytes are looked at.  A request has at most `largest` bytes.
        """
        if window < total - p:
            total = p + window
        data = bytes(buffer[p:total])
        base: i64 = p
        self.end = p
        while room > 0 and total - p >= _IN_FRONT:
            size: i64 = _int32(data, p - base)
            if size <= 0 or size > largest or size > total - p - 4:
                return
            if not self.request(buffer, data, base, p + 4 - base, p + 4 + size - base):
                return
            p += 4 + size
            self.end = p
            room -= 1

    def one(self, buffer: memoryview, p: i64, end: i64) -> None:
        """Take in the request buffer[p:end]."""
        self.end = p
        if self.request(buffer, bytes(buffer[p:end]), p, 0, end - p):
            self.end = end

    def request(self, buffer: memoryview, data: bytes, base: i64, p: i64, end: i64) -> bool:
        """Take in the request data[p:end], which is buffer[base + p : base + end].

        False, and nothing was taken in, of one that is not plain to read, or begins unlike those before.
        """
        if end - p < _LEAST_REQUEST or data[p] or data[p + 1] or data[p + 2]:
            return False
        flexible = data[p + 3] >= _FLEXIBLE
        by_id = data[p + 3] >= _BY_ID
        at: i64 = _after_head(data, p, end, flexible)
        if at < 0:
            return False
        key = data[p : p + 4]
        rest = data[p + _IN_FRONT : at]
        if not self.rows:
            self._key = key
            self._rest = rest
            self.head = key + rest
        elif key != self._key or rest != self._rest:
            return False
        topics: i64
        topics, at = _many(data, at, end, flexible)
        rows: i64 = len(self.rows)
        places: i64 = len(self.places)
        newest: i64 = self.newest
        oldest: i64 = self.oldest
        keyless: i64 = self.keyless
        sums = (self.largest, self.size, self.records, self.closer, self.transactions, self.packed)
        correlation: i64 = _int32(data, p + 4)
        good = topics > 0
        while good and topics > 0:
            topics -= 1
            partitions: i64
            partitions, at = self._begin(data, at, end, flexible, by_id)
            how: i64 = TOPIC
            good = partitions > 0
            while good and partitions > 0:
                partitions -= 1
                index: i64
                size: i64
                index, size, at = _batch(data, at, end, flexible)
                left: i64 = topics + partitions
                if size < 0 or len(self.rows) - rows >= self._most_rows:
                    good = False
                    break
                how = how | PART if left or len(self.rows) > rows else 0
                self._take(buffer, data, base, at, at + size, correlation, index, how, left)
                how = 0
                at += size + (1 if flexible else 0)
            if good and flexible:
                good = at < end and not data[at]
                at += 1
        if good and flexible:
            good = at < end and not data[at]
            at += 1
        if good and at == end:
            self.requests += 1
            return True
        del self.rows[rows:]
        del self.places[places:]
        self.newest = newest
        self.oldest = oldest
        self.keyless = keyless
        self.largest, self.size, self.records, self.closer, self.transactions, self.packed = sums
        return False

    def _begin(self, data: bytes, at: i64, end: i64, flexible: bool, by_id: bool) -> tuple[i64, i64]:
        """Begin the topic at `at`; returns how many partitions it has (below 0: unusual) and what follows."""
        size: i64 = _ID_BYTES
        if not by_id:
            size, at = _many(data, at, end, flexible, short=True)
        if size < 0 or size > end - at:
            return _BROKEN, at
        topic = data[at : at + size]
        if topic != self._topic or not self.places:
            if not by_id and not topic.isascii():
                return _BROKEN, at
            if self.places:
                self._topics[self._topic] = self._slots
                self._slots = self._topics.get(topic, {})
            self._topic = topic
            self._place = _BROKEN
        return _many(data, at + size, end, flexible)

    def unpacked(self, at: i64, data: bytes) -> bool:
        """Make the row at this index, which is PACKED, a plain one if these are its records and all are good."""
        number, how, correlation, records, _, _, left = self.rows[at]
        header = bytes(records[:_HEADER_SIZE])
        facts: _Facts = _facts(header, 0, data, 0, len(data))
        if facts[0] < 0:
            return False
        self._sum(facts, len(records))
        self.rows[at] = (number, how & ~(CLOSER | PACKED), correlation, records, facts[0], facts[1], left)
        self.closer -= 1
        return True

    def _sum(self, facts: _Facts, size: i64) -> None:
        """Add a plain batch of that size to the numbers."""
        self.records += facts[0]
        if facts[1] > self.newest:
            self.newest = facts[1]
        if facts[2] < self.oldest:
            self.oldest = facts[2]
        self.keyless += facts[3]
        self.size += size
        if size > self.largest:
            self.largest = size

    def _take(
        self,
        buffer: memoryview,
        data: bytes,
        base: i64,
        p: i64,
        end: i64,
        correlation: i64,
        index: i64,
        how: i64,
        left: i64,
    ) -> None:
        """Take in the batch data[p:end] of that partition of the topic."""
        records = buffer[base + p : base + end]
        place: i64 = self._place
        if index != self._index or place < 0:
            slots = self._slots
            if index in slots:
                place = slots[index]
            else:
                place = len(self.places)
                slots[index] = place
                self.places.append((self._topic, index))
            self._index = index
            self._place = place
        if data[p + 43] < 128:
            how |= NUMBERED
        if COMPILED and _usual(data, p, end, self._most_records):
            codec: i64 = data[p + 22]
            packed = (
                codec > 0 and end - p <= self._most_packed and (codec < _LAST_CODEC or self._key[3] >= _ZSTD)
            )
            if (packed or not codec) and crc32c(records[_CRC_FROM:]) == _int32(data, p + 17) & 0xFFFFFFFF:
                if packed:
                    self.packed += 1
                    how |= PACKED
                else:
                    facts: _Facts = _facts(data, p, data, p + _HEADER_SIZE, end)
                    if facts[0] > 0:
                        self._sum(facts, end - p)
                        self.rows.append((place, how, correlation, records, facts[0], facts[1], left))
                        return
        self.closer += 1
        how |= CLOSER
        if data[p + 22] & 0x10:
            how |= TRANSACTION
            self.transactions += 1
        self.rows.append((place, how, correlation, records, 0, -1, left))


def _facts(header: bytes, p: i64, data: bytes, at: i64, end: i64) -> _Facts:
    """Of the records in data[at:end], whose usual header is at header[p]: their number, their newest and oldest
    timestamp, and how many have no key; below 0 if not all are good and numbered from 0 on, or the newest
    timestamp is not that of the header."""
    first: i64 = _int64(header, p + 27)
    count: i64 = _int32(header, p + 57)
    index: i64
    newest: i64
    oldest: i64
    keyless: i64
    at, index, newest, oldest, keyless, contiguous = _records(data, at, end, 0, count)
    if at != end or index != count or not contiguous or first + newest != _int64(header, p + 35):
        return _BROKEN, 0, 0, 0
    return count, first + newest, first + oldest, keyless


def _after_head(data: bytes, p: i64, end: i64, flexible: bool) -> i64:
    """Where the topics of the Produce request data[p:end] are counted; below 0 where that is not plain."""
    at: i64 = p + 10
    high: i64 = data[p + 8]
    size: i64 = data[p + 9]
    if high < 128:
        at += high << 8 | size
    elif high != 255 or size != 255:
        return _BROKEN
    if flexible:
        if at >= end or data[at]:
            return _BROKEN
        size, at = _varint(data, at + 1, end, 14)
        if size > 1:
            at += size - 1
    else:
        if at + 2 > end:
            return _BROKEN
        high = data[at]
        size = data[at + 1]
        at += 2
        if high < 128:
            at += high << 8 | size
        elif high != 255 or size != 255:
            return _BROKEN
    if size < 0 or at + 6 >= end:
        return _BROKEN
    return at + 6


def _many(data: bytes, p: i64, end: i64, flexible: bool, short: bool = False) -> tuple[i64, i64]:
    """A count, and what follows it; below 0 where it is none, or unusual."""
    if flexible:
        return _count(data, p, end)
    if short:
        if end - p < 2 or data[p] >= 128:
            return _BROKEN, p
        high: i64 = data[p]
        low: i64 = data[p + 1]
        return high << 8 | low, p + 2
    if end - p < 4:
        return _BROKEN, p
    return _int32(data, p), p + 4


def _batch(data: bytes, p: i64, end: i64, flexible: bool) -> tuple[i64, i64, i64]:
    """The partition at `p`, the size of its batch (below 0: less than a header, or unusual), and where that is."""
    if end - p < 8:
        return 0, _BROKEN, p
    index: i64 = _int32(data, p)
    size: i64
    if not flexible:
        size = _int32(data, p + 4)
        p += 8
        if size < _HEADER_SIZE or size > end - p:
            return index, _BROKEN, p
        return index, size, p
    size, p = _varint(data, p + 4, end, 28)
    size -= 1
    if size < _HEADER_SIZE or size >= end - p or not data[p - 1] or data[p + size]:
        return index, _BROKEN, p
    return index, size, p


def _count(frame: bytes, p: i64, end: i64) -> tuple[i64, i64]:
    """A compact length of at most two bytes at `p`, and what follows it; below 0 for any other."""
    value: i64
    value, p = _varint(frame, p, end, 14)
    if value <= 0 or not frame[p - 1]:
        return _BROKEN, p
    return value - 1, p
