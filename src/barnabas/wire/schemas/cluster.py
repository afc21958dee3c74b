"""What a client asks first: which versions, which nodes, which leaders.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
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
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "DescribeClusterBroker",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsRequestCursor",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponseCursor",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "FinalizedFeatureKey",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "SupportedFeatureKey",
    "TopicRequest",
]


class ApiVersionsRequest(Message, key=18, versions="0-5", flexible="3+"):
    """Ask which APIs and features a node has (KIP-35, KIP-511, KIP-584)."""

    client_software_name: String = since(3, default="", ignorable=True)
    client_software_version: String = since(3, default="", ignorable=True)
    cluster_id: String | None = since(5, default=None, ignorable=True)
    node_id: Int32 = since(5, default=-1, ignorable=True)


class ApiVersionsResponse(Message, key=18, versions="0-5", flexible="3+"):
    """APIs with their version ranges, and the cluster's features."""

    error_code: Int16 = 0
    api_keys: Array[ApiVersion] = []
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    supported_features: Array[SupportedFeatureKey] = since(3, default=[], tag=0, ignorable=True)
    finalized_features_epoch: Int64 = since(3, default=-1, tag=1, ignorable=True)
    finalized_features: Array[FinalizedFeatureKey] = since(3, default=[], tag=2, ignorable=True)
    zk_migration_ready: Bool = since(3, default=False, tag=3, ignorable=True)


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    """Ask for nodes, topics and leaders."""

    topics: Array[MetadataRequestTopic] | None = since(0, default=[], nullable=1)
    allow_auto_topic_creation: Bool = since(4, default=True)
    include_cluster_authorized_operations: Bool = since(8, default=False, until=10)
    include_topic_authorized_operations: Bool = since(8, default=False)


class MetadataRequestTopic(Struct):
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: String | None = since(0, default="", nullable=10)


class MetadataResponse(Message, key=3, versions="0-13", flexible="9+"):
    """Nodes, topics, partitions and leaders."""

    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    brokers: Array[MetadataResponseBroker] = []
    cluster_id: String | None = since(2, default=None, ignorable=True)
    controller_id: Int32 = since(1, default=-1, ignorable=True)
    topics: Array[MetadataResponseTopic] = []
    cluster_authorized_operations: Int32 = since(8, default=-2147483648, until=10)
    error_code: Int16 = since(13, default=0, ignorable=True)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = since(1, default=None, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = since(0, default="", nullable=12)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: Bool = since(1, default=False, ignorable=True)
    partitions: Array[MetadataResponsePartition] = []
    topic_authorized_operations: Int32 = since(8, default=-2147483648)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = since(7, default=-1, ignorable=True)
    replica_nodes: Array[Int32] = []
    isr_nodes: Array[Int32] = []
    offline_replicas: Array[Int32] = since(5, default=[], ignorable=True)


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    """Ask for the nodes of the cluster (KIP-700; controllers: KIP-919)."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = since(1, default=1)
    include_fenced_brokers: Bool = since(2, default=False)


class DescribeClusterResponse(Message, key=60, versions="0-2", flexible="0+"):
    """Nodes and the cluster's id."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -2147483648


class DescribeClusterBroker(Struct):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Bool = since(2, default=False)


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    """Ask for the partitions of topics page by page (KIP-966)."""

    topics: Array[TopicRequest] = []
    response_partition_limit: Int32 = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


class TopicRequest(Struct):
    name: String = ""


class DescribeTopicPartitionsRequestCursor(Struct, called="Cursor"):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    """One page of partitions and where the next one begins."""

    throttle_time_ms: Int32 = 0
    topics: Array[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: Array[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: Array[Int32] = []
    isr_nodes: Array[Int32] = []
    eligible_leader_replicas: Array[Int32] | None = None
    last_known_elr: Array[Int32] | None = None
    offline_replicas: Array[Int32] = []


class DescribeTopicPartitionsResponseCursor(Struct, called="Cursor"):
    topic_name: String = ""
    partition_index: Int32 = 0
