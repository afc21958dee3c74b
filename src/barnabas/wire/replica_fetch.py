"""A follower's fetch and its answer, straight from bytes and to bytes (Fetch 15 to 18; KIP-227, KIP-903).

While a follower replicates, the fetches of its session differ in few places: the correlation id, the session
epoch, and the positions of the partitions that moved.  `FetchShape` remembers the rest, and reads and writes
those; the general codec makes objects for each of them.  Whatever is not plain (another request than the one
remembered, tagged fields, topics forgotten, an answer with an error) is not read here: the reader returns None,
and the decoder has its turn.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from barnabas.errors import WireError
from barnabas.model import Offset
from barnabas.ports import Buffer
from barnabas.wire.codec.declaration import Part
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.frame import read_request_header

__all__ = [
    "FIRST_VERSION",
    "LAST_VERSION",
    "AnswerRow",
    "AnswerShape",
    "FetchShape",
    "FetchedRow",
    "PlainAnswer",
    "PlainFetch",
    "ToldRow",
    "write_plain_answer",
]

FIRST_VERSION, LAST_VERSION = 15, 18
"""Between them a fetch names topics by id and a replica in its tagged fields, and all rows look alike."""
_BEFORE_EPOCH_BYTES = 17
"""Of a body: max wait, min bytes, max bytes, isolation level, session id."""
_TOPIC_ID_BYTES = 16
_row = Struct(">iiqiqiB")
"""Partition, its leader epoch, the offset to read from, the epoch before it, the log start, most bytes, tags."""
_HEAD = Struct(">iixihi")
"""The length, correlation id, no tags; throttle time, error code, session id."""
_ANSWER_ROW = Struct(">ihqqqBi")
"""Partition, error code, high watermark, last stable offset, log start, aborted transactions (0: null), the
replica to read from instead."""
_ANSWER = Struct(">iBihi")
"""The same as _HEAD behind the length; the tags of the header are a byte."""
_NO_SUCH_REPLICA = -1
_ONE_ROW = "B16sBiiqiqiBB"
"""The topics of a fetch of one partition: counts with the topic's id between them, `_row`, the topic's tags."""
_ONE = 2
"""A count of one, as compact arrays write it."""
_one_answer = Struct(">iixihiB16sBihqqqBi")
"""An answer of one partition up to the length of its records: `_HEAD`, counts and topic id, `_ANSWER_ROW`."""
_one_told = Struct(">i35sq8xqBiBB")
"""The same behind its length: what many have in common (`_SAME`) is one field, the length of the records two."""
_SAME = slice(4, 39)
"""Of an answer of one partition: all between the correlation id and the high watermark."""
_TOPICS_AT, _PARTITIONS_AT = 15, 32
"""The counts in it."""
_JOINED_BYTES = 4096
"""Up to so many bytes of records are copied between the rest of an answer: one part costs less than three."""
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
_ONE_END = b"\0\0\0"
"""No tags of the partition, the topic and the answer."""


class FetchedRow(NamedTuple):
    """Where a follower stands in one partition."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: Offset
    last_epoch: int
    log_start: Offset
    max_bytes: int


class PlainFetch(NamedTuple):
    """What differs from fetch to fetch of a session."""

    correlation_id: int
    session_epoch: int
    rows: list[FetchedRow]


class FetchShape:
    """What all fetches of a session have in common, learned from one of them."""

    __slots__ = (
        "_begin",
        "_head",
        "_least",
        "_middle",
        "_one_bytes",
        "_read_one",
        "_tail",
        "_write",
        "_write_one",
    )

    def __init__(self, frame: memoryview) -> None:
        """`frame` is a whole request without its length, one that the decoder has read.  Raises WireError when
        its like cannot be recognized."""
        header, body = read_request_header(frame)
        epoch_at = body + _BEFORE_EPOCH_BYTES
        if not FIRST_VERSION <= header.version <= LAST_VERSION:
            raise WireError(f"a fetch of version {header.version} has another shape")
        read = _rows(frame, epoch_at + 4, len(frame))
        if read is None:
            raise WireError("a fetch with tagged fields at its partitions")
        self._begin = Struct(f">4si{epoch_at - 8}si").unpack_from
        self._write = Struct(f">i4si{epoch_at - 8}si").pack
        self._least = epoch_at + 4
        self._head, _, self._middle, _ = self._begin(frame, 0)
        self._tail = bytes(frame[read[1] :])
        if self._tail[:1] != b"\x01":
            raise WireError("a fetch that forgets topics")
        one = f"{_ONE_ROW}{len(self._tail)}s"
        read_one = Struct(f">4si{epoch_at - 8}si{one}")
        self._one_bytes, self._read_one = read_one.size, read_one.unpack_from
        self._write_one = Struct(f">i4si{epoch_at - 8}si{one}").pack

    def read(self, data: memoryview, position: int, end: int) -> PlainFetch | None:
        """The fetch at data[position:end]; None: it differs in something else, and nothing is known of it."""
        if end - position == self._one_bytes:  # (it names one partition, as most do while little is written)
            one = self._read_one(data, position)
            head, correlation, middle, epoch, topics, topic_id, count, index, *numbers, tags, more, tail = one
            if topics == count == _ONE and not tags and not more and tail == self._tail:
                if head != self._head or middle != self._middle:
                    return None
                row = _new(FetchedRow, (topic_id, index, *numbers))
                return _new(PlainFetch, (correlation, epoch, [row]))
        if end - position < self._least:
            return None
        head, correlation, middle, epoch = self._begin(data, position)
        if head != self._head or middle != self._middle:
            return None
        read = _rows(data, position + self._least, end)
        if read is None or data[read[1] : end] != self._tail:
            return None
        return PlainFetch(correlation, epoch, read[0])

    def write(self, correlation_id: int, session_epoch: int, rows: list[FetchedRow]) -> bytes:
        """The whole frame, its length included, of the fetch that differs in these."""
        if len(rows) == 1:
            topic_id, *numbers = rows[0]
            begin = (
                self._one_bytes,
                self._head,
                correlation_id,
                self._middle,
                session_epoch,
                _ONE,
                topic_id,
                _ONE,
            )
            return self._write_one(*begin, *numbers, 0, 0, self._tail)
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
        return f"<FetchShape {self._least} bytes before the topics>"


def _rows(data: memoryview, position: int, end: int) -> tuple[list[FetchedRow], int] | None:
    """The topics at `position` without their objects, and where they end; None: not plain."""
    rows: list[FetchedRow] = []
    try:
        topics, position = read_uvarint(data, position)
        for _ in range(topics - 1):
            topic_id = bytes(data[position : position + _TOPIC_ID_BYTES])
            partitions, position = read_uvarint(data, position + _TOPIC_ID_BYTES)
            if not partitions or position + (partitions - 1) * _row.size >= end:
                return None
            for _ in range(partitions - 1):
                index, epoch, offset, last_epoch, start, size, tags = _row.unpack_from(data, position)
                if tags:
                    return None
                position += _row.size
                rows.append(FetchedRow(topic_id, index, epoch, offset, last_epoch, start, size))
            if data[position]:
                return None
            position += 1
    except (WireError, IndexError):
        return None
    return (rows, position) if topics and position <= end else None


AnswerRow = tuple[int, Offset, Offset, Offset, Part]
"""Partition, high watermark, last stable offset, log start, records (possibly none)."""


class PlainAnswer(NamedTuple):
    """What a follower is told when nothing is wrong anywhere: rows by topic id."""

    session_id: int
    topics: dict[bytes, list[AnswerRow]]


def write_plain_answer(parts: list[Part], correlation_id: int, answer: PlainAnswer) -> int:
    """Append the whole frame of an answer to `parts`; returns its bytes.

    They are those that the encoder makes of a FetchResponse 15 to 18.
    """
    session_id, topics = answer
    if len(topics) == 1:
        ((topic_id, rows),) = topics.items()
        if len(rows) == 1:
            return _write_one_answer(parts, correlation_id, session_id, topic_id, rows[0])
    head = text = bytearray(_HEAD.pack(0, correlation_id, 0, 0, session_id))
    text += uvarint(len(topics) + 1)
    parts.append(text)
    size = 0
    for topic_id, rows in topics.items():
        text += topic_id
        text += uvarint(len(rows) + 1)
        for index, high_watermark, stable, start, records in rows:
            text += _ANSWER_ROW.pack(index, 0, high_watermark, stable, start, 0, -1)
            length = len(records)
            text += uvarint(length + 1)
            if length:
                size += length + len(text)
                parts.append(records)
                text = bytearray()
                parts.append(text)
            text += b"\0"  # no tags of the partition
        text += b"\0"  # of the topic
    text += b"\0"  # of the answer
    size += len(text)
    head[:4] = (size - 4).to_bytes(4, "big")
    return size


def _write_one_answer(
    parts: list[Part], correlation_id: int, session_id: int, topic_id: bytes, row: AnswerRow
) -> int:
    """The same for one partition."""
    index, high_watermark, stable, start, records = row
    length = len(records)
    counted = uvarint(length + 1)
    size = _one_answer.size + len(counted) + length + len(_ONE_END)
    begin = size - 4, correlation_id, 0, 0, session_id, _ONE, topic_id, _ONE
    head = _one_answer.pack(*begin, index, 0, high_watermark, stable, start, 0, -1)
    if isinstance(records, bytes) and length <= _JOINED_BYTES:
        parts.append(b"".join((head, counted, records, _ONE_END)))
    elif length:
        parts += (head + counted, records, _ONE_END)
    else:
        parts.append(head + counted + _ONE_END)
    return size


class ToldRow(NamedTuple):
    """What a leader tells of one partition with which all is well."""

    topic_id: bytes
    partition: int
    high_watermark: Offset
    log_start: Offset
    records: Buffer


class AnswerShape:
    """What the answers of a session have in common as long as they tell of the same partition, and of no other."""

    __slots__ = ("_index", "_same", "_session_id", "_topic_id")

    def __init__(self, session_id: int) -> None:
        self._session_id = session_id
        self._same = self._topic_id = b""
        self._index = 0

    def read(self, frame: Buffer, correlation_id: int) -> list[ToldRow] | None:
        """The rows of an answer of this session without its length; None: another one, or not plain.

        The records are parts of `frame`.
        """
        view = memoryview(frame)
        if len(view) >= _one_told.size:
            correlation, same, high_watermark, start, aborted, replica, first, second = _one_told.unpack_from(
                view
            )
            if same == self._same and correlation == correlation_id and (first < 0x80 or second < 0x80):
                at, size = _one_told.size - 1, first  # (as `read_uvarint`, without a call of it)
                if first >= 0x80:
                    at, size = at + 1, first & 0x7F | second << 7
                end = at + size - 1 if size else at
                if aborted <= 1 and replica == _NO_SUCH_REPLICA and view[end:] == _ONE_END:
                    return [_new(ToldRow, (self._topic_id, self._index, high_watermark, start, view[at:end]))]
        rows = _told_rows(view, self._session_id, correlation_id)
        if rows is not None and len(rows) == 1 and view[_TOPICS_AT] == view[_PARTITIONS_AT] == _ONE:
            self._same = bytes(view[_SAME])
            self._topic_id, self._index, *_ = rows[0]
        return rows

    def __repr__(self) -> str:
        return f"<AnswerShape of session {self._session_id}>"


def _told_rows(view: memoryview, session_id: int, correlation_id: int) -> list[ToldRow] | None:
    """See `AnswerShape.read`: of however many partitions."""
    rows: list[ToldRow] = []  # (list[ToldRow]() takes a microsecond: it tries to remember its type)
    try:
        correlation, tags, throttled, error, session = _ANSWER.unpack_from(view)
        if correlation != correlation_id or tags or throttled or error or session != session_id:
            return None
        topics, at = read_uvarint(view, _ANSWER.size)
        for _ in range(topics - 1):
            topic_id = bytes(view[at : at + _TOPIC_ID_BYTES])
            partitions, at = read_uvarint(view, at + _TOPIC_ID_BYTES)
            for _ in range(partitions - 1):
                index, error, high_watermark, _, start, aborted, replica = _ANSWER_ROW.unpack_from(view, at)
                if error or aborted > 1 or replica != _NO_SUCH_REPLICA:
                    return None
                size, at = read_uvarint(view, at + _ANSWER_ROW.size)
                end = at + max(size - 1, 0)
                rows.append(ToldRow(topic_id, index, high_watermark, start, view[at:end]))
                if view[end]:  # (tags of the partition: where logs diverge, who leads)
                    return None
                at = end + 1
            if not partitions or view[at]:
                return None
            at += 1
        return rows if topics and not view[at] and at + 1 == len(view) else None
    except (WireError, IndexError, StructError):
        return None
