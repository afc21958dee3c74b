"""Moving replicas and leadership.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    OWN_TAG,
    ZERO_UUID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterReplicaLogDir",
    "AlterReplicaLogDirPartitionResult",
    "AlterReplicaLogDirTopic",
    "AlterReplicaLogDirTopicResult",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsRequestDirectoryData",
    "AssignReplicasToDirsRequestPartitionData",
    "AssignReplicasToDirsRequestTopicData",
    "AssignReplicasToDirsResponse",
    "AssignReplicasToDirsResponseDirectoryData",
    "AssignReplicasToDirsResponsePartitionData",
    "AssignReplicasToDirsResponseTopicData",
    "DescribableLogDirTopic",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListPartitionReassignmentsTopics",
    "OngoingPartitionReassignment",
    "OngoingTopicReassignment",
    "PartitionResult",
    "PartitionResultReplica",
    "ReassignablePartition",
    "ReassignablePartitionResponse",
    "ReassignableTopic",
    "ReassignableTopicResponse",
    "ReplicaElectionResult",
    "TopicPartitions",
]


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    """Elect leaders of partitions (KIP-183, KIP-460)."""

    election_type: Int8 = since(1, default=0)
    topic_partitions: Array[TopicPartitions] | None = []
    timeout_ms: Int32 = 60000


class TopicPartitions(Struct):
    topic: String = ""
    partitions: Array[Int32] = []


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    """Result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: Array[ReplicaElectionResult] = []


class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: Array[PartitionResult] = []


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    replicas: Array[PartitionResultReplica] = since(2, default=[], tag=OWN_TAG, ignorable=True)


class PartitionResultReplica(Struct, called="ReplicaEnd"):
    broker_id: Int32 = 0
    alive: Bool = False
    incomplete: Bool = False
    leads: Bool = False
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    """Move partitions to other replicas (KIP-455; factor check: KIP-860)."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = since(1, default=True)
    topics: Array[ReassignableTopic] = []


class ReassignableTopic(Struct):
    name: String = ""
    partitions: Array[ReassignablePartition] = []


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: Array[Int32] | None = None
    lead: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    force: Bool = since(0, default=False, tag=OWN_TAG + 1, ignorable=True)


class AlterPartitionReassignmentsResponse(Message, key=45, versions="0-1", flexible="0+"):
    """Result per partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: Array[ReassignableTopicResponse] = []


class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: Array[ReassignablePartitionResponse] = []


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    """Ask which partitions move (KIP-455)."""

    timeout_ms: Int32 = 60000
    topics: Array[ListPartitionReassignmentsTopics] | None = None


class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: Array[Int32] = []


class ListPartitionReassignmentsResponse(Message, key=46, versions="0", flexible="0+"):
    """Moves in progress."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: Array[OngoingTopicReassignment] = []


class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: Array[OngoingPartitionReassignment] = []


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: Array[Int32] = []
    adding_replicas: Array[Int32] = []
    removing_replicas: Array[Int32] = []


class AlterReplicaLogDirsRequest(Message, key=34, versions="1-2", flexible="2+"):
    """Move replicas between log directories (KIP-113)."""

    dirs: Array[AlterReplicaLogDir] = []


class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: Array[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: Array[Int32] = []


class AlterReplicaLogDirsResponse(Message, key=34, versions="1-2", flexible="2+"):
    """Result per replica."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult] = []


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: Array[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class DescribeLogDirsRequest(Message, key=35, versions="1-5", flexible="2+"):
    """Ask what lies in the log directories."""

    topics: Array[DescribableLogDirTopic] | None = []


class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: Array[Int32] = []


class DescribeLogDirsResponse(Message, key=35, versions="1-5", flexible="2+"):
    """Directories, replicas, sizes."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0, ignorable=True)
    results: Array[DescribeLogDirsResult] = []


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: Array[DescribeLogDirsTopic] = []
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: Bool = since(5, default=False, ignorable=True)


class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: Array[DescribeLogDirsPartition] = []


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class AssignReplicasToDirsRequest(Message, key=73, versions="0", flexible="0+"):
    """A broker tells the controller on which disk its replicas are (KIP-858)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: Array[AssignReplicasToDirsRequestDirectoryData] = []
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class AssignReplicasToDirsRequestDirectoryData(Struct, called="DirectoryData"):
    id: Uuid = ZERO_UUID
    topics: Array[AssignReplicasToDirsRequestTopicData] = []


class AssignReplicasToDirsRequestTopicData(Struct, called="TopicData"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AssignReplicasToDirsRequestPartitionData] = []


class AssignReplicasToDirsRequestPartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0


class AssignReplicasToDirsResponse(Message, key=73, versions="0", flexible="0+"):
    """Result per replica."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: Array[AssignReplicasToDirsResponseDirectoryData] = []


class AssignReplicasToDirsResponseDirectoryData(Struct, called="DirectoryData"):
    id: Uuid = ZERO_UUID
    topics: Array[AssignReplicasToDirsResponseTopicData] = []


class AssignReplicasToDirsResponseTopicData(Struct, called="TopicData"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AssignReplicasToDirsResponsePartitionData] = []


class AssignReplicasToDirsResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
