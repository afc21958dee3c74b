"""The requests of producers and administrators about transactions, and their answers.

Codes depend on the version: before PRODUCER_FENCED existed its clients were told INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.groups.placement import NO_PARTITION
from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.broker.purgatory import Waiting
from barnabas.broker.transactions.coordinator import Transactions
from barnabas.broker.transactions.describing import described, listed
from barnabas.broker.transactions.initializing import Given
from barnabas.broker.transactions.state import EPOCH_BUMP, Transaction
from barnabas.errors import ErrorCode
from barnabas.model import (
    INTERNAL_TOPICS,
    NO_EPOCH,
    NO_PRODUCER,
    OFFSETS_TOPIC,
    Now,
    TopicPartition,
)
from barnabas.wire.codec.message import replace
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

__all__ = ["AnswerWaiting", "TransactionRequests"]

_INIT_FENCED_FROM = 4
"""Version of InitProducerId from which PRODUCER_FENCED is known."""
_FENCED_FROM = 2
"""The same of the other requests of producers."""
_BATCHED_FROM = 4
"""AddPartitionsToTxn: from brokers, several transactions at a time."""
_EPOCH_BUMP_FROM = 5
"""EndTxn: the client speaks transaction.version 2."""
_LONGEST_ID = 0x7FFF
"""Bytes: a transactional id is a string with an int16 length in a record's key."""


class AnswerWaiting(Waiting):
    """The answer to a request whose record is not committed yet.  The append has the deadline."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(float("inf"))

    def expired(self, now: Now) -> None:
        raise AssertionError("the append answers a request about a transaction")


class TransactionRequests:
    """`offsets_partition` is where a group's offsets lie: that partition of __consumer_offsets."""

    def __init__(self, transactions: Transactions, offsets_partition: Callable[[str], int]) -> None:
        self._transactions = transactions
        self._offsets_partition = offsets_partition

    def _allowed(
        self,
        context: RequestContext,
        operation: Operation,
        kind: ResourceType,
        name: str,
        *,
        asked: bool = True,
    ) -> bool:
        authorizer = self._transactions.broker.authorizer
        return allowed(authorizer, context, operation, kind, name, asked=asked)

    def _may_write(self, context: RequestContext, transactional_id: str) -> bool:
        return self._allowed(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)

    def init_producer_id(
        self, context: RequestContext, request: InitProducerIdRequest, now: Now
    ) -> InitProducerIdResponse | AnswerWaiting:
        """InitProducerId with a transactional id (KIP-98, KIP-360, KIP-939)."""
        transactional_id = request.transactional_id or ""
        known = request.producer_id != NO_PRODUCER
        if error := self._init_refused(context, request, transactional_id):
            return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)
        waiting = AnswerWaiting()

        def done(error: ErrorCode, state: Transaction | None) -> None:
            kept = state if not error and state is not None and state.kept else None
            id, epoch = state.identity if state is not None and not error else (NO_PRODUCER, NO_EPOCH)
            waiting.complete(
                InitProducerIdResponse(
                    error_code=_for_version(error, context.version, _INIT_FENCED_FROM),
                    producer_id=id,
                    producer_epoch=epoch,
                    ongoing_txn_producer_id=kept.producer_id if kept is not None else NO_PRODUCER,
                    ongoing_txn_producer_epoch=kept.epoch if kept is not None else NO_EPOCH,
                )
            )

        given = Given(request.producer_id, request.producer_epoch) if known else None
        self._transactions.initialize(
            transactional_id,
            request.transaction_timeout_ms,
            given,
            now,
            done,
            two_phases=request.enable2_pc,
            keep=request.keep_prepared_txn,
        )
        return waiting

    def _init_refused(
        self, context: RequestContext, request: InitProducerIdRequest, transactional_id: str
    ) -> ErrorCode:
        """What is wrong with the request itself.  To keep a transaction is for those who prepare theirs."""
        if not self._may_write(context, transactional_id) or (
            request.enable2_pc
            and not self._allowed(
                context, Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id
            )
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_EPOCH):
            return ErrorCode.INVALID_REQUEST
        if _no_id(transactional_id):
            return ErrorCode.INVALID_REQUEST
        if request.enable2_pc and not self._transactions.two_phases:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if request.keep_prepared_txn and not request.enable2_pc:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE

    def add_partitions(
        self, context: RequestContext, request: AddPartitionsToTxnRequest, now: Now
    ) -> AddPartitionsToTxnResponse | AnswerWaiting:
        """AddPartitionsToTxn: of one client, or (from version 4 on) of a broker for many (KIP-890)."""
        version = context.version
        batched = version >= _BATCHED_FROM
        asked = (
            request.transactions
            if batched
            else [
                AddPartitionsToTxnTransaction(
                    transactional_id=request.v3_and_below_transactional_id,
                    producer_id=request.v3_and_below_producer_id,
                    producer_epoch=request.v3_and_below_producer_epoch,
                    topics=request.v3_and_below_topics,
                )
            ]
        )
        waiting = AnswerWaiting()
        results: list[AddPartitionsToTxnResult | None] = [None] * len(asked)

        def answer_when_whole() -> None:
            whole = [result for result in results if result is not None]
            if len(whole) < len(results):
                return
            if batched:
                waiting.complete(AddPartitionsToTxnResponse(results_by_transaction=whole))
            else:
                waiting.complete(
                    AddPartitionsToTxnResponse(results_by_topic_v3_and_below=whole[0].topic_results)
                )

        def put(place: int, result: AddPartitionsToTxnResult) -> None:
            results[place] = result
            answer_when_whole()

        for place, one in enumerate(asked):
            self._add(context, one, now, partial(put, place))
        answer_when_whole()
        return waiting

    def _add(
        self,
        context: RequestContext,
        one: AddPartitionsToTxnTransaction,
        now: Now,
        done: Callable[[AddPartitionsToTxnResult], None],
    ) -> None:
        """One transaction of a request.  Partitions join together or not at all."""

        def all_alike(error: ErrorCode) -> None:
            code = _for_version(error, context.version, _FENCED_FROM)
            done(_result(one, lambda tp: code))

        def verified(tp: TopicPartition) -> ErrorCode:
            return self._transactions.verify(one.transactional_id, one.producer_id, one.producer_epoch, tp)

        from_client = context.version < _BATCHED_FROM
        partitions = [TopicPartition(topic.name, index) for topic in one.topics for index in topic.partitions]
        if from_client and not self._may_write(context, one.transactional_id):
            all_alike(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        elif wrong := {tp: error for tp in partitions if (error := self._refused(context, tp))}:
            topics = [
                replace(topic, partitions=list(dict.fromkeys(topic.partitions))) for topic in one.topics
            ]
            refused = replace(one, topics=topics)  # (each partition is named once)
            done(_result(refused, lambda tp: wrong.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED)))
        elif _no_id(one.transactional_id):
            all_alike(ErrorCode.INVALID_REQUEST)
        elif one.verify_only:
            done(_result(one, verified))
        else:
            version = 0 if from_client else EPOCH_BUMP
            self._transactions.add_partitions(
                one.transactional_id,
                one.producer_id,
                one.producer_epoch,
                frozenset(partitions),
                version,
                now,
                all_alike,
            )

    def _refused(self, context: RequestContext, tp: TopicPartition) -> ErrorCode:
        """Why a partition cannot be in a transaction; clients do not write to internal topics."""
        topic, index = tp
        if context.version < _BATCHED_FROM and (
            topic in INTERNAL_TOPICS or not self._allowed(context, Operation.WRITE, ResourceType.TOPIC, topic)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self._transactions.broker.image.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def add_offsets(
        self, context: RequestContext, request: AddOffsetsToTxnRequest, now: Now
    ) -> AddOffsetsToTxnResponse | AnswerWaiting:
        """Let the partition with a group's offsets join the transaction (AddOffsetsToTxn).

        It is answered with COORDINATOR_NOT_AVAILABLE as long as the topic of the offsets does not exist.
        """
        transactional_id = request.transactional_id
        error = ErrorCode.NONE
        if not self._may_write(context, transactional_id):
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not self._allowed(context, Operation.READ, ResourceType.GROUP, request.group_id):
            error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif _no_id(transactional_id):
            error = ErrorCode.INVALID_REQUEST
        elif (index := self._offsets_partition(request.group_id)) == NO_PARTITION:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error:
            return AddOffsetsToTxnResponse(error_code=error)
        waiting = AnswerWaiting()
        partition = TopicPartition(OFFSETS_TOPIC, index)
        self._transactions.add_partitions(
            transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({partition}),
            0,
            now,
            lambda error: waiting.complete(
                AddOffsetsToTxnResponse(error_code=_for_version(error, context.version, _FENCED_FROM))
            ),
        )
        return waiting

    def end(
        self, context: RequestContext, request: EndTxnRequest, now: Now
    ) -> EndTxnResponse | AnswerWaiting:
        """EndTxn; from version 5 on the answer says with which producer id and epoch to go on (KIP-890)."""
        if not self._may_write(context, request.transactional_id):
            return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        raises = context.version >= _EPOCH_BUMP_FROM
        waiting = AnswerWaiting()

        def done(error: ErrorCode, state: Transaction | None) -> None:
            told = state if raises and not error else None
            waiting.complete(
                EndTxnResponse(
                    error_code=_for_version(error, context.version, _FENCED_FROM),
                    producer_id=told.producer_id if told is not None else NO_PRODUCER,
                    producer_epoch=told.epoch if told is not None else NO_EPOCH,
                )
            )

        self._transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            EPOCH_BUMP if raises else 0,
            now,
            done,
        )
        return waiting

    def describe(
        self, context: RequestContext, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsResponse:
        """DescribeTransactions (KIP-664)."""
        states = []
        for transactional_id in request.transactional_ids:
            if self._allowed(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
                state = described(self._transactions.log, transactional_id)
            else:
                state = DescribeTransactionsResponseTransactionState(
                    transactional_id=transactional_id,
                    error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                )
            topics = [
                topic
                for topic in state.topics
                if self._allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, asked=False)
            ]
            states.append(replace(state, topics=topics))
        return DescribeTransactionsResponse(transaction_states=states)

    def list(
        self, context: RequestContext, request: ListTransactionsRequest, now: Now
    ) -> ListTransactionsResponse:
        """ListTransactions (KIP-664, KIP-994)."""
        response = listed(self._transactions.log, request, now)
        visible = [
            state
            for state in response.transaction_states
            if self._allowed(
                context,
                Operation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                state.transactional_id,
                asked=False,
            )
        ]
        return replace(response, transaction_states=visible)


def _no_id(transactional_id: str) -> bool:
    """Whether this is no transactional id."""
    return not transactional_id or len(transactional_id.encode("utf-8", "replace")) > _LONGEST_ID


def _for_version(error: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _result(
    one: AddPartitionsToTxnTransaction, code: Callable[[TopicPartition], ErrorCode]
) -> AddPartitionsToTxnResult:
    def of_topic(topic: AddPartitionsToTxnTopic) -> AddPartitionsToTxnTopicResult:
        return AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ],
        )

    return AddPartitionsToTxnResult(
        transactional_id=one.transactional_id, topic_results=[of_topic(topic) for topic in one.topics]
    )
