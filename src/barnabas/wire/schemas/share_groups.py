"""Share groups: several consumers on one partition (KIP-932).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
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
    "AcknowledgePartition",
    "AcknowledgeTopic",
    "AcquiredRecords",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsRequestPartition",
    "AlterShareGroupOffsetsRequestTopic",
    "AlterShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsResponsePartition",
    "AlterShareGroupOffsetsResponseTopic",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsRequestTopic",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsResponseTopic",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsRequestGroup",
    "DescribeShareGroupOffsetsRequestTopic",
    "DescribeShareGroupOffsetsResponse",
    "DescribeShareGroupOffsetsResponseGroup",
    "DescribeShareGroupOffsetsResponsePartition",
    "DescribeShareGroupOffsetsResponseTopic",
    "DescribedGroup",
    "FetchPartition",
    "FetchTopic",
    "ForgottenTopic",
    "Member",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeRequestAcknowledgementBatch",
    "ShareAcknowledgeResponse",
    "ShareAcknowledgeResponseLeaderIdAndEpoch",
    "ShareAcknowledgeResponseNodeEndpoint",
    "ShareAcknowledgeResponsePartitionData",
    "ShareAcknowledgeTopicResponse",
    "ShareFetchRequest",
    "ShareFetchRequestAcknowledgementBatch",
    "ShareFetchResponse",
    "ShareFetchResponseLeaderIdAndEpoch",
    "ShareFetchResponseNodeEndpoint",
    "ShareFetchResponsePartitionData",
    "ShareFetchableTopicResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupDescribeResponseAssignment",
    "ShareGroupDescribeResponseTopicPartitions",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareGroupHeartbeatResponseAssignment",
    "ShareGroupHeartbeatResponseTopicPartitions",
]


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    """A member tells what it subscribes to."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Array[String] | None = None


class ShareGroupHeartbeatResponse(Message, key=76, versions="1", flexible="0+"):
    """What the member shall read."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ShareGroupHeartbeatResponseAssignment | None = None


class ShareGroupHeartbeatResponseAssignment(Struct, called="Assignment"):
    topic_partitions: Array[ShareGroupHeartbeatResponseTopicPartitions] = []


class ShareGroupHeartbeatResponseTopicPartitions(Struct, called="TopicPartitions"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ShareGroupDescribeRequest(Message, key=77, versions="1", flexible="0+"):
    """Ask for share groups."""

    group_ids: Array[String] = []
    include_authorized_operations: Bool = False


class ShareGroupDescribeResponse(Message, key=77, versions="1", flexible="0+"):
    """Members and their assignments."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = []


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Array[Member] = []
    authorized_operations: Int32 = -2147483648


class Member(Struct):
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []
    assignment: ShareGroupDescribeResponseAssignment = BLANK


class ShareGroupDescribeResponseAssignment(Struct, called="Assignment"):
    topic_partitions: Array[ShareGroupDescribeResponseTopicPartitions] = []


class ShareGroupDescribeResponseTopicPartitions(Struct, called="TopicPartitions"):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = []


class ShareFetchRequest(Message, key=78, versions="1-2", flexible="0+"):
    """Acquire records, and acknowledge earlier ones."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = since(2, default=0, ignorable=True)
    is_renew_ack: Bool = since(2, default=False)
    topics: Array[FetchTopic] = []
    forgotten_topics_data: Array[ForgottenTopic] = []


class FetchTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[FetchPartition] = []


class FetchPartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: Array[ShareFetchRequestAcknowledgementBatch] = []


class ShareFetchRequestAcknowledgementBatch(Struct, called="AcknowledgementBatch"):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Array[Int8] = []


class ForgottenTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ShareFetchResponse(Message, key=78, versions="1-2", flexible="0+"):
    """Acquired records."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: Array[ShareFetchableTopicResponse] = []
    node_endpoints: Array[ShareFetchResponseNodeEndpoint] = []


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[ShareFetchResponsePartitionData] = []


class ShareFetchResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: ShareFetchResponseLeaderIdAndEpoch = BLANK
    records: Records | None = since(0, default=None, nullable=(0, 0))
    acquired_records: Array[AcquiredRecords] = []


class ShareFetchResponseLeaderIdAndEpoch(Struct, called="LeaderIdAndEpoch"):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class ShareFetchResponseNodeEndpoint(Struct, called="NodeEndpoint"):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareAcknowledgeRequest(Message, key=79, versions="1-2", flexible="0+"):
    """Accept, release or reject acquired records."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = since(2, default=False)
    topics: Array[AcknowledgeTopic] = []


class AcknowledgeTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AcknowledgePartition] = []


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: Array[ShareAcknowledgeRequestAcknowledgementBatch] = []


class ShareAcknowledgeRequestAcknowledgementBatch(Struct, called="AcknowledgementBatch"):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Array[Int8] = []


class ShareAcknowledgeResponse(Message, key=79, versions="1-2", flexible="0+"):
    """Result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0, ignorable=True)
    responses: Array[ShareAcknowledgeTopicResponse] = []
    node_endpoints: Array[ShareAcknowledgeResponseNodeEndpoint] = []


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[ShareAcknowledgeResponsePartitionData] = []


class ShareAcknowledgeResponsePartitionData(Struct, called="PartitionData"):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch = BLANK


class ShareAcknowledgeResponseLeaderIdAndEpoch(Struct, called="LeaderIdAndEpoch"):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class ShareAcknowledgeResponseNodeEndpoint(Struct, called="NodeEndpoint"):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class DescribeShareGroupOffsetsRequest(Message, key=90, versions="0-1", flexible="0+"):
    """Ask where share groups begin."""

    groups: Array[DescribeShareGroupOffsetsRequestGroup] = []


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsRequestTopic] | None = []


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: Array[Int32] = []


class DescribeShareGroupOffsetsResponse(Message, key=90, versions="0-1", flexible="0+"):
    """Start offsets and lags."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribeShareGroupOffsetsResponseGroup] = []


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String = ""
    topics: Array[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Array[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None


class AlterShareGroupOffsetsRequest(Message, key=91, versions="0", flexible="0+"):
    """Move where a share group begins."""

    group_id: String = ""
    topics: Array[AlterShareGroupOffsetsRequestTopic] = []


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: Array[AlterShareGroupOffsetsRequestPartition] = []


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsResponse(Message, key=91, versions="0", flexible="0+"):
    """Result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Array[AlterShareGroupOffsetsResponseTopic] = []


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: Array[AlterShareGroupOffsetsResponsePartition] = []


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsRequest(Message, key=92, versions="0", flexible="0+"):
    """Forget where a share group begins."""

    group_id: String = ""
    topics: Array[DeleteShareGroupOffsetsRequestTopic] = []


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""


class DeleteShareGroupOffsetsResponse(Message, key=92, versions="0", flexible="0+"):
    """Result per topic."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic] = []


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = None
