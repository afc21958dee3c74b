"""Questions to transactions' coordinators for partitions that this node leads (AddPartitionsToTxn v4+; KIP-890).

One connection per coordinator, one request at a time on it: what is asked meanwhile goes out together in the
next.  `broker/txn_verification` decides what to ask and what an answer means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.groups.placement import partition_of
from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import NO_NODE, TRANSACTIONS_TOPIC, NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.replication.broker_connections import BrokerConnections, PeerListener
from barnabas.wire.schemas.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.txn_verification import Question

__all__ = ["TransactionVerifier", "answers_of", "request_for"]

_VERIFY_SINCE = 4


class TransactionVerifier:
    """The questions of one node.  `listener` is the name under which brokers reach each other."""

    __slots__ = (
        "_asking",
        "_broker",
        "_connections",
        "_image",
        "_queues",
        "_runtime",
        "_stopped",
    )

    def __init__(
        self, runtime: Runtime, broker: Broker, image: MetadataImage, listener: PeerListener
    ) -> None:
        self._runtime = runtime
        self._broker = broker
        self._image = image
        self._queues: dict[NodeId, list[Question]] = {}
        self._asking: set[NodeId] = set()
        self._connections = BrokerConnections(image, listener, f"transactions-{runtime.node_id}")
        self._stopped = False

    def ask(self, question: Question) -> None:
        """Ask soon; the answer goes to the broker's `verifications`, never within this call."""
        coordinator = self._coordinator(question.transactional_id)
        if self._stopped or coordinator == NO_NODE:
            self._runtime.loop.call_soon(self._answer, {question: ErrorCode.COORDINATOR_NOT_AVAILABLE})
            return
        self._queues.setdefault(coordinator, []).append(question)
        if coordinator not in self._asking:
            self._asking.add(coordinator)
            self._runtime.tasks.start(self._ask_all(coordinator), f"transactions of {coordinator}")

    def _coordinator(self, transactional_id: str) -> NodeId:
        index = partition_of(self._image, TRANSACTIONS_TOPIC, transactional_id)
        state = self._image.partition(TRANSACTIONS_TOPIC, index)
        return NO_NODE if state is None else state.leader

    async def _ask_all(self, coordinator: NodeId) -> None:
        """Send what there is until there is nothing."""
        try:
            while not self._stopped and (queue := self._queues.pop(coordinator, None)):
                now, later = distinct(queue)
                if later:
                    self._queues[coordinator] = later
                self._answer(await self._ask(coordinator, now))
        finally:
            self._asking.discard(coordinator)

    async def _ask(self, coordinator: NodeId, questions: list[Question]) -> dict[Question, ErrorCode]:
        try:
            connection = await self._connections.to(coordinator)
            request = request_for(questions)
            version = connection.version_of(request)
            if version < _VERIFY_SINCE:  # an older release, which cannot be asked
                return dict.fromkeys(questions, ErrorCode.NONE)
            limit = self._runtime.config.int("request.timeout.ms") / 1000
            answer = await connection.request(request, version, timeout=limit)
        except BarnabasError:
            return dict.fromkeys(questions, ErrorCode.NETWORK_EXCEPTION)
        return answers_of(questions, answer)

    def _answer(self, answers: dict[Question, ErrorCode]) -> None:
        now = self._runtime.clock.now()
        for question, error in answers.items():
            self._broker.verifications.answered(question, error, now)
        self._runtime.step.soon()

    def stop(self) -> None:
        """Ask nothing more; the broker answers those who wait."""
        self._stopped = True
        self._connections.stop()

    def __repr__(self) -> str:
        return f"<TransactionVerifier asking={sorted(self._asking)}>"


def distinct(questions: list[Question]) -> tuple[list[Question], list[Question]]:
    """What one request can carry, whose answer names transactional ids only; and what has to wait for the next."""
    kinds: dict[str, tuple[int, int, bool]] = {}
    now: list[Question] = []
    later: list[Question] = []
    for one in questions:
        kind = (one.producer_id, one.producer_epoch, one.add)
        (now if kinds.setdefault(one.transactional_id, kind) == kind else later).append(one)
    return now, later


def request_for(questions: list[Question]) -> AddPartitionsToTxnRequest:
    """One item per transaction."""
    items: dict[str, AddPartitionsToTxnTransaction] = {}
    topics: dict[tuple[str, str], AddPartitionsToTxnTopic] = {}
    for one in questions:
        item = items.get(one.transactional_id)
        if item is None:
            item = items[one.transactional_id] = AddPartitionsToTxnTransaction(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                verify_only=not one.add,
                topics=[],
            )
        topic = topics.get((one.transactional_id, one.topic))
        if topic is None:
            topic = AddPartitionsToTxnTopic(name=one.topic, partitions=[])
            topics[one.transactional_id, one.topic] = topic
            item.topics.append(topic)
        if one.partition not in topic.partitions:
            topic.partitions.append(one.partition)
    return AddPartitionsToTxnRequest(transactions=list(items.values()))


def answers_of(questions: list[Question], answer: AddPartitionsToTxnResponse) -> dict[Question, ErrorCode]:
    """What the coordinator said to each question."""
    if answer.error_code:
        refused = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        error = ErrorCode.INVALID_TXN_STATE if refused else ErrorCode(answer.error_code)
        return dict.fromkeys(questions, error)
    codes = {
        (item.transactional_id, topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for item in answer.results_by_transaction
        for topic in item.topic_results
        for one in topic.results_by_partition
    }
    return {
        one: codes.get((one.transactional_id, one.topic, one.partition), ErrorCode.NETWORK_EXCEPTION)
        for one in questions
    }
