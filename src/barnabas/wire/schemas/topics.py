"""Making and removing topics and partitions.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import ZERO_UUID, Array, Bool, Int8, Int16, Int32, String, Uuid, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeletableTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
]


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    """Create topics."""

    topics: Array[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Array[CreatableReplicaAssignment] = []
    configs: Array[CreatableTopicConfig] = []


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: Array[Int32] = []


class CreatableTopicConfig(Struct):
    name: String = ""
    value: String | None = ""


class CreateTopicsResponse(Message, key=19, versions="2-7", flexible="5+"):
    """What became of each topic, with its id and its settings."""

    throttle_time_ms: Int32 = 0
    topics: Array[CreatableTopicResult] = []


class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Int16 = since(5, default=0, tag=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: Array[CreatableTopicConfigs] | None = since(5, default=[], ignorable=True)


class CreatableTopicConfigs(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    """Delete topics by name or by id (KIP-516)."""

    topics: Array[DeleteTopicState] = since(6, default=[])
    topic_names: Array[String] = since(0, default=[], until=5, ignorable=True)
    timeout_ms: Int32 = 0


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid = ZERO_UUID


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    responses: Array[DeletableTopicResult] = []


class DeletableTopicResult(Struct):
    name: String | None = since(0, default="", nullable=6)
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = since(5, default=None, ignorable=True)


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    """Give topics more partitions (KIP-195)."""

    topics: Array[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: Array[CreatePartitionsAssignment] | None = []


class CreatePartitionsAssignment(Struct):
    broker_ids: Array[Int32] = []


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    """What became of each topic."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult] = []


class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None
