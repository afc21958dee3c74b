"""ListOffsets: the offset of a time, or of one of the ends that have a negative time as their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, StorageError
from barnabas.log.searching import UnreadableRecordsError
from barnabas.log.segments.damage import DamagedError
from barnabas.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Epoch, NodeId, Now, Offset
from barnabas.wire.schemas.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.hosted_partitions import HostedTopic
    from barnabas.broker.replicas.partition import Partition

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "EARLIEST_PENDING_UPLOAD",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "list_offsets",
]

LATEST = -1
"""The end that the asker may read up to."""
EARLIEST = -2
"""The log start."""
MAX_TIMESTAMP = -3
"""The record with the newest timestamp (KIP-734); since version 7."""
EARLIEST_LOCAL = -4
"""The first offset on this node's own disk (KIP-405); since version 8.  Here always the log start."""
LATEST_TIERED = -5
"""The last offset in a remote tier (KIP-1005); since version 9.  There is none here."""
EARLIEST_PENDING_UPLOAD = -6
"""The first offset not in a remote tier yet (KIP-1023); since version 11.  There is none here."""

_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_DEBUGGING = -2

Answer = tuple[int, Offset, Epoch]
"""(timestamp, offset, leader epoch of that offset)"""

_NOTHING: Answer = (NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


def list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest, version: int, now: Now
) -> ListOffsetsResponse:
    """Serve one ListOffsets request.  A partition that is named twice is an INVALID_REQUEST, both times."""
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for asked in topic.partitions:
            key = (topic.name, asked.partition_index)
            (twice if key in seen else seen).add(key)
    topics = []
    for topic in request.topics:
        hosted = broker.topic(topic.name)
        readable = allowed(broker.authorizer, context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        partitions = []
        for asked in topic.partitions:
            try:
                if not readable:
                    raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if (topic.name, asked.partition_index) in twice:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                timestamp, offset, epoch = _answer(broker, hosted, topic.name, asked, request, version, now)
                partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=epoch if version >= 4 else -1,
                    )
                )
            except KafkaError as error:
                partitions.append(
                    ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)
                )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def _answer(
    broker: Broker,
    hosted: HostedTopic | None,
    name: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    version: int,
    now: Now,
) -> Answer:
    partition = hosted.partitions.get(asked.partition_index) if hosted is not None else None
    if partition is None:
        raise KafkaError(broker.missing(name, asked.partition_index))
    if error := partition.unavailable(asked.current_leader_epoch):
        raise KafkaError(error)
    timestamp = asked.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or version < _SINCE.get(timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    replica: NodeId = request.replica_id
    if replica >= 0 or replica == _DEBUGGING:
        end = partition.log.acknowledged_end_offset
    elif request.isolation_level == 1:
        end = partition.last_stable_offset
    else:
        end = partition.high_watermark
    if replica == -1 and timestamp not in (EARLIEST, EARLIEST_LOCAL) and not partition.offsets_available():
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    try:
        return find(partition, timestamp, end)
    except UnreadableRecordsError as unreadable:  # for which Apache Kafka has another code
        raise KafkaError(ErrorCode.INVALID_RECORD, unreadable.message) from unreadable
    except DamagedError as damage:
        raise KafkaError(broker.damage_found(partition, damage, now), damage.message) from damage
    except CorruptRecordError as damaged:
        broker.maintenance.scrubber.hasten(partition.log)
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, damaged.message) from damaged
    except StorageError as failure:
        broker.storage_failed(partition, failure, now)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from failure


def find(partition: Partition, timestamp: int, end: Offset) -> Answer:
    """The offset of `timestamp` (or of a special one) below or at `end`.

    Raises StorageError, CorruptRecordError.
    """
    log = partition.log
    if timestamp == LATEST:
        return NO_TIMESTAMP, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return NO_TIMESTAMP, start, log.epoch_at(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset(end)
    else:
        found = log.offset_for_timestamp(timestamp, end)
    return _NOTHING if found is None else (found.timestamp, found.offset, found.epoch)
