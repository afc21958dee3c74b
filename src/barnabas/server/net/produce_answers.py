"""The answers to Produce requests that the fast path serves, and the place in the line of neighbouring ones.

What a request for one partition looks like, byte by byte, is learned from one that the slow path took: the bytes
before the records, and an answer that the slow path would encode, with holes where the four numbers go.  The
answer to several partitions is put together of bytes from the request.  Requests of one read share the batches of
each partition, which are written, synced and so acknowledged together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.purgatory import Waiting
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.append import PlainBatches
from barnabas.errors import ErrorCode
from barnabas.model import Now, Offset
from barnabas.server.net.connection import Connection
from barnabas.wire.codec.message import encode_parts
from barnabas.wire.frame import write_response
from barnabas.wire.records import TRANSACTIONAL
from barnabas.wire.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = [
    "LEAST_BATCH_BYTES",
    "MOST_COPIED_BYTES",
    "Batches",
    "ProduceRun",
    "ProduceTemplate",
    "SeveralReply",
]

LEAST_BATCH_BYTES = 61
"""A batch without records."""
MOST_COPIED_BYTES = 128 * 1024
"""Compiled code reads a copy of a frame; of a larger one the copy would cost more than it saves."""
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
_begin = _struct(">iiBB").pack
"""Size, correlation id, no tagged fields, and the count of topics."""
_part = _struct(">ihqqqBBB").pack
"""A partition's part: index, error code, base offset, append time, log start; no record errors, no error message,
no tagged fields."""
_PART_BYTES = 33
_END = bytes(5)
"""Not throttled, no tagged fields."""


class ProduceTemplate:
    """One kind of request: one batch for one partition, all bytes before it as in `head` and `key`.

    `unpack` cuts a frame into head, correlation id, key and four bytes that hold the length of the records.
    `pack` makes an answer of its size, the correlation id, `middle`, error code, base offset, append time,
    log start (from v5 on) and `after`.
    """

    __slots__ = (
        "acks",
        "after",
        "alike",
        "before",
        "everywhere",
        "flexible",
        "head",
        "key",
        "key_end",
        "least",
        "middle",
        "most_codec",
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
        self.head = bytes(frame[:4])
        self.key = bytes(frame[_COMPARED_FROM : self.key_end])
        self.before = self.key[:-4]
        """The key without the partition."""
        self.alike = self.head + self.before
        """What those have in common that differ by the partition alone."""
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


class Producing(Protocol):
    """What a connection's producer was seen to send (`produce_fast_path`)."""

    @property
    def broker(self) -> Broker: ...
    @property
    def connection(self) -> Connection: ...
    def answered(self, count: int, handled: float, spent: float) -> None:
        """So many requests were answered."""
        ...


class SeveralReply:
    """The answer to a request for several partitions, of a flexible version.

    `heads` has for each topic the bytes in front of its partitions, and how many those are; `parts` the batches
    and the first offset of each partition.
    """

    __slots__ = ("correlation", "heads", "parts")

    def __init__(
        self, correlation: int, heads: list[tuple[bytes, int]], parts: list[tuple[Batches, Offset]]
    ) -> None:
        self.correlation = correlation
        self.heads = heads
        self.parts = parts

    def waits_for(self) -> Batches | None:
        """What is not done of it: the last of that, for they are done in their order mostly."""
        for batches, _ in reversed(self.parts):
            if not batches.done:
                return batches
        return None

    def __repr__(self) -> str:
        return f"<SeveralReply {self.correlation} {len(self.parts)}>"

    def encoded(self) -> bytes:
        """The frame, when all is done."""
        packed = [
            _part(batches.partition.index, 0, first, -1, batches.start, 1, 0, 0)
            if not batches.error
            else _part(batches.partition.index, batches.error, -1, -1, -1, 1, 0, 0)
            for batches, first in self.parts
        ]
        pieces, size, at = [b""], 11, 0
        for head, count in self.heads:
            pieces.append(head)
            pieces += packed[at : at + count]
            pieces.append(b"\0")
            at += count
            size += len(head) + count * _PART_BYTES + 1
        pieces[0] = _begin(size, self.correlation, 0, len(self.heads) + 1)
        pieces.append(_END)
        return b"".join(pieces)


Reply = tuple["Batches", int, Offset, int] | SeveralReply


class ProduceRun(Waiting):
    """The place in the line of neighbouring requests of one read that the fast path served.

    `replies` leave in their order; that to a request for one partition is (batches, correlation id, base offset,
    append time), so that it costs least.  `open` counts the batches that are not done, and `awaited` are those
    that the next reply waits for.  It waits in the purgatory while some of them are not done.
    """

    __slots__ = (
        "_next",
        "awaited",
        "batches",
        "fast_path",
        "handled",
        "open",
        "received",
        "replies",
        "timeout_s",
    )

    def __init__(self, fast_path: Producing, received: float, timeout_s: float) -> None:
        super().__init__(received + timeout_s)
        self.fast_path = fast_path
        self.received = received
        self.timeout_s = timeout_s
        self.handled = 0.0
        self.batches: list[Batches] = []
        self.replies: list[Reply] = []
        self.open = 0
        self.awaited: Batches | None = None
        self._next = 0

    def send(self, now: float) -> bool:
        """Its turn has come: send the answers that are there, up to the first that is not.

        Returns whether that was all.
        """
        fast_path, replies = self.fast_path, self.replies
        connection = fast_path.connection
        begun = at = self._next
        parts: list[bytes] = []
        for reply in replies[at:] if at else replies:
            if isinstance(reply, tuple):
                batches, correlation, first, time = reply
                if not batches.done:
                    self.awaited = batches
                    break
                template = batches.template
                if batches.error or not template.with_start:
                    parts.append(batches.answer(correlation, first, time))
                else:
                    size, middle, start, after = template.size, template.middle, batches.start, template.after
                    parts.append(template.pack(size, correlation, middle, 0, first, time, start, after))
            else:
                if self.open and (waits_for := reply.waits_for()) is not None:
                    self.awaited = waits_for
                    break
                parts.append(reply.encoded())
            at += 1
        if at == begun:
            return False
        self._next = at
        answers = b"".join(parts) if len(parts) > 1 else parts[0]
        if at == len(replies) and len(connection.line) == 1:  # (nothing of this loop step follows)
            connection.send_queue.send_small(answers)
        else:
            connection.send_queue.add_small(answers)
        connection.look_again()
        fast_path.answered(at - begun, self.handled, now - self.received)
        if at < len(replies):
            connection.more -= at - begun
            return False
        connection.more -= at - begun - 1
        return True

    def look(self) -> None:
        """All of its batches are done, or those that the next reply waits for: there may be something to send."""
        if not self.open and self.bucket is not None:
            self._unpark()
        self.fast_path.connection.slot_done(self)

    def park(self) -> None:
        """It takes longer than this loop step: from now on the timeout of its requests counts."""
        if self.bucket is None:
            self.fast_path.broker.purgatory.add(self, force=True)
            if self.awaited is not None and self.awaited.done:
                self.fast_path.connection.slot_done(self)

    def _unpark(self) -> None:
        if self.bucket is not None:
            self.bucket.purgatory.remove(self)

    def expired(self, now: Now) -> None:
        """Its time is over."""
        for batches in list(self.batches):
            if not batches.done:
                batches.partition.acknowledgements.forget(batches)
                batches.settle(ErrorCode.REQUEST_TIMED_OUT)

    def cancel(self) -> None:
        """The connection is gone; the batches stay."""
        self._unpark()
        for batches in self.batches:
            batches.cancel()

    def __repr__(self) -> str:
        return f"<ProduceRun {self._next} of {len(self.replies)} answered>"


class Batches(PlainBatches):
    """The batches of a run for one partition: written, synced and so acknowledged together, up to `end`.

    `template` says what the answers look like, if each is to a request for this partition alone, `start` where the
    log began when they were done.
    """

    __slots__ = ("done", "error", "run", "start", "template")

    def __init__(
        self, partition: Partition, everywhere: bool, template: ProduceTemplate | None = None
    ) -> None:
        self.end = self.until = self.start = -1  # (as the class above does: one call less for each partition)
        self.everywhere = everywhere
        self.partition = partition
        self.log = partition.log
        self.epoch = partition.leader_epoch
        self.records = self.size = self.error = 0
        self.template: ProduceTemplate = template  # type: ignore[assignment]  # asked for where one was given
        self.run: ProduceRun | None = None
        self.done = False

    def join(self, run: ProduceRun) -> None:
        """Be answered in the place of this run, when they are acknowledged."""
        self.run = run
        run.batches.append(self)
        run.open += 1
        if run.awaited is None:
            run.awaited = self
        self.partition.await_acknowledgement(self)

    def settle(self, error: ErrorCode) -> None:
        """They are safe, or will never be known to be."""
        run = self.run
        if not self.done and run is not None:
            self.done = True
            self.error = error
            self.start = self.partition.log.log_start_offset
            run.open -= 1
            if not run.open or (run.awaited is self and run.bucket is not None):
                run.look()  # (what is not parked is settled in this loop step too, or parks)

    def answer(self, correlation: int, first: Offset, time: int) -> bytes:
        """The frame for one of them, when they are done."""
        template, error, start = self.template, self.error, self.start
        if error:
            first = time = start = -1
        size, middle, after = template.size, template.middle, template.after
        if template.with_start:
            return template.pack(size, correlation, middle, error, first, time, start, after)
        return template.pack(size, correlation, middle, error, first, time, after)

    def park(self) -> bool:
        """It takes longer than this loop step."""
        if self.done or self.run is None:
            return False
        self.run.park()
        return True

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self.done = True
        self.partition.acknowledgements.forget(self)

    def __repr__(self) -> str:
        return f"<Batches {self.partition.topic}-{self.partition.index} up to {self.end}>"
