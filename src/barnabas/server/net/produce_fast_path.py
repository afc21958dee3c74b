"""The Produce request that looks like an earlier one of its connection, served without reading it again.

A producer sends the same bytes over and over: client id, acks, timeout, topic and partition are those of
its last request, only correlation id and records differ.  What the slow path found out about such bytes
holds for equal bytes, as long as nothing changed that an answer depends on (the broker's `generation`).  So
the fast path is: compare the bytes, look at the batch, append it, and fill in the answer's four numbers.

It is the slow path seen twice, not a second broker.  The batch goes through the same `check_shape` and
`append_checked`; the answer is one that the slow path encoded, with holes where the numbers go; and whatever
is not plain (an error, the first batch of a transaction, an unusual encoding, work for a thread) is left to
the slow path as if nobody had looked.  Only up to the append, though: what the log refuses then is answered
here, because the bytes are not what the producer sent any more.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.broker.requests.append import NotAppendedError, append_checked, append_plain
from barnabas.broker.requests.produce import ProduceWaiting
from barnabas.broker.requests.validation import LeftToAThread, check_shape
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now, Offset
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import RequestContext
from barnabas.server.net.network import Network
from barnabas.server.net.produce_template import LEAST_BATCH_BYTES, ProduceTemplate
from barnabas.server.net.route import Route
from barnabas.server.observe import events
from barnabas.server.observe.traffic import Traffic
from barnabas.wire.records import TRANSACTIONAL
from barnabas.wire.schemas.produce import (
    ProduceRequest,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["MOST_TEMPLATES", "ProduceFastPath", "ProduceRun"]

MOST_TEMPLATES = 64
"""Kinds of requests remembered for one connection; further ones take the slow path."""
WRITTEN_AT_ONCE_BYTES = 256 * 1024
"""A batch of this size is written while the processor's cache still holds it, not at the end of the loop step."""


class ProduceFastPath:
    """What the producer on one connection was seen to send.  `take` is the fast path."""

    __slots__ = (
        "_bytes",
        "_clock",
        "_generation",
        "_known",
        "_last",
        "_network",
        "_now",
        "_received",
        "_records",
        "_run",
        "_shapes",
        "_taken",
        "_traffic",
        "broker",
        "connection",
        "route",
        "unwritten",
    )

    def __init__(
        self, network: Network, broker: Broker, traffic: Traffic, connection: Connection, route: Route
    ) -> None:
        self._network = network
        self._clock = network.runtime.clock
        self._traffic = traffic
        self.broker = broker
        self.connection = connection
        self.route = route
        self.unwritten = False
        """Whether the bytes that `take` took last are needed until the end of the loop step."""
        self._now = Now(0.0, 0)
        self._received = -1.0
        self._run: ProduceRun | None = None
        self._taken = self._records = self._bytes = 0
        self._forget(-1)

    def _forget(self, generation: int) -> None:
        self._generation = generation
        self._known: dict[bytes, ProduceTemplate] = {}
        self._shapes: dict[int, ProduceTemplate] = {}
        self._last: ProduceTemplate | None = None

    def learn(
        self, context: RequestContext, frame: memoryview, request: ProduceRequest, waiting: ProduceWaiting
    ) -> None:
        """The slow path took this request in and waits: remember what it looks like."""
        broker = self.broker
        partition = waiting.only_partition
        if partition is None:
            return
        if self._generation != broker.generation:
            self._forget(broker.generation)
        elif len(self._known) >= MOST_TEMPLATES:
            return
        try:
            template = ProduceTemplate(partition, request, context.version, frame)
        except (ValueError, IndexError):  # (a topic without partitions may stand before the one that has one)
            return
        self._known[template.head + template.key] = self._last = template
        self._shapes[len(template.key)] = template

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end].  False: nothing was done, the slow path has to."""
        template = self._last
        if template is None:
            return False
        if end - position >= template.least:
            head, correlation, key, size = template.unpack(data, position)
            if key != template.key or head != template.head:
                template = self._known.get(head + key) or self._find(data, position, end)
        else:
            template = self._find(data, position, end)
        if template is None:
            return False
        if template is not self._last:
            self._last = template
            _, correlation, _, size = template.unpack(data, position)
        broker = self.broker
        if self._generation != broker.generation:
            self._forget(-1)
            return False
        start = position + template.key_end
        if template.flexible:
            size, start = _flexible_size(size, start)
            end -= 3
            if data[end] or data[end + 1] or data[end + 2]:
                return False
        else:
            start += 4
        if start + size != end or size < LEAST_BATCH_BYTES:
            return False
        if received != self._received:
            self._received, self._now = received, self._clock.now()
        records, partition, time = data[start:end], template.partition, -1
        checks = broker.checks
        if broker.purgatory.full or (checks.in_order and checks.is_busy(self.connection.id, partition)):
            return False
        try:
            first = append_plain(
                broker,
                partition,
                records,
                template.acks,
                template.most_codec,
                self._now,
                template.transactional,
            )
            if first >= 0:
                stop = partition.log.log_end_offset
            else:
                header = check_shape(records, template.version)
                if header.attributes & TRANSACTIONAL or header.size != size:
                    return False
                first, stop, time = append_checked(
                    broker, partition, records, header, template.acks, self._now
                )
        except NotAppendedError as error:
            self.unwritten = False
            self._refuse(template, correlation, error.code)
            return True
        except (KafkaError, LeftToAThread):
            return False
        self._line_up(template, correlation, first, stop, time)
        self.unwritten = size < WRITTEN_AT_ONCE_BYTES
        if not self.unwritten:
            with suppress(KafkaError):  # who waits for the batch is told by the partition, this request too
                broker.write_now(partition, self._now)
        self._taken += 1
        self._records += stop - first
        self._bytes += size
        return True

    def _place(self) -> ProduceRun:
        """The place of a request in the line: the run at its end, if that is of the same read."""
        line, run = self.connection.line, self._run
        if run is None or not line or line[-1] is not run:
            run = self._run = ProduceRun(self, self._received)
            line.append(run)
            self._network.step.soon()
        else:
            self.connection.more += 1
        return run

    def _line_up(
        self, template: ProduceTemplate, correlation: int, first: Offset, end: Offset, time: int
    ) -> None:
        """Give a request whose batch is appended its place in the line.

        It shares the fate of the batches before it that are not written yet; those that are written are
        safe from a disk that turns out to be full.
        """
        run, batches = self._place(), template.open
        if (
            batches is None
            or batches.run is not run
            or batches.done
            or batches.end <= template.partition.log.written_end_offset
        ):
            batches = template.open = _Batches(run, template, end)
            run.batches.append(batches)
            template.partition.await_acknowledgement(batches)
        elif end > batches.end:
            batches.end = end
        run.requests.append((batches, correlation, first, time))

    def _refuse(self, template: ProduceTemplate, correlation: int, error: ErrorCode) -> None:
        """The log did not take the batch.  The slow path could not do better: what it would check is patched."""
        run = self._place()
        refused = _Batches(run, template, -1)
        run.requests.append((refused, correlation, -1, -1))
        refused.settle(error)

    def _find(self, data: memoryview, position: int, end: int) -> ProduceTemplate | None:
        """The template of this frame among those whose compared bytes have another length than the last one's."""
        for shape in self._shapes.values():
            if end - position >= shape.least:
                head, _, key, _ = shape.unpack(data, position)
                if (template := self._known.get(head + key)) is not None:
                    return template
        return None

    def end_of_read(self) -> None:
        """Count what `take` served of one read, as the slow path counts each request."""
        if taken := self._taken:
            traffic = self._traffic
            traffic.messages_in.value += self._records
            traffic.bytes_in.value += self._bytes
            self._taken = self._records = self._bytes = 0
            self._network.request_ids += taken
            self.route.requests.value += taken
            if self._run is not None:
                self._run.handled = (monotonic() - self._received) / taken
                self._run = None

    def answered(self, count: int, handled: float, spent: float) -> None:
        """Requests of one read were answered: seconds in the handler for each, and from arrival to answer."""
        route = self.route
        route.handled_s.observe(handled, count)
        route.total_s.observe(spent, count)
        if spent > route.slow_s:
            client = f"{self.connection.client.host}:{self.connection.client.port}"
            waited = f"{spent * 1000:.1f}"
            events.emit(events.REQUEST_SLOW, api=route.name, requests=count, client=client, waited_ms=waited)

    def __repr__(self) -> str:
        return f"<ProduceFastPath {len(self._known)}>"


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


class ProduceRun:
    """The place in the line of neighbouring requests of one read that the fast path served.

    `requests` are (batches, correlation id, base offset, append time); answers leave in their order.
    """

    __slots__ = ("_next", "batches", "fast_path", "handled", "received", "requests")

    def __init__(self, fast_path: ProduceFastPath, received: float) -> None:
        self.fast_path = fast_path
        self.received = received
        self.handled = 0.0
        self.batches: list[_Batches] = []
        self.requests: list[tuple[_Batches, int, Offset, int]] = []
        self._next = 0

    def send(self, now: float) -> bool:
        """Its turn has come: send the answers that are there, up to the first that is not.

        Returns whether that was all.
        """
        fast_path, requests = self.fast_path, self.requests
        connection = fast_path.connection
        add = connection.send_queue.add_small
        begun = at = self._next
        for batches, correlation, first, time in requests[at:] if at else requests:
            if not batches.done:
                break
            template, error = batches.template, batches.error
            start = template.partition.log.log_start_offset
            if error:
                first = time = start = -1
            if template.with_start:
                add(
                    template.pack(
                        template.size, correlation, template.middle, error, first, time, start, template.after
                    )
                )
            else:
                add(
                    template.pack(
                        template.size, correlation, template.middle, error, first, time, template.after
                    )
                )
            at += 1
        if at == begun:
            return False
        self._next = at
        connection.look_again()
        fast_path.answered(at - begun, self.handled, now - self.received)
        if at < len(requests):
            connection.more -= at - begun
            return False
        connection.more -= at - begun - 1
        return True

    def cancel(self) -> None:
        """The connection is gone; the batches stay."""
        for batches in self.batches:
            batches.cancel()

    def __repr__(self) -> str:
        return f"<ProduceRun {self._next} of {len(self.requests)} answered>"


class _Batches(Acknowledgement):
    """The batches of a run for one partition: written, synced and so acknowledged together, up to `end`."""

    __slots__ = ("_parked", "done", "error", "partition", "run", "template")

    def __init__(self, run: ProduceRun, template: ProduceTemplate, end: Offset) -> None:
        self.run = run
        self.template = template
        self.partition = template.partition
        self.everywhere = template.everywhere
        self.end = end
        self.done = False
        self.error = 0
        self._parked: _Parked | None = None

    def settle(self, error: ErrorCode) -> None:
        """They are safe, or will never be known to be."""
        if self.done:
            return
        self.done = True
        self.error = error
        self._unpark()
        self.run.fast_path.connection.slot_done(self.run)

    def park(self) -> bool:
        """It takes longer than this loop step: from now on the request's timeout counts."""
        if self.done:
            return False
        self._parked = _Parked(self.run.received + self.template.timeout_s, self)
        self.run.fast_path.broker.purgatory.add(self._parked, force=True)
        return True

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self.done = True
        self._unpark()
        self.partition.acknowledgements.forget(self)

    def _unpark(self) -> None:
        if self._parked is not None:
            self._parked.cancel()
            self._parked = None

    def __repr__(self) -> str:
        return f"<_Batches {self.partition.topic}-{self.partition.index} up to {self.end}>"


class _Parked(Waiting):
    """The deadline of batches that are not safe by the end of their turn."""

    __slots__ = ("batches",)

    def __init__(self, deadline: float, batches: _Batches) -> None:
        super().__init__(deadline)
        self.batches: _Batches | None = batches

    def release(self) -> None:
        self.batches = None  # it points back here: leave no circle for the garbage collector

    def expired(self, now: Now) -> None:
        if (batches := self.batches) is not None:
            batches.partition.acknowledgements.forget(batches)
            batches.settle(ErrorCode.REQUEST_TIMED_OUT)
