"""A consumer's fetch and its answer, straight from bytes and to bytes (Fetch 4 to 18; KIP-227).

While a consumer reads on, its fetches differ in few places: the correlation id, the epoch of their session, and
the rows, one for each partition.  `ConsumerShape` remembers the rest and reads those; the general codec makes
objects for each of them.  Whatever is not plain (another request than the one remembered, tagged fields of a
row, topics forgotten) is not read here: the reader returns None, and the decoder has its turn.

Topics stay as the bytes that name them, with their length: a request and its answer write them alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, NamedTuple

from barnabas.errors import WireError
from barnabas.model import NO_EPOCH, NO_OFFSET, Epoch, Offset, Uuid
from barnabas.wire.codec.declaration import Part
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.frame import read_request_header
from barnabas.wire.schemas.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)

__all__ = [
    "ConsumerAnswer",
    "ConsumerRow",
    "ConsumerShape",
    "PlainConsumerFetch",
    "ReadRow",
    "response_of",
    "topic_bytes",
    "topic_of",
    "write_consumer_answer",
]

FIRST_VERSION, LAST_VERSION = 4, 18
_SESSIONS_SINCE, _RACK_SINCE, _FLEXIBLE_SINCE, _IDS_SINCE = 7, 11, 12, 13
_LEADER_EPOCH_SINCE, _LOG_START_SINCE = 9, 5
_REPLICA_ID_UNTIL = 14
NO_SESSION_EPOCH = -1
_TOPIC_ID_BYTES = 16
_MOST_NAME_BYTES = 249
_count, _length = Struct(">i"), Struct(">h")

ConsumerRow = tuple[bytes, int, Epoch, Offset, Epoch, Offset, int]
"""Topic, partition, its leader epoch, the offset to read from, the epoch before it, the log start, most bytes."""


class PlainConsumerFetch(NamedTuple):
    """What differs from fetch to fetch of a consumer."""

    correlation_id: int
    session_epoch: int
    rows: list[ConsumerRow]


class ConsumerShape:
    """What the fetches of one connection have in common, learned from one of them."""

    __slots__ = ("_begin", "_head", "_least", "_middle", "_most", "_tail", "_version")

    def __init__(self, frame: memoryview, most: int) -> None:
        """`frame` is a whole request without its length, one that the decoder has read, of at most `most` bytes.

        Raises WireError when its like cannot be recognized.
        """
        header, body = read_request_header(frame)
        version = self._version = header.version
        if not FIRST_VERSION <= version <= LAST_VERSION or len(frame) > most:
            raise WireError(f"a fetch of version {version} and {len(frame)} bytes")
        before = body + 13 + (4 if version <= _REPLICA_ID_UNTIL else 0)
        if version >= _SESSIONS_SINCE:
            before += 4
            self._begin, self._least = Struct(f">4si{before - 8}si").unpack_from, before + 4
        else:
            self._begin, self._least = Struct(f">4si{before - 8}s").unpack_from, before
        self._head, _, self._middle, *_ = self._begin(frame, 0)
        self._most = most
        read = self._rows(frame, self._least, len(frame))
        if read is None:
            raise WireError("a fetch whose partitions are not plain")
        self._tail = bytes(frame[read[1] :])
        nothing = b"\1" if version >= _FLEXIBLE_SINCE else bytes(4) if version >= _SESSIONS_SINCE else b""
        if not self._tail.startswith(nothing):
            raise WireError("a fetch that forgets topics")

    def read(self, data: memoryview, position: int, end: int) -> PlainConsumerFetch | None:
        """The fetch at data[position:end]; None: it differs in something else, and nothing is known of it."""
        if not self._least <= end - position <= self._most:
            return None
        epoch = NO_SESSION_EPOCH
        if self._version >= _SESSIONS_SINCE:
            head, correlation, middle, epoch = self._begin(data, position)
        else:
            head, correlation, middle = self._begin(data, position)
        if head != self._head or middle != self._middle:
            return None
        read = self._rows(data, position + self._least, end)
        if read is None or data[read[1] : end] != self._tail:
            return None
        return PlainConsumerFetch(correlation, epoch, read[0])

    def _rows(self, data: memoryview, position: int, end: int) -> tuple[list[ConsumerRow], int] | None:
        """The topics at `position` without their objects, and where they end; None: not plain."""
        read = _flexible_rows if self._version >= _FLEXIBLE_SINCE else _classic_rows
        try:
            found = read(self._version, data, position, end)
        except (WireError, IndexError, StructError):
            return None
        return found if found is not None and found[1] <= end else None

    def __repr__(self) -> str:
        return f"<ConsumerShape v{self._version} {self._least} bytes before the topics>"


_Rows = tuple[list[ConsumerRow], int] | None


def _classic_rows(version: int, data: memoryview, position: int, end: int) -> _Rows:
    rows: list[ConsumerRow] = []
    row = _ROWS_SINCE_9 if version >= 9 else _ROWS_SINCE_5 if version >= 5 else _ROWS_SINCE_4
    epoch, start = NO_EPOCH, NO_OFFSET
    (topics,) = _count.unpack_from(data, position)
    position += 4
    for _ in range(topics):
        (size,) = _length.unpack_from(data, position)
        after = position + 2 + size
        topic = bytes(data[position:after])
        (partitions,) = _count.unpack_from(data, after)
        position = after + 4
        if size < 0 or partitions < 0 or position + partitions * row.size > end:
            return None
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


def _flexible_rows(version: int, data: memoryview, position: int, end: int) -> _Rows:
    rows: list[ConsumerRow] = []
    row = _ROWS_SINCE_12
    topics, position = read_uvarint(data, position)
    for _ in range(topics - 1):
        after = position + _TOPIC_ID_BYTES
        if version < _IDS_SINCE:
            size, after = read_uvarint(data, position)
            after += size - 1
            if not 0 < size <= _MOST_NAME_BYTES + 1:
                return None
        topic = bytes(data[position:after])
        partitions, position = read_uvarint(data, after)
        if not partitions or position + (partitions - 1) * row.size >= end:
            return None
        for _ in range(partitions - 1):
            index, epoch, offset, last_epoch, start, most, tags = row.unpack_from(data, position)
            if tags:
                return None
            position += row.size
            rows.append((topic, index, epoch, offset, last_epoch, start, most))
        if data[position]:
            return None
        position += 1
    return (rows, position) if topics else None


_ROWS_SINCE_4, _ROWS_SINCE_5 = Struct(">iqi"), Struct(">iqqi")
_ROWS_SINCE_9, _ROWS_SINCE_12 = Struct(">iiqqi"), Struct(">iiqiqiB")


def topic_of(version: int, key: bytes) -> str | Uuid | None:
    """The topic that these bytes of a fetch name; None where the encoder would name it by others."""
    if version >= _IDS_SINCE:
        return Uuid(key)
    try:
        at = read_uvarint(key, 0)[1] if version >= _FLEXIBLE_SINCE else _length.size
        name = str(key[at:], "utf-8")
    except (UnicodeDecodeError, WireError):
        return None
    return name if topic_bytes(version, name) == key else None


def topic_bytes(version: int, topic: str | Uuid) -> bytes:
    """The bytes that name a topic."""
    if not isinstance(topic, str):
        return bytes(topic)
    name = topic.encode()
    return (uvarint(len(name) + 1) if version >= _FLEXIBLE_SINCE else _length.pack(len(name))) + name


# ---- the answer ------------------------------------------------------------------------------------------

ReadRow = tuple[int, Offset, Offset, Offset, "Iterable[tuple[int, Offset]] | None", Part]
"""Partition, high watermark, last stable offset, log start, aborted transactions (producer id and first offset;
None: null), records (possibly none)."""


class ConsumerAnswer(NamedTuple):
    """What a consumer is told when nothing is wrong anywhere: rows by topic, as the request named it."""

    session_id: int
    topics: dict[bytes, list[ReadRow]]


def response_of(version: int, answer: ConsumerAnswer) -> FetchResponse:
    """The same answer, made of objects."""
    by_id = version >= _IDS_SINCE
    topics = []
    for key, rows in answer.topics.items():
        topic = topic_of(version, key)
        made = [
            PartitionData(
                partition_index=index,
                high_watermark=high_watermark,
                last_stable_offset=stable,
                log_start_offset=start,
                aborted_transactions=None
                if aborted is None
                else [AbortedTransaction(producer_id=who, first_offset=first) for who, first in aborted],
                records=records,
            )
            for index, high_watermark, stable, start, aborted, records in rows
        ]
        named: dict[str, Any] = {"topic_id" if by_id else "topic": topic}
        topics.append(FetchableTopicResponse(partitions=made, **named))
    return FetchResponse(session_id=answer.session_id, responses=topics)


_HEAD_SINCE_4, _HEAD_SINCE_7, _HEAD_SINCE_12 = Struct(">iiii"), Struct(">iiihii"), Struct(">iixihi")
"""The length, correlation id; throttle time, error code, session id; how many topics, in those before 12."""
_ROW_SINCE_4, _ROW_SINCE_5 = Struct(">ihqq"), Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset, log start."""
_aborted = Struct(">qq")
_NO_REPLICA = _count.pack(-1)
"""There is no replica to read from instead."""


def write_consumer_answer(
    parts: list[Part], correlation_id: int, version: int, answer: ConsumerAnswer
) -> int:
    """Append the whole frame of an answer to `parts`; returns its bytes.

    They are those that the encoder makes of a FetchResponse of that version.
    """
    flexible = version >= _FLEXIBLE_SINCE
    count = _plus_one if flexible else _count.pack
    session_id, topics = answer
    if flexible:
        text = bytearray(_HEAD_SINCE_12.pack(0, correlation_id, 0, 0, session_id))
        text += count(len(topics))
    elif version >= _SESSIONS_SINCE:
        text = bytearray(_HEAD_SINCE_7.pack(0, correlation_id, 0, 0, session_id, len(topics)))
    else:
        text = bytearray(_HEAD_SINCE_4.pack(0, correlation_id, 0, len(topics)))
    head, size = text, 0
    parts.append(text)
    for topic, rows in topics.items():
        text += topic
        text += count(len(rows))
        for index, high_watermark, stable, start, aborted, records in rows:
            if version >= _LOG_START_SINCE:
                text += _ROW_SINCE_5.pack(index, 0, high_watermark, stable, start)
            else:
                text += _ROW_SINCE_4.pack(index, 0, high_watermark, stable)
            text += count(-1) if aborted is None else _write_aborted(aborted, flexible)
            if version >= _RACK_SINCE:
                text += _NO_REPLICA
            length = len(records)
            text += count(length)
            if length:
                size += length + len(text)
                parts.append(records)
                text = bytearray()
                parts.append(text)
            if flexible:
                text += b"\0"  # no tags of the partition
        if flexible:
            text += b"\0"  # of the topic
    if flexible:
        text += b"\0"  # of the answer
    size += len(text)
    head[:4] = (size - 4).to_bytes(4, "big")
    return size


def _plus_one(length: int) -> bytes:
    return uvarint(length + 1)


def _write_aborted(aborted: Iterable[tuple[int, Offset]], flexible: bool) -> bytes:
    rows = [_aborted.pack(*row) for row in aborted]
    if flexible:
        return _plus_one(len(rows)) + b"".join(row + b"\0" for row in rows)
    return _count.pack(len(rows)) + b"".join(rows)
