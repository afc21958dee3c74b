"""Transactions as DescribeTransactions and ListTransactions show them (KIP-664)."""

from __future__ import annotations

from barnabas.broker.groups.consumer.patterns import compiled_pattern, work_to_match
from barnabas.broker.transactions.state import Coordinated, State
from barnabas.broker.transactions.state_log import StateLog
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now
from barnabas.wire.schemas.transactions import (
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    TopicData,
)

__all__ = ["described", "listed"]

_BY_TITLE = {state.title: state for state in State}
MOST_WORK = 50_000_000
"""Instructions of RE2 for one list: at the worst a quarter of a second, in which the node does nothing else."""


def described(log: StateLog, transactional_id: str) -> DescribeTransactionsResponseTransactionState:
    """One id.  Its partitions are those that have no marker yet."""
    owned = log.owner(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
    if isinstance(owned, ErrorCode):
        return DescribeTransactionsResponseTransactionState(
            transactional_id=transactional_id, error_code=owned
        )
    held = owned.ids.get(transactional_id)
    if held is None:
        return DescribeTransactionsResponseTransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    current = held.current
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(held.ending.left if held.ending is not None else current.partitions):
        by_topic.setdefault(topic, []).append(index)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=transactional_id,
        transaction_state=current.state.title,
        transaction_timeout_ms=current.timeout_ms,
        transaction_start_time_ms=current.started_ms,
        producer_id=current.producer_id,
        producer_epoch=current.epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()],
    )


def listed(log: StateLog, request: ListTransactionsRequest, now: Now) -> ListTransactionsResponse:
    """The ids that this node coordinates, filtered by state, producer id, age and pattern (RE2, the whole id).

    A pattern that would take too long for so many ids (`MOST_WORK`) is an INVALID_REGULAR_EXPRESSION.
    """
    if log.loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = compiled_pattern(request.transactional_id_pattern)
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
        ids = (name for owned in log.all_owned() for name in owned.ids)
        if work_to_match(pattern, ids) > MOST_WORK:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    unknown = [name for name in request.state_filters if name not in _BY_TITLE]
    states = {_BY_TITLE[name] for name in request.state_filters if name in _BY_TITLE}
    producer_ids = set(request.producer_id_filters)

    def wanted(held: Coordinated) -> bool:
        current = held.current
        return (
            (not producer_ids or current.producer_id in producer_ids)
            and (not request.state_filters or current.state in states)
            and (request.duration_filter < 0 or now.wall_ms - current.started_ms > request.duration_filter)
            and (pattern is None or pattern.fullmatch(held.id) is not None)
        )

    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponseTransactionState(
                transactional_id=held.id,
                producer_id=held.current.producer_id,
                transaction_state=held.current.state.title,
            )
            for owned in log.all_owned()
            for held in owned.ids.values()
            if wanted(held)
        ],
    )
