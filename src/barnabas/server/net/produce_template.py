"""What one kind of Produce request looks like, byte by byte, and what its answer looks like.

Learned from a request that the slow path took: the bytes before the records, and an answer that the slow
path would encode, with holes where the four numbers go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

from barnabas.broker.replicas.partition import Partition
from barnabas.wire.codec.message import encode_parts
from barnabas.wire.frame import write_response
from barnabas.wire.records import TRANSACTIONAL
from barnabas.wire.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

__all__ = ["LEAST_BATCH_BYTES", "ProduceTemplate"]

LEAST_BATCH_BYTES = 61
"""A batch without records."""
_FLEXIBLE_SINCE = 9
_LOG_START_SINCE = 5
_ZSTD_SINCE = 7
_COMPARED_FROM = 8
"""Before it stand API key, version and correlation id."""
_NO_TAGS = b"\0\0\0"
"""What follows the records in a flexible version: no tagged fields, three times."""
_MARKS = (0x5A3C, 0x5A3C5A3C00C3A5C3, 0x5A3C5A3C01C3A5C3, 0x5A3C5A3C02C3A5C3)
"""Stand for error code, base offset, append time and log start where their places are looked for."""

_struct = lru_cache(maxsize=1024)(Struct)


class ProduceTemplate:
    """One kind of request: one batch for one partition, all bytes before it as in `head` and `key`.

    `unpack` cuts a frame into head, correlation id, key and four bytes that hold the length of the records.
    `pack` makes an answer of its size, the correlation id, `middle`, error code, base offset, append time,
    log start (from v5 on) and `after`.
    """

    __slots__ = (
        "acks",
        "after",
        "everywhere",
        "flexible",
        "head",
        "key",
        "key_end",
        "least",
        "middle",
        "most_codec",
        "open",
        "pack",
        "partition",
        "size",
        "timeout_s",
        "transactional",
        "unpack",
        "version",
        "with_start",
    )

    def __init__(
        self, partition: Partition, request: ProduceRequest, version: int, frame: memoryview
    ) -> None:
        """Raises ValueError when the bytes are not what we would have written for this request."""
        self.key_end = _key_end(frame, request, version)
        self.partition = partition
        self.version = version
        self.flexible = version >= _FLEXIBLE_SINCE
        self.acks = request.acks
        self.everywhere = request.acks < 0
        self.timeout_s = request.timeout_ms / 1000.0
        self.most_codec = 4 if version >= _ZSTD_SINCE else 3
        self.transactional = TRANSACTIONAL if request.transactional_id is not None else 0
        """The attribute of batches of transactions, if there may be such."""
        self.open: Any = None
        """The batches of the read in progress (of `produce_fast_path`), or None."""
        self.head = bytes(frame[:4])
        self.key = bytes(frame[_COMPARED_FROM : self.key_end])
        self.least = self.key_end + LEAST_BATCH_BYTES
        self.unpack: Callable[[Any, int], tuple[Any, ...]] = _struct(f">4si{len(self.key)}sI").unpack_from
        self._learn_answer(request)

    def _learn_answer(self, request: ProduceRequest) -> None:
        (topic,) = request.topic_data
        error, first, time, start = _MARKS
        answer = PartitionProduceResponse(
            index=topic.partition_data[0].index,
            error_code=error,
            base_offset=first,
            log_append_time_ms=time,
            log_start_offset=start,
        )
        parts: list[Any] = []
        write_response(
            parts,
            0,
            ProduceResponse.KEY or 0,
            self.version,
            ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=topic.name, topic_id=topic.topic_id, partition_responses=[answer]
                    )
                ]
            ),
        )
        frame = b"".join(parts)
        self.with_start = self.version >= _LOG_START_SINCE
        form = "hqqq" if self.with_start else "hqq"
        marks = _struct(">" + form).pack(*_MARKS[: len(form)])
        if frame.count(marks) != 1:
            raise ValueError("the places of an answer's numbers are not clear")
        before, _, self.after = frame.partition(marks)
        self.size, self.middle = before[:4], before[8:]
        self.pack: Callable[..., bytes] = _struct(f">4si{len(self.middle)}s{form}{len(self.after)}s").pack

    def __repr__(self) -> str:
        return f"<ProduceTemplate v{self.version} {self.partition.topic}-{self.partition.index}>"


def _key_end(frame: memoryview, request: ProduceRequest, version: int) -> int:
    """Where the compared bytes end: before the length of the records.

    Found by writing the request again: only bytes in the form that we would have chosen are remembered.
    Raises ValueError for others.
    """
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    flexible = version >= _FLEXIBLE_SINCE
    tail = _NO_TAGS if flexible else b""
    parts: list[Any] = []
    body_at = len(frame) - encode_parts(parts, request, version)
    at = next(index for index, part in enumerate(parts) if part is records)
    before = b"".join(parts[:at])
    records_at = body_at + len(before)
    if (
        b"".join(parts[at + 1 :]) != tail
        or body_at < _COMPARED_FROM
        or frame[body_at:records_at] != before
        or records_at + len(records) + len(tail) != len(frame)
        or frame[len(frame) - len(tail) :] != tail
    ):
        raise ValueError("an unusual encoding")
    width = _uvarint_width(len(records) + 1) if flexible else 4
    return records_at - width


def _uvarint_width(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
