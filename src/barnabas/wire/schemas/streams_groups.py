"""Groups of Kafka Streams applications (KIP-1071).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "Assignment",
    "CopartitionGroup",
    "DescribedGroup",
    "EndpointToPartitions",
    "Member",
    "Status",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupDescribeResponseEndpoint",
    "StreamsGroupDescribeResponseKeyValue",
    "StreamsGroupDescribeResponseSubtopology",
    "StreamsGroupDescribeResponseTaskIds",
    "StreamsGroupDescribeResponseTaskOffset",
    "StreamsGroupDescribeResponseTopicInfo",
    "StreamsGroupDescribeResponseTopology",
    "StreamsGroupDescribeResponseTopologyDescription",
    "StreamsGroupDescribeResponseTopologyDescriptionGlobalStore",
    "StreamsGroupDescribeResponseTopologyDescriptionNode",
    "StreamsGroupDescribeResponseTopologyDescriptionSubtopology",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatRequestEndpoint",
    "StreamsGroupHeartbeatRequestKeyValue",
    "StreamsGroupHeartbeatRequestSubtopology",
    "StreamsGroupHeartbeatRequestTaskIds",
    "StreamsGroupHeartbeatRequestTaskOffset",
    "StreamsGroupHeartbeatRequestTopicInfo",
    "StreamsGroupHeartbeatRequestTopology",
    "StreamsGroupHeartbeatResponse",
    "StreamsGroupHeartbeatResponseEndpoint",
    "StreamsGroupHeartbeatResponseTaskIds",
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription",
    "StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore",
    "StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode",
    "StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "TopicPartition",
]


class StreamsGroupHeartbeatRequest(Message, key=88, versions="0-1", flexible="0+"):
    """A member tells its topology and tasks."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: StreamsGroupHeartbeatRequestTopology | None = None
    active_tasks: Array[StreamsGroupHeartbeatRequestTaskIds] | None = None
    standby_tasks: Array[StreamsGroupHeartbeatRequestTaskIds] | None = None
    warmup_tasks: Array[StreamsGroupHeartbeatRequestTaskIds] | None = None
    process_id: String | None = None
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = None
    client_tags: Array[StreamsGroupHeartbeatRequestKeyValue] | None = None
    task_offsets: Array[StreamsGroupHeartbeatRequestTaskOffset] | None = None
    task_end_offsets: Array[StreamsGroupHeartbeatRequestTaskOffset] | None = None
    shutdown_application: Bool = False


class StreamsGroupHeartbeatRequestTopology(Struct, called="Topology"):
    epoch: Int32 = 0
    subtopologies: Array[StreamsGroupHeartbeatRequestSubtopology] = []


class StreamsGroupHeartbeatRequestSubtopology(Struct, called="Subtopology"):
    subtopology_id: String = ""
    source_topics: Array[String] = []
    source_topic_regex: Array[String] = []
    state_changelog_topics: Array[StreamsGroupHeartbeatRequestTopicInfo] = []
    repartition_sink_topics: Array[String] = []
    repartition_source_topics: Array[StreamsGroupHeartbeatRequestTopicInfo] = []
    copartition_groups: Array[CopartitionGroup] = []


class StreamsGroupHeartbeatRequestTopicInfo(Struct, called="TopicInfo"):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Array[StreamsGroupHeartbeatRequestKeyValue] = []


class StreamsGroupHeartbeatRequestKeyValue(Struct, called="KeyValue"):
    key: String = ""
    value: String = ""


class CopartitionGroup(Struct):
    source_topics: Array[Int16] = []
    source_topic_regex: Array[Int16] = []
    repartition_source_topics: Array[Int16] = []


class StreamsGroupHeartbeatRequestTaskIds(Struct, called="TaskIds"):
    subtopology_id: String = ""
    partitions: Array[Int32] = []


class StreamsGroupHeartbeatRequestEndpoint(Struct, called="Endpoint"):
    host: String = ""
    port: UInt16 = 0


class StreamsGroupHeartbeatRequestTaskOffset(Struct, called="TaskOffset"):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class StreamsGroupHeartbeatResponse(Message, key=88, versions="0-1", flexible="0+"):
    """Tasks the member shall run."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Int32 = since(0, default=0, until=0)
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int64 = since(1, default=-1, ignorable=True)
    status: Array[Status] | None = []
    active_tasks: Array[StreamsGroupHeartbeatResponseTaskIds] | None = None
    standby_tasks: Array[StreamsGroupHeartbeatResponseTaskIds] | None = None
    warmup_tasks: Array[StreamsGroupHeartbeatResponseTaskIds] | None = None
    topology_description_required: Bool = since(1, default=False)
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: Array[EndpointToPartitions] | None = None


class Status(Struct):
    status_code: Int8 = 0
    status_detail: String = ""


class StreamsGroupHeartbeatResponseTaskIds(Struct, called="TaskIds"):
    subtopology_id: String = ""
    partitions: Array[Int32] = []


class EndpointToPartitions(Struct):
    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = BLANK
    active_partitions: Array[TopicPartition] = []
    standby_partitions: Array[TopicPartition] = []


class StreamsGroupHeartbeatResponseEndpoint(Struct, called="Endpoint"):
    host: String = ""
    port: UInt16 = 0


class TopicPartition(Struct):
    topic: String = ""
    partitions: Array[Int32] = []


class StreamsGroupDescribeRequest(Message, key=89, versions="0-1", flexible="0+"):
    """Ask for streams groups."""

    group_ids: Array[String] = []
    include_authorized_operations: Bool = False
    include_topology_description: Bool = since(1, default=False)


class StreamsGroupDescribeResponse(Message, key=89, versions="0-1", flexible="0+"):
    """Topology, members and tasks."""

    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup] = []


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: StreamsGroupDescribeResponseTopology | None = None
    members: Array[Member] = []
    authorized_operations: Int32 = -2147483648
    topology_description: StreamsGroupDescribeResponseTopologyDescription | None = since(1, default=None)
    topology_description_status: Int8 = since(1, default=0)
    assignor_name: String | None = since(1, default=None, ignorable=True)


class StreamsGroupDescribeResponseTopology(Struct, called="Topology"):
    epoch: Int32 = 0
    subtopologies: Array[StreamsGroupDescribeResponseSubtopology] | None = None


class StreamsGroupDescribeResponseSubtopology(Struct, called="Subtopology"):
    subtopology_id: String = ""
    source_topics: Array[String] = []
    repartition_sink_topics: Array[String] = []
    state_changelog_topics: Array[StreamsGroupDescribeResponseTopicInfo] = []
    repartition_source_topics: Array[StreamsGroupDescribeResponseTopicInfo] = []


class StreamsGroupDescribeResponseTopicInfo(Struct, called="TopicInfo"):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Array[StreamsGroupDescribeResponseKeyValue] = []


class StreamsGroupDescribeResponseKeyValue(Struct, called="KeyValue"):
    key: String = ""
    value: String = ""


class Member(Struct):
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: StreamsGroupDescribeResponseEndpoint | None = None
    client_tags: Array[StreamsGroupDescribeResponseKeyValue] = []
    task_offsets: Array[StreamsGroupDescribeResponseTaskOffset] = []
    task_end_offsets: Array[StreamsGroupDescribeResponseTaskOffset] = []
    assignment: Assignment = BLANK
    target_assignment: Assignment = BLANK
    is_classic: Bool = False


class StreamsGroupDescribeResponseEndpoint(Struct, called="Endpoint"):
    host: String = ""
    port: UInt16 = 0


class StreamsGroupDescribeResponseTaskOffset(Struct, called="TaskOffset"):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class Assignment(Struct):
    active_tasks: Array[StreamsGroupDescribeResponseTaskIds] = []
    standby_tasks: Array[StreamsGroupDescribeResponseTaskIds] = []
    warmup_tasks: Array[StreamsGroupDescribeResponseTaskIds] = []


class StreamsGroupDescribeResponseTaskIds(Struct, called="TaskIds"):
    subtopology_id: String = ""
    partitions: Array[Int32] = []


class StreamsGroupDescribeResponseTopologyDescription(Struct, called="TopologyDescription"):
    subtopologies: Array[StreamsGroupDescribeResponseTopologyDescriptionSubtopology] = []
    global_stores: Array[StreamsGroupDescribeResponseTopologyDescriptionGlobalStore] = []


class StreamsGroupDescribeResponseTopologyDescriptionSubtopology(
    Struct, called="TopologyDescriptionSubtopology"
):
    subtopology_id: String = ""
    nodes: Array[StreamsGroupDescribeResponseTopologyDescriptionNode] = []


class StreamsGroupDescribeResponseTopologyDescriptionNode(Struct, called="TopologyDescriptionNode"):
    name: String = ""
    node_type: Int8 = 0
    source_topics: Array[String] = []
    sink_topic: String | None = None
    stores: Array[String] = []
    successors: Array[String] = []


class StreamsGroupDescribeResponseTopologyDescriptionGlobalStore(
    Struct, called="TopologyDescriptionGlobalStore"
):
    source: StreamsGroupDescribeResponseTopologyDescriptionNode = BLANK
    processor: StreamsGroupDescribeResponseTopologyDescriptionNode = BLANK


class StreamsGroupTopologyDescriptionUpdateRequest(Message, key=93, versions="0", flexible="0+"):
    """A member describes its topology (KIP-1331)."""

    group_id: String = ""
    member_id: String = ""
    topology_epoch: Int32 = 0
    topology_description: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription = BLANK


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescription(Struct, called="TopologyDescription"):
    subtopologies: Array[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology] = []
    global_stores: Array[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore] = []


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionSubtopology(
    Struct, called="TopologyDescriptionSubtopology"
):
    subtopology_id: String = ""
    nodes: Array[StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode] = []


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode(
    Struct, called="TopologyDescriptionNode"
):
    name: String = ""
    node_type: Int8 = 0
    source_topics: Array[String] = []
    sink_topic: String | None = None
    stores: Array[String] = []
    successors: Array[String] = []


class StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionGlobalStore(
    Struct, called="TopologyDescriptionGlobalStore"
):
    source: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode = BLANK
    processor: StreamsGroupTopologyDescriptionUpdateRequestTopologyDescriptionNode = BLANK


class StreamsGroupTopologyDescriptionUpdateResponse(Message, key=93, versions="0", flexible="0+"):
    """The outcome of a topology's description."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
