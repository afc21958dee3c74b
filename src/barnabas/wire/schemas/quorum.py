"""The controllers' quorum: election, log and members (KIP-595, KIP-630, KIP-853, KIP-996).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
    OWN_TAG,
    ZERO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    UInt16,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AddRaftVoterRequest",
    "AddRaftVoterRequestListener",
    "AddRaftVoterResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochRequestLeaderEndpoint",
    "BeginQuorumEpochRequestPartitionData",
    "BeginQuorumEpochRequestTopicData",
    "BeginQuorumEpochResponse",
    "BeginQuorumEpochResponseNodeEndpoint",
    "BeginQuorumEpochResponsePartitionData",
    "BeginQuorumEpochResponseTopicData",
    "CurrentLeader",
    "DescribeQuorumRequest",
    "DescribeQuorumRequestPartitionData",
    "DescribeQuorumRequestTopicData",
    "DescribeQuorumResponse",
    "DescribeQuorumResponseListener",
    "DescribeQuorumResponsePartitionData",
    "DescribeQuorumResponseTopicData",
    "EndQuorumEpochRequest",
    "EndQuorumEpochRequestLeaderEndpoint",
    "EndQuorumEpochRequestPartitionData",
    "EndQuorumEpochRequestTopicData",
    "EndQuorumEpochResponse",
    "EndQuorumEpochResponseNodeEndpoint",
    "EndQuorumEpochResponsePartitionData",
    "EndQuorumEpochResponseTopicData",
    "FetchSnapshotRequest",
    "FetchSnapshotRequestPartitionSnapshot",
    "FetchSnapshotRequestSnapshotId",
    "FetchSnapshotRequestTopicSnapshot",
    "FetchSnapshotResponse",
    "FetchSnapshotResponseNodeEndpoint",
    "FetchSnapshotResponsePartitionSnapshot",
    "FetchSnapshotResponseSnapshotId",
    "FetchSnapshotResponseTopicSnapshot",
    "KRaftVersionFeature",
    "LeaderIdAndEpoch",
    "Node",
    "PeerError",
    "RemoveRaftVoterRequest",
    "RemoveRaftVoterResponse",
    "ReplicaInfo",
    "ReplicaState",
    "UpdateRaftVoterRequest",
    "UpdateRaftVoterRequestListener",
    "UpdateRaftVoterResponse",
    "VoteRequest",
    "VoteRequestPartitionData",
    "VoteRequestTopicData",
    "VoteResponse",
    "VoteResponseNodeEndpoint",
    "VoteResponsePartitionData",
    "VoteResponseTopicData",
]


class VoteRequest(Message, key=52, versions="0-2", flexible="0+"):
    """Ask for a vote or a pre-vote."""

    cluster_id: String | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[VoteRequestTopicData] = []
    incarnation: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class VoteRequestTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[VoteRequestPartitionData] = []


class VoteRequestPartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: Bool = since(2, default=False)


class VoteResponse(Message, key=52, versions="0-2", flexible="0+"):
    """The vote."""

    error_code: Int16 = 0
    topics: Array[VoteResponseTopicData] = []
    node_endpoints: Array[VoteResponseNodeEndpoint] = since(1, default=[], tag=0)
    incarnation: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class VoteResponseTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[VoteResponsePartitionData] = []


class VoteResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: Bool = False


class VoteResponseNodeEndpoint(Struct, called="NodeEndpoint"):
    node_id: Int32 = 0
    host: String = ""
    port: UInt16 = 0


class BeginQuorumEpochRequest(Message, key=53, versions="0-1", flexible="1+"):
    """A new leader makes itself known."""

    cluster_id: String | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[BeginQuorumEpochRequestTopicData] = []
    leader_endpoints: Array[BeginQuorumEpochRequestLeaderEndpoint] = since(1, default=[], ignorable=True)
    incarnation: Int32 = since(1, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(1, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class BeginQuorumEpochRequestTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[BeginQuorumEpochRequestPartitionData] = []


class BeginQuorumEpochRequestPartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochRequestLeaderEndpoint(Struct, called="LeaderEndpoint"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0


class BeginQuorumEpochResponse(Message, key=53, versions="0-1", flexible="1+"):
    """Whether it is taken as leader."""

    error_code: Int16 = 0
    topics: Array[BeginQuorumEpochResponseTopicData] = []
    node_endpoints: Array[BeginQuorumEpochResponseNodeEndpoint] = since(1, default=[], tag=0)
    incarnation: Int32 = since(1, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(1, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class BeginQuorumEpochResponseTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[BeginQuorumEpochResponsePartitionData] = []


class BeginQuorumEpochResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochResponseNodeEndpoint(Struct, called="NodeEndpoint"):
    node_id: Int32 = 0
    host: String = ""
    port: UInt16 = 0


class EndQuorumEpochRequest(Message, key=54, versions="0-1", flexible="1+"):
    """A leader resigns and names successors."""

    cluster_id: String | None = None
    topics: Array[EndQuorumEpochRequestTopicData] = []
    leader_endpoints: Array[EndQuorumEpochRequestLeaderEndpoint] = since(1, default=[], ignorable=True)
    incarnation: Int32 = since(1, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(1, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class EndQuorumEpochRequestTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[EndQuorumEpochRequestPartitionData] = []


class EndQuorumEpochRequestPartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    preferred_successors: Array[Int32] = since(0, default=[], until=0, ignorable=True)
    preferred_candidates: Array[ReplicaInfo] = since(1, default=[], ignorable=True)


class ReplicaInfo(Struct):
    candidate_id: Int32 = 0
    candidate_directory_id: Uuid = ZERO_UUID


class EndQuorumEpochRequestLeaderEndpoint(Struct, called="LeaderEndpoint"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0


class EndQuorumEpochResponse(Message, key=54, versions="0-1", flexible="1+"):
    """Whether that was heard."""

    error_code: Int16 = 0
    topics: Array[EndQuorumEpochResponseTopicData] = []
    node_endpoints: Array[EndQuorumEpochResponseNodeEndpoint] = since(1, default=[], tag=0)
    incarnation: Int32 = since(1, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(1, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class EndQuorumEpochResponseTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[EndQuorumEpochResponsePartitionData] = []


class EndQuorumEpochResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class EndQuorumEpochResponseNodeEndpoint(Struct, called="NodeEndpoint"):
    node_id: Int32 = 0
    host: String = ""
    port: UInt16 = 0


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    """Ask for the quorum's replicas."""

    topics: Array[DescribeQuorumRequestTopicData] = []


class DescribeQuorumRequestTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[DescribeQuorumRequestPartitionData] = []


class DescribeQuorumRequestPartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    check: Int16 = since(0, default=0, tag=OWN_TAG, ignorable=True)
    check_voters: Array[Int32] = since(0, default=[], tag=OWN_TAG + 1, ignorable=True)
    check_directory_id: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 2, ignorable=True)
    check_force: Bool = since(0, default=False, tag=OWN_TAG + 3, ignorable=True)
    history: Bool = since(0, default=False, tag=OWN_TAG + 4, ignorable=True)


class DescribeQuorumResponse(Message, key=55, versions="0-2", flexible="0+"):
    """Leader, voters, observers, their lags."""

    error_code: Int16 = 0
    error_message: String | None = since(2, default="", ignorable=True)
    topics: Array[DescribeQuorumResponseTopicData] = []
    nodes: Array[Node] = since(2, default=[])


class DescribeQuorumResponseTopicData(Struct, called="TopicData"):
    topic_name: String = ""
    partitions: Array[DescribeQuorumResponsePartitionData] = []


class DescribeQuorumResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = since(2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Array[ReplicaState] = []
    observers: Array[ReplicaState] = []
    target_voters: Array[Int32] = since(0, default=[], tag=OWN_TAG, ignorable=True)
    could_be_voters: Array[Int32] = since(0, default=[], tag=OWN_TAG + 1, ignorable=True)
    committed_voters: Array[Int32] = since(0, default=[], tag=OWN_TAG + 2, ignorable=True)
    steps_left: Int32 = since(0, default=0, tag=OWN_TAG + 3, ignorable=True)
    waiting: Array[String] = since(0, default=[], tag=OWN_TAG + 4, ignorable=True)
    peer_errors: Array[PeerError] = since(0, default=[], tag=OWN_TAG + 5, ignorable=True)
    leaderless_ms: Int64 = since(0, default=-1, tag=OWN_TAG + 6, ignorable=True)
    survivable: Int32 = since(0, default=-1, tag=OWN_TAG + 7, ignorable=True)
    check_error: Int16 = since(0, default=-2, tag=OWN_TAG + 8, ignorable=True)
    check_message: String = since(0, default="", tag=OWN_TAG + 9, ignorable=True)
    history: Array[String] = since(0, default=[], tag=OWN_TAG + 10, ignorable=True)


class PeerError(Struct):
    node_id: Int32 = 0
    reason: String = ""


class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)


class Node(Struct):
    node_id: Int32 = 0
    listeners: Array[DescribeQuorumResponseListener] = []


class DescribeQuorumResponseListener(Struct, called="Listener"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0


class FetchSnapshotRequest(Message, key=59, versions="0-1", flexible="0+"):
    """Read a part of a snapshot."""

    cluster_id: String | None = since(0, default=None, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 2147483647
    topics: Array[FetchSnapshotRequestTopicSnapshot] = []
    incarnation: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct, called="TopicSnapshot"):
    name: String = ""
    partitions: Array[FetchSnapshotRequestPartitionSnapshot] = []


class FetchSnapshotRequestPartitionSnapshot(Struct, called="PartitionSnapshot"):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: FetchSnapshotRequestSnapshotId = BLANK
    position: Int64 = 0
    replica_directory_id: Uuid = since(1, default=ZERO_UUID, tag=0, ignorable=True)


class FetchSnapshotRequestSnapshotId(Struct, called="SnapshotId"):
    end_offset: Int64 = 0
    epoch: Int32 = 0


class FetchSnapshotResponse(Message, key=59, versions="0-1", flexible="0+"):
    """A part of a snapshot."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: Array[FetchSnapshotResponseTopicSnapshot] = []
    node_endpoints: Array[FetchSnapshotResponseNodeEndpoint] = since(1, default=[], tag=0)
    incarnation: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class FetchSnapshotResponseTopicSnapshot(Struct, called="TopicSnapshot"):
    name: String = ""
    partitions: Array[FetchSnapshotResponsePartitionSnapshot] = []


class FetchSnapshotResponsePartitionSnapshot(Struct, called="PartitionSnapshot"):
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: FetchSnapshotResponseSnapshotId = BLANK
    current_leader: LeaderIdAndEpoch = since(0, default=BLANK, tag=0)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


class FetchSnapshotResponseSnapshotId(Struct, called="SnapshotId"):
    end_offset: Int64 = 0
    epoch: Int32 = 0


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class FetchSnapshotResponseNodeEndpoint(Struct, called="NodeEndpoint"):
    node_id: Int32 = 0
    host: String = ""
    port: UInt16 = 0


class AddRaftVoterRequest(Message, key=80, versions="0-1", flexible="0+"):
    """Add a voter."""

    cluster_id: String | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: Array[AddRaftVoterRequestListener] = []
    ack_when_committed: Bool = since(1, default=True)
    force: Bool = since(0, default=False, tag=OWN_TAG, ignorable=True)


class AddRaftVoterRequestListener(Struct, called="Listener"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0


class AddRaftVoterResponse(Message, key=80, versions="0-1", flexible="0+"):
    """Whether it is one."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class RemoveRaftVoterRequest(Message, key=81, versions="0", flexible="0+"):
    """Remove a voter."""

    cluster_id: String | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    force: Bool = since(0, default=False, tag=OWN_TAG, ignorable=True)


class RemoveRaftVoterResponse(Message, key=81, versions="0", flexible="0+"):
    """Whether it is none any more."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateRaftVoterRequest(Message, key=82, versions="0", flexible="0+"):
    """A voter tells its endpoints and versions."""

    cluster_id: String | None = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: Array[UpdateRaftVoterRequestListener] = []
    k_raft_version_feature: KRaftVersionFeature = BLANK


class UpdateRaftVoterRequestListener(Struct, called="Listener"):
    name: String = ""
    host: String = ""
    port: UInt16 = 0


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UpdateRaftVoterResponse(Message, key=82, versions="0", flexible="0+"):
    """Whether they were taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: CurrentLeader = since(0, default=BLANK, tag=0)


class CurrentLeader(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: String = ""
    port: Int32 = 0
