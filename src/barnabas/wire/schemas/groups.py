"""Consumer groups, classic protocol, and committed offsets.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    ZERO_UUID,
    Array,
    Bool,
    Bytes,
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
    "Coordinator",
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedGroupMember",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
    "MemberIdentity",
    "MemberResponse",
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
]


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    """Ask who coordinates a key (KIP-699)."""

    key: String = since(0, default="", until=3)
    key_type: Int8 = since(1, default=0)
    coordinator_keys: Array[String] = since(4, default=[])


class FindCoordinatorResponse(Message, key=10, versions="0-6", flexible="3+"):
    """The coordinator of each key."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = since(0, default=0, until=3)
    error_message: String | None = since(1, default="", until=3, ignorable=True)
    node_id: Int32 = since(0, default=0, until=3)
    host: String = since(0, default="", until=3)
    port: Int32 = since(0, default=0, until=3)
    coordinators: Array[Coordinator] = since(4, default=[])


class Coordinator(Struct):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    """Enter a group or a new generation."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String = ""
    protocols: Array[JoinGroupRequestProtocol] = []
    reason: String | None = since(8, default=None, ignorable=True)


class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    """The generation and, for its leader, the members."""

    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None, ignorable=True)
    protocol_name: String | None = since(0, default="", nullable=7)
    leader: String = ""
    skip_assignment: Bool = since(9, default=False)
    member_id: String = ""
    members: Array[JoinGroupResponseMember] = []


class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = since(5, default=None, ignorable=True)
    metadata: Bytes = b""


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    """Hand in (leader) or ask for (members) the assignment."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignments: Array[SyncGroupRequestAssignment] = []


class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupResponse(Message, key=14, versions="0-5", flexible="4+"):
    """A member's assignment."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignment: Bytes = b""


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    """A member is alive."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = since(3, default=None)


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    """Whether the group rebalances."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    """Members leave (KIP-345)."""

    group_id: String = ""
    member_id: String = since(0, default="", until=2)
    members: Array[MemberIdentity] = since(3, default=[])


class MemberIdentity(Struct):
    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = since(5, default=None, ignorable=True)


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    """Result per member."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: Array[MemberResponse] = since(3, default=[])


class MemberResponse(Struct):
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


class OffsetCommitRequest(Message, key=8, versions="2-10", flexible="8+"):
    """Keep a group's positions."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: String | None = since(7, default=None)
    retention_time_ms: Int64 = since(2, default=-1, until=4, ignorable=True)
    topics: Array[OffsetCommitRequestTopic] = []


class OffsetCommitRequestTopic(Struct):
    name: String = since(0, default="", until=9, ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: Array[OffsetCommitRequestPartition] = []


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: String | None = ""


class OffsetCommitResponse(Message, key=8, versions="2-10", flexible="8+"):
    """Result per partition."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: Array[OffsetCommitResponseTopic] = []


class OffsetCommitResponseTopic(Struct):
    name: String = since(0, default="", until=9, ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: Array[OffsetCommitResponsePartition] = []


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetFetchRequest(Message, key=9, versions="1-10", flexible="6+"):
    """Ask for a group's positions (KIP-709)."""

    group_id: String = since(0, default="", until=7)
    topics: Array[OffsetFetchRequestTopic] | None = since(0, default=[], until=7, nullable=(2, 7))
    groups: Array[OffsetFetchRequestGroup] = since(8, default=[])
    require_stable: Bool = since(7, default=False)


class OffsetFetchRequestTopic(Struct):
    name: String = ""
    partition_indexes: Array[Int32] = []


class OffsetFetchRequestGroup(Struct):
    group_id: String = ""
    member_id: String | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: Array[OffsetFetchRequestTopics] | None = []


class OffsetFetchRequestTopics(Struct):
    name: String = since(8, default="", until=9, ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: Array[Int32] = []


class OffsetFetchResponse(Message, key=9, versions="1-10", flexible="6+"):
    """Positions per partition."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: Array[OffsetFetchResponseTopic] = since(0, default=[], until=7)
    error_code: Int16 = since(2, default=0, until=7, ignorable=True)
    groups: Array[OffsetFetchResponseGroup] = since(8, default=[])


class OffsetFetchResponseTopic(Struct):
    name: String = ""
    partitions: Array[OffsetFetchResponsePartition] = []


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseGroup(Struct):
    group_id: String = ""
    topics: Array[OffsetFetchResponseTopics] = []
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: String = since(8, default="", until=9, ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: Array[OffsetFetchResponsePartitions] = []


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetDeleteRequest(Message, key=47, versions="0"):
    """Forget a group's positions (KIP-496)."""

    group_id: String = ""
    topics: Array[OffsetDeleteRequestTopic] = []


class OffsetDeleteRequestTopic(Struct):
    name: String = ""
    partitions: Array[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteResponse(Message, key=47, versions="0"):
    """Result per partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic] = []


class OffsetDeleteResponseTopic(Struct):
    name: String = ""
    partitions: Array[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    """Ask for groups of the classic protocol."""

    groups: Array[String] = []
    include_authorized_operations: Bool = since(3, default=False)


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    """States and members of groups."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    groups: Array[DescribedGroup] = []


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = since(6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Array[DescribedGroupMember] = []
    authorized_operations: Int32 = since(3, default=-2147483648)


class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = since(4, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    """Ask which groups there are (KIP-518, KIP-848)."""

    states_filter: Array[String] = since(4, default=[])
    types_filter: Array[String] = since(5, default=[])


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    """Groups with type and state."""

    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    groups: Array[ListedGroup] = []


class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = since(4, default="", ignorable=True)
    group_type: String = since(5, default="", ignorable=True)


class DeleteGroupsRequest(Message, key=42, versions="0-3", flexible="2+"):
    """Delete empty groups (KIP-229)."""

    groups_names: Array[String] = []


class DeleteGroupsResponse(Message, key=42, versions="0-3", flexible="2+"):
    """Result per group."""

    throttle_time_ms: Int32 = 0
    results: Array[DeletableGroupResult] = []


class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0
    error_message: String | None = since(3, default=None, ignorable=True)
