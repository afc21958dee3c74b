"""Questions about positions in a log.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Int8, Int16, Int32, Int64, String, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
    "EpochEndOffset",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
]


class ListOffsetsRequest(Message, key=2, versions="1-11", flexible="6+"):
    """Ask for the offset of a time or of an end of the log."""

    replica_id: Int32 = 0
    isolation_level: Int8 = since(2, default=0)
    topics: Array[ListOffsetsTopic] = []
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: Array[ListOffsetsPartition] = []


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64 = 0


class ListOffsetsResponse(Message, key=2, versions="1-11", flexible="6+"):
    """Offsets by time."""

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    topics: Array[ListOffsetsTopicResponse] = []


class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: Array[ListOffsetsPartitionResponse] = []


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    """Ask where a leader epoch ended (KIP-320)."""

    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: Array[OffsetForLeaderTopic] = []


class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: Array[OffsetForLeaderPartition] = []


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderEpochResponse(Message, key=23, versions="2-4", flexible="4+"):
    """End offsets of leader epochs."""

    throttle_time_ms: Int32 = 0
    topics: Array[OffsetForLeaderTopicResult] = []


class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: Array[EpochEndOffset] = []


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    """Drop all records before an offset (KIP-107)."""

    topics: Array[DeleteRecordsTopic] = []
    timeout_ms: Int32 = 0


class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: Array[DeleteRecordsPartition] = []


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    """New starts of the logs."""

    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult] = []


class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: Array[DeleteRecordsPartitionResult] = []


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0
