"""Produce: check the request, append each batch, answer when it is as safe as the producer asked for.

The checks come in Apache Kafka's order, because the first that fails decides the answer: transactional id;
topic id; authorization; topic and partition exist; exactly one batch of a known shape; acks; internal topic;
storage online, leader here; enough in-sync replicas; then the batch itself (`validation`), and last its
sequence.

A request is rows (`wire/plane`), and one loop appends them, of all requests of a read.  What was found out about
a partition holds until something changes that an answer depends on (the broker's `generation`).  What a topic asks
of batches is compared with all plain ones of a read at once; a row that is not plain is looked at more closely,
alone.  Batches are written at the end of the loop step.

A batch whose records are much work is copied and checked by a thread (`held`); leader and replicas are checked
again when it comes back.  acks=0 gets no answer, and any error closes its connection: such a producer cannot be
told anything else.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.broker.ports import ADMIN_CLIENT, Operation, RequestContext, ResourceType, allowed
from barnabas.broker.replicas.batch_checks import RefusedError
from barnabas.broker.requests.append import NotAppendedError, append_checked, append_numbered, takes
from barnabas.broker.requests.held import ADDED_SINCE, Held, refuse
from barnabas.broker.requests.produced import LATER, Batches, Destination, Produced, Several, Why
from barnabas.broker.requests.validation import LeftToAThread, all_within, check_shape
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now, Offset, Uuid
from barnabas.wire.plane.produce_asked import (
    CLOSER,
    EMPTY,
    NUMBERED,
    PART,
    TOPIC,
    TRANSACTION,
    ProduceRows,
    Terms,
)
from barnabas.wire.records import TRANSACTIONAL

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["Produces"]

_PRODUCER = slice(43, 53)
"""Where a batch names its producer: id and epoch."""
_MOST_DESTINATIONS = 1000
"""Partitions that are remembered for requests on the same terms."""
WRITTEN_AT_ONCE_BYTES = 256 * 1024
"""A batch of this size is written while the processor's cache still holds it, not at the end of the loop step."""


class Produces:
    """The requests of one client on the same terms."""

    __slots__ = ("_broker", "_destinations", "_everywhere", "_generation", "context", "terms")

    def __init__(self, broker: Broker, context: RequestContext, terms: Terms) -> None:
        self._broker = broker
        self.context = context
        self.terms = terms
        self._everywhere = terms.acks < 0
        self._generation = -1
        self._destinations: dict[tuple[bytes, int], Destination] = {}

    def serve(self, found: ProduceRows, run: Produced, now: Now) -> None:
        """Append these batches, and have `run` answer their requests.

        Raises KafkaError for acks=0 with an error: close the connection.
        """
        refusals = None
        if found.transactions or self._broker.purgatory.full:
            refusals = self._refusals(found)
        opened = self._open(found, now, plain=refusals is None)
        replies, parts = run.replies, []
        try:
            for at, (number, how, correlation, records, count, newest, left) in enumerate(found.rows):
                batches = opened[number]
                if not how and batches.plain:  # (most are such: less is asked for them)
                    first = batches.log.append_fitting(records, count, newest, batches.epoch)
                    replies.append((batches, correlation, first, -1))
                    continue
                first = time = -1
                if batches.plain and not how & CLOSER:
                    if how & NUMBERED:
                        first = append_numbered(batches, records, count, newest)
                    else:
                        first = batches.log.append_fitting(records, count, newest, batches.epoch)
                if first < 0:
                    why = None if refusals is None else refusals[at]
                    batches, first, time = self._look_closer(found, at, opened, run, why, now)
                if not how & PART:
                    replies.append((batches, correlation, first, time))
                else:
                    parts.append((batches, first, time, how & TOPIC))
                    if not left:
                        replies.append(Several(correlation, parts))
                        parts = []
        finally:
            self._close(found, opened, run, now)
        if not self.terms.acks:
            replies.clear()

    def _open(self, found: ProduceRows, now: Now, *, plain: bool) -> list[Batches]:
        """Begin the batches of each place of these rows; `plain`: its partition may take them as they are."""
        broker, known = self._broker, self._destinations
        if self._generation != broker.generation:
            self._generation = broker.generation
            known.clear()
        plain = plain and len(found.rows) > found.closer
        settings, within, checks = None, False, broker.checks
        opened = []
        for key in found.places:
            destination = known.get(key) or self._find(*key)
            batches = Batches(destination, self._everywhere)
            if plain and destination.why is None:
                partition = destination.partition
                if partition.settings is not settings:
                    settings = partition.settings
                    within = all_within(settings, found, now.wall_ms)
                batches.plain = (
                    within
                    and takes(destination, self._everywhere, found)
                    and not (checks.in_order and checks.is_busy(self.context.connection_id, partition))
                )
            opened.append(batches)
        return opened

    def _close(self, found: ProduceRows, opened: list[Batches], run: Produced, now: Now) -> None:
        """Have those be acknowledged of which something was appended."""
        for batches in opened:
            if batches.partition is not None and batches.appended():
                batches.awaited(run)
        if found.largest >= WRITTEN_AT_ONCE_BYTES or run.written:
            run.written = True
            for batches in opened:
                if batches.partition is not None:
                    with suppress(KafkaError):  # who waits for the batches is told by the partition
                        self._broker.write_now(batches.partition, now)

    def _look_closer(
        self,
        found: ProduceRows,
        at: int,
        opened: list[Batches],
        run: Produced,
        why: Why | None,
        now: Now,
    ) -> tuple[Batches, Offset, int]:
        """Append the batch of a row alone, after all checks.  Returns what acknowledges it, its first offset and
        its append time.

        Raises KafkaError for acks=0 with an error.
        """
        number, how, _, records, _, _, _ = found.rows[at]
        batches = opened[number]
        destination = batches.destination
        if how & EMPTY:
            nothing = Batches(destination, self._everywhere)
            nothing.done = run.early = True
            return nothing, -1, -1
        if batches.partition is not None and batches.appended():
            batches.awaited(run)  # (if there is no room for this one, there may be none for those before)
        try:
            if why is not None:
                raise RefusedError(*why)
            appended = self._append(destination, records, run, now)
        except KafkaError as error:
            if isinstance(error, NotAppendedError):
                opened[number] = Batches(destination, self._everywhere)
                self._disk_failed(opened, run)
            if not self.terms.acks:
                raise
            refused = Batches(destination, self._everywhere)
            refuse(refused, self._broker, self.context, self.terms.version, error)
            run.early = True
            return refused, -1, -1
        if isinstance(appended, Held):
            batches.plain = False  # those that come behind it must not pass it
            return appended, LATER, -1
        first, end, time = appended
        if first < batches.begin:  # it was there already
            batches = Batches(destination, self._everywhere)
            batches.end = end
        else:
            batches.counted()
            run.written |= len(records) >= WRITTEN_AT_ONCE_BYTES
            if batches.plain and at + 1 < len(found.rows):
                batches.plain = takes(destination, self._everywhere, found)
        batches.awaited(run)
        return batches, first, time

    def _disk_failed(self, opened: list[Batches], run: Produced) -> None:
        """The log of one partition did not take a batch: what others have not written may be lost with it."""
        for batches in opened:
            batches.plain = False
            if batches.partition is not None and batches.partition.offline and batches.appended():
                batches.awaited(run)
                batches.settle(ErrorCode.KAFKA_STORAGE_ERROR)

    def _append(
        self, destination: Destination, records: memoryview, run: Produced, now: Now
    ) -> tuple[Offset, Offset, int] | Held:
        """All checks of one batch, and the append: its first offset, end offset and append time, or what waits.

        Raises KafkaError.
        """
        broker, context, terms = self._broker, self.context, self.terms
        why, partition = destination.why, destination.partition
        if why is not None and not destination.late:
            raise RefusedError(*why)
        header = check_shape(records, terms.version)
        if why is not None:
            raise RefusedError(*why)
        if header.size < len(records):
            records = records[: header.size]
        if header.attributes & TRANSACTIONAL and header.producer_id >= 0:
            add = terms.version >= ADDED_SINCE
            if broker.verifications.needed(partition, header.producer_id, header.producer_epoch, add=add):
                held = Held(broker, context, destination, run)
                held.verify(bytearray(records), header, terms.transactional_id or "", now)
                return held
        checks = broker.checks
        busy = bool(checks.in_order) and checks.is_busy(context.connection_id, partition)
        try:
            return append_checked(broker, partition, records, header, terms.acks, now, later=busy)
        except LeftToAThread:
            held = Held(broker, context, destination, run)
            held.leave_to_a_thread(bytearray(records), header, now)
            return held

    def _refusals(self, found: ProduceRows) -> list[Why | None]:
        """Say of each row why its request is refused as a whole: a transaction, or a full purgatory."""
        full = None
        if self.terms.acks and self._broker.purgatory.full:
            full = ErrorCode.REQUEST_TIMED_OUT, "too many requests wait on this node already"
        refusals: list[Why | None] = []
        producers: set[bytes] = set()
        for at, (_, how, _, records, _, _, left) in enumerate(found.rows, 1):
            if how & TRANSACTION:
                producers.add(bytes(records[_PRODUCER]))
            if not left:
                why = self._refused_transaction(producers) or full
                refusals += [why] * (at - len(refusals))
                producers.clear()
        return refusals

    def _refused_transaction(self, producers: set[bytes]) -> Why | None:
        """Say why a request with transactional batches of these producers is refused; None: it is not."""
        name = self.terms.transactional_id
        if producers and (
            name is None
            or not allowed(
                self._broker.authorizer, self.context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name
            )
        ):
            return (
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a batch of a transaction, and no transactional id that its sender may use",
            )
        if len(producers) > 1:
            return (
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "batches of more than one transactional producer",
            )
        return None

    def _find(self, topic: bytes, index: int) -> Destination:
        """Look the partition up, and remember it if it is here and this client may write to it."""
        destination = Destination(self.terms.version, topic, index)
        destination.why = self._route(destination)
        if destination.why is None:
            if len(self._destinations) >= _MOST_DESTINATIONS:
                self._destinations.clear()
            self._destinations[topic, index] = destination
        return destination

    def _route(self, destination: Destination) -> Why | None:
        """Find the partition, or why the destination is refused: `late`, if the shape of a batch comes first."""
        broker, terms, index = self._broker, self.terms, destination.index
        if terms.by_id:
            hosted = broker.topic_with(Uuid(destination.topic))
            name = None if hosted is None else hosted.name
        else:
            name = destination.topic.decode()
            hosted = broker.topic(name)
        if name is not None and not allowed(  # nobody hears whether a topic exists that is not theirs
            broker.authorizer, self.context, Operation.WRITE, ResourceType.TOPIC, name
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to write to this topic"
        if hosted is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if terms.by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return code, "no such topic"
        destination.hosted = hosted
        partition = hosted.partitions.get(index)
        missing = ErrorCode.NONE if partition is not None else broker.missing(hosted.name, index)
        if missing is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return missing, "no such partition"
        destination.late = True
        if not -1 <= terms.acks <= 1:
            return ErrorCode.INVALID_REQUIRED_ACKS, f"acks={terms.acks}; only -1, 0 and 1 mean something"
        if hosted.internal and self.context.client_id != ADMIN_CLIENT:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not write to an internal topic"
        if partition is None:
            return missing, missing.name
        destination.partition = partition
        return None

    def __repr__(self) -> str:
        return f"<Produces {self.terms!r} to {len(self._destinations)} partitions>"
