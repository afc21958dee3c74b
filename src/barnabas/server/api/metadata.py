"""Metadata: which nodes exist, and which node leads what.  Every client asks for it, all the time.

The bytes of the answer about a topic, and about all of them, are made once and kept until a commit changes the
topic or any node.  A request for a topic that does not exist may create it, and is answered when the topic
exists.  A request during a change of leaders is answered after it (`leader_suspicion`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.ports import (
    Authorizer,
    Operation,
    ResourceType,
    allowed,
    authorized_operations,
    cluster_operations,
)
from barnabas.controller.decisions.topic_names import is_valid
from barnabas.controller.image import ImageDelta, MetadataImage, PartitionState, Topic
from barnabas.errors import ErrorCode
from barnabas.model import INTERNAL_TOPICS, NO_NODE, ZERO_UUID, NodeId, TopicId
from barnabas.security.acl import CLUSTER_NAME
from barnabas.server.api.auto_topics import AutoTopics
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.context import RequestContext
from barnabas.server.replication.leader_suspicion import Ask, LeaderSuspicion, others_lead
from barnabas.wire.codec.declaration import Encoded
from barnabas.wire.codec.message import Message, encode_item, replace
from barnabas.wire.schemas.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    import asyncio

__all__ = ["AnswerForm", "MetadataApi", "TopicAnswers"]

LISTENER_NOT_FOUND_FROM = 6
ALL_TOPICS_IS_NONE_FROM = 1
TOPIC_IDS_FROM = 12
"""Versions 10 and 11 have a place for ids, and do not serve them (KIP-516)."""


class AnswerForm(NamedTuple):
    """What the bytes of an answer about a topic depend on, besides the topic and the nodes."""

    version: int
    listener: str
    operations: int | None
    """What the client may do with the topic, a bit for each operation; None: nobody asked."""

    def encoded(self, topic: MetadataResponseTopic) -> bytes:
        """Its bytes.  Raises WireError."""
        if self.operations is not None:
            topic = replace(topic, topic_authorized_operations=self.operations)
        return encode_item(topic, MetadataResponse, self.version)


class TopicAnswers:
    """What Metadata says about each topic: bytes, kept for each form of an answer until they change."""

    __slots__ = ("_all", "_image", "_kept")

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._kept: dict[AnswerForm, dict[TopicId, bytes]] = {}
        self._all: dict[AnswerForm, Encoded] = {}

    def changed(self, delta: ImageDelta) -> None:
        """A commit was applied: forget what it touched."""
        if delta.brokers:
            self._kept.clear()
            self._all.clear()
        elif delta.partitions or delta.topics_created or delta.topics_deleted:
            self._all.clear()
            for kept in self._kept.values():
                for topic_id in (*delta.partitions, *delta.topics_deleted):
                    kept.pop(topic_id, None)

    def topic(self, topic: Topic, form: AnswerForm) -> bytes:
        """The answer about one topic."""
        kept = self._kept.setdefault(form, {})
        found = kept.get(topic.id)
        if found is None:
            found = kept[topic.id] = form.encoded(self._make(topic, form))
        return found

    def every_topic(self, form: AnswerForm) -> Encoded:
        """The answers about all topics, by name."""
        found = self._all.get(form)
        if found is None:
            topics = [self.topic(topic, form) for _, topic in sorted(self._image.topics_by_name.items())]
            found = self._all[form] = Encoded(len(topics), b"".join(topics))
        return found

    def _make(self, topic: Topic, form: AnswerForm) -> MetadataResponseTopic:
        image, listener = self._image, form.listener
        reachable = {broker.id for broker in image.alive_brokers() if broker.endpoint(listener) is not None}
        alive = {broker.id for broker in image.alive_brokers()}
        names_listener = form.version >= LISTENER_NOT_FOUND_FROM
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
        return f"<TopicAnswers {sum(map(len, self._kept.values()))}>"


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
                if asked.name
                and image.topic(asked.name) is None
                and is_valid(asked.name)
                and self._may_describe(context, asked.name, asked=False)
            ]
            if wanted and (wanted := self._creatable(context, wanted)):
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

    def _creatable(self, context: RequestContext, names: list[str]) -> list[str]:
        """Those that the client may create: by a right on the cluster, or on each."""
        authorizer, create = self._authorizer, Operation.CREATE
        if allowed(authorizer, context, create, ResourceType.CLUSTER, CLUSTER_NAME, asked=False):
            return names
        return [name for name in names if allowed(authorizer, context, create, ResourceType.TOPIC, name)]

    async def _create_then_answer(
        self, context: RequestContext, request: MetadataRequest, names: list[str]
    ) -> Message:
        await self._topics.try_to_create(names)
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
        asked = request.include_topic_authorized_operations
        bits = authorized_operations(ResourceType.TOPIC) if asked else None
        form = AnswerForm(context.version, context.listener, bits)
        ids = [broker.node_id for broker in brokers if broker.node_id not in departed]
        answer = MetadataResponse(
            brokers=brokers,
            cluster_id=image.cluster_id,
            controller_id=self._runtime.node_id
            if self._runtime.node_id in ids
            else min(ids, default=NO_NODE),
            topics=self._topics_answered(context, request, everything, form),  # type: ignore[arg-type]  # bytes
        )
        if request.include_cluster_authorized_operations:
            bits = cluster_operations(self._authorizer, context)
            return replace(answer, cluster_authorized_operations=bits)
        return answer

    def _topics_answered(
        self, context: RequestContext, request: MetadataRequest, everything: bool, form: AnswerForm
    ) -> Encoded:
        if not everything:
            create = (
                self._authorizer is not None
                and request.allow_auto_topic_creation
                and self._runtime.config.bool("auto.create.topics.enable")
            )
            topics = [
                self._asked(context, asked.name, asked.topic_id, form, create=create)
                for asked in request.topics or ()
            ]
        elif self._authorizer is None:
            return self._answers.every_topic(form)
        else:
            topics = [
                self._answers.topic(topic, self._form(context, form, name))
                for name, topic in sorted(self._image.topics_by_name.items())
                if self._may_describe(context, name, asked=False)
            ]
        return Encoded(len(topics), b"".join(topics))

    def _asked(
        self,
        context: RequestContext,
        name: str | None,
        topic_id: TopicId,
        form: AnswerForm,
        *,
        create: bool,
    ) -> bytes:
        """The answer about a topic that was asked for by name or by id; `create`: it would be made, by right."""
        image = self._image
        if form.version < TOPIC_IDS_FROM and (topic_id != ZERO_UUID or name is None):
            return _refused(form, ErrorCode.INVALID_REQUEST, name or "", topic_id)
        if topic_id != ZERO_UUID:
            topic = image.topics.get(topic_id)
            if topic is None:
                return _refused(form, ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
            if not self._may_describe(context, topic.name):
                return _refused(_without(form), ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
            return self._answers.topic(topic, self._form(context, form, topic.name))
        wanted = name or ""
        if not self._may_describe(context, wanted):
            return _refused(_without(form), ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
        topic, form = image.topic(wanted), self._form(context, form, wanted)
        if topic is not None:
            return self._answers.topic(topic, form)
        if is_valid(wanted):
            if create and not self._creatable(context, [wanted]):
                return _refused(_without(form), ErrorCode.TOPIC_AUTHORIZATION_FAILED, wanted)
            return _refused(form, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, wanted)
        return _refused(form, ErrorCode.INVALID_TOPIC_EXCEPTION, wanted)

    def _may_describe(self, context: RequestContext, name: str, *, asked: bool = True) -> bool:
        return allowed(self._authorizer, context, Operation.DESCRIBE, ResourceType.TOPIC, name, asked=asked)

    def _form(self, context: RequestContext, form: AnswerForm, name: str) -> AnswerForm:
        """The form of the answer about a topic, with what this client may do with it."""
        if self._authorizer is None or form.operations is None:
            return form
        bits = authorized_operations(ResourceType.TOPIC, self._authorizer, context, name)
        return form._replace(operations=bits)


def _without(form: AnswerForm) -> AnswerForm:
    """The form of an answer that says nothing about rights."""
    return form._replace(operations=None)


def _refused(form: AnswerForm, code: ErrorCode, name: str | None, topic_id: TopicId = ZERO_UUID) -> bytes:
    """The answer about a topic that is not there, or not for this client."""
    unknown = code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
    return form.encoded(
        MetadataResponseTopic(
            error_code=int(code),
            name=name,
            topic_id=topic_id,
            is_internal=unknown and name in INTERNAL_TOPICS,
        )
    )


def _topics_of(image: MetadataImage, request: MetadataRequest, everything: bool) -> Iterator[Topic]:
    """The topics that are asked for, as far as they are there."""
    if everything:
        yield from image.topics.values()
        return
    for asked in request.topics or ():
        topic = image.topics.get(asked.topic_id) or image.topic(asked.name or "")
        if topic is not None:
            yield topic
