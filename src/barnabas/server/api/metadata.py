"""Metadata: which nodes exist, and which node leads what.  Every client asks for it, all the time.

The answer for a topic is built once and kept until a commit changes the topic or any node.  A request for a
topic that does not exist may create it, and is answered when the topic exists.  A request during a change of
leaders is answered after it (`leader_suspicion`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.broker.ports import Authorizer, Operation, ResourceType, allowed, authorized_operations
from barnabas.controller.decisions.topic_names import is_valid
from barnabas.controller.image import ImageDelta, MetadataImage, PartitionState, Topic
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import INTERNAL_TOPICS, NO_NODE, ZERO_UUID, NodeId, TopicId
from barnabas.server.api.auto_topics import AutoTopics
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.context import RequestContext
from barnabas.server.replication.leader_suspicion import Ask, LeaderSuspicion, others_lead
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    import asyncio

__all__ = ["MetadataApi", "TopicAnswers"]

LISTENER_NOT_FOUND_FROM = 6
ALL_TOPICS_IS_NONE_FROM = 1
TOPIC_IDS_FROM = 12
"""Versions 10 and 11 have a place for ids, and do not serve them (KIP-516)."""


class TopicAnswers:
    """What Metadata says about each topic, kept per listener until it changes."""

    __slots__ = ("_image", "_kept")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._kept: dict[tuple[TopicId, str, bool], MetadataResponseTopic] = {}

    def changed(self, delta: ImageDelta) -> None:
        """A commit was applied: forget what it touched."""
        if delta.brokers or delta.topics_deleted:
            self._kept.clear()
        elif delta.partitions:
            touched = delta.partitions
            self._kept = {key: kept for key, kept in self._kept.items() if key[0] not in touched}

    def topic(self, topic: Topic, listener: str, version: int) -> MetadataResponseTopic:
        """The answer about one topic."""
        key = (topic.id, listener, version >= LISTENER_NOT_FOUND_FROM)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._make(topic, listener, key[2])
        return found

    def _make(self, topic: Topic, listener: str, names_listener: bool) -> MetadataResponseTopic:
        image = self._image
        reachable = {broker.id for broker in image.alive_brokers() if broker.endpoint(listener) is not None}
        alive = {broker.id for broker in image.alive_brokers()}
        missing = ErrorCode.LISTENER_NOT_FOUND if names_listener else ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                _partition(state, alive, reachable, missing, image.offline_replicas(state, listener))
                for _, state in sorted(topic.partitions.items())
            ],
        )

    def __repr__(self) -> str:
        return f"<TopicAnswers {len(self._kept)}>"


def _partition(
    state: PartitionState,
    alive: set[NodeId],
    reachable: set[NodeId],
    missing: ErrorCode,
    offline: list[NodeId],
) -> MetadataResponsePartition:
    error, leader = ErrorCode.NONE, state.leader
    if leader == NO_NODE or leader not in alive:
        error, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_NODE
    elif leader not in reachable:
        error, leader = missing, NO_NODE
    return MetadataResponsePartition(
        error_code=int(error),
        partition_index=state.index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=offline,
    )


class MetadataApi:
    """Serves Metadata.  `ask` asks leaders whether they live, for `suspicion`."""

    __slots__ = (
        "_addresses",
        "_answers",
        "_ask",
        "_authorizer",
        "_image",
        "_runtime",
        "_suspicion",
        "_topics",
    )

    def __init__(
        self,
        runtime: Runtime,
        image: MetadataImage,
        addresses: Addresses,
        answers: TopicAnswers,
        topics: AutoTopics,
        suspicion: LeaderSuspicion,
        ask: Ask,
        authorizer: Authorizer | None,
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._addresses = addresses
        self._answers = answers
        self._topics = topics
        self._suspicion = suspicion
        self._ask = ask
        self._authorizer = authorizer

    def metadata(
        self, context: RequestContext, request: MetadataRequest
    ) -> MetadataResponse | asyncio.Future[Message]:
        """Metadata (key 3): nodes, topics, partitions, leaders; creates topics where asked and allowed.

        A topic that is being created is answered once it is there (Apache Kafka answers at once with an error
        that makes the client ask again); if that fails, with the error that clients repeat after.
        """
        everything = request.topics is None or (
            context.version < ALL_TOPICS_IS_NONE_FROM and not request.topics
        )
        image = self._image
        if (
            not everything
            and request.allow_auto_topic_creation
            and self._runtime.config.bool("auto.create.topics.enable")
        ):
            wanted = [
                asked.name
                for asked in request.topics or ()
                if asked.name and image.topic(asked.name) is None and is_valid(asked.name)
            ]
            if wanted and self._may_create(context):
                return self._runtime.tasks.start(
                    self._create_then_answer(context, request, wanted), "create-topics"
                )
        if len(image.brokers) > 1 and others_lead(
            _topics_of(image, request, everything), self._runtime.node_id
        ):
            return self._runtime.tasks.start(
                self._answer_when_led(context, request, everything), "leaders in doubt"
            )
        return self._answer(context, request, everything)

    async def _answer_when_led(
        self, context: RequestContext, request: MetadataRequest, everything: bool
    ) -> Message:
        """The answer once no leader in it is in doubt."""
        topics = lambda: _topics_of(self._image, request, everything)  # noqa: E731
        await self._suspicion.settled(topics, self._ask, context.connection_id)
        return self._answer(context, request, everything)

    def _may_create(self, context: RequestContext) -> bool:
        return allowed(self._authorizer, context, Operation.CREATE, ResourceType.CLUSTER, "kafka-cluster")

    async def _create_then_answer(
        self, context: RequestContext, request: MetadataRequest, names: list[str]
    ) -> Message:
        with suppress(KafkaError):  # the topic is not there: the client is told so below, and asks again
            await self._topics.create(names)
        return self._answer(context, request, False)

    def _answer(
        self, context: RequestContext, request: MetadataRequest, everything: bool
    ) -> MetadataResponse:
        image = self._image
        brokers: list[MetadataResponseBroker] = []
        departed = self._suspicion.departed(context.connection_id)
        for broker in (
            *image.alive_brokers(),
            *(image.brokers[id_] for id_ in departed if id_ in image.brokers),
        ):
            host, port = self._addresses.of(context, broker.id, broker.endpoints)
            if port >= 0:
                brokers.append(
                    MetadataResponseBroker(node_id=broker.id, host=host, port=port, rack=broker.rack)
                )
        if everything:
            topics = [
                self._answers.topic(topic, context.listener, context.version)
                for name, topic in sorted(image.topics_by_name.items())
                if allowed(self._authorizer, context, Operation.DESCRIBE, ResourceType.TOPIC, name)
            ]
        else:
            topics = [self._asked(context, asked.name, asked.topic_id) for asked in request.topics or ()]
        if request.include_topic_authorized_operations:
            bits = authorized_operations(ResourceType.TOPIC)
            topics = [replace(topic, topic_authorized_operations=bits) for topic in topics]
        ids = [broker.node_id for broker in brokers if broker.node_id not in departed]
        answer = MetadataResponse(
            brokers=brokers,
            cluster_id=image.cluster_id,
            controller_id=self._runtime.node_id
            if self._runtime.node_id in ids
            else min(ids, default=NO_NODE),
            topics=topics,
        )
        if request.include_cluster_authorized_operations:
            return replace(answer, cluster_authorized_operations=authorized_operations(ResourceType.CLUSTER))
        return answer

    def _asked(self, context: RequestContext, name: str | None, topic_id: TopicId) -> MetadataResponseTopic:
        """The answer about a topic that was asked for by name or by id."""
        image = self._image
        if context.version < TOPIC_IDS_FROM and (topic_id != ZERO_UUID or name is None):
            return MetadataResponseTopic(
                error_code=int(ErrorCode.INVALID_REQUEST), name=name or "", topic_id=topic_id
            )
        if topic_id != ZERO_UUID:
            topic = image.topics.get(topic_id)
            if topic is None or not self._may_describe(context, topic.name):
                return MetadataResponseTopic(
                    error_code=int(ErrorCode.UNKNOWN_TOPIC_ID), name=None, topic_id=topic_id
                )
            return self._answers.topic(topic, context.listener, context.version)
        wanted = name or ""
        if not self._may_describe(context, wanted):
            return MetadataResponseTopic(error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=wanted)
        topic = image.topic(wanted)
        if topic is not None:
            return self._answers.topic(topic, context.listener, context.version)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(wanted) else ErrorCode.INVALID_TOPIC_EXCEPTION
        return MetadataResponseTopic(error_code=int(code), name=wanted, is_internal=wanted in INTERNAL_TOPICS)

    def _may_describe(self, context: RequestContext, name: str) -> bool:
        return allowed(self._authorizer, context, Operation.DESCRIBE, ResourceType.TOPIC, name)


def _topics_of(image: MetadataImage, request: MetadataRequest, everything: bool) -> Iterator[Topic]:
    """The topics that are asked for, as far as they are there."""
    if everything:
        yield from image.topics.values()
        return
    for asked in request.topics or ():
        topic = image.topics.get(asked.topic_id) or image.topic(asked.name or "")
        if topic is not None:
            yield topic
