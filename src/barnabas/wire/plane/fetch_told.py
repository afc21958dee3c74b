"""Answers to Fetch as rows, straight to bytes (Fetch 4 to 18) and from bytes (a follower's, 13 to 18).

A row is what a leader tells of one partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from barnabas.errors import WireError
from barnabas.model import Epoch, NodeId, Offset
from barnabas.ports import Buffer
from barnabas.wire.codec.declaration import Part
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.plane.fetch_asked import FLEXIBLE_SINCE, RACK_SINCE, SESSIONS_SINCE, TOPIC_IDS_SINCE

__all__ = ["Extra", "FetchAnswer", "HeardRow", "HeardRows", "ToldRow", "write_fetch_answer"]

_LOG_START_SINCE = 5
_HEAD_SINCE_4, _HEAD_SINCE_7, _HEAD_SINCE_12 = Struct(">iiii"), Struct(">iiihii"), Struct(">iixihi")
"""The length, correlation id; throttle time, error code, session id; how many topics, in those before 12."""
_ROW_SINCE_4, _ROW_SINCE_5 = Struct(">ihqq"), Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset, log start."""
_aborted = Struct(">qq")
_count, _length = Struct(">i"), Struct(">h")
_NO_REPLICA = -1
_NO_TAGS = b"\0"
_diverging, _leader = Struct(">BBiqB"), Struct(">BBiiB")
"""Tagged fields of a partition: number and size, then epoch and end, or node and epoch; no tags."""
_ANSWER = Struct(">iBihi")
"""Correlation id, no tags; throttle time, error code, session id."""
_ANSWER_ROW = Struct(">ihqqqBi")
"""Partition, error code, high watermark, last stable offset, log start, aborted transactions (0: null), the
replica to read from instead."""
_one_answer = Struct(">iixihiB16sBihqqqBi")
"""An answer of one partition up to the length of its records: head, counts and topic id, `_ANSWER_ROW`."""
_one_told = Struct(">i35sq8xqBiBB")
"""The same behind its length: what many have in common (`_SAME`) is one field, the length of the records two."""
_SAME = slice(4, 39)
"""Of an answer of one partition: all between the correlation id and the high watermark."""
_TOPICS_AT, _PARTITIONS_AT = 15, 32
"""The counts in it."""
_ONE = 2
"""A count of one, as compact arrays write it."""
_ONE_END = b"\0\0\0"
"""No tags of the partition, the topic and the answer."""
_TOPIC_ID_BYTES = 16
_JOINED_BYTES = 4096
"""Up to so many bytes of records are copied between the rest of an answer: one part costs less than three."""
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords


class Extra(NamedTuple):
    """The rare part of a row: where the client's log left ours (epoch, end), who leads instead (node, epoch)."""

    diverging: tuple[Epoch, Offset] | None = None
    leader: tuple[NodeId, Epoch] | None = None


Aborted = Iterable[tuple[int, Offset]] | None
"""Aborted transactions: producer id and first offset; None: null."""
ToldRow = tuple[int, int, Offset, Offset, Offset, Aborted, NodeId, Part, Extra | None]
"""Partition, error code, high watermark, last stable offset, log start, aborted transactions, the replica to read
from instead (-1: none), records (possibly none), and what is rare."""


class FetchAnswer(NamedTuple):
    """The answer to one Fetch: rows by topic (its id, or its name in UTF-8).

    `endpoints` are those of the leaders that rows name: node id, host, port, rack.
    """

    session_id: int
    topics: dict[bytes, list[ToldRow]]
    error: int = 0
    endpoints: tuple[tuple[NodeId, str, int, str | None], ...] = ()
    throttle_time_ms: int = 0


def write_fetch_answer(parts: list[Part], correlation_id: int, version: int, answer: FetchAnswer) -> int:
    """Append the whole frame of an answer to `parts`; returns its bytes.

    They are those that the encoder makes of a FetchResponse of that version.
    """
    session_id, topics, error, endpoints, throttle_ms = answer
    if version >= TOPIC_IDS_SINCE and len(topics) == 1 and not error and not throttle_ms:
        ((topic_id, rows),) = topics.items()
        if len(rows) == 1 and not (row := rows[0])[1] and row[5] is None and row[8] is None:
            return _write_one(parts, correlation_id, session_id, topic_id, row)
    flexible = version >= FLEXIBLE_SINCE
    count = _plus_one if flexible else _count.pack
    if flexible:
        text = bytearray(_HEAD_SINCE_12.pack(0, correlation_id, throttle_ms, error, session_id))
        text += count(len(topics))
    elif version >= SESSIONS_SINCE:
        text = bytearray(_HEAD_SINCE_7.pack(0, correlation_id, throttle_ms, error, session_id, len(topics)))
    else:
        text = bytearray(_HEAD_SINCE_4.pack(0, correlation_id, throttle_ms, len(topics)))
    head, size = text, 0
    parts.append(text)
    for topic, rows in topics.items():
        if version < TOPIC_IDS_SINCE:
            text += count(len(topic)) if flexible else _length.pack(len(topic))
        text += topic
        text += count(len(rows))
        for index, wrong, high_watermark, stable, start, aborted, replica, records, extra in rows:
            if version >= _LOG_START_SINCE:
                text += _ROW_SINCE_5.pack(index, wrong, high_watermark, stable, start)
            else:
                text += _ROW_SINCE_4.pack(index, wrong, high_watermark, stable)
            text += count(-1) if aborted is None else _write_aborted(aborted, flexible)
            if version >= RACK_SINCE:
                text += _count.pack(replica)
            length = len(records)
            text += count(length)
            if length:
                size += length + len(text)
                parts.append(records)
                text = bytearray()
                parts.append(text)
            if flexible:
                text += _NO_TAGS if extra is None else _write_extra(extra)
        if flexible:
            text += _NO_TAGS  # of the topic
    if flexible:
        text += _write_endpoints(endpoints) if endpoints else _NO_TAGS
    size += len(text)
    head[:4] = (size - 4).to_bytes(4, "big")
    return size


def _write_extra(extra: Extra) -> bytes:
    """The tagged fields of a partition (KIP-595, KIP-951)."""
    fields = [
        form.pack(number, form.size - 2, *values, 0)
        for number, form, values in ((0, _diverging, extra.diverging), (1, _leader, extra.leader))
        if values is not None and tuple(values) != (-1, -1)
    ]
    return bytes((len(fields),)) + b"".join(fields)


def _write_endpoints(endpoints: Iterable[tuple[NodeId, str, int, str | None]]) -> bytes:
    """The tagged field of an answer that says where leaders listen (KIP-951)."""
    rows = [
        _count.pack(node)
        + _text(host)
        + _count.pack(port)
        + (_NO_TAGS if rack is None else _text(rack))
        + _NO_TAGS
        for node, host, port, rack in endpoints
    ]
    field = _plus_one(len(rows)) + b"".join(rows)
    return b"\1\0" + uvarint(len(field)) + field


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return _plus_one(len(encoded)) + encoded


def _plus_one(length: int) -> bytes:
    return uvarint(length + 1)


def _write_aborted(aborted: Iterable[tuple[int, Offset]], flexible: bool) -> bytes:
    rows = [_aborted.pack(*row) for row in aborted]
    if flexible:
        return _plus_one(len(rows)) + b"".join(row + b"\0" for row in rows)
    return _count.pack(len(rows)) + b"".join(rows)


def _write_one(parts: list[Part], correlation_id: int, session_id: int, topic_id: bytes, row: ToldRow) -> int:
    """Append the frame for one partition of which only offsets and records are told."""
    index, _, high_watermark, stable, start, _, replica, records, _ = row
    length = len(records)
    counted = uvarint(length + 1)
    size = _one_answer.size + len(counted) + length + len(_ONE_END)
    begin = size - 4, correlation_id, 0, 0, session_id, _ONE, topic_id, _ONE
    head = _one_answer.pack(*begin, index, 0, high_watermark, stable, start, 0, replica)
    if isinstance(records, bytes) and length <= _JOINED_BYTES:
        parts.append(b"".join((head, counted, records, _ONE_END)))
    elif length:
        parts += (head + counted, records, _ONE_END)
    else:
        parts.append(head + counted + _ONE_END)
    return size


class HeardRow(NamedTuple):
    """What a follower hears of one partition with which all is well."""

    topic_id: bytes
    partition: int
    high_watermark: Offset
    log_start: Offset
    records: Buffer


class HeardRows:
    """The answers of a follower's session: the bytes that they share while they tell of the same partition."""

    __slots__ = ("_index", "_same", "_session_id", "_topic_id")

    def __init__(self, session_id: int) -> None:
        self._session_id = session_id
        self._same = self._topic_id = b""
        self._index = 0

    def read(self, frame: Buffer, correlation_id: int) -> list[HeardRow] | None:
        """Return the rows of an answer of this session without its length; None: another one, or not plain.

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
                if aborted <= 1 and replica == _NO_REPLICA and view[end:] == _ONE_END:
                    return [
                        _new(HeardRow, (self._topic_id, self._index, high_watermark, start, view[at:end]))
                    ]
        rows = _heard_rows(view, self._session_id, correlation_id)
        if rows is not None and len(rows) == 1 and view[_TOPICS_AT] == view[_PARTITIONS_AT] == _ONE:
            self._same = bytes(view[_SAME])
            self._topic_id, self._index, *_ = rows[0]
        return rows

    def __repr__(self) -> str:
        return f"<HeardRows of session {self._session_id}>"


def _heard_rows(view: memoryview, session_id: int, correlation_id: int) -> list[HeardRow] | None:
    """Read an answer of however many partitions (see `HeardRows.read`)."""
    rows: list[HeardRow] = []  # (list[HeardRow]() takes a microsecond: it tries to remember its type)
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
                if error or aborted > 1 or replica != _NO_REPLICA:
                    return None
                size, at = read_uvarint(view, at + _ANSWER_ROW.size)
                end = at + max(size - 1, 0)
                rows.append(HeardRow(topic_id, index, high_watermark, start, view[at:end]))
                if view[end]:  # (tags of the partition: where logs diverge, who leads)
                    return None
                at = end + 1
            if not partitions or view[at]:
                return None
            at += 1
        return rows if topics and not view[at] and at + 1 == len(view) else None
    except (WireError, IndexError, StructError):
        return None
