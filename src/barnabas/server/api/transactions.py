"""Transactions: the requests of producers to their coordinator, and of administrators about both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.producer_ids import init_producer_id
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC
from barnabas.server.api.auto_topics import AutoTopics
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
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

    __slots__ = ("_broker", "_requests", "_runtime", "_topics")

    def __init__(
        self, runtime: Runtime, broker: Broker, requests: TransactionRequests, topics: AutoTopics
    ) -> None:
        self._runtime = runtime
        self._broker = broker
        self._requests = requests
        self._topics = topics

    def init_producer_id(self, context: RequestContext, request: InitProducerIdRequest) -> Message | Waiting:
        """InitProducerId (key 22; KIP-98, KIP-360), with a transactional id and without."""
        now = self._runtime.clock.now()
        if request.transactional_id is None:
            return init_producer_id(self._broker, context, request, context.version, now)
        return self._requests.init_producer_id(context, request, now)

    def add_partitions(
        self, context: RequestContext, request: AddPartitionsToTxnRequest
    ) -> Message | Waiting:
        """AddPartitionsToTxn (key 24; KIP-98, KIP-890)."""
        return self._requests.add_partitions(context, request, self._runtime.clock.now())

    def add_offsets(
        self, context: RequestContext, request: AddOffsetsToTxnRequest
    ) -> Message | Waiting | asyncio.Future[Message]:
        """Serve AddOffsetsToTxn (key 25; KIP-98).

        The group may be the cluster's first: its client is asked to come again when the offsets' topic is there.
        """
        answer = self._requests.add_offsets(context, request, self._runtime.clock.now())
        if (
            isinstance(answer, AddOffsetsToTxnResponse)
            and answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        ):
            return self._runtime.tasks.start(self._create_then_refuse(answer), "add-offsets")
        return answer

    async def _create_then_refuse(self, refusal: Message) -> Message:
        await self._topics.try_to_create([OFFSETS_TOPIC])
        return refusal

    def end(self, context: RequestContext, request: EndTxnRequest) -> Message | Waiting:
        """EndTxn (key 26; KIP-98, KIP-890)."""
        return self._requests.end(context, request, self._runtime.clock.now())

    def describe(self, context: RequestContext, request: DescribeTransactionsRequest) -> Message:
        """DescribeTransactions (key 65; KIP-664)."""
        return self._requests.describe(context, request)

    def list_transactions(self, context: RequestContext, request: ListTransactionsRequest) -> Message:
        """ListTransactions (key 66; KIP-664, KIP-994)."""
        return self._requests.list(context, request, self._runtime.clock.now())
