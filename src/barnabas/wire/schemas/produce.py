"""Appending record batches.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    BLANK,
    ZERO_UUID,
    Array,
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
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    """Append record batches to partitions (KIP-98 producers; topic ids since v13, KIP-516)."""

    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Array[TopicProduceData] = []


class TopicProduceData(Struct):
    name: String = since(0, default="", until=12, ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: Array[PartitionProduceData] = []


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    """Where each batch ended up, or why it did not (the new leader's address: KIP-951)."""

    responses: Array[TopicProduceResponse] = []
    throttle_time_ms: Int32 = 0
    node_endpoints: Array[NodeEndpoint] = since(10, default=[], tag=0)


class TopicProduceResponse(Struct):
    name: String = since(0, default="", until=12, ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: Array[PartitionProduceResponse] = []


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: Array[BatchIndexAndErrorMessage] = since(8, default=[], ignorable=True)
    error_message: String | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = since(10, default=BLANK, tag=0)


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
