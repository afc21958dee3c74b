"""Batches that wait before they are appended: for a thread that checks their records, or for their transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.replicas.batch_checks import BatchCheck, RefusedError
from barnabas.broker.requests.append import admit, append_checked, append_read
from barnabas.broker.requests.produced import LATER, Batches, Destination, Produced
from barnabas.broker.requests.validation import LeftToAThread, Rules, check_in_steps
from barnabas.broker.txn_verification import Question, produce_error
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.producers.state import VerificationGuard
from barnabas.model import Now, Offset, TopicPartition
from barnabas.wire.plane.produce_told import Extra

if TYPE_CHECKING:
    from barnabas.broker.ports import RequestContext
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.partition import Partition
    from barnabas.wire.records import BatchHeader

__all__ = ["ADDED_SINCE", "Held", "refuse"]

_CURRENT_LEADER_SINCE = 10
_ABORTABLE_SINCE = 11
ADDED_SINCE = 12
"""Versions of Produce: the client knows TRANSACTION_ABORTABLE; the leader has the partition added (KIP-890)."""
_REFUSED_BY_THE_LOG = frozenset(
    {
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
"""With these codes Apache Kafka tells where the log begins."""


class _UnverifiedError(RefusedError):
    """A batch did not come as far as the log."""


class Held(Batches):
    """One batch that is not in its log yet; it is appended in its order, even if its client waits no longer."""

    __slots__ = ("_acks", "_broker", "_context", "_guard", "_version")

    def __init__(
        self, broker: Broker, context: RequestContext, destination: Destination, run: Produced
    ) -> None:
        super().__init__(destination, run.terms.acks < 0)
        self._broker = broker
        self._context = context
        self._guard: VerificationGuard | None = None
        self._version, self._acks = run.terms.version, run.terms.acks
        self.first = LATER
        self.run = run

    def _waits(self) -> None:
        """Its answer comes later: from now on the deadline of the request counts."""
        run = self.run
        if run is not None and self not in run.batches:
            run.opens(self)
            run.park()

    def verify(self, batch: bytearray, header: BatchHeader, transactional_id: str, now: Now) -> None:
        """Ask the coordinator of its transaction; the batch is appended when the answer is here.

        Raises KafkaError: the producer is fenced by a newer epoch of its own.
        """
        broker, version, partition = self._broker, self._version, self.partition
        connection = self._context.connection_id

        def verified(error: ErrorCode, guard: VerificationGuard, now: Now) -> None:
            broker.host.held(connection, -len(batch))
            if error:
                code = produce_error(error, add=question.add)
                self._refused(_UnverifiedError(code, f"its transaction could not be verified: {error.name}"))
                return
            self._guard = guard
            self._append(batch, header, now)

        question = Question(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition.topic,
            partition.index,
            add=version >= ADDED_SINCE,
            abortable=version >= _ABORTABLE_SINCE,
        )
        try:
            broker.verifications.begin(partition, question, header.base_sequence, now, verified)
        except KafkaError as fenced:
            raise _UnverifiedError(fenced.code, fenced.message) from None
        broker.host.held(connection, len(batch))
        self._waits()

    def leave_to_a_thread(self, batch: bytearray, header: BatchHeader, now: Now) -> None:
        """Have its records checked."""
        partition = self.partition
        steps = check_in_steps(batch, header, Rules.of(partition, now))
        check = BatchCheck(self._context.connection_id, partition, batch, header, steps, self._checked)
        self._broker.checks.add(check)
        self._waits()

    def _append(self, batch: bytearray, header: BatchHeader, now: Now) -> None:
        """Its transaction is verified: all further checks, and the append."""
        broker, partition = self._broker, self.partition
        busy = broker.checks.is_busy(self._context.connection_id, partition)
        try:
            done = append_checked(
                broker, partition, batch, header, self._acks, now, later=busy, guard=self._guard
            )
        except LeftToAThread:
            self.leave_to_a_thread(batch, header, now)
        except KafkaError as error:
            self._refused(error)
        else:
            self._landed(*done)

    def _checked(self, check: BatchCheck, now: Now) -> None:
        """The thread has checked it."""
        partition, broker = check.partition, self._broker
        try:
            if check.failure is not None:
                raise check.failure
            admit(partition, check.header, self._acks)
            done = append_read(broker, partition, check.batch, check.header, now, self._guard)
        except KafkaError as error:
            self._refused(error)
            return
        self._landed(*done)

    def _landed(self, first: Offset, end: Offset, append_time: int) -> None:
        """It is in the log."""
        if self.done:
            return
        self.first, self.end, self.time = first, end, append_time
        if self._acks:
            self.partition.await_acknowledgement(self)
        else:
            self.settle(ErrorCode.NONE)

    def _refused(self, error: KafkaError) -> None:
        """It is not in the log."""
        refuse(self, self._broker, self._context, self._version, error)


def refuse(
    batches: Batches, broker: Broker, context: RequestContext, version: int, error: KafkaError
) -> None:
    """Tell why a batch is not in the log: where that begins, what records are wrong, who leads (KIP-951)."""
    code, destination = error.code, batches.destination
    hosted = destination.hosted
    leader, endpoints = None, []
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _CURRENT_LEADER_SINCE and hosted is not None:
        leader = broker.leader_of(TopicPartition(hosted.name, destination.index))
        if leader[0] >= 0:
            endpoints = [
                (node, endpoint.host, endpoint.port, rack)
                for node, endpoint, rack in broker.endpoints([leader[0]], context.listener)
            ]
    by_the_log = code in _REFUSED_BY_THE_LOG and not isinstance(error, _UnverifiedError)
    known: Partition | None = None
    if by_the_log and hosted is not None:
        known = broker.partition(hosted.name, destination.index)
    message = None if error.message == code.name else error.message
    records = error.records if isinstance(error, RefusedError) else ()
    extra = None
    if message is not None or records or leader is not None:
        extra = Extra(message, records, leader, tuple(endpoints))
    batches.refuse(code, -1 if known is None else known.log.log_start_offset, extra)
