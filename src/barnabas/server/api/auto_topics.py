"""Topics that nobody created by name: those a client asks for, and those in which the coordinators keep state."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from barnabas.errors import KafkaError
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.server.kraft.driver import Quorum
from barnabas.server.loop.runtime import Runtime
from barnabas.settings.coordinator_topics import COUNT_SETTINGS
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__all__ = ["AutoTopics"]


class AutoTopics:
    """Has the active controller create them, as this node's settings say."""

    __slots__ = ("_quorum", "_runtime")

    def __init__(self, runtime: Runtime, quorum: Quorum) -> None:
        self._runtime = runtime
        self._quorum = quorum

    async def create(self, names: Iterable[str]) -> None:
        """Have the controller create topics with this node's defaults; returns when it answered."""
        asked = [self._topic(name) for name in dict.fromkeys(names)]
        request = CreateTopicsRequest(topics=asked, timeout_ms=self._runtime.config.int("request.timeout.ms"))
        await self._quorum.request(request)

    async def try_to_create(self, names: Iterable[str]) -> None:
        """Create topics as `create` does.  Where that fails, clients hear that the topic is not there."""
        with suppress(KafkaError):
            await self.create(names)

    def _topic(self, name: str) -> CreatableTopic:
        config = self._runtime.config
        if name == OFFSETS_TOPIC:
            return _compacted(
                name,
                config.int(COUNT_SETTINGS[name]),
                self._replicas("offsets.topic.replication.factor"),
                {
                    "compression.type": "producer",
                    "segment.bytes": str(config.int("offsets.topic.segment.bytes")),
                },
            )
        if name == TRANSACTIONS_TOPIC:
            replicas = self._replicas("transaction.state.log.replication.factor")
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

    def _replicas(self, setting: str) -> int:
        """As many as there are brokers, unless the settings say a number."""
        config = self._runtime.config
        replicas = config.int(setting)
        if not config.is_given(setting):
            replicas = max(1, min(replicas, len(self._quorum.image.alive_brokers())))
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
