"""Transactions: the requests of producers to their coordinator, and of administrators about both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.producer_ids import init_producer_id
from barnabas.ports import Clock
from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.transactions.answering import TransactionRequests

__all__ = ["TransactionApi"]


class TransactionApi:
    """The transactional ids that this node coordinates."""

    __slots__ = ("_broker", "_clock", "_requests")

    def __init__(self, broker: Broker, requests: TransactionRequests, clock: Clock) -> None:
        self._broker = broker
        self._requests = requests
        self._clock = clock

    def init_producer_id(self, context: RequestContext, request: InitProducerIdRequest) -> Message | Waiting:
        """InitProducerId (key 22; KIP-98, KIP-360), with a transactional id and without."""
        now = self._clock.now()
        if request.transactional_id is None:
            return init_producer_id(self._broker, context, request, context.version, now)
        return self._requests.init_producer_id(context, request, now)

    def add_partitions(
        self, context: RequestContext, request: AddPartitionsToTxnRequest
    ) -> Message | Waiting:
        """AddPartitionsToTxn (key 24; KIP-98, KIP-890)."""
        return self._requests.add_partitions(context, request, self._clock.now())

    def add_offsets(self, context: RequestContext, request: AddOffsetsToTxnRequest) -> Message | Waiting:
        """AddOffsetsToTxn (key 25; KIP-98)."""
        return self._requests.add_offsets(context, request, self._clock.now())

    def end(self, context: RequestContext, request: EndTxnRequest) -> Message | Waiting:
        """EndTxn (key 26; KIP-98, KIP-890)."""
        return self._requests.end(context, request, self._clock.now())

    def describe(self, context: RequestContext, request: DescribeTransactionsRequest) -> Message:
        """DescribeTransactions (key 65; KIP-664)."""
        return self._requests.describe(context, request)

    def list_transactions(self, context: RequestContext, request: ListTransactionsRequest) -> Message:
        """ListTransactions (key 66; KIP-664, KIP-994)."""
        return self._requests.list(context, request, self._clock.now())
