"""DeleteRecords (KIP-107): move the start of a log, and answer when every replica has moved with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import ADMIN_CLIENT, Operation, RequestContext, ResourceType, allowed
from barnabas.broker.purgatory import Waiting
from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.broker.replicas.partition import Partition
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.model import NO_OFFSET, Now, Offset
from barnabas.wire.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["DeleteWaiting", "delete_records"]


class DeleteWaiting(Waiting):
    """A DeleteRecords request that waits until every replica has moved its log start."""

    __slots__ = ("moved", "open", "topics")

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline)
        self.topics: list[DeleteRecordsTopicResult] = []
        self.moved: list[_Moved] = []
        self.open = 0

    def settled(self) -> None:
        self.open -= 1
        if not self.open:
            self.complete(DeleteRecordsResponse(topics=self.topics))

    def expired(self, now: Now) -> None:
        for moved in list(self.moved):
            moved.partition.acknowledgements.forget(moved)
            moved.settle(ErrorCode.REQUEST_TIMED_OUT)

    def release(self) -> None:
        for moved in self.moved:
            moved.partition.acknowledgements.forget(moved)
        self.moved = []  # they point back here: leave no circle for the garbage collector


class _Moved(Acknowledgement):
    """One log whose start moved to `end`; the followers have yet to move theirs."""

    __slots__ = ("partition", "place", "results", "settled", "waiting")

    def __init__(
        self,
        partition: Partition,
        start: Offset,
        waiting: DeleteWaiting,
        results: list[DeleteRecordsPartitionResult],
    ) -> None:
        super().__init__(start, False)
        self.partition = partition
        self.waiting = waiting
        self.results = results
        self.place = len(results)
        self.settled = False

    def settle(self, error: ErrorCode) -> None:
        if self.settled or self.waiting.done:
            return
        self.settled = True
        index = self.partition.index
        low = NO_OFFSET if error else self.partition.low_watermark
        self.results[self.place] = DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=low, error_code=error
        )
        self.waiting.settled()


def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest, version: int, now: Now
) -> DeleteRecordsResponse | DeleteWaiting:
    """Serve one DeleteRecords request."""
    waiting = DeleteWaiting(now.mono + request.timeout_ms / 1000.0)
    for topic in request.topics:
        results: list[DeleteRecordsPartitionResult] = []
        for asked in topic.partitions:
            error = ErrorCode.NONE
            low = NO_OFFSET
            try:
                partition, start = _delete(broker, context, topic.name, asked, now)
                if partition.low_watermark < start:
                    waiting.moved.append(_Moved(partition, start, waiting, results))
                low = partition.low_watermark
            except KafkaError as refused:
                error = refused.code
            results.append(
                DeleteRecordsPartitionResult(
                    partition_index=asked.partition_index, low_watermark=low, error_code=error
                )
            )
        waiting.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if not waiting.moved or not broker.purgatory.add(waiting):
        return DeleteRecordsResponse(topics=waiting.topics)
    waiting.open = len(waiting.moved)
    for moved in waiting.moved:
        moved.partition.await_low_watermark(moved)
    return waiting


def _delete(
    broker: Broker, context: RequestContext, name: str, asked: DeleteRecordsPartition, now: Now
) -> tuple[Partition, Offset]:
    """Check and move one log start; returns where it should be everywhere.  Raises KafkaError."""
    if not allowed(broker.authorizer, context, Operation.DELETE, ResourceType.TOPIC, name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = broker.topic(name)
    partition = topic.partitions.get(asked.partition_index) if topic is not None else None
    missing = broker.missing(name, asked.partition_index) if partition is None else ErrorCode.NONE
    if topic is None or missing is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal and context.client_id != ADMIN_CLIENT:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if partition is None:
        raise KafkaError(missing)
    if error := partition.unavailable():
        raise KafkaError(error)
    if partition.config.compact and not partition.config.delete:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    try:
        return partition, partition.delete_records(asked.offset)
    except StorageError as storage:
        broker.storage_failed(partition, storage, now)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from storage
