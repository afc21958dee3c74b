"""Bringing batches to their leaders: one request per broker, answers judged batch by batch.

`transmit` talks (without the producer's lock), `settle` draws the consequences (with it): acknowledged,
to be repeated, split, or given up.  The reactions to error codes are those that brokers expect of Kafka's
own producer: a duplicate sequence is a success, a batch too large is halved, and a sequence that the
broker cannot place begins a new producer identity for that partition.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.client.batching import Accumulator, Batch, Identity
from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import FIRST_PAUSE, LONGEST_PAUSE
from barnabas.client.transactions import Transactions
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, NodeId, TopicPartition
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import InitProducerIdRequest

__all__ = ["Outcome", "Sender", "codec_of"]

CODECS = {None: 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MAX_REQUEST_BYTES = 32 << 20
_LOST_PLACE = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""The broker does not know our place in the sequence: the batch was surely not appended."""


def codec_of(compression: str | None) -> int:
    """`codec_of("lz4")` -> 3, the codec's number in a batch's attributes."""
    if compression not in CODECS:
        raise ValueError(
            f"compression is one of {', '.join(str(name) for name in CODECS)}, not {compression!r}"
        )
    return CODECS[compression]


class Outcome(NamedTuple):
    """What an answer says of one batch.  `error` None: it is in the log at `base_offset`.

    `left` False: the request with the batch never left.
    """

    batch: Batch
    error: BarnabasError | None
    base_offset: int = -1
    appended_ms: int = -1
    left: bool = True

    @property
    def definite(self) -> bool:
        """Whether this attempt surely stored the batch, or surely did not."""
        error = self.error
        return error is None or not self.left or (isinstance(error, KafkaError) and error.code.definite)


class Sender:
    """`Sender(cluster, accumulator, acks=-1, ...).transmit(batches)` -> what became of each."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        *,
        acks: int,
        idempotent: bool,
        codec: int,
        request_timeout: float,
        transactions: Transactions | None = None,
    ) -> None:
        self.cluster = cluster
        self.accumulator = accumulator
        self.acks = acks
        self.idempotent = idempotent
        self.codec = codec
        self.request_timeout = request_timeout
        self.transactions = transactions
        self._identity: Identity | None = None

    def __repr__(self) -> str:
        return f"<Sender acks={self.acks} identity={self._identity}>"

    # -- talking ---------------------------------------------------------------------------------

    def transmit(self, batches: list[Batch]) -> list[Outcome]:
        """Send each batch to its leader and return its outcome; a failure of the network is an outcome too."""
        outcomes: list[Outcome] = []
        under_way: list[tuple[BlockingConnection, int, list[Batch]]] = []
        by_leader: dict[NodeId, list[Batch]] = {}
        if self.transactions is not None:
            try:
                self.transactions.add(batch.target for batch in batches)
            except BarnabasError as error:
                return [Outcome(batch, error, left=False) for batch in batches]
        for batch in batches:
            try:
                by_leader.setdefault(self._prepare(batch), []).append(batch)
            except BarnabasError as error:
                outcomes.append(Outcome(batch, error, left=False))
        for leader, theirs in by_leader.items():
            for group in _requests_of(theirs):
                try:
                    connection = self.cluster.connection(leader)
                except BarnabasError as error:
                    outcomes += [Outcome(batch, error, left=False) for batch in group]
                    continue
                try:
                    ticket = self._post(connection, group)
                except BarnabasError as error:
                    outcomes += [Outcome(batch, error) for batch in group]
                else:
                    under_way.append((connection, ticket, group))
        for connection, ticket, group in under_way:
            outcomes += self._hear(connection, ticket, group)
        return outcomes

    def _prepare(self, batch: Batch) -> NodeId:
        """Encode the batch and find its leader."""
        leader = self.cluster.leader(batch.target.topic, batch.target.partition).id
        identity: Identity | None = None
        queue = self.accumulator.queues[batch.target]
        if self.transactions is not None:
            identity = self.transactions.identity
            if queue.identity != identity:
                queue.new_identity()
                queue.identity = identity
        elif self.idempotent:
            if queue.identity is None:
                if self._identity is None or self._identity == queue.spent:
                    self._identity = self._new_identity()
                queue.identity = self._identity
            identity = queue.identity
        self.accumulator.encode(batch, identity, self.codec, transactional=self.transactions is not None)
        return leader

    def _new_identity(self) -> Identity:
        response = self.cluster.any().request(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
            timeout=self.request_timeout,
        )
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), "the broker gave no producer id")
        return Identity(response.producer_id, response.producer_epoch)

    def _post(self, connection: BlockingConnection, batches: list[Batch]) -> int:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            data = PartitionProduceData(index=batch.target.partition, records=batch.encoded)
            topics.setdefault(batch.target.topic, []).append(data)
        ids = {topic: self.cluster.topic(topic).id for topic in topics}
        request = ProduceRequest(
            transactional_id=self.transactions.transactional_id if self.transactions else None,
            acks=self.acks,
            timeout_ms=int(self.request_timeout * 1000),
            topic_data=[
                TopicProduceData(name=topic, topic_id=ids[topic], partition_data=data)
                for topic, data in topics.items()
            ],
        )
        version = connection.version_of(request)
        if version > 12 and ZERO_UUID in ids.values():
            version = 12
        if self.transactions is not None:
            version = self.transactions.produce_version(version)
        return connection.post(request, version, silent=self.acks == 0, timeout=self.request_timeout)

    def _hear(self, connection: BlockingConnection, ticket: int, batches: list[Batch]) -> list[Outcome]:
        if self.acks == 0:
            return [Outcome(batch, None) for batch in batches]
        try:
            response = connection.collect(ticket, self.request_timeout + 5.0)
        except BarnabasError as error:
            return [Outcome(batch, error) for batch in batches]
        said: dict[TopicPartition, Any] = {}
        for topic in response.responses:
            name = topic.name or self.cluster.topic_name(topic.topic_id) or ""
            for partition in topic.partition_responses:
                said[TopicPartition(name, partition.index)] = partition
        return [self._outcome(batch, said.get(batch.target)) for batch in batches]

    def _outcome(self, batch: Batch, said: Any) -> Outcome:
        if said is None:
            return Outcome(batch, KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no answer for {batch.target}"))
        code = ErrorCode(said.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return Outcome(batch, None, said.base_offset, said.log_append_time_ms)
        return Outcome(
            batch, KafkaError(code, f"writing to {batch.target}: {said.error_message or 'refused'}")
        )

    # -- consequences ----------------------------------------------------------------------------

    def settle(self, outcomes: list[Outcome], now: float, limit: float) -> list[Batch]:
        """Act on the outcomes; batches begun before `limit` (both monotonic s) are not repeated any more.

        Returns the batches whose fate is known now.
        """
        finished: list[Batch] = []
        accumulator = self.accumulator
        for outcome in outcomes:
            batch, error = outcome.batch, outcome.error
            code = error.code if isinstance(error, KafkaError) else None
            batch.open_attempts -= outcome.definite
            if error is None:
                batch.base_offset, batch.appended_ms = outcome.base_offset, outcome.appended_ms
                accumulator.finish(batch)
                finished.append(batch)
            elif code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
                accumulator.split(batch)
            elif self._may_repeat(error, code) and batch.created >= limit:
                self.cluster.forget(batch.target.topic)
                if code in _LOST_PLACE:
                    accumulator.queues[batch.target].new_identity()
                pause = min(FIRST_PAUSE * 2 ** min(batch.attempts - 1, 10), LONGEST_PAUSE)
                accumulator.give_back(batch, now + pause)
            else:
                batch.error = error
                accumulator.finish(batch)
                if self.transactions is not None:
                    self.transactions.failed(error)
                elif batch.sequence is not None:
                    accumulator.queues[batch.target].new_identity()
                finished.append(batch)
        return finished

    def _may_repeat(self, error: BarnabasError, code: ErrorCode | None) -> bool:
        if isinstance(error, ConnectionFailed):
            return self.acks != 0
        if self.transactions is not None and self.transactions.failure is not None:
            return False
        lost = self.idempotent and self.transactions is None and code in _LOST_PLACE
        return code is not None and (code.retriable or lost)


def _requests_of(batches: list[Batch]) -> list[list[Batch]]:
    """Cut a broker's batches into requests of limited size."""
    groups: list[list[Batch]] = [[]]
    size = 0
    for batch in batches:
        if groups[-1] and size + batch.size > MAX_REQUEST_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(batch)
        size += batch.size
    return groups
