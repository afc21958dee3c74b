"""Records of streams groups in __consumer_offsets (KIP-1071).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Int8, Int16, Int32, Int64, String, UInt16, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "CopartitionGroup",
    "Endpoint",
    "KeyValue",
    "LastAssignmentConfig",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupCurrentMemberAssignmentValueTaskIds",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMemberValueTaskIds",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "Subtopology",
    "TopicConfig",
    "TopicInfo",
]


class StreamsGroupMetadataKey(Message, key=17, versions="0"):
    """Key of a streams group."""

    group_id: String = ""


class StreamsGroupMetadataValue(Message, key=17, versions="0", flexible="0+"):
    """A streams group's epoch."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Int32 = since(0, default=-1, tag=0)
    last_assignment_configs: Array[LastAssignmentConfig] | None = since(0, default=[], tag=1)
    stored_description_topology_epoch: Int32 = since(0, default=-1, tag=2)
    failed_description_topology_epoch: Int32 = since(0, default=-1, tag=3)


class LastAssignmentConfig(Struct):
    key: String = ""
    value: String = ""


class StreamsGroupMemberMetadataKey(Message, key=19, versions="0"):
    """Key of a member."""

    group_id: String = ""
    member_id: String = ""


class StreamsGroupMemberMetadataValue(Message, key=19, versions="0", flexible="0+"):
    """A member and its process."""

    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: Array[KeyValue] = []


class Endpoint(Struct):
    host: String = ""
    port: UInt16 = 0


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class StreamsGroupTopologyKey(Message, key=23, versions="0"):
    """Key of a topology."""

    group_id: String = ""


class StreamsGroupTopologyValue(Message, key=23, versions="0", flexible="0+"):
    """A topology."""

    epoch: Int32 = 0
    subtopologies: Array[Subtopology] = []


class Subtopology(Struct):
    subtopology_id: String = ""
    source_topics: Array[String] = []
    source_topic_regex: Array[String] = []
    state_changelog_topics: Array[TopicInfo] = []
    repartition_sink_topics: Array[String] = []
    repartition_source_topics: Array[TopicInfo] = []
    copartition_groups: Array[CopartitionGroup] = []


class TopicInfo(Struct):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Array[TopicConfig] = []


class TopicConfig(Struct):
    key: String = ""
    value: String = ""


class CopartitionGroup(Struct):
    source_topics: Array[Int16] = []
    source_topic_regex: Array[Int16] = []
    repartition_source_topics: Array[Int16] = []


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, versions="0"):
    """Key of the epoch of the target assignment."""

    group_id: String = ""


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions="0", flexible="0+"):
    """Epoch of the target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = since(0, default=0, tag=0)


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions="0"):
    """Key of the tasks a member shall run."""

    group_id: String = ""
    member_id: String = ""


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions="0", flexible="0+"):
    """Tasks a member shall run."""

    active_tasks: Array[StreamsGroupTargetAssignmentMemberValueTaskIds] = []
    standby_tasks: Array[StreamsGroupTargetAssignmentMemberValueTaskIds] = []
    warmup_tasks: Array[StreamsGroupTargetAssignmentMemberValueTaskIds] = []


class StreamsGroupTargetAssignmentMemberValueTaskIds(Struct, called="TaskIds"):
    subtopology_id: String = ""
    partitions: Array[Int32] = []


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions="0"):
    """Key of the tasks a member runs."""

    group_id: String = ""
    member_id: String = ""


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions="0", flexible="0+"):
    """Tasks a member runs."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds] = []
    standby_tasks: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds] = []
    warmup_tasks: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds] = []
    active_tasks_pending_revocation: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds] = []
    standby_tasks_pending_revocation: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds] = []
    warmup_tasks_pending_revocation: Array[StreamsGroupCurrentMemberAssignmentValueTaskIds] = []


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Struct, called="TaskIds"):
    subtopology_id: String = ""
    partitions: Array[Int32] = []
    assignment_epochs: Array[Int32] | None = since(0, default=[], tag=0)
