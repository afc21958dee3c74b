"""The Produce request that looks like an earlier one of its connection, served without reading it again.

A producer sends the same bytes over and over: client id, acks, timeout, topic and partition are those of
its last request, only correlation id and records differ.  What the slow path found out about such bytes
holds for equal bytes, as long as nothing changed that an answer depends on (the broker's `generation`).  So
the fast path is: compare the bytes, look at the batch, append it, and fill in the answer's four numbers.

It is the slow path seen twice, not a second broker.  The batch goes through the same `check_shape` and
`append_checked`; the answer is one that the slow path encoded, with holes where the numbers go; and whatever
is not plain (an error, a transaction, an unusual encoding) is left to the slow path as if nobody had looked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.broker.partition import Acknowledgement, Partition
from barnabas.broker.produce import ProduceWaiting, append_checked
from barnabas.broker.validation import check_shape
from barnabas.broker.waiting import Waiting
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now, Offset
from barnabas.server import events
from barnabas.wire.frame import write_response
from barnabas.wire.message import encode_parts
from barnabas.wire.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.server.connection import Connection
    from barnabas.server.context import RequestContext
    from barnabas.server.requests import Route

__all__ = ["MOST_REMEMBERED", "ProduceMemo", "ProduceMemos", "ProduceSlot"]

MOST_REMEMBERED = 64
"""Kinds of requests remembered for one connection; further ones take the slow path."""
_LEAST_BATCH = 61
_FLEXIBLE_SINCE = 9
_LOG_START_SINCE = 5
_TRANSACTIONAL = 0x10
_COMPARED_FROM = 8
"""Before it stand API key, version and correlation id."""
_NO_TAGS = b"\0\0\0"
"""What follows the records in a flexible version: no tagged fields, three times."""
_MARKS = (0x5A3C, 0x5A3C5A3C00C3A5C3, 0x5A3C5A3C01C3A5C3, 0x5A3C5A3C02C3A5C3)
"""Stand for error code, base offset, append time and log start where their places are looked for."""

_struct = lru_cache(maxsize=1024)(Struct)


class ProduceMemo:
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
        "pack",
        "partition",
        "size",
        "timeout_s",
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
        self.head = bytes(frame[:4])
        self.key = bytes(frame[_COMPARED_FROM : self.key_end])
        self.least = self.key_end + _LEAST_BATCH
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
        return f"<ProduceMemo v{self.version} {self.partition.topic}-{self.partition.index}>"


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


class ProduceMemos:
    """What the producer on one connection was seen to send.  `take` is the fast path."""

    __slots__ = (
        "_generation",
        "_known",
        "_last",
        "_now",
        "_received",
        "_sent",
        "_sent_of",
        "_shapes",
        "_taken",
        "connection",
        "node",
        "route",
    )

    def __init__(self, connection: Connection, route: Route) -> None:
        self.connection = connection
        self.node = connection.listener.node
        self.route = route
        self._now = Now(0.0, 0)
        self._received = -1.0
        self._taken = 0
        self._sent = 0
        self._sent_of = -1.0
        self._forget(-1)

    def _forget(self, generation: int) -> None:
        self._generation = generation
        self._known: dict[bytes, ProduceMemo] = {}
        self._shapes: dict[int, ProduceMemo] = {}
        self._last: ProduceMemo | None = None

    def learn(
        self, context: RequestContext, frame: memoryview, request: ProduceRequest, waiting: ProduceWaiting
    ) -> None:
        """The slow path took this request in and waits: remember what it looks like."""
        broker = self.node.broker
        partition = waiting.only_partition
        if partition is None or broker.authorizer is not None or self.node.authorizer is not None:
            return
        if self._generation != broker.generation:
            self._forget(broker.generation)
        elif len(self._known) >= MOST_REMEMBERED:
            return
        try:
            memo = ProduceMemo(partition, request, context.version, frame)
        except ValueError:
            return
        self._known[memo.head + memo.key] = self._last = memo
        self._shapes[len(memo.key)] = memo

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end].  False: nothing was done, the slow path has to."""
        memo = self._last
        if memo is None:
            return False
        if end - position >= memo.least:
            head, correlation, key, size = memo.unpack(data, position)
            if key != memo.key or head != memo.head:
                memo = self._known.get(head + key) or self._find(data, position, end)
        else:
            memo = self._find(data, position, end)
        if memo is None:
            return False
        if memo is not self._last:
            self._last = memo
            _, correlation, _, size = memo.unpack(data, position)
        node = self.node
        broker = node.broker
        if self._generation != broker.generation:
            self._forget(-1)
            return False
        start = position + memo.key_end
        if memo.flexible:
            size, start = _flexible_size(size, start)
            end -= 3
            if data[end] or data[end + 1] or data[end + 2]:
                return False
        else:
            start += 4
        if start + size != end:
            return False
        if received != self._received:
            self._received, self._now = received, node.clock.now()
        records, partition = data[start:end], memo.partition
        try:
            header = check_shape(records, memo.version)
            if header.attributes & _TRANSACTIONAL or broker.room.full:
                return False
            first, stop, time = append_checked(broker, partition, records, header, memo.acks, self._now)
        except KafkaError:
            return False
        slot = ProduceSlot(self, memo, partition, correlation, first, stop, time, received)
        self.connection.line.append(slot)
        partition.await_acknowledgement(slot)
        node.turn.soon()
        self._taken += 1
        return True

    def _find(self, data: memoryview, position: int, end: int) -> ProduceMemo | None:
        """The memo of this frame among those whose compared bytes have another length than the last one's."""
        for shape in self._shapes.values():
            if end - position >= shape.least:
                head, _, key, _ = shape.unpack(data, position)
                if (memo := self._known.get(head + key)) is not None:
                    return memo
        return None

    def end_of_read(self) -> None:
        """Count what `take` served of one read, as the slow path counts each request."""
        if taken := self._taken:
            self._taken = 0
            self.node.request_ids += taken
            self.route.requests.value += taken
            self.route.handled_s.observe((monotonic() - self._received) / taken, taken)

    def sent(self, received: float) -> None:
        """One answer is on its way out."""
        if received != self._sent_of:
            self.end_of_turn()
            self._sent_of = received
        self._sent += 1

    def end_of_turn(self) -> None:
        """Count the answers that were sent."""
        if sent := self._sent:
            self._sent = 0
            spent = monotonic() - self._sent_of
            self.route.total_s.observe(spent, sent)
            if spent > self.route.slow_s:
                client = f"{self.connection.client_host}:{self.connection.client_port}"
                waited = f"{spent * 1000:.1f}"
                events.emit(
                    events.REQUEST_SLOW, api=self.route.name, requests=sent, client=client, waited_ms=waited
                )

    def __repr__(self) -> str:
        return f"<ProduceMemos {len(self._known)}>"


def _flexible_size(four: int, start: int) -> tuple[int, int]:
    """The length of compact bytes from the four bytes at `start`, and where the bytes begin.

    (-1, start) for lengths of more than four bytes.
    """
    if four < 0x80000000:
        return (four >> 24) - 1, start + 1
    size = four >> 24 & 0x7F | (four >> 16 & 0x7F) << 7
    if not four & 0x800000:
        return size - 1, start + 2
    size |= (four >> 8 & 0x7F) << 14
    if not four & 0x8000:
        return size - 1, start + 3
    if not four & 0x80:
        return (size | (four & 0x7F) << 21) - 1, start + 4
    return -1, start


class ProduceSlot(Acknowledgement):
    """The place in the line of one request of the fast path, and what waits for its batch to be safe."""

    __slots__ = (
        "append_time",
        "correlation",
        "done",
        "error",
        "first",
        "memo",
        "memos",
        "parked",
        "received",
    )

    def __init__(
        self,
        memos: ProduceMemos,
        memo: ProduceMemo,
        partition: Partition,
        correlation: int,
        first: Offset,
        end: Offset,
        append_time: int,
        received: float,
    ) -> None:
        self.memos = memos
        self.memo = memo
        self.partition = partition
        self.everywhere = memo.everywhere
        self.correlation = correlation
        self.first = first
        self.end = end
        self.append_time = append_time
        self.received = received
        self.done = False
        self.error = 0
        self.parked: _Parked | None = None

    def settle(self, error: ErrorCode) -> None:
        """The batch is safe, or will never be known to be."""
        if self.done:
            return
        self.done = True
        self.error = error
        if self.parked is not None:
            self.parked.cancel()
            self.parked = None
        self.memos.connection.slot_done(self)

    def park(self) -> bool:
        """It takes longer than this turn: from now on the request's timeout counts."""
        if self.done:
            return False
        self.parked = _Parked(self)
        self.memos.node.broker.room.add(self.parked, force=True)
        return True

    def cancel(self) -> None:
        """The connection is gone; the batch stays."""
        self.done = True
        if self.parked is not None:
            self.parked.cancel()
            self.parked = None
        self.partition.forget(self)

    def send(self, now: float) -> None:
        """Its turn in the line has come."""
        memo, error = self.memo, self.error
        if error:
            first = time = start = -1
        else:
            first, time, start = self.first, self.append_time, self.partition.log.log_start_offset
        numbers = (error, first, time, start) if memo.with_start else (error, first, time)
        connection = self.memos.connection
        connection.outlet.add_small(memo.pack(memo.size, self.correlation, memo.middle, *numbers, memo.after))
        connection.look_again()
        self.memos.sent(self.received)

    def __repr__(self) -> str:
        return f"<ProduceSlot {self.correlation}{' done' if self.done else ''}>"


class _Parked(Waiting):
    """The deadline of a batch that is not safe by the end of its turn."""

    __slots__ = ("slot",)

    def __init__(self, slot: ProduceSlot) -> None:
        super().__init__(slot.received + slot.memo.timeout_s)
        self.slot: ProduceSlot | None = slot

    def release(self) -> None:
        self.slot = None  # it points back here: leave no circle for the garbage collector

    def expired(self, now: Now) -> None:
        slot = self.slot
        if slot is not None:
            slot.partition.forget(slot)
            slot.settle(ErrorCode.REQUEST_TIMED_OUT)
