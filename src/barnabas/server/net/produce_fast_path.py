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
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.broker.requests.append import (
    NotAppendedError,
    append_checked,
    append_plain,
    may_hold,
)
from barnabas.broker.requests.produce import ProduceWaiting
from barnabas.broker.requests.produce_several import SeveralBatches
from barnabas.broker.requests.validation import RECORDS_WALKED_AT_ONCE, LeftToAThread, check_shape
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now, Offset
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import RequestContext
from barnabas.server.net.network import Network
from barnabas.server.net.produce_answers import (
    LEAST_BATCH_BYTES,
    MOST_COPIED_BYTES,
    Batches,
    ProduceRun,
    ProduceTemplate,
    Reply,
    SeveralReply,
)
from barnabas.server.net.produce_several import KnownSeveral, PlainSeveral
from barnabas.server.net.route import Route
from barnabas.server.observe import events
from barnabas.server.observe.traffic import Traffic
from barnabas.wire import walk
from barnabas.wire.records import TRANSACTIONAL
from barnabas.wire.schemas.produce import ProduceRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.partition import Partition
    from barnabas.wire.walk import Plain

__all__ = ["MOST_TEMPLATES", "ProduceFastPath"]

MOST_TEMPLATES = 64
"""Kinds of requests remembered for one connection; further ones take the slow path."""
FIRST_AHEAD, MOST_AHEAD = 1, 128
"""Frames of a read that are looked at together, at first and at most."""
_LENGTH = Struct(">i").unpack_from
_ATTRIBUTES_AT = 22
"""The low byte of a batch's attributes."""
WRITTEN_AT_ONCE_BYTES = 256 * 1024
"""A batch of this size is written while the processor's cache still holds it, not at the end of the loop step."""


class ProduceFastPath:
    """What the producer on one connection was seen to send.  `take` is the fast path."""

    __slots__ = (
        "_alike",
        "_appended",
        "_bytes",
        "_clock",
        "_generation",
        "_joined",
        "_known",
        "_last",
        "_network",
        "_now",
        "_open",
        "_received",
        "_records",
        "_run",
        "_several",
        "_shapes",
        "_taken",
        "_traffic",
        "_until",
        "ahead",
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
        self.ahead = 0
        """How many frames of a read `take_ahead` looks at: ever more while it takes them all, none after one that
        it did not take, until one is seen that it would have."""
        self._now = Now(0.0, 0)
        self._received = -1.0
        self._run: ProduceRun | None = None
        self._joined: list[Batches] = []
        """What requests for several partitions appended in the read in progress."""
        self._taken = self._records = self._bytes = 0
        self._forget(-1)

    def _forget(self, generation: int) -> None:
        self._generation = generation
        self._known: dict[bytes, ProduceTemplate] = {}
        self._shapes: dict[int, ProduceTemplate] = {}
        self._alike: dict[bytes, dict[int, ProduceTemplate]] = {}
        """By all but the partition, and by that."""
        self._last: ProduceTemplate | None = None
        self._several: KnownSeveral | None = None
        self._open: dict[Partition, Batches] = {}
        """Of requests for several partitions in the read in progress."""
        self._until = -1
        """They take whatever is of no later time."""
        self._appended: dict[ProduceTemplate, Batches] = {}
        """Of requests for one partition in the read in progress."""

    def learn(
        self,
        context: RequestContext,
        frame: memoryview,
        position: int,
        request: ProduceRequest | SeveralBatches,
        waiting: ProduceWaiting,
    ) -> None:
        """The slow path took this request in and waits: remember what it looks like.

        Its body begins at `position`.
        """
        broker = self.broker
        partition = waiting.only_partition
        if self._generation != broker.generation:
            self._forget(broker.generation)
        if isinstance(request, SeveralBatches):
            self._several = KnownSeveral.of(frame, position, request, context.version, self._several)
            self._last = None
            return
        if partition is None:
            return
        if len(self._known) >= MOST_TEMPLATES:
            return
        try:
            template = ProduceTemplate(partition, request, context.version, frame)
        except (ValueError, IndexError):  # (a topic without partitions may stand before the one that has one)
            return
        self._known[template.head + template.key] = self._last = template
        self._shapes[len(template.key)] = template
        self._alike.setdefault(template.alike, {})[partition.index] = template
        if walk.COMPILED:
            self.ahead = max(self.ahead, FIRST_AHEAD)

    def take_ahead(self, data: memoryview, total: int, received: float, room: int) -> int:
        """Serve the frames that stand first in data[:total], as long as they are like the last one and plain.

        Returns where the first other one begins.
        """
        last, broker = self._last, self.broker
        if (
            last is None
            or self._generation != broker.generation
            or broker.purgatory.full
            or broker.checks.in_order
            or total < last.least
        ):
            return 0
        largest, end, ahead = self.connection.max_frame, 4 + _LENGTH(data)[0], self.ahead
        if end <= 4 or end > total or end > largest + 4 or end > MOST_COPIED_BYTES:
            return 0
        if ahead > room:
            ahead = room
        if (stop := ahead * end) > total:
            stop = total
        if stop > MOST_COPIED_BYTES:
            stop = MOST_COPIED_BYTES
        found, few = walk.Plain(), RECORDS_WALKED_AT_ONCE
        found.frames(data[4:stop], end - 4, last.flexible, last.head, last.before, few, largest, ahead)
        if received != self._received:
            self._received, self._now = received, self._clock.now()
        count = len(found.batches)
        taken = self._append_ahead(last, found) if count else 0
        if taken and taken == count:
            if taken == self.ahead < MOST_AHEAD:
                self.ahead = 2 * taken
            return 4 + found.end
        self.ahead, position = taken, 0
        for _ in range(taken):
            position += 4 + _LENGTH(data, position)[0]
        return position

    def _append_ahead(self, last: ProduceTemplate, found: Plain) -> int:
        """Append these batches up to the first that has to be looked at; returns how many."""
        if not may_hold(last.partition, found, self._now.wall_ms):
            return 0
        alike, many = self._alike[last.alike], len(found.batches)
        opened: dict[int, Batches] = {}
        replies: list[Reply] = []
        for index, correlation, records, count, newest, producer in found.batches:
            batches = opened.get(index)
            if batches is None:
                template = alike.get(index)
                if template is None:
                    break
                batches = Batches(template.partition, template.everywhere, template)
                if not batches.takes(found, many):
                    break
            if producer < 0:
                first = batches.log.append_fitting(records, count, newest, batches.epoch)
            elif batches.expects(records):
                first = batches.append(records, count, newest, producer)
            else:
                break
            opened[index] = batches
            replies.append((batches, correlation, first, -1))
        if replies:
            self._run = run = ProduceRun(self, self._received, last.timeout_s)
            run.replies = replies
            connection = self.connection
            connection.line.append(run)
            connection.more += len(replies) - 1
            self._taken += len(replies)
            for batches in opened.values():
                batches.appended()
                self._records += batches.records
                self._bytes += batches.size
                batches.join(run)
        return len(replies)

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end].  False: nothing was done, the slow path has to."""
        template = self._last
        if template is None:
            return self._take_several(data, position, end, received)
        if end - position >= template.least:
            head, correlation, key, size = template.unpack(data, position)
            if key != template.key or head != template.head:
                template = self._known.get(head + key) or self._find(data, position, end)
        else:
            template = self._find(data, position, end)
        if template is None:
            return self._take_several(data, position, end, received)
        if template is not self._last:
            self._last = template
            _, correlation, _, size = template.unpack(data, position)
        if self._generation != self.broker.generation:
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
        return self._append(template, correlation, data[start:end], size)

    def _append(self, template: ProduceTemplate, correlation: int, records: memoryview, size: int) -> bool:
        """Append the batch of a request that is like `template`.  False: nothing was done."""
        broker, partition, now = self.broker, template.partition, self._now
        checks, time = broker.checks, -1
        if broker.purgatory.full or (checks.in_order and checks.is_busy(self.connection.id, partition)):
            return False
        try:
            first = append_plain(
                broker,
                partition,
                records,
                template.acks,
                template.most_codec,
                now,
                template.transactional,
            )
            if first >= 0:
                stop = partition.log.log_end_offset
                if not self.ahead and walk.COMPILED and not records[_ATTRIBUTES_AT]:
                    self.ahead = FIRST_AHEAD
            else:
                header = check_shape(records, template.version)
                if header.attributes & TRANSACTIONAL or header.size != size:
                    return False
                if partition.log.producers.counts(header.producer_id):
                    return False  # a refusal here would be asked for, and counted, again
                first, stop, time = append_checked(broker, partition, records, header, template.acks, now)
        except NotAppendedError as error:
            self.unwritten = False
            self._refuse(template, correlation, error.code)
            return True
        except (KafkaError, LeftToAThread):
            return False
        run = self._place(template.timeout_s)
        run.replies.append((self._shared(run, template, stop), correlation, first, time))
        self.unwritten = size < WRITTEN_AT_ONCE_BYTES
        if not self.unwritten:
            self._open.clear()
            with suppress(KafkaError):  # who waits for the batch is told by the partition, this request too
                broker.write_now(partition, now)
        self._taken += 1
        self._records += stop - first
        self._bytes += size
        return True

    def _take_several(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """`take` for a request of several partitions whose batches are all plain."""
        several, broker = self._several, self.broker
        if several is None or self._generation != broker.generation:
            return False
        if received != self._received:
            self._received, self._now = received, self._clock.now()
        request = several.read(data[position:end], self._now.wall_ms)
        if request is None or broker.purgatory.full or broker.checks.in_order:
            return False
        opened, found, line = self._open, request.found, self.connection.line
        if opened and (not line or line[-1] is not self._run):
            opened.clear()
        known: list[Any] = [opened.get(partition) for partition in request.partitions]
        fresh = None in known
        if fresh or found.numbered or found.newest > self._until:
            if not _look(request, known, several.everywhere):
                return False
        run = self._place(several.timeout_s)
        parts = []
        for batches, (_, _, records, count, newest, producer) in zip(known, found.batches, strict=True):
            if producer < 0:  # (`append`, without the call)
                first = batches.log.append_fitting(records, count, newest, batches.epoch)
                batches.end = first + count
                batches.records += count
                batches.size += len(records)
            else:
                first = batches.append(records, count, newest, producer)
            parts.append((batches, first))
        if fresh:
            until = self._until if opened else found.newest
            for batches in known:
                if batches.run is None:
                    opened[batches.partition] = batches
                    batches.join(run)
                    self._joined.append(batches)
                    if batches.until < until:
                        until = batches.until
            self._until = until
        if not run.replies:
            run.awaited = parts[-1][0]
        run.replies.append(SeveralReply(request.correlation, request.heads, parts))
        self._taken += 1
        self.unwritten = True
        return True

    def _place(self, timeout_s: float) -> ProduceRun:
        """The place of a request in the line: the run at its end, if that is of the same read."""
        line, run = self.connection.line, self._run
        if run is None or not line or line[-1] is not run or run.timeout_s != timeout_s:
            run = self._run = ProduceRun(self, self._received, timeout_s)
            line.append(run)
        else:
            self.connection.more += 1
        return run

    def _shared(self, run: ProduceRun, template: ProduceTemplate, end: Offset) -> Batches:
        """The batches of this run whose fate one shares that was appended up to `end`: they are not written yet.

        Those that are written are safe from a disk that turns out to be full.
        """
        batches = self._appended.get(template)
        if (
            batches is None
            or batches.run is not run
            or batches.done
            or batches.end <= template.partition.log.written_end_offset
        ):
            self._appended[template] = batches = Batches(template.partition, template.everywhere, template)
            batches.end = end
            batches.join(run)
        elif end > batches.end:
            batches.end = end
        return batches

    def _refuse(self, template: ProduceTemplate, correlation: int, error: ErrorCode) -> None:
        """The log did not take the batch.  The slow path could not do better: what it would check is patched."""
        run = self._place(template.timeout_s)
        refused = Batches(template.partition, template.everywhere, template)
        refused.run = run
        run.open += 1
        run.replies.append((refused, correlation, -1, -1))
        refused.settle(error)

    def _find(self, data: memoryview, position: int, end: int) -> ProduceTemplate | None:
        """The template of this frame among those whose compared bytes have another length than the last one's."""
        for shape in self._shapes.values():
            if end - position >= shape.least:
                head, _, key, _ = shape.unpack(data, position)
                if (template := self._known.get(head + key)) is not None:
                    return template
        return None

    def end_of_read(self) -> Now | None:
        """Count what `take` served of one read, as the slow path counts each request."""
        run, self._run = self._run, None
        if taken := self._taken:
            if self._joined:
                for batches in self._joined:
                    batches.count()
                    self._records += batches.records
                    self._bytes += batches.size
                self._joined.clear()
                self._open.clear()
            if self._appended:
                self._appended.clear()
            traffic = self._traffic
            traffic.messages_in.value += self._records
            traffic.bytes_in.value += self._bytes
            self._taken = self._records = self._bytes = 0
            self._network.request_ids += taken
            self.route.requests.value += taken
            if run is not None:
                run.handled = (monotonic() - self._received) / taken
        return None if run is None else self._now

    def answered(self, count: int, handled: float, spent: float) -> None:
        """Requests of one read were answered: seconds in the handler for each, and from arrival to answer."""
        route = self.route
        if count == 1:
            route.handled_s.note(handled)
            route.total_s.note(spent)
        else:
            route.handled_s.observe(handled, count)
            route.total_s.observe(spent, count)
        if spent > route.slow_s:
            client = f"{self.connection.client.host}:{self.connection.client.port}"
            waited = f"{spent * 1000:.1f}"
            events.emit(events.REQUEST_SLOW, api=route.name, requests=count, client=client, waited_ms=waited)

    def __repr__(self) -> str:
        return f"<ProduceFastPath {len(self._known)}>"


def _look(request: PlainSeveral, known: list[Any], everywhere: bool) -> bool:
    """Whether these batches may all be appended; whose place in `known` is None gets `Batches`."""
    found = request.found
    for at, (partition, batch) in enumerate(zip(request.partitions, found.batches, strict=True)):
        batches = known[at]
        if batches is None:
            known[at] = batches = Batches(partition, everywhere)
        if found.newest > batches.until and not batches.takes(found, 1):
            return False
        if batch[5] >= 0 and not batches.expects(batch[2]):
            return False
    return True


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
