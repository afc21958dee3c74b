"""Records of __consumer_offsets.  `coordinator` reads and writes them.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
    ZERO_UUID,
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    String,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionMetadata",
    "TopicMetadata",
    "TopicPartition",
    "TopicPartitions",
]


class LegacyOffsetCommitKey(Message, key=0, versions="0"):
    """Key of a committed offset, oldest form."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


class LegacyOffsetCommitValue(Message, key=0, versions="0"):
    """A committed offset, oldest form."""

    offset: Int64 = 0
    metadata: String = ""
    commit_timestamp: Int64 = 0


class OffsetCommitKey(Message, key=1, versions="0"):
    """Key of a committed offset."""

    group: String = ""
    topic: String = ""
    partition: Int32 = 0


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: String = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = since(1, default=-1, until=1, ignorable=True)
    topic_id: Uuid = since(4, default=ZERO_UUID, tag=0, ignorable=True)


class GroupMetadataKey(Message, key=2, versions="0"):
    """Key of a classic group."""

    group: String = ""


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+"):
    """A classic group with its members."""

    protocol_type: String = ""
    generation: Int32 = 0
    protocol: String | None = ""
    leader: String | None = ""
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: Array[MemberMetadata] = []


class MemberMetadata(Struct):
    member_id: String = ""
    group_instance_id: String | None = since(3, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: Bytes = b""
    assignment: Bytes = b""


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    """Key of a consumer group (KIP-848)."""

    group_id: String = ""


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+"):
    """A consumer group's epoch."""

    epoch: Int32 = 0
    metadata_hash: Int64 = since(0, default=0, tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0"):
    """Key of the topics a group saw (no longer written)."""

    group_id: String = ""


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions="0", flexible="0+"):
    """Topics a group saw (no longer written)."""

    topics: Array[TopicMetadata] = []


class TopicMetadata(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: Array[PartitionMetadata] = []


class PartitionMetadata(Struct):
    partition: Int32 = 0
    racks: Array[String] = []


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    """Key of a member."""

    group_id: String = ""
    member_id: String = ""


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+"):
    """A member and what it subscribes to."""

    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = since(0, default=BLANK, tag=0)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = 0
    supported_protocols: Array[ClassicProtocol] = []


class ClassicProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    """Key of the epoch of the target assignment."""

    group_id: String = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+"):
    """Epoch of the target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = since(0, default=0, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    """Key of what a member shall own."""

    group_id: String = ""
    member_id: String = ""


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+"):
    """What a member shall own."""

    topic_partitions: Array[TopicPartition] = []


class TopicPartition(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    """Key of what a member owns."""

    group_id: String = ""
    member_id: String = ""


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+"):
    """What a member owns."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: Array[TopicPartitions] = []
    partitions_pending_revocation: Array[TopicPartitions] = []


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []
    assignment_epochs: Array[Int32] | None = since(0, default=[], tag=0)


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    """Key of a subscription by pattern."""

    group_id: String = ""
    regular_expression: String = ""


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+"):
    """Topics that a pattern matched."""

    topics: Array[String] = []
    version: Int64 = 0
    timestamp: Int64 = 0
