"""Topics that nobody created by name: those a client asks for, and those in which the coordinators keep state."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.server.kraft.driver import Quorum
from barnabas.server.loop.runtime import Runtime
from barnabas.server.observe import events
from barnabas.settings.coordinator_topics import COUNT_SETTINGS
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

__all__ = ["AutoTopics"]

NOT_MADE = events.register(
    "topic.not-made", logging.WARNING, "a topic that a client or a coordinator needs was not created"
)
_MADE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
_REPLICATION = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
}


class AutoTopics:
    """Has the active controller create them, as this node's settings say."""

    __slots__ = ("_quorum", "_runtime")

    def __init__(self, runtime: Runtime, quorum: Quorum) -> None:
        self._runtime = runtime
        self._quorum = quorum

    async def try_to_create(self, names: Iterable[str]) -> None:
        """Have the controller create topics; return when it answered.

        Where that fails, the log says why, and clients hear that the topic is not there.
        """
        asked = [self._topic(name) for name in dict.fromkeys(names)]
        request = CreateTopicsRequest(topics=asked, timeout_ms=self._runtime.config.int("request.timeout.ms"))
        try:
            answer = await self._quorum.request(request)
        except KafkaError as error:
            for topic in asked:
                self._tell(topic, error.code, error.message)
            return
        assert isinstance(answer, CreateTopicsResponse)
        by_name = {topic.name: topic for topic in asked}
        for made in answer.topics:
            if made.error_code not in _MADE:
                self._tell(by_name[made.name], ErrorCode(made.error_code), made.error_message)

    def _tell(self, topic: CreatableTopic, code: ErrorCode, message: str | None) -> None:
        what_helps: dict[str, Any] = {}
        if code is ErrorCode.INVALID_REPLICATION_FACTOR and (setting := _REPLICATION.get(topic.name)):
            what_helps["next"] = (
                f"start {topic.replication_factor} brokers, `barnabas brokers unregister` those that are gone, or "
                f"set {setting}"
            )
        events.emit(NOT_MADE, reason=code.name, topic=topic.name, code=code.name, why=message, **what_helps)

    def _topic(self, name: str) -> CreatableTopic:
        config = self._runtime.config
        if name == OFFSETS_TOPIC:
            return _compacted(
                name,
                config.int(COUNT_SETTINGS[name]),
                self._replicas(name),
                {
                    "compression.type": "producer",
                    "segment.bytes": str(config.int("offsets.topic.segment.bytes")),
                },
            )
        if name == TRANSACTIONS_TOPIC:
            replicas = self._replicas(name)
            in_sync = config.int("transaction.state.log.min.isr")
            if not config.is_given("transaction.state.log.min.isr"):
                in_sync = min(in_sync, replicas)
            return _compacted(
                name,
                config.int(COUNT_SETTINGS[name]),
                replicas,
                {
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(in_sync),
                    "segment.bytes": str(config.int("transaction.state.log.segment.bytes")),
                    "unclean.leader.election.enable": "false",
                },
            )
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)

    def _replicas(self, topic: str) -> int:
        """As many as the settings say; by default no more than there are brokers.

        A broker that is registered counts, as with Apache Kafka, though it is fenced, stopped or on its way out:
        a topic that is made during a restart would lack a replica for ever.
        """
        config, setting = self._runtime.config, _REPLICATION[topic]
        replicas = config.int(setting)
        if not config.is_given(setting):
            brokers = self._quorum.image.brokers.values()
            replicas = max(1, min(replicas, sum(not broker.wholly_cordoned for broker in brokers)))
        return replicas


def _compacted(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> CreatableTopic:
    """A topic of a coordinator."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=setting, value=value)
            for setting, value in sorted({"cleanup.policy": "compact", **configs}.items())
        ],
    )
