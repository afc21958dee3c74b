"""Answers to Produce from rows, straight to bytes (Produce 3 to 13; KIP-467, KIP-951).

A row is what became of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from barnabas.model import Epoch, NodeId, Offset
from barnabas.wire.codec.primitives import uvarint
from barnabas.wire.plane.produce_asked import FLEXIBLE_SINCE, TOPIC_IDS_SINCE

__all__ = ["Extra", "OneTold", "ProduceAnswer", "ToldRow", "write_produce_answer"]

_LOG_START_SINCE, _RECORD_ERRORS_SINCE = 5, 8
_struct = lru_cache(maxsize=1024)(Struct)
_count, _length = Struct(">i").pack, Struct(">h").pack
_begin = Struct(">ii").pack
"""Size and correlation id."""


class Extra(NamedTuple):
    """The rare part of a row: why a batch was refused, its wrong records (index, why), who leads instead (node,
    epoch) and where that node is (node, host, port, rack)."""

    message: str | None = None
    records: Sequence[tuple[int, str]] = ()
    leader: tuple[NodeId, Epoch] | None = None
    endpoints: tuple[tuple[NodeId, str, int, str | None], ...] = ()


ToldRow = tuple[int, int, Offset, int, Offset, Extra | None]
"""Partition, error code, first offset, append time (-1: the producer's times), log start, and what is rare."""


class ProduceAnswer(NamedTuple):
    """The answer to one Produce: rows by topic (its id, or its name in UTF-8), in the order of the request."""

    topics: list[tuple[bytes, list[ToldRow]]]
    throttle_time_ms: int = 0

    @property
    def is_rare(self) -> bool:
        """Return whether a row has an extra part: `objects` writes such answers."""
        return any(row[5] is not None for _, rows in self.topics for row in rows)


class _Form:
    """How the answers of a version are written."""

    __slots__ = ("end", "flexible", "in_front", "part", "part_end", "topic_end", "with_start")

    def __init__(self, version: int) -> None:
        self.flexible = flexible = version >= FLEXIBLE_SINCE
        self.with_start = version >= _LOG_START_SINCE
        self.in_front = b"\0" if flexible else b""
        """Between the correlation id and the count of topics."""
        self.part_end = b""
        if version >= _RECORD_ERRORS_SINCE:
            self.part_end = b"\1\0\0" if flexible else b"\0\0\0\0\xff\xff"
        self.part = _struct(f">ihqq{'q' if self.with_start else ''}{len(self.part_end)}s").pack
        self.topic_end = b"\0" if flexible else b""
        self.end = b"\0" if flexible else b""

    def count(self, count: int) -> bytes:
        return uvarint(count + 1) if self.flexible else _count(count)


_form = lru_cache(maxsize=16)(_Form)


@lru_cache(maxsize=1024)
def _named(version: int, topic: bytes) -> bytes:
    if version >= TOPIC_IDS_SINCE:
        return topic
    return (uvarint(len(topic) + 1) if version >= FLEXIBLE_SINCE else _length(len(topic))) + topic


class OneTold:
    """The answer to a request for one partition, packed ahead but for its numbers.

    `pack` makes it of `size`, the correlation id, `middle`, error code, first offset, append time, log start (if
    `with_start`) and `after`.
    """

    __slots__ = ("after", "middle", "pack", "size", "with_start")

    def __init__(self, version: int, topic: bytes, index: int) -> None:
        form = _form(version)
        self.with_start = form.with_start
        one = form.count(1)
        self.middle = form.in_front + one + _named(version, topic) + one + _count(index)
        self.after = form.part_end + form.topic_end + bytes(4) + form.end
        packed = _struct(f">4si{len(self.middle)}shqq{'q' if form.with_start else ''}{len(self.after)}s")
        self.size = (packed.size - 4).to_bytes(4, "big")
        self.pack: Callable[..., bytes] = packed.pack


def write_produce_answer(correlation_id: int, version: int, answer: ProduceAnswer) -> bytes:
    """Return the whole frame of an answer that is not rare: the bytes that the encoder makes of its
    ProduceResponse of that version."""
    form = _form(version)
    pack, part_end, topic_end, count = form.part, form.part_end, form.topic_end, form.count
    pieces = [b"", form.in_front, count(len(answer.topics))]
    for topic, rows in answer.topics:
        pieces.append(_named(version, topic))
        pieces.append(count(len(rows)))
        if form.with_start:
            for index, error, first, time, start, _ in rows:
                pieces.append(pack(index, error, first, time, start, part_end))
        else:
            for index, error, first, time, _, _ in rows:
                pieces.append(pack(index, error, first, time, part_end))
        pieces.append(topic_end)
    pieces.append(_count(answer.throttle_time_ms))
    pieces.append(form.end)
    size = sum(map(len, pieces)) + 4
    pieces[0] = _begin(size, correlation_id)
    return b"".join(pieces)
