"""Records of __transaction_state, and a log's snapshot of its producers.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Int8, Int16, Int32, Int64, String, UInt32, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "PartitionsSchema",
    "ProducerEntry",
    "ProducerSnapshot",
    "TransactionLogKey",
    "TransactionLogValue",
]


class TransactionLogKey(Message, key=0, versions="0"):
    """Key of a transactional id."""

    transactional_id: String = ""


class TransactionLogValue(Message, key=0, versions="0-1", flexible="1+"):
    """State of a transactional id."""

    producer_id: Int64 = 0
    previous_producer_id: Int64 = since(1, default=-1, tag=0)
    next_producer_id: Int64 = since(1, default=-1, tag=1)
    producer_epoch: Int16 = 0
    next_producer_epoch: Int16 = since(1, default=-1, tag=3)
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: Array[PartitionsSchema] | None = []
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Int16 = since(1, default=0, tag=2)


class PartitionsSchema(Struct):
    topic: String = ""
    partition_ids: Array[Int32] = []


class ProducerSnapshot(Message, versions="1"):
    """The producers of a partition at an offset (a file beside the segments)."""

    crc: UInt32 = 0
    producer_entries: Array[ProducerEntry] = []


class ProducerEntry(Struct):
    producer_id: Int64 = 0
    epoch: Int16 = 0
    last_sequence: Int32 = 0
    last_offset: Int64 = 0
    offset_delta: Int32 = 0
    timestamp: Int64 = 0
    coordinator_epoch: Int32 = 0
    current_txn_first_offset: Int64 = 0
