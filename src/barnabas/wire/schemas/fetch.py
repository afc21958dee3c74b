"""Reading record batches: consumers, followers and the quorum's replicas use the same request.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
    OWN_TAG,
    ZERO_UUID,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
]


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    """Read batches from partitions (sessions: KIP-227; divergence: KIP-320; the quorum: KIP-595)."""

    cluster_id: String | None = since(12, default=None, tag=0, ignorable=True)
    replica_id: Int32 = since(0, default=-1, until=14)
    replica_state: ReplicaState = since(15, default=BLANK, tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: Array[FetchTopic] = []
    forgotten_topics_data: Array[ForgottenTopic] = since(7, default=[])
    rack_id: String = since(11, default="", ignorable=True)
    incarnation: Int32 = since(12, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(12, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)
    cannot_vote: Bool = since(12, default=False, tag=OWN_TAG + 2, ignorable=True)


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchTopic(Struct):
    topic: String = since(0, default="", until=12, ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: Array[FetchPartition] = []


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = since(17, default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = since(18, default=9223372036854775807, tag=1, ignorable=True)


class ForgottenTopic(Struct):
    topic: String = since(7, default="", until=12, ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: Array[Int32] = []


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    """Batches as they lie in the log, with high watermarks and aborted transactions."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0)
    responses: Array[FetchableTopicResponse] = []
    node_endpoints: Array[NodeEndpoint] = since(16, default=[], tag=0)
    incarnation: Int32 = since(12, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(12, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class FetchableTopicResponse(Struct):
    topic: String = since(0, default="", until=12, ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: Array[PartitionData] = []


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = since(12, default=BLANK, tag=0)
    current_leader: LeaderIdAndEpoch = since(12, default=BLANK, tag=1)
    snapshot_id: SnapshotId = since(12, default=BLANK, tag=2)
    aborted_transactions: Array[AbortedTransaction] | None = []
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records | None = None


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
