"""Consumer groups whose assignments the broker makes (KIP-848).

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
    String,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupDescribeResponseAssignment",
    "ConsumerGroupDescribeResponseTopicPartitions",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatRequestTopicPartitions",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerGroupHeartbeatResponseAssignment",
    "ConsumerGroupHeartbeatResponseTopicPartitions",
    "DescribedGroup",
    "Member",
]


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    """A member tells what it has and wants."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Array[String] | None = None
    subscribed_topic_regex: String | None = since(1, default=None)
    server_assignor: String | None = None
    topic_partitions: Array[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct, called="TopicPartitions"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0-1", flexible="0+"):
    """What the member shall own."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = None


class ConsumerGroupHeartbeatResponseAssignment(Struct, called="Assignment"):
    topic_partitions: Array[ConsumerGroupHeartbeatResponseTopicPartitions] = []


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct, called="TopicPartitions"):
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = []


class ConsumerGroupDescribeRequest(Message, key=69, versions="0-1", flexible="0+"):
    """Ask for consumer groups."""

    group_ids: Array[String] = []
    include_authorized_operations: Bool = False


class ConsumerGroupDescribeResponse(Message, key=69, versions="0-1", flexible="0+"):
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
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = []
    subscribed_topic_regex: String | None = None
    assignment: ConsumerGroupDescribeResponseAssignment = BLANK
    target_assignment: ConsumerGroupDescribeResponseAssignment = BLANK
    member_type: Int8 = since(1, default=-1, ignorable=True)


class ConsumerGroupDescribeResponseAssignment(Struct, called="Assignment"):
    topic_partitions: Array[ConsumerGroupDescribeResponseTopicPartitions] = []


class ConsumerGroupDescribeResponseTopicPartitions(Struct, called="TopicPartitions"):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = []
