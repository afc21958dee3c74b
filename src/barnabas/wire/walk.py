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
    "COMPILED",
    "Plain",
    "good_batch",
    "good_records",
    "produced_batches",
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
_TAIL: Final = 3
"""Bytes after the records of a flexible version: no tagged fields of partition, topic and request."""


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


def _good_batch(data: bytes, p: i64, end: i64, most: i64) -> tuple[bool, i64, i64, i64]:
    """`good_batch` of data[p:end]."""
    if end - p < _HEADER_SIZE or data[p + 16] != 2 or _int32(data, p + 8) + _UNCOUNTED != end - p:
        return False, 0, 0, 0
    count: i64 = _int32(data, p + 57)
    if (
        count <= 0
        or count > most
        or count != _int32(data, p + 23) + 1
        or data[p + 22] & 0xEF  # all but that of transactions: a codec, a control batch, ...
        or data[p + 21]
        or _int32(data, p)
        or _int32(data, p + 4)
        or (data[p + 43] < 128 and data[p + 53] >= 128)
    ):
        return False, 0, 0, 0
    at: i64
    index: i64
    newest: i64
    oldest: i64
    keyless: i64
    at, index, newest, oldest, keyless, contiguous = _records(data, p + _HEADER_SIZE, end, 0, count)
    return at == end and index == count and contiguous, newest, oldest, keyless


def good_batch(batch: bytes, most: i64) -> tuple[bool, i64, i64, i64]:
    """Whether this is a batch as most producers send it, whatever its CRC and its times.

    That is: whole, not packed, from offset 0 on, at most `most` records, all good and numbered without a gap, and
    a sequence where there is a producer.  Then come the newest and the oldest timestamp delta of the records, and
    how many have no key.
    """
    return _good_batch(batch, 0, len(batch), most)


def _plain(data: bytes, p: i64, end: i64, most: i64) -> _Facts:
    """Of a good batch in data[p:end] that is of no transaction: the number of its records, their newest and oldest
    timestamp, and how many have no key; below 0 of any other.

    Its newest timestamp is the one that its header says, and all are as times are.
    """
    good: bool
    newest: i64
    oldest: i64
    keyless: i64
    good, newest, oldest, keyless = _good_batch(data, p, end, most)
    if not good or data[p + 22]:
        return _BROKEN, 0, 0, 0
    first: i64 = _int64(data, p + 27)
    if first < 0 or first >= _LATEST or first + newest != _int64(data, p + 35):
        return _BROKEN, 0, 0, 0
    return _int32(data, p + 57), first + newest, first + oldest, keyless


def produced_batches(frame: bytes, p: i64, count: i64, found: list[tuple[int, int, int]]) -> i64:
    """Append to `found` where the batch of each of `count` partitions begins and ends: (partition, begin, end).

    `p` is behind the count in a Produce request of a flexible version.  Returns what follows, -1 where anything
    is unusual: tagged fields, or a batch that is null, shorter than a header, or part of a transaction.
    """
    whole: i64 = len(frame)
    for _ in range(count):
        if whole - p < 4:
            return _BROKEN
        index: i64 = _int32(frame, p)
        size: i64
        size, p = _varint(frame, p + 4, whole, 28)
        size -= 1
        if (
            size < _HEADER_SIZE
            or size >= whole - p
            or not frame[p - 1]  # a length that is longer than need be
            or frame[p + size]
            or frame[p + 22] & 0x10
        ):
            return _BROKEN
        found.append((index, p, p + size))
        p += size + 1
    return p


class Plain:
    """The plain batches that were found in Produce requests, whole and with the right CRC.

    `batches` has of each the partition, the correlation id of its request, its bytes, the number of its records,
    their newest timestamp, and the id of its producer.  The rest is of all batches together.
    """

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, memoryview, int, int, int]] = []
        self.newest: i64 = -1
        self.oldest: i64 = _LATEST
        self.keyless: i64 = 0
        """How many records have no key."""
        self.largest: i64 = 0
        """Bytes of the largest batch."""
        self.size: i64 = 0
        self.records: i64 = 0
        self.numbered: i64 = 0
        """How many batches have a producer that numbers them."""
        self.rising = True
        """Whether the partitions of each topic of a request are in order, so that none is there twice."""
        self.end: i64 = 0
        """Where the last request ends."""

    def take(
        self, frame: memoryview, data: bytes, p: i64, end: i64, most: i64, index: i64, correlation: i64
    ) -> bool:
        """Take in the batch of a partition in data[p:end], if it is plain.  `frame` has the bytes of `data`."""
        plain: _Facts = _plain(data, p, end, most)
        if plain[0] < 0:
            return False
        records = frame[p:end]
        if crc32c(records[_CRC_FROM:]) != _int32(data, p + 17) & 0xFFFFFFFF:
            return False
        producer: i64 = _int64(data, p + 43)
        if producer >= 0:
            self.numbered += 1
        self.batches.append((index, correlation, records, plain[0], plain[1], producer))
        if plain[1] > self.newest:
            self.newest = plain[1]
        if plain[2] < self.oldest:
            self.oldest = plain[2]
        self.keyless += plain[3]
        self.records += plain[0]
        self.size += end - p
        if end - p > self.largest:
            self.largest = end - p
        return True

    def request(
        self,
        frame: memoryview,
        p: i64,
        by_id: bool,
        most: i64,
        topics: list[tuple[int, int, int, int, int]],
    ) -> bool:
        """Whether all batches of a request of a flexible version are plain; `p` is at the count of its topics.

        Appends of each topic where its part and its name begin, where the name and the count of its partitions
        end, and that count.  False, with some of that appended, where anything is unusual.
        """
        data = bytes(frame)
        whole: i64 = len(data)
        left: i64
        left, p = _count(data, p, whole)
        if left <= 0:
            return False
        while left > 0:
            left -= 1
            begin: i64 = p
            size: i64 = _ID_BYTES
            if not by_id:
                size, p = _count(data, p, whole)
            if size < 0 or size > whole - p:
                return False
            name: i64 = p
            p += size
            named: i64 = p
            partitions: i64
            partitions, p = _count(data, p, whole)
            if partitions <= 0:
                return False
            topics.append((begin, name, named, p, partitions))
            last: i64 = -1
            while partitions > 0:
                partitions -= 1
                if whole - p < 4:
                    return False
                index: i64 = _int32(data, p)
                size, p = _varint(data, p + 4, whole, 28)
                size -= 1
                if size < _HEADER_SIZE or size >= whole - p or not data[p - 1] or data[p + size]:
                    return False
                if not self.take(frame, data, p, p + size, most, index, 0):
                    return False
                if index <= last:
                    self.rising = False
                last = index
                p += size + 1
            if p >= whole or data[p]:
                return False
            p += 1
        return p + 1 == whole and not data[p]

    def frames(
        self,
        frame: memoryview,
        end: i64,
        flexible: bool,
        key: bytes,
        head: bytes,
        most: i64,
        largest: i64,
        frames: i64,
    ) -> None:
        """Take in the Produce requests that stand first in `frame`, up to one that is not like the others.

        Each is for one partition, and has a plain batch of at most `most` records.  The first ends at `end`; a
        length, `largest` at most, is in front of each of the others.  `key` is what comes before their correlation
        id, `head` what comes between that and the partition.
        """
        data = bytes(frame)
        whole: i64 = len(data)
        before: i64 = _IN_FRONT + len(head)
        p: i64 = 0
        while frames > 0:
            at: i64 = p + before
            if end > whole or end - at < _HEADER_SIZE or data[p : p + 4] != key or data[p + 8 : at] != head:
                return
            index: i64 = _int32(data, at)
            stop: i64 = end
            size: i64
            if flexible:
                stop -= _TAIL
                size, at = _varint(data, at + 4, stop, 28)
                size -= 1
                if size < 0 or not data[at - 1] or data[stop] or data[stop + 1] or data[stop + 2]:
                    return
            else:
                size = _int32(data, at + 4)
                at += 8
            if size != stop - at or not self.take(frame, data, at, stop, most, index, _int32(data, p + 4)):
                return
            self.end = end
            frames -= 1
            if whole - end < 4:
                return
            size = _int32(data, end)
            if size <= 0 or size > largest:
                return
            p = end + 4
            end = p + size


def _count(frame: bytes, p: i64, end: i64) -> tuple[i64, i64]:
    """A compact length of at most two bytes at `p`, and what follows it; below 0 for any other."""
    value: i64
    value, p = _varint(frame, p, end, 14)
    if value <= 0 or not frame[p - 1]:
        return _BROKEN, p
    return value - 1, p
