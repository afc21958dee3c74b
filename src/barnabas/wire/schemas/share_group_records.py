"""Records of share groups in __consumer_offsets (KIP-932).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import ZERO_UUID, Array, Int8, Int32, Int64, String, Uuid, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "TopicInfo",
    "TopicPartition",
    "TopicPartitions",
    "TopicPartitionsInfo",
]


class ShareGroupMetadataKey(Message, key=11, versions="0"):
    """Key of a share group."""

    group_id: String = ""


class ShareGroupMetadataValue(Message, key=11, versions="0", flexible="0+"):
    """A share group's epoch."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class ShareGroupMemberMetadataKey(Message, key=10, versions="0"):
    """Key of a member."""

    group_id: String = ""
    member_id: String = ""


class ShareGroupMemberMetadataValue(Message, key=10, versions="0", flexible="0+"):
    """A member and what it subscribes to."""

    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []


class ShareGroupTargetAssignmentMetadataKey(Message, key=12, versions="0"):
    """Key of the epoch of the target assignment."""

    group_id: String = ""


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions="0", flexible="0+"):
    """Epoch of the target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = since(0, default=0, tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, key=13, versions="0"):
    """Key of what a member shall read."""

    group_id: String = ""
    member_id: String = ""


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions="0", flexible="0+"):
    """What a member shall read."""

    topic_partitions: Array[TopicPartition] = []


class TopicPartition(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions="0"):
    """Key of what a member reads."""

    group_id: String = ""
    member_id: String = ""


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions="0", flexible="0+"):
    """What a member reads."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: Array[TopicPartitions] = []


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions="0"):
    """Key of the partitions whose state exists."""

    group_id: String = ""


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions="0", flexible="0+"):
    """Partitions whose state exists."""

    initializing_topics: Array[TopicPartitionsInfo] = []
    initialized_topics: Array[TopicPartitionsInfo] = []
    deleting_topics: Array[TopicInfo] = []


class TopicPartitionsInfo(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = []


class TopicInfo(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
