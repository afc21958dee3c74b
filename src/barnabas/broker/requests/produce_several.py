"""Produce requests of several partitions whose batches are found already: append each, answer all together.

It is `produce` with less to create.  A plain batch (most are) is appended without a decoded request around it,
and its part of the answer is bytes at once; every other batch takes the very steps of `produce`, in its place
in the order.  Who found the batches knows that each partition is hosted here, that its topic is no internal
one, that none of the batches is one of a transaction, and that acks is -1 or 1.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.ports import RequestContext
from barnabas.broker.purgatory import Purgatory
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.append import NotAppendedError, append_plain
from barnabas.broker.requests.produce import (
    Appended,
    ProduceWaiting,
    append_one,
    name_leader,
    refused_batch,
)
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now
from barnabas.wire.codec.declaration import Encoded
from barnabas.wire.codec.message import encode_item
from barnabas.wire.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.hosted_partitions import HostedTopic

__all__ = ["FIRST_VERSION", "SeveralBatches", "TopicBatches", "produce_several"]

FIRST_VERSION = 9
"""The first flexible version.  Older ones have other bytes."""
_MOST_CODEC = 4
_pack = Struct(">ihqqqBBB").pack
"""One partition's part of an answer: index, error code, base offset, append time, log start; no record errors,
no error message, no tagged fields."""


class TopicBatches(NamedTuple):
    """The batches for one topic of a request.

    `key` is its name or id as bytes; `head` are the bytes of its answer up to its partitions; `batches` has
    (partition, its batch), in order.
    """

    topic: HostedTopic
    key: bytes
    head: bytes
    batches: list[tuple[Partition, memoryview]]


class SeveralBatches(NamedTuple):
    """A Produce request of more than one partition, read already."""

    acks: int
    timeout_ms: int
    topics: list[TopicBatches]


class _SeveralWaiting(ProduceWaiting):
    """A request whose places of `results` become bytes."""

    __slots__ = ("heads", "version")

    def __init__(self, deadline: float, purgatory: Purgatory, acks: int, version: int) -> None:
        super().__init__(deadline, purgatory, acks)
        self.version = version
        self.heads: list[tuple[bytes, int]] = []
        """For each topic: the bytes before its partitions, and how many those are."""

    def settled(self, slot: int, result: PartitionProduceResponse) -> None:
        """Settle one place with an answer that has yet to become bytes."""
        self.landed(slot, encode_item(result, ProduceResponse, self.version))

    def landed(self, slot: int, result: bytes) -> None:
        """Settle one place; the last one completes the request."""
        self.results[slot] = result  # type: ignore[call-overload]  # see the class
        self.open -= 1
        if not self.open:
            self.complete(self.answer())

    def answer(self) -> ProduceResponse:
        results: list[Any] = self.results  # all settled
        parts: list[bytes] = []
        start = 0
        for head, count in self.heads:
            parts.append(head)
            parts += results[start : start + count]
            parts.append(b"\0")
            start += count
        return ProduceResponse(
            responses=Encoded(len(self.heads), b"".join(parts)),  # type: ignore[arg-type]  # bytes already
            node_endpoints=self.endpoints,
        )


class _Landed(Appended):
    """A batch that was appended as it came: its part of the answer is written at once."""

    __slots__ = ()

    waiting: _SeveralWaiting

    def settle(self, error: ErrorCode) -> None:
        waiting = self.waiting
        if waiting.done:
            return
        if error:
            super().settle(error)
            return
        partition = self.partition
        start = partition.log.log_start_offset
        waiting.landed(self.slot, _pack(partition.index, 0, self.first, -1, start, 1, 0, 0))


def produce_several(
    broker: Broker, context: RequestContext, request: SeveralBatches, version: int, now: Now
) -> ProduceResponse | ProduceWaiting:
    """Serve one request, as `produce` does.  The batches of `request` stay untouched until the step's end."""
    acks, timeout_ms, topics = request
    waiting = _SeveralWaiting(now.mono + timeout_ms / 1000.0, broker.purgatory, acks, version)
    heads, checks, everywhere = waiting.heads, broker.checks, acks < 0
    results: list[Any] = waiting.results
    for topic, _, head, batches in topics:
        for partition, records in batches:
            first = -1
            try:
                if not (checks.in_order and checks.is_busy(context.connection_id, partition)):
                    first = append_plain(broker, partition, records, acks, _MOST_CODEC, now)
            except NotAppendedError as error:
                results.append(_refused(broker, context, waiting, topic, partition.index, error))
                continue
            except KafkaError:
                pass  # nothing was done: the closer look finds it again
            if first >= 0:
                end = partition.log.log_end_offset
                landed = _Landed(partition, first, end, everywhere, -1, waiting, len(results))
                partition.acknowledgements.add(landed)  # (the append has touched the partition)
                results.append(landed)
                waiting.open += 1
            else:
                _look_closer(broker, context, waiting, topic, partition.index, records, now)
        heads.append((head, len(batches)))
    waiting.open -= 1
    return waiting if waiting.open else waiting.answer()


def _look_closer(
    broker: Broker,
    context: RequestContext,
    waiting: _SeveralWaiting,
    topic: HostedTopic,
    index: int,
    records: memoryview,
    now: Now,
) -> None:
    """A batch that is not plain takes the steps of every other."""
    data = PartitionProduceData(index=index, records=records)
    request = ProduceRequest(acks=waiting.acks)
    results: list[Any] = waiting.results
    try:
        outcome = append_one(broker, context, waiting, topic, data, request, waiting.version, now)
    except KafkaError as error:
        results.append(_refused(broker, context, waiting, topic, index, error))
        return
    assert outcome is not None  # only for acks=0
    results.append(outcome)
    waiting.open += 1


def _refused(
    broker: Broker,
    context: RequestContext,
    waiting: _SeveralWaiting,
    topic: HostedTopic,
    index: int,
    error: KafkaError,
) -> bytes:
    refused = refused_batch(broker, topic, index, error, waiting.version)
    name_leader(broker, context.listener, waiting, refused)
    return encode_item(refused, ProduceResponse, waiting.version)
