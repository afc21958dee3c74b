"""WriteTxnMarkers: a transaction's coordinator has leaders write how it ended (KIP-98, KIP-890, KIP-1228).

A marker is a control batch of the transaction's producer: COMMIT or ABORT, and the epoch of the coordinator
that decided.  It is answered when all in-sync replicas hold it.  A marker of an older coordinator, or one
that comes late and would end a later transaction, is refused (`ProducerStates.check_marker`).

In `__consumer_offsets` a marker also decides what becomes of positions that were committed in the transaction;
the group coordinator writes those (`CompleteTransaction`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.broker.purgatory import Waiting
from barnabas.broker.replicas.batch_checks import RefusedError
from barnabas.broker.requests.append import append_control
from barnabas.broker.requests.append_internal import call_when_safe
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import OFFSETS_TOPIC, Epoch, Now, ProducerId
from barnabas.wire.control import ControlType, EndTxnMarker, write_control
from barnabas.wire.records import Record, read_batch_header, write_batch
from barnabas.wire.schemas.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.partition import Partition

__all__ = ["CompleteTransaction", "TxnMarker", "append_marker", "write_txn_markers"]


class TxnMarker(NamedTuple):
    """How a transaction of one producer ended.  `version` is its transaction.version (0 before KIP-890)."""

    producer_id: ProducerId
    producer_epoch: Epoch
    coordinator_epoch: Epoch
    commit: bool
    version: int = 0

    def batch(self, now: Now) -> bytearray:
        """The control batch, as Apache Kafka writes it."""
        kind = ControlType.COMMIT if self.commit else ControlType.ABORT
        key, value = write_control(kind, EndTxnMarker(coordinator_epoch=self.coordinator_epoch))
        return write_batch(
            [Record(0, now.wall_ms, key, value)],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transactional=True,
            control=True,
        )


CompleteTransaction = Callable[["Partition", TxnMarker, Now, Callable[[ErrorCode], None]], None]
"""Writes a marker to a partition of __consumer_offsets; calls back once, when it is safe or refused."""

_Place = tuple[ProducerId, str, int]


class _MarkersWaiting(Waiting):
    """A request whose markers are not all safe yet.  Each append has a deadline of its own."""

    __slots__ = ("open", "results")

    def __init__(self) -> None:
        super().__init__(inf)
        self.results: dict[_Place, ErrorCode] = {}
        self.open = 1
        """Places without a result, and one for the handler itself."""

    def settled(self, place: _Place, error: ErrorCode) -> None:
        self.results[place] = error
        self.finished()

    def finished(self) -> None:
        self.open -= 1
        if not self.open:
            self.complete(_response(self.results))

    def expired(self, now: Now) -> None:
        raise AssertionError("the appends answer for their markers")


def write_txn_markers(
    broker: Broker,
    context: RequestContext,
    request: WriteTxnMarkersRequest,
    now: Now,
    complete: CompleteTransaction,
) -> WriteTxnMarkersResponse | Waiting:
    """Serve one WriteTxnMarkers request.  `complete` writes markers to partitions of __consumer_offsets."""
    waiting = _MarkersWaiting()
    refused = _refusal(broker, context)
    for asked in request.markers:
        marker = TxnMarker(
            asked.producer_id,
            asked.producer_epoch,
            asked.coordinator_epoch,
            asked.transaction_result,
            asked.transaction_version,
        )
        for topic in asked.topics:
            for index in topic.partition_indexes:
                waiting.open += 1
                place = (asked.producer_id, topic.name, index)
                if refused:
                    waiting.settled(place, refused)
                else:
                    _write_one(broker, waiting, place, marker, now, complete)
    waiting.finished()
    return waiting.response if waiting.done else waiting


def _refusal(broker: Broker, context: RequestContext) -> ErrorCode:
    cluster = (ResourceType.CLUSTER, "kafka-cluster")
    if allowed(broker.authorizer, context, Operation.ALTER, *cluster, asked=False):
        return ErrorCode.NONE
    if allowed(broker.authorizer, context, Operation.CLUSTER_ACTION, *cluster):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _write_one(
    broker: Broker,
    waiting: _MarkersWaiting,
    place: _Place,
    marker: TxnMarker,
    now: Now,
    complete: CompleteTransaction,
) -> None:
    _, topic, index = place

    def done(error: ErrorCode) -> None:
        waiting.settled(place, error)

    partition = broker.partition(topic, index)
    if partition is None or partition.offline:
        done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif topic == OFFSETS_TOPIC:
        complete(partition, marker, now, done)
    else:
        append_marker(broker, partition, marker, now, done)


def append_marker(
    broker: Broker, partition: Partition, marker: TxnMarker, now: Now, done: Callable[[ErrorCode], None]
) -> None:
    """Append a marker; `done` is called once: NONE when every in-sync replica holds it, or why it is refused."""
    try:
        if marker.producer_id < 0:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "a marker has a producer")
        partition.log.producers.check_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            transaction_version=marker.version,
        )
        batch = marker.batch(now)
        end = append_control(broker, partition, batch, read_batch_header(batch), now)
    except (KafkaError, RefusedError) as error:
        done(error.code)
        return
    call_when_safe(broker, partition, end, now, done, timeout_s=broker.request_timeout_s)


def _response(results: dict[_Place, ErrorCode]) -> WriteTxnMarkersResponse:
    by_producer: dict[ProducerId, dict[str, list[WritableTxnMarkerPartitionResult]]] = {}
    for (producer_id, topic, index), error in results.items():
        by_producer.setdefault(producer_id, {}).setdefault(topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
        )
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
            for producer_id, topics in by_producer.items()
        ]
    )
