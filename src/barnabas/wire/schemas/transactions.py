"""Idempotent producers and transactions (KIP-98, KIP-890).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    OWN_TAG,
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
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeTransactionsResponseTransactionState",
    "EndTxnRequest",
    "EndTxnResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "ListTransactionsResponseTransactionState",
    "PartitionResponse",
    "ProducerState",
    "TopicData",
    "TopicRequest",
    "TopicResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
    "WritableTxnMarker",
    "WritableTxnMarkerPartitionResult",
    "WritableTxnMarkerResult",
    "WritableTxnMarkerTopic",
    "WritableTxnMarkerTopicResult",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    """Ask for a producer id and epoch."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2_pc: Bool = since(6, default=False)
    keep_prepared_txn: Bool = since(6, default=False)


class InitProducerIdResponse(Message, key=22, versions="0-6", flexible="2+"):
    """The producer's id and epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    """Partitions join a transaction, or brokers verify that."""

    transactions: Array[AddPartitionsToTxnTransaction] = since(4, default=[])
    v3_and_below_transactional_id: String = since(0, default="", until=3)
    v3_and_below_producer_id: Int64 = since(0, default=0, until=3)
    v3_and_below_producer_epoch: Int16 = since(0, default=0, until=3)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = since(0, default=[], until=3)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic] = []


class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: Array[Int32] = []


class AddPartitionsToTxnResponse(Message, key=24, versions="0-5", flexible="3+"):
    """Result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0, ignorable=True)
    results_by_transaction: Array[AddPartitionsToTxnResult] = since(4, default=[])
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = since(0, default=[], until=3)


class AddPartitionsToTxnResult(Struct):
    transactional_id: String = ""
    topic_results: Array[AddPartitionsToTxnTopicResult] = []


class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: Array[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    """A group's offsets join a transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(Message, key=25, versions="0-4", flexible="3+"):
    """Whether they did."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    """Commit or abort a transaction."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Message, key=26, versions="0-5", flexible="3+"):
    """Whether it is, and the next epoch."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    """The coordinator asks leaders to write markers."""

    markers: Array[WritableTxnMarker] = []


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: Array[WritableTxnMarkerTopic] = []
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = since(2, default=0, ignorable=True)


class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: Array[Int32] = []


class WriteTxnMarkersResponse(Message, key=27, versions="1-2", flexible="1+"):
    """Result per partition."""

    markers: Array[WritableTxnMarkerResult] = []


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: Array[WritableTxnMarkerTopicResult] = []


class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: Array[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitRequest(Message, key=28, versions="0-6", flexible="3+"):
    """Keep positions within a transaction (KIP-447)."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Int32 = since(3, default=-1)
    member_id: String = since(3, default="")
    group_instance_id: String | None = since(3, default=None)
    topics: Array[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitRequestTopic(Struct):
    name: String = since(0, default="", until=5, ignorable=True)
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    partitions: Array[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: String | None = ""


class TxnOffsetCommitResponse(Message, key=28, versions="0-6", flexible="3+"):
    """Result per partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic] = []


class TxnOffsetCommitResponseTopic(Struct):
    name: String = since(0, default="", until=5, ignorable=True)
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    partitions: Array[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    """Ask who produces to partitions (KIP-664)."""

    topics: Array[TopicRequest] = []


class TopicRequest(Struct):
    name: String = ""
    partition_indexes: Array[Int32] = []


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    """Producers per partition."""

    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse] = []


class TopicResponse(Struct):
    name: String = ""
    partitions: Array[PartitionResponse] = []


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: Array[ProducerState] = []


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    """Ask for transactions (KIP-664)."""

    transactional_ids: Array[String] = []


class DescribeTransactionsResponse(Message, key=65, versions="0", flexible="0+"):
    """States of transactions."""

    throttle_time_ms: Int32 = 0
    transaction_states: Array[DescribeTransactionsResponseTransactionState] = []


class DescribeTransactionsResponseTransactionState(Struct, called="TransactionState"):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Array[TopicData] = []


class TopicData(Struct):
    topic: String = ""
    partitions: Array[Int32] = []


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    """Ask which transactions there are (KIP-664)."""

    state_filters: Array[String] = []
    producer_id_filters: Array[Int64] = []
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: String | None = since(2, default=None)


class ListTransactionsResponse(Message, key=66, versions="0-2", flexible="0+"):
    """Transactions and states."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Array[String] = []
    transaction_states: Array[ListTransactionsResponseTransactionState] = []


class ListTransactionsResponseTransactionState(Struct, called="TransactionState"):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class AllocateProducerIdsRequest(Message, key=67, versions="0", flexible="0+"):
    """A broker asks for a block of producer ids (KIP-730)."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class AllocateProducerIdsResponse(Message, key=67, versions="0", flexible="0+"):
    """The block."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
