"""Transactional ids as records of __transaction_state, both ways.

Keys and values are Apache Kafka's: version 1 of a value (flexible, with the fields of KIP-890) from
transaction.version 1 on, version 0 before.
"""

from __future__ import annotations

from barnabas.broker.transactions.state import State, Transaction
from barnabas.errors import CorruptRecordError
from barnabas.model import NO_EPOCH, NO_PRODUCER, TRANSACTIONS_TOPIC, TopicPartition
from barnabas.wire.coordinator import read_key, read_value, write_key, write_value
from barnabas.wire.records import Record
from barnabas.wire.schemas.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

__all__ = ["read_transaction", "tombstone", "transaction_record"]


def transaction_record(transactional_id: str, state: Transaction, transaction_version: int) -> Record:
    """The state of an id; `transaction_version` is the finalized level of the cluster."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(state.partitions):
        by_topic.setdefault(topic, []).append(partition)
    flexible = transaction_version >= 1
    value = TransactionLogValue(
        producer_id=state.producer_id,
        previous_producer_id=state.previous_producer_id if flexible else NO_PRODUCER,
        next_producer_id=state.next_producer_id if flexible else NO_PRODUCER,
        producer_epoch=state.epoch,
        next_producer_epoch=state.next_epoch if flexible else NO_EPOCH,
        transaction_timeout_ms=state.timeout_ms,
        transaction_status=state.state,
        transaction_partitions=None
        if state.state is State.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
        transaction_last_update_timestamp_ms=state.updated_ms,
        transaction_start_timestamp_ms=state.started_ms,
        client_transaction_version=state.client_version if flexible else 0,
    )
    return Record(
        0,
        state.updated_ms,
        write_key(TransactionLogKey(transactional_id=transactional_id)),
        write_value(value, 1 if flexible else 0),
        (),
    )


def tombstone(transactional_id: str, wall_ms: int) -> Record:
    """The id is forgotten."""
    return Record(0, wall_ms, write_key(TransactionLogKey(transactional_id=transactional_id)), None, ())


def read_transaction(record: Record) -> tuple[str, Transaction | None] | None:
    """(transactional id, its state or None where it is forgotten); None for a key of another type.

    Raises WireError and CorruptRecordError for a record that means nothing.
    """
    key = read_key(record.key or b"", TRANSACTIONS_TOPIC)
    if not isinstance(key, TransactionLogKey):
        return None
    if record.value is None:
        return key.transactional_id, None
    value = read_value(TransactionLogValue, record.value)
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise CorruptRecordError(f"a transaction has state {value.transaction_status}") from error
    if state in (State.DEAD, State.PREPARE_EPOCH_FENCE):
        raise CorruptRecordError(f"a transaction in state {state.title} was written")
    return key.transactional_id, Transaction(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_epoch=NO_EPOCH,
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
        next_epoch=value.next_producer_epoch,
    )
