"""Transactions as an administrator sees them, and how one that hangs is ended (KIP-664).

A transaction hangs when a partition has it open and its coordinator does not know it any more: nobody will end it,
and readers of committed records wait at it for ever.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.client.connection import first_of
from barnabas.client.coordinators import raise_for
from barnabas.client.for_both import AnyCluster, AnyConnection, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Epoch, NodeId, Offset, ProducerId, TopicPartition
from barnabas.wire.schemas.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

__all__ = [
    "OpenTransaction",
    "TransactionDescription",
    "TransactionListing",
    "abort_transaction",
    "describe_transaction",
    "hanging_transactions",
    "list_transactions",
    "open_transactions",
]


class TransactionListing(NamedTuple):
    """A transactional id, who coordinates it, and its state."""

    id: str
    coordinator: NodeId
    producer_id: ProducerId
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id in detail.  Times are milliseconds, `started_ms` wall time or -1; `partitions` are those
    that have no marker yet."""

    id: str
    coordinator: str
    state: str
    producer_id: ProducerId
    epoch: Epoch
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class OpenTransaction(NamedTuple):
    """A transaction that a partition has open since `offset`; `last_ms` is the wall time of its last record."""

    topic: str
    partition: int
    producer_id: ProducerId
    epoch: Epoch
    coordinator_epoch: Epoch
    offset: Offset
    last_ms: int


@for_both
async def list_transactions(
    cluster: AnyCluster, *, states: Sequence[str] = (), producer_ids: Sequence[ProducerId] = ()
) -> list[TransactionListing]:
    """`list_transactions(cluster, states=["Ongoing"])` -> the transactional ids in these states (all), by name."""
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))

    async def attempt() -> list[TransactionListing]:
        await cluster.refresh([])
        found: list[TransactionListing] = []
        for broker in await cluster.brokers():
            response = await (await cluster.connection(broker.id)).request(request)
            raise_for(response.error_code, f"listing the transactions of broker {broker.id}")
            if response.unknown_state_filters:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"there is no state {', '.join(response.unknown_state_filters)}",
                    next_step="write Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort",
                )
            found += [
                TransactionListing(one.transactional_id, broker.id, one.producer_id, one.transaction_state)
                for one in response.transaction_states
            ]
        return sorted(found)

    return await cluster.retrying(attempt)


@for_both
async def describe_transaction(cluster: AnyCluster, transactional_id: str) -> TransactionDescription:
    """`describe_transaction(cluster, "etl-1").partitions` -> those that have no marker yet."""

    async def attempt(coordinator: AnyConnection) -> TransactionDescription:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        [found] = (await coordinator.request(request)).transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"there is no transactional id {transactional_id}",
                next_step="see what there is with `barnabas transactions list`",
            )
        raise_for(found.error_code, f"transactional id {transactional_id}")
        return TransactionDescription(
            transactional_id,
            coordinator.address,
            found.transaction_state,
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms,
            tuple(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions),
        )

    return await cluster.at_coordinator(transactional_id, attempt, transaction=True)


@for_both
async def open_transactions(
    cluster: AnyCluster, topic: str, partitions: Sequence[int] | None = None
) -> list[OpenTransaction]:
    """`open_transactions(cluster, "orders")` -> what its partitions have open, as their leaders see it."""
    found: list[OpenTransaction] = []
    asked = sorted((await cluster.topic(topic)).partitions) if partitions is None else partitions
    for index in asked:

        async def attempt(index: int = index) -> list[OpenTransaction]:
            request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
            response = await (await cluster.to_leader(topic, index)).request(request)
            one = first_of(first_of(response.topics, topic).partitions, f"{topic}-{index}")
            raise_for(one.error_code, f"partition {topic}-{index}")
            return [
                OpenTransaction(
                    topic,
                    index,
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.coordinator_epoch,
                    producer.current_txn_start_offset,
                    producer.last_timestamp,
                )
                for producer in one.active_producers
                if producer.current_txn_start_offset >= 0
            ]

        found += await cluster.retrying(attempt, on_retry=lambda: cluster.forget(topic))
    return found


@for_both
async def hanging_transactions(
    cluster: AnyCluster, topics: Sequence[str] = (), *, older_than: float = 900.0
) -> list[OpenTransaction]:
    """`hanging_transactions(cluster)` -> open for more than so many seconds, and nobody will end them.

    A transaction that has just begun, or just ended, may look the same for a moment.
    """
    wall_ms = time.time_ns() // 1_000_000
    names = list(topics) or sorted(await cluster.refresh(None))
    suspected = [
        one
        for topic in names
        for one in await open_transactions(cluster, topic)
        if wall_ms - one.last_ms >= older_than * 1000
    ]
    return [one for one in suspected if await coordinated_by(cluster, one) is None]


@for_both
async def coordinated_by(cluster: AnyCluster, one: OpenTransaction) -> str | None:
    """The transactional id whose coordinator will end an open transaction; None: nobody will."""
    for listing in await list_transactions(cluster, producer_ids=[one.producer_id]):
        known = await describe_transaction(cluster, listing.id)
        here = TopicPartition(one.topic, one.partition)
        if known.producer_id == one.producer_id and here in known.partitions:
            return listing.id
    return None


@for_both
async def abort_transaction(
    cluster: AnyCluster, topic: str, partition: int, offset: Offset, *, force: bool = False
) -> OpenTransaction:
    """`abort_transaction(cluster, "orders", 0, 42)`: what the partition has open since offset 42 is aborted.

    Refused while a coordinator knows the transaction, unless forced: it may still be committed elsewhere.
    """
    where = f"{topic}-{partition}"
    found = [one for one in await open_transactions(cluster, topic, [partition]) if one.offset == offset]
    if not found:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"{where} has no transaction open since offset {offset}",
            next_step="see the open ones with `barnabas transactions find-hanging --older 0`",
        )
    one = found[0]
    owner = None if force else await coordinated_by(cluster, one)
    if owner is not None:
        raise KafkaError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"the coordinator of {owner} knows this transaction, and ends it when its time is over",
            next_step=f"see `barnabas transactions describe {owner}`; --force aborts it in {where} alone",
        )
    marker = WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(one.coordinator_epoch, 0),
    )

    async def attempt() -> OpenTransaction:
        leader = await cluster.to_leader(topic, partition)
        response = await leader.request(WriteTxnMarkersRequest(markers=[marker]))
        topics = first_of(response.markers, where).topics
        raise_for(first_of(first_of(topics, where).partitions, where).error_code, f"aborting in {where}")
        return one

    return await cluster.retrying(attempt, on_retry=lambda: cluster.forget(topic))
