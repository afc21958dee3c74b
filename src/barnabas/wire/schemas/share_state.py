"""How share groups keep their state (KIP-932): between brokers, and as records.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import ZERO_UUID, Array, Int8, Int16, Int32, Int64, String, Uuid, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateRequestPartitionData",
    "DeleteShareGroupStateResponse",
    "DeleteShareGroupStateResponsePartitionResult",
    "DeleteStateData",
    "DeleteStateResult",
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateRequestPartitionData",
    "InitializeShareGroupStateResponse",
    "InitializeShareGroupStateResponsePartitionResult",
    "InitializeStateData",
    "InitializeStateResult",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateRequestPartitionData",
    "ReadShareGroupStateResponse",
    "ReadShareGroupStateResponsePartitionResult",
    "ReadShareGroupStateResponseStateBatch",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryRequestPartitionData",
    "ReadShareGroupStateSummaryResponse",
    "ReadShareGroupStateSummaryResponsePartitionResult",
    "ReadStateData",
    "ReadStateResult",
    "ReadStateSummaryData",
    "ReadStateSummaryResult",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareSnapshotValueStateBatch",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "ShareUpdateValueStateBatch",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateRequestPartitionData",
    "WriteShareGroupStateRequestStateBatch",
    "WriteShareGroupStateResponse",
    "WriteShareGroupStateResponsePartitionResult",
    "WriteStateData",
    "WriteStateResult",
]


class ShareSnapshotKey(Message, key=0, versions="0"):
    """Key of the full state of a partition."""

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class ShareSnapshotValue(Message, key=0, versions="0", flexible="0+"):
    """Full state of a partition."""

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(0, default=-1, tag=0)
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: Array[ShareSnapshotValueStateBatch] = []


class ShareSnapshotValueStateBatch(Struct, called="StateBatch"):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ShareUpdateKey(Message, key=1, versions="0"):
    """Key of a change of a partition's state."""

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class ShareUpdateValue(Message, key=1, versions="0", flexible="0+"):
    """Change of a partition's state."""

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(0, default=-1, tag=0)
    state_batches: Array[ShareUpdateValueStateBatch] = []


class ShareUpdateValueStateBatch(Struct, called="StateBatch"):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class InitializeShareGroupStateRequest(Message, key=83, versions="0", flexible="0+"):
    """Begin the state of partitions."""

    group_id: String = ""
    topics: Array[InitializeStateData] = []


class InitializeStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[InitializeShareGroupStateRequestPartitionData] = []


class InitializeShareGroupStateRequestPartitionData(Struct, called="PartitionData"):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


class InitializeShareGroupStateResponse(Message, key=83, versions="0", flexible="0+"):
    """Result per partition."""

    results: Array[InitializeStateResult] = []


class InitializeStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[InitializeShareGroupStateResponsePartitionResult] = []


class InitializeShareGroupStateResponsePartitionResult(Struct, called="PartitionResult"):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class ReadShareGroupStateRequest(Message, key=84, versions="0", flexible="0+"):
    """Ask for the state of partitions."""

    group_id: String = ""
    topics: Array[ReadStateData] = []


class ReadStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[ReadShareGroupStateRequestPartitionData] = []


class ReadShareGroupStateRequestPartitionData(Struct, called="PartitionData"):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadShareGroupStateResponse(Message, key=84, versions="0", flexible="0+"):
    """State per partition."""

    results: Array[ReadStateResult] = []


class ReadStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[ReadShareGroupStateResponsePartitionResult] = []


class ReadShareGroupStateResponsePartitionResult(Struct, called="PartitionResult"):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: Array[ReadShareGroupStateResponseStateBatch] = []


class ReadShareGroupStateResponseStateBatch(Struct, called="StateBatch"):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class WriteShareGroupStateRequest(Message, key=85, versions="0-1", flexible="0+"):
    """Keep the state of partitions."""

    group_id: String = ""
    topics: Array[WriteStateData] = []


class WriteStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[WriteShareGroupStateRequestPartitionData] = []


class WriteShareGroupStateRequestPartitionData(Struct, called="PartitionData"):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
    state_batches: Array[WriteShareGroupStateRequestStateBatch] = []


class WriteShareGroupStateRequestStateBatch(Struct, called="StateBatch"):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class WriteShareGroupStateResponse(Message, key=85, versions="0-1", flexible="0+"):
    """Result per partition."""

    results: Array[WriteStateResult] = []


class WriteStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[WriteShareGroupStateResponsePartitionResult] = []


class WriteShareGroupStateResponsePartitionResult(Struct, called="PartitionResult"):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupStateRequest(Message, key=86, versions="0", flexible="0+"):
    """Drop the state of partitions."""

    group_id: String = ""
    topics: Array[DeleteStateData] = []


class DeleteStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[DeleteShareGroupStateRequestPartitionData] = []


class DeleteShareGroupStateRequestPartitionData(Struct, called="PartitionData"):
    partition: Int32 = 0


class DeleteShareGroupStateResponse(Message, key=86, versions="0", flexible="0+"):
    """Result per partition."""

    results: Array[DeleteStateResult] = []


class DeleteStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[DeleteShareGroupStateResponsePartitionResult] = []


class DeleteShareGroupStateResponsePartitionResult(Struct, called="PartitionResult"):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class ReadShareGroupStateSummaryRequest(Message, key=87, versions="0-1", flexible="0+"):
    """Ask where partitions begin."""

    group_id: String = ""
    topics: Array[ReadStateSummaryData] = []


class ReadStateSummaryData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[ReadShareGroupStateSummaryRequestPartitionData] = []


class ReadShareGroupStateSummaryRequestPartitionData(Struct, called="PartitionData"):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadShareGroupStateSummaryResponse(Message, key=87, versions="0-1", flexible="0+"):
    """Start offset per partition."""

    results: Array[ReadStateSummaryResult] = []


class ReadStateSummaryResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[ReadShareGroupStateSummaryResponsePartitionResult] = []


class ReadShareGroupStateSummaryResponsePartitionResult(Struct, called="PartitionResult"):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
