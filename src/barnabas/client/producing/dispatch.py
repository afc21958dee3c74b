"""Batches on their way to the leaders: what is sent, what an answer means, what follows.  No socket, no clock.

`settle` draws the consequences: acknowledged, to be repeated, split, or given up.  The reactions to error codes
are those that brokers expect of Kafka's own producer: a duplicate sequence is a success, a batch too large is
halved, and a sequence that the broker cannot place begins a new producer identity for that partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from barnabas.client.connection import ConnectionFailed
from barnabas.client.metadata import FIRST_PAUSE, LONGEST_PAUSE
from barnabas.client.producing.batching import Accumulator, Batch, Identity
from barnabas.client.producing.transaction_machine import TransactionMachine
from barnabas.client.security.rights import granting
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, TopicId, TopicPartition
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.transactions import InitProducerIdRequest

__all__ = ["Dispatch", "Outcome", "codec_of", "requests_of"]

CODECS = {None: 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
MAX_REQUEST_BYTES = 32 << 20
_BY_NAME = 12  # the last version of Produce that names topics
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


class Dispatch:
    """What a producer sends and hears, without the sending and hearing."""

    def __init__(
        self,
        accumulator: Accumulator,
        *,
        acks: int,
        idempotent: bool,
        codec: int,
        request_timeout: float,
        forget: Callable[[str], None],
        transactions: TransactionMachine | None = None,
    ) -> None:
        """`forget(topic)`: what is known of the topic's leaders is stale."""
        self.accumulator = accumulator
        self.acks = acks
        self.idempotent = idempotent
        self.codec = codec
        self.request_timeout = request_timeout
        self.transactions = transactions
        self._forget = forget
        self._identity: Identity | None = None

    def __repr__(self) -> str:
        return f"<Dispatch acks={self.acks} identity={self._identity}>"

    # -- before sending --------------------------------------------------------------------------

    def needs_identity(self, batch: Batch) -> bool:
        """Whether a producer id must be asked for (`identity_request`, `take_identity`) before `encode`."""
        if not self.idempotent or self.transactions is not None:
            return False
        queue = self.accumulator.queues[batch.target]
        return queue.identity is None and (self._identity is None or self._identity == queue.spent)

    def identity_request(self) -> InitProducerIdRequest:
        """The request for a new producer id."""
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)

    def take_identity(self, response: Any) -> None:
        """Keep the answer to `identity_request`.  Raises KafkaError."""
        if response.error_code:
            code = ErrorCode(response.error_code)
            raise KafkaError(
                code, "the broker gave no producer id", next_step=granting(code, "IdempotentWrite", "")
            )
        self._identity = Identity(response.producer_id, response.producer_epoch)

    def encode(self, batch: Batch) -> None:
        """Give the batch its bytes, and its place in the sequence."""
        queue = self.accumulator.queues[batch.target]
        if self.transactions is not None:
            if queue.identity != self.transactions.identity:
                queue.new_identity()
                queue.identity = self.transactions.identity
        elif self.idempotent and queue.identity is None:
            queue.identity = self._identity
        transactional = self.transactions is not None
        self.accumulator.encode(batch, queue.identity, self.codec, transactional=transactional)

    def request(
        self, batches: list[Batch], ids: Mapping[str, TopicId], served: int
    ) -> tuple[ProduceRequest, int]:
        """The request with these batches, and its version: at most `served`; `ids` of their topics by name."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            data = PartitionProduceData(index=batch.target.partition, records=batch.encoded)
            topics.setdefault(batch.target.topic, []).append(data)
        request = ProduceRequest(
            transactional_id=self.transactions.transactional_id if self.transactions else None,
            acks=self.acks,
            timeout_ms=int(self.request_timeout * 1000),
            topic_data=[
                TopicProduceData(name=topic, topic_id=ids[topic], partition_data=data)
                for topic, data in topics.items()
            ],
        )
        version = served
        if version > _BY_NAME and ZERO_UUID in (ids[topic] for topic in topics):
            version = _BY_NAME
        if self.transactions is not None:
            version = self.transactions.produce_version(version)
        return request, version

    # -- the answer ------------------------------------------------------------------------------

    def outcomes(
        self, response: Any, batches: list[Batch], topic_name: Callable[[TopicId], str | None]
    ) -> list[Outcome]:
        """What the answer to a request says of each of its batches."""
        said: dict[TopicPartition, Any] = {}
        for topic in response.responses:
            name = topic.name or topic_name(topic.topic_id) or ""
            for partition in topic.partition_responses:
                said[TopicPartition(name, partition.index)] = partition
        return [_outcome(batch, said.get(batch.target)) for batch in batches]

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
            repeatable = error is not None and self._may_repeat(error, code)
            if error is None:
                batch.base_offset, batch.appended_ms = outcome.base_offset, outcome.appended_ms
                accumulator.finish(batch)
                finished.append(batch)
            elif code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
                accumulator.split(batch)
            elif repeatable and batch.created >= limit:
                self._forget(batch.target.topic)
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
                if repeatable:  # its time was over, and so is that of those that waited behind it
                    finished += accumulator.expire(batch.target, limit, error)
        return finished

    def _may_repeat(self, error: BarnabasError, code: ErrorCode | None) -> bool:
        if isinstance(error, ConnectionFailed):
            return self.acks != 0
        if self.transactions is not None and self.transactions.failure is not None:
            return False
        lost = self.idempotent and self.transactions is None and code in _LOST_PLACE
        return code is not None and (code.retriable or lost)


def _outcome(batch: Batch, said: Any) -> Outcome:
    if said is None:
        return Outcome(batch, KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no answer for {batch.target}"))
    code = ErrorCode(said.error_code)
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Outcome(batch, None, said.base_offset, said.log_append_time_ms)
    refusal = f"writing to {batch.target}: {said.error_message or 'refused'}"
    return Outcome(batch, KafkaError(code, refusal, next_step=_next_step(code, batch.target.topic)))


def _next_step(code: ErrorCode, topic: str) -> str | None:
    """What helps a producer whose batch was refused, where that is known."""
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        return (
            f"send smaller records, or raise max.message.bytes of {topic} (message.max.bytes at the brokers)"
        )
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"see whether it is there: barnabas topics describe {topic}"
    return granting(code, "Write", topic)


def requests_of(batches: list[Batch]) -> list[list[Batch]]:
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
