"""Produce: check the request, append each batch, answer when it is as safe as the producer asked for.

The checks come in Apache Kafka's order, because the first that fails decides the answer: transactional id;
topic id; authorization; topic and partition exist; exactly one batch of a known shape; acks; internal topic;
storage online, leader here; enough in-sync replicas; then the batch itself (`validation`), and last its
sequence.

A batch that passed is appended at once and written at the end of the loop step; the partition keeps its
`Acknowledgement` until then.  A batch whose records are much work is copied and checked by a thread
(`batch_checks`); leader and replicas are checked again when it comes back.  acks=0 gets no answer, and any error
closes its connection: such a producer cannot be told anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import ADMIN_CLIENT, Operation, RequestContext, ResourceType, allowed
from barnabas.broker.purgatory import Purgatory, Waiting
from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.broker.replicas.batch_checks import BatchCheck, RefusedError
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.append import admit, append_checked, append_read
from barnabas.broker.requests.validation import LeftToAThread, Rules, check_in_steps, check_shape
from barnabas.broker.txn_verification import Question, produce_error
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.producers.state import VerificationGuard
from barnabas.model import Now, Offset, TopicId, TopicPartition
from barnabas.ports import Buffer
from barnabas.wire.records import TRANSACTIONAL
from barnabas.wire.schemas.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.hosted_partitions import HostedTopic
    from barnabas.wire.records import BatchHeader
    from barnabas.wire.schemas.produce import PartitionProduceData

__all__ = ["Appended", "ProduceWaiting", "append_one", "name_leader", "produce", "refused_batch"]

_TOPIC_IDS_SINCE = 13
_CURRENT_LEADER_SINCE = 10
_TRANSACTIONAL_AT = 22  # the low byte of a batch's attributes
_PRODUCER = slice(43, 53)
"""Where a batch names its producer: id and epoch."""
_ABORTABLE_SINCE = 11
_ADDED_SINCE = 12
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


class ProduceWaiting(Waiting):
    """A produce request whose batches are not all safe yet (for acks=0: not all in their logs).

    `results` has one place per partition of the request, in its order; `layout` says how many belong to
    each topic (name, id, count).  Nothing of the request is kept: its records lie in a receive buffer that
    others need.  Done when `open` is 0: it counts the places that have no answer yet, and one more for the
    handler itself, so that nothing is answered before the request is read to its end.
    """

    __slots__ = ("acks", "endpoints", "layout", "open", "purgatory", "results")

    def __init__(self, deadline: float, purgatory: Purgatory, acks: int) -> None:
        self.acks = acks
        self.deadline = deadline
        self.on_done = None
        self.response = None
        self.done = False
        self.bucket = None
        self.purgatory = purgatory
        self.layout: list[tuple[str, TopicId, int]] = []
        self.results: list[PartitionProduceResponse | Appended | _InCheck] = []
        self.endpoints: list[NodeEndpoint] = []
        self.open = 1

    @property
    def only_partition(self) -> Partition | None:
        """The partition of a request that was for one, and is in its log; else None."""
        if len(self.results) == 1 and type(only := self.results[0]) is Appended:
            return only.partition
        return None

    def settled(self, slot: int, result: PartitionProduceResponse) -> None:
        """Settle one place; the last one completes the request."""
        self.results[slot] = result
        self.open -= 1
        if not self.open:
            self.complete(self.answer() if self.acks else None)

    def answer(self) -> ProduceResponse:
        responses: list[TopicProduceResponse] = []
        start = 0
        for name, topic_id, count in self.layout:
            end = start + count
            responses.append(
                TopicProduceResponse(
                    name=name,
                    topic_id=topic_id,
                    partition_responses=self.results[start:end],  # type: ignore[arg-type]  # all settled
                )
            )
            start = end
        return ProduceResponse(responses=responses, node_endpoints=self.endpoints)

    def expired(self, now: Now) -> None:
        """Answer REQUEST_TIMED_OUT for what is not safe yet; it stays in the log."""
        for result in list(self.results):
            if isinstance(result, Appended):
                result.partition.acknowledgements.forget(result)
                result.settle(ErrorCode.REQUEST_TIMED_OUT)
            elif isinstance(result, _InCheck):
                result.refuse(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def release(self) -> None:
        for result in self.results:
            if isinstance(result, Appended):
                result.partition.acknowledgements.forget(result)
        self.results = []  # they point back here: leave no circle for the garbage collector


class Appended(Acknowledgement):
    """One batch of a produce request, appended and not yet safe."""

    __slots__ = ("first", "log_append_time", "partition", "slot", "waiting")

    def __init__(
        self,
        partition: Partition,
        first: Offset,
        end: Offset,
        everywhere: bool,
        log_append_time: int,
        waiting: ProduceWaiting,
        slot: int,
    ) -> None:
        self.partition = partition
        self.end = end
        self.everywhere = everywhere
        self.first = first
        self.log_append_time = log_append_time
        self.waiting = waiting
        self.slot = slot

    def settle(self, error: ErrorCode) -> None:
        waiting = self.waiting
        if waiting.done:
            return
        partition = self.partition
        if error:
            result = PartitionProduceResponse(
                index=partition.index, error_code=error, base_offset=-1, log_start_offset=-1
            )
        else:
            result = PartitionProduceResponse(
                index=partition.index,
                base_offset=self.first,
                log_append_time_ms=self.log_append_time,
                log_start_offset=partition.log.log_start_offset,
            )
        waiting.settled(self.slot, result)

    def park(self) -> bool:
        waiting = self.waiting
        if waiting.done:
            return False
        if waiting.bucket is None:
            waiting.purgatory.add(waiting, force=True)
        return True


def produce(
    broker: Broker, context: RequestContext, request: ProduceRequest, version: int, now: Now
) -> ProduceResponse | ProduceWaiting | None:
    """Serve one Produce request (KIP-98 for sequences, KIP-467 for the errors of single records).

    Returns the answer when there is nothing to wait for (every partition was refused), else what waits;
    None for acks=0, if nothing of it is left to a thread.  Raises KafkaError for acks=0 with an error: close
    the connection.
    """
    acks = request.acks
    waiting = ProduceWaiting(now.mono + request.timeout_ms / 1000.0, broker.purgatory, acks)
    results = waiting.results
    refusal = _refusal(broker, context, request)
    for topic in request.topic_data:
        hosted = (
            broker.topic_with(topic.topic_id) if version >= _TOPIC_IDS_SINCE else broker.topic(topic.name)
        )
        for data in topic.partition_data:
            if refusal is not None:
                if acks == 0:
                    raise refusal
                results.append(refused_batch(broker, hosted, data.index, refusal, version))
                continue
            try:
                outcome: Appended | _InCheck | PartitionProduceResponse | None = append_one(
                    broker, context, waiting, hosted, data, request, version, now, named=topic.name
                )
            except KafkaError as error:
                if acks == 0:
                    raise
                outcome = refused_batch(broker, hosted, data.index, error, version)
                name_leader(broker, context.listener, waiting, outcome)
            if outcome is not None:
                results.append(outcome)
                if type(outcome) is not PartitionProduceResponse:
                    waiting.open += 1
        waiting.layout.append((topic.name, topic.topic_id, len(topic.partition_data)))
    waiting.open -= 1
    if waiting.open:
        return waiting
    return waiting.answer() if acks else None


def _refusal(broker: Broker, context: RequestContext, request: ProduceRequest) -> RefusedError | None:
    """Why the whole request is refused: rows 1 and 7 of the order of checks, and a full purgatory."""
    producers = set()
    for topic in request.topic_data:
        for data in topic.partition_data:
            records: Buffer = data.records  # type: ignore[assignment]  # requests carry bytes, never LazyBytes
            if records is not None and len(records) > _TRANSACTIONAL_AT:
                if records[_TRANSACTIONAL_AT] & TRANSACTIONAL:
                    producers.add(bytes(records[_PRODUCER]))
    if producers:
        name = request.transactional_id
        if name is None or not allowed(
            broker.authorizer, context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name
        ):
            return RefusedError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a batch of a transaction, and no transactional id that its sender may use",
            )
        if len(producers) > 1:
            return RefusedError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one transactional producer"
            )
    if request.acks and broker.purgatory.full:
        return RefusedError(ErrorCode.REQUEST_TIMED_OUT, "too many requests wait on this node already")
    return None


def require_write(broker: Broker, context: RequestContext, name: str) -> None:
    """Raises RefusedError unless the sender may write to the topic of that name, which need not exist."""
    if not allowed(broker.authorizer, context, Operation.WRITE, ResourceType.TOPIC, name):
        raise RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed to write to this topic")


def append_one(
    broker: Broker,
    context: RequestContext,
    waiting: ProduceWaiting,
    topic: HostedTopic | None,
    data: PartitionProduceData,
    request: ProduceRequest,
    version: int,
    now: Now,
    *,
    named: str = "",
) -> Appended | _InCheck | None:
    """Rows 2 to 17 for one partition; None for acks=0.  Raises KafkaError.

    `named` is the name in the request, which matters where there is no such topic here.
    """
    acks = request.acks
    if topic is None:
        if version < _TOPIC_IDS_SINCE:
            require_write(broker, context, named)  # nobody hears whether a topic exists that is not theirs
        code = (
            ErrorCode.UNKNOWN_TOPIC_ID
            if version >= _TOPIC_IDS_SINCE
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        raise RefusedError(code, "no such topic")
    if broker.authorizer is not None:
        require_write(broker, context, topic.name)
    partition = topic.partitions.get(data.index)
    if partition is None and (missing := broker.missing(topic.name, data.index)) == 3:
        raise RefusedError(missing, "no such partition")
    records: Buffer = data.records  # type: ignore[assignment]  # requests carry bytes, never LazyBytes
    header = check_shape(records, version)
    if header.size < len(records):
        records = memoryview(records)[: header.size]
    if not -1 <= acks <= 1:
        raise RefusedError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; only -1, 0 and 1 mean something")
    if topic.internal and context.client_id != ADMIN_CLIENT:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not write to an internal topic")
    if partition is None:
        raise KafkaError(broker.missing(topic.name, data.index))
    if header.attributes & TRANSACTIONAL and header.producer_id >= 0:
        add = version >= _ADDED_SINCE
        if broker.verifications.needed(partition, header.producer_id, header.producer_epoch, add=add):
            waits = _InCheck(broker, context, waiting, topic, data.index, version)
            waits.verify(partition, bytearray(records), header, request.transactional_id or "", now)
            return waits
    busy = broker.checks.is_busy(context.connection_id, partition)
    try:
        first, end, append_time = append_checked(broker, partition, records, header, acks, now, later=busy)
    except LeftToAThread:
        waits = _InCheck(broker, context, waiting, topic, data.index, version)
        waits.leave_to_a_thread(partition, bytearray(records), header, now)
        return waits
    if not acks:
        return None
    appended = Appended(partition, first, end, acks < 0, append_time, waiting, len(waiting.results))
    partition.await_acknowledgement(appended)
    return appended


class _UnverifiedError(RefusedError):
    """A batch did not come as far as the log."""


class _InCheck:
    """The place of a batch whose records a thread checks, or whose transaction is asked about."""

    __slots__ = (
        "broker",
        "connection",
        "guard",
        "listener",
        "partition",
        "slot",
        "topic",
        "version",
        "waiting",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        waiting: ProduceWaiting,
        topic: HostedTopic,
        partition: int,
        version: int,
    ) -> None:
        self.broker = broker
        self.connection = context.connection_id
        self.listener = context.listener
        self.guard: VerificationGuard | None = None
        self.waiting = waiting
        self.topic = topic
        self.partition = partition
        self.version = version
        self.slot = len(waiting.results)

    def wait(self) -> None:
        """Its answer comes later: from now on the deadline of the request counts."""
        if self.waiting.acks and self.waiting.bucket is None:
            self.waiting.purgatory.add(self.waiting, force=True)

    def verify(
        self, partition: Partition, batch: bytearray, header: BatchHeader, transactional_id: str, now: Now
    ) -> None:
        """Ask the coordinator of its transaction; the batch is appended when the answer is here.

        Raises KafkaError: the producer is fenced by a newer epoch of its own.
        """
        broker, version = self.broker, self.version

        def verified(error: ErrorCode, guard: VerificationGuard, now: Now) -> None:
            broker.host.held(self.connection, -len(batch))
            if error:
                code = produce_error(error, add=question.add)
                self.refuse(_UnverifiedError(code, f"its transaction could not be verified: {error.name}"))
                return
            self.guard = guard
            self._append(partition, batch, header, now)

        question = Question(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition.topic,
            partition.index,
            add=version >= _ADDED_SINCE,
            abortable=version >= _ABORTABLE_SINCE,
        )
        try:
            broker.verifications.begin(partition, question, header.base_sequence, now, verified)
        except KafkaError as fenced:
            raise _UnverifiedError(fenced.code, fenced.message) from None
        broker.host.held(self.connection, len(batch))
        self.wait()

    def leave_to_a_thread(
        self, partition: Partition, batch: bytearray, header: BatchHeader, now: Now
    ) -> None:
        """Have its records checked."""
        steps = check_in_steps(batch, header, Rules.of(partition, now))
        check = BatchCheck(self.connection, partition, batch, header, steps, self.checked)
        self.broker.checks.add(check)
        self.wait()

    def _append(self, partition: Partition, batch: bytearray, header: BatchHeader, now: Now) -> None:
        """Its transaction is verified: all further checks, and the append."""
        broker, acks = self.broker, self.waiting.acks
        busy = broker.checks.is_busy(self.connection, partition)
        try:
            done = append_checked(broker, partition, batch, header, acks, now, later=busy, guard=self.guard)
        except LeftToAThread:
            self.leave_to_a_thread(partition, batch, header, now)
        except KafkaError as error:
            self.refuse(error)
        else:
            self._landed(partition, *done)

    def checked(self, check: BatchCheck, now: Now) -> None:
        """The thread has checked it: append it as the next in its order, even if its client waits no longer."""
        partition, broker = check.partition, self.broker
        try:
            if check.failure is not None:
                raise check.failure
            admit(partition, check.header, self.waiting.acks)
            done = append_read(broker, partition, check.batch, check.header, now, self.guard)
        except KafkaError as error:
            self.refuse(error)
            return
        self._landed(partition, *done)

    def _landed(self, partition: Partition, first: Offset, end: Offset, append_time: int) -> None:
        """It is in the log."""
        waiting, acks = self.waiting, self.waiting.acks
        if waiting.done:
            return
        if acks:
            appended = Appended(partition, first, end, acks < 0, append_time, waiting, self.slot)
            waiting.results[self.slot] = appended
            partition.await_acknowledgement(appended)
        else:
            waiting.settled(self.slot, PartitionProduceResponse(index=self.partition))

    def refuse(self, error: KafkaError) -> None:
        """It is not in the log; for acks=0 the connection ends."""
        waiting = self.waiting
        if waiting.done:
            return
        if not waiting.acks:
            waiting.complete(error)
            return
        refused = refused_batch(self.broker, self.topic, self.partition, error, self.version)
        name_leader(self.broker, self.listener, waiting, refused)
        waiting.settled(self.slot, refused)


def refused_batch(
    broker: Broker, topic: HostedTopic | None, partition: int, error: KafkaError, version: int
) -> PartitionProduceResponse:
    moved = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _CURRENT_LEADER_SINCE
    leader = LeaderIdAndEpoch()
    if moved and topic is not None:
        node, epoch = broker.leader_of(TopicPartition(topic.name, partition))
        leader = LeaderIdAndEpoch(leader_id=node, leader_epoch=epoch)
    by_the_log = error.code in _REFUSED_BY_THE_LOG and not isinstance(error, _UnverifiedError)
    known = broker.partition(topic.name, partition) if topic is not None and by_the_log else None
    return PartitionProduceResponse(
        index=partition,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=-1 if known is None else known.log.log_start_offset,
        error_message=None if error.message == error.code.name else error.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
            for index, reason in (error.records if isinstance(error, RefusedError) else ())
        ],
        current_leader=leader,
    )


def name_leader(
    broker: Broker, listener: str, waiting: ProduceWaiting, refused: PartitionProduceResponse
) -> None:
    """Add the endpoint of the leader that an answer names, if it names one (KIP-951)."""
    node = refused.current_leader.leader_id
    if node < 0 or any(endpoint.node_id == node for endpoint in waiting.endpoints):
        return
    for found, endpoint, rack in broker.endpoints([node], listener):
        waiting.endpoints.append(
            NodeEndpoint(node_id=found, host=endpoint.host, port=endpoint.port, rack=rack)
        )
