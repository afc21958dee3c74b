"""Fetch requests as rows, straight from bytes and to bytes (Fetch 4 to 18; KIP-227, KIP-903).

A row is where a client stands in one partition.  Everything else that a request says (`Terms`) is the same for
all of its rows, and mostly for all requests of a connection: `FetchFrames` compares those bytes with the last
ones, and reads only the numbers that move.  A request that is not plain (tagged fields that nobody sends, more
bytes than the decoder may take) is not read here: the reader returns None, and `objects` makes the same rows of
what the decoder reads.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from barnabas.errors import WireError
from barnabas.model import NO_EPOCH, NO_NODE, NO_OFFSET, Epoch, NodeId, Offset
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.frame import read_request_header

__all__ = [
    "FIRST_VERSION",
    "LAST_VERSION",
    "NO_SESSION_EPOCH",
    "TOPIC_IDS_SINCE",
    "Asked",
    "AskedRow",
    "FetchFrames",
    "FetchWriter",
    "Terms",
]

FIRST_VERSION, LAST_VERSION = 4, 18
SESSIONS_SINCE, RACK_SINCE, FLEXIBLE_SINCE, TOPIC_IDS_SINCE = 7, 11, 12, 13
_LOG_START_SINCE, _LEADER_EPOCH_SINCE, _REPLICA_STATE_SINCE = 5, 9, 15
NO_SESSION_EPOCH = -1
_TOPIC_ID_BYTES = 16
_MOST_NAME_BYTES = 249
_replica, _limits, _session = Struct(">i"), Struct(">iiib"), Struct(">ii")
"""The replica that asks (up to version 14); max wait, min bytes, max bytes, isolation level; session and epoch."""
_count, _length = Struct(">i"), Struct(">h")
_ROW_SINCE_4, _ROW_SINCE_5, _ROW_SINCE_9 = Struct(">iqi"), Struct(">iqqi"), Struct(">iiqqi")
_row = Struct(">iiqiqiB")
"""Partition, its leader epoch, the offset to read from, the epoch before it, the log start, most bytes, tags."""
_ONE_ROW = "B16sBiiqiqiBB"
"""The topics of a request for one partition: counts with the topic's id between them, `_row`, the topic's tags."""
_ONE = 2
"""A count of one, as compact arrays write it."""
_NO_MORE = b"\1"
"""No topics to forget, as compact arrays write it."""
_state = Struct(">iqB")
_STATE_TAG = bytes((1, 1, _state.size))
"""One tagged field, which says who replicates: its number, and its size."""
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords

AskedRow = tuple[bytes, int, Epoch, Offset, Epoch, Offset, int]
"""Topic (its id, or its name in UTF-8), partition, its leader epoch, the offset to read from, the epoch of the
record before it, the log start of a follower, most bytes."""


class Terms(NamedTuple):
    """Everything that a Fetch says besides its positions."""

    version: int
    replica: NodeId
    """The follower; NO_NODE: a consumer."""
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    rack: str

    @property
    def by_id(self) -> bool:
        """Return whether it names topics by their ids."""
        return self.version >= TOPIC_IDS_SINCE


class Asked(NamedTuple):
    """What differs from request to request: `forgotten` are partitions that leave the session, (topic, index)."""

    correlation_id: int
    session_epoch: int
    rows: list[AskedRow]
    forgotten: list[tuple[bytes, int]]


_Rows = tuple[list[AskedRow], int]
_NOBODY: list[tuple[bytes, int]] = []


class FetchFrames:
    """The requests of one connection: `terms` are those of the one that was read last."""

    __slots__ = ("_begin", "_head", "_least", "_middle", "_most", "_one_bytes", "_read_one", "_tail", "terms")

    def __init__(self, most: int) -> None:
        """`most` is how many bytes (and so how many elements) a request may have to be read here."""
        self.terms: Terms | None = None
        self._most = most
        self._least = most + 1
        self._one_bytes = -1
        self._head = self._middle = self._tail = b""
        self._begin = self._read_one = _count.unpack_from

    def read(self, data: memoryview, position: int, end: int) -> Asked | None:
        """Read the request data[position:end], without its length, if its terms are those of the last one.

        None: they differ, or it is not plain (see `learn`).
        """
        size = end - position
        if size == self._one_bytes:  # (it names one partition, as most do while little is written)
            one = self._read_one(data, position)
            head, correlation, middle, epoch, topics, topic, count, index, *numbers, tags, more, tail = one
            if topics == count == _ONE and not tags and not more and tail == self._tail:
                if head != self._head or middle != self._middle:
                    return None
                return _new(Asked, (correlation, epoch, [(topic, index, *numbers)], _NOBODY))
        if not self._least <= size <= self._most:
            return None
        terms = self.terms
        assert terms is not None
        epoch = NO_SESSION_EPOCH
        if terms.version >= SESSIONS_SINCE:
            head, correlation, middle, epoch = self._begin(data, position)
        else:
            head, correlation, middle = self._begin(data, position)
        if head != self._head or middle != self._middle:
            return None
        read = _rows(terms.version, data, position + self._least, end)
        if read is None or data[read[1] : end] != self._tail:
            return None
        return _new(Asked, (correlation, epoch, read[0], _NOBODY))

    def learn(self, frame: memoryview) -> Asked | None:
        """Read a whole request, without its length, whatever its terms.  None: it is not plain."""
        if len(frame) > self._most:
            return None
        try:
            read = _whole(frame)
        except (WireError, IndexError, StructError, UnicodeDecodeError):
            return None
        if read is None:
            return None
        terms, asked, epoch_at, rows_end = read
        if terms != self.terms:
            self.terms = terms
            self._least, self._one_bytes = self._most + 1, -1  # (what was remembered was on other terms)
        if not asked.forgotten:
            self._remember(frame, terms.version, epoch_at, rows_end)
        return asked

    def _remember(self, frame: memoryview, version: int, epoch_at: int, rows_end: int) -> None:
        self._tail = bytes(frame[rows_end:])
        self._one_bytes = -1
        if version < SESSIONS_SINCE:
            self._begin, self._least = Struct(f">4si{epoch_at - 8}s").unpack_from, epoch_at
            self._head, _, self._middle = self._begin(frame, 0)
            return
        self._begin, self._least = Struct(f">4si{epoch_at - 8}si").unpack_from, epoch_at + 4
        self._head, _, self._middle, _ = self._begin(frame, 0)
        if version >= TOPIC_IDS_SINCE:
            one = Struct(f">4si{epoch_at - 8}si{_ONE_ROW}{len(self._tail)}s")
            self._one_bytes, self._read_one = one.size, one.unpack_from

    def __repr__(self) -> str:
        return f"<FetchFrames {self.terms}>"


def _whole(frame: memoryview) -> tuple[Terms, Asked, int, int] | None:
    """Read a request: its terms, the rest, and where its epoch (or its rows) begins and its rows end.

    Raises WireError, IndexError, struct.error and UnicodeDecodeError where the bytes are none, or not plain.
    """
    header, position = read_request_header(frame)
    version = header.version
    if not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    replica, replica_epoch, session_id, epoch, rack = NO_NODE, -1, 0, NO_SESSION_EPOCH, ""
    if version < _REPLICA_STATE_SINCE:
        (replica,) = _replica.unpack_from(frame, position)
        position += _replica.size
    max_wait_ms, min_bytes, max_bytes, isolation = _limits.unpack_from(frame, position)
    position += _limits.size
    epoch_at = position
    if version >= SESSIONS_SINCE:
        session_id, epoch = _session.unpack_from(frame, position)
        epoch_at, position = position + 4, position + _session.size
    read = _rows(version, frame, position, len(frame))
    if read is None:
        return None
    rows, rows_end = read
    position, forgotten = rows_end, _NOBODY
    if version >= SESSIONS_SINCE:
        forgotten, position = _forgotten(version, frame, position)
    if version >= RACK_SINCE:
        rack, position = _text(version, frame, position)
    if version >= FLEXIBLE_SINCE:
        if version >= _REPLICA_STATE_SINCE and frame[position : position + 3] == _STATE_TAG:
            replica, replica_epoch, tags = _state.unpack_from(frame, position + 3)
            position += 3 + _state.size
        else:
            tags = frame[position]
            position += 1
        if tags:
            return None
    if position != len(frame):
        return None
    limits = max_wait_ms, min_bytes, max_bytes, isolation, session_id, rack
    terms = Terms(version, replica, replica_epoch, *limits)
    return terms, Asked(header.correlation_id, epoch, rows, forgotten), epoch_at, rows_end


def _text(version: int, data: memoryview, position: int) -> tuple[str, int]:
    if version >= FLEXIBLE_SINCE:
        size, position = read_uvarint(data, position)
        size -= 1
    else:
        (size,) = _length.unpack_from(data, position)
        position += _length.size
    if size < 0 or position + size > len(data):
        raise WireError("a text that is null, or does not fit")
    return str(data[position : position + size], "utf-8"), position + size


def _forgotten(version: int, data: memoryview, position: int) -> tuple[list[tuple[bytes, int]], int]:
    if version < FLEXIBLE_SINCE:
        (left,) = _count.unpack_from(data, position)
        position += _count.size
    else:
        left, position = read_uvarint(data, position)
        left -= 1
    if left <= 0:
        if left:
            raise WireError("a null array")
        return _NOBODY, position
    found: list[tuple[bytes, int]] = []
    for _ in range(left):
        if version >= TOPIC_IDS_SINCE:
            topic = bytes(data[position : position + _TOPIC_ID_BYTES])
            position += _TOPIC_ID_BYTES
        else:
            name, position = _text(version, data, position)
            topic = name.encode()
        if version < FLEXIBLE_SINCE:
            (partitions,) = _count.unpack_from(data, position)
            position += _count.size
        else:
            partitions, position = read_uvarint(data, position)
            partitions -= 1
        if partitions < 0 or position + 4 * partitions > len(data):
            raise WireError("partitions that are null, or do not fit")
        found += [
            (topic, index) for (index,) in _count.iter_unpack(data[position : position + 4 * partitions])
        ]
        position += 4 * partitions
        if version >= FLEXIBLE_SINCE:
            if data[position]:
                raise WireError("tagged fields")
            position += 1
    return found, position


def _rows(version: int, data: memoryview, position: int, end: int) -> _Rows | None:
    """Read the topics at `position`: the rows, and where they end.  None: not plain."""
    read = _flexible_rows if version >= FLEXIBLE_SINCE else _classic_rows
    try:
        found = read(version, data, position, end)
    except (WireError, IndexError, StructError, UnicodeDecodeError):
        return None
    return found if found is not None and found[1] <= end else None


def _classic_rows(version: int, data: memoryview, position: int, end: int) -> _Rows | None:
    rows: list[AskedRow] = []
    row = _ROW_SINCE_4 if version < _LOG_START_SINCE else _ROW_SINCE_5
    if version >= _LEADER_EPOCH_SINCE:
        row = _ROW_SINCE_9
    epoch, start = NO_EPOCH, NO_OFFSET
    (topics,) = _count.unpack_from(data, position)
    position += 4
    for _ in range(topics):
        (size,) = _length.unpack_from(data, position)
        after = position + 2 + size
        topic = bytes(data[position + 2 : after])
        (partitions,) = _count.unpack_from(data, after)
        position = after + 4
        if size < 0 or partitions < 0 or position + partitions * row.size > end:
            return None
        str(topic, "utf-8")
        for _ in range(partitions):
            if version >= _LEADER_EPOCH_SINCE:
                index, epoch, offset, start, most = row.unpack_from(data, position)
            elif version >= _LOG_START_SINCE:
                index, offset, start, most = row.unpack_from(data, position)
            else:
                index, offset, most = row.unpack_from(data, position)
            position += row.size
            rows.append((topic, index, epoch, offset, NO_EPOCH, start, most))
    return (rows, position) if topics >= 0 else None


def _flexible_rows(version: int, data: memoryview, position: int, end: int) -> _Rows | None:
    rows: list[AskedRow] = []
    topics, position = read_uvarint(data, position)
    for _ in range(topics - 1):
        after = position + _TOPIC_ID_BYTES
        if version < TOPIC_IDS_SINCE:
            size, position = read_uvarint(data, position)
            after = position + size - 1
            if not 0 < size <= _MOST_NAME_BYTES + 1:
                return None
        topic = bytes(data[position:after])
        if version < TOPIC_IDS_SINCE:
            str(topic, "utf-8")
        partitions, position = read_uvarint(data, after)
        if not partitions or position + (partitions - 1) * _row.size >= end:
            return None
        for _ in range(partitions - 1):
            index, epoch, offset, last_epoch, start, most, tags = _row.unpack_from(data, position)
            if tags:
                return None
            position += _row.size
            rows.append((topic, index, epoch, offset, last_epoch, start, most))
        if data[position]:
            return None
        position += 1
    return (rows, position) if topics else None


class FetchWriter:
    """The requests of a follower's session: the bytes that they have in common, taken from one of them."""

    __slots__ = ("_head", "_least", "_middle", "_one_bytes", "_tail", "_write", "_write_one")

    def __init__(self, frame: memoryview) -> None:
        """`frame` is a whole request without its length, of a version that names topics by id.

        Raises WireError where it is not plain, or forgets topics.
        """
        read = _whole(frame)
        if read is None or not read[0].by_id or read[1].forgotten:
            raise WireError("a fetch whose like cannot be written")
        _, _, epoch_at, rows_end = read
        self._least = epoch_at + 4
        self._head, self._middle = bytes(frame[:4]), bytes(frame[8:epoch_at])
        self._tail = bytes(frame[rows_end:])
        begin = f">i4si{len(self._middle)}si"
        one = Struct(f"{begin}{_ONE_ROW}{len(self._tail)}s")
        self._write, self._write_one, self._one_bytes = Struct(begin).pack, one.pack, one.size - 4

    def write(self, correlation_id: int, session_epoch: int, rows: list[AskedRow]) -> bytes:
        """Return the whole frame, its length included, of the request that differs in these."""
        if len(rows) == 1:
            topic_id, *numbers = rows[0]
            begin = (self._one_bytes, self._head, correlation_id, self._middle, session_epoch)
            return self._write_one(*begin, _ONE, topic_id, _ONE, *numbers, 0, 0, self._tail)
        topics: dict[bytes, list[bytes]] = {}
        for topic_id, *numbers in rows:
            topics.setdefault(topic_id, []).append(_row.pack(*numbers, 0))
        named = [uvarint(len(topics) + 1)]
        for topic_id, packed in topics.items():
            named += (topic_id, uvarint(len(packed) + 1), *packed, b"\0")
        text = b"".join(named)
        size = self._least + len(text) + len(self._tail)
        return self._write(size, self._head, correlation_id, self._middle, session_epoch) + text + self._tail

    def __repr__(self) -> str:
        return f"<FetchWriter {self._least} bytes before the topics>"
