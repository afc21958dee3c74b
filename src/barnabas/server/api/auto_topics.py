"""Topics that nobody created by name: those a client asks for, and the one that keeps the groups' offsets."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.model import OFFSETS_TOPIC
from barnabas.server.kraft.driver import Quorum
from barnabas.server.loop.runtime import Runtime
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
        asked = [
            self._offsets_topic()
            if name == OFFSETS_TOPIC
            else CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
            for name in dict.fromkeys(names)
        ]
        request = CreateTopicsRequest(topics=asked, timeout_ms=self._runtime.config.int("request.timeout.ms"))
        await self._quorum.request(request)

    def _offsets_topic(self) -> CreatableTopic:
        """`__consumer_offsets` as this node's settings want it.

        It is on as many brokers as there are, unless the settings say a number.
        """
        config = self._runtime.config
        replicas = config.int("offsets.topic.replication.factor")
        if not config.is_given("offsets.topic.replication.factor"):
            replicas = max(1, min(replicas, len(self._quorum.image.alive_brokers())))
        return CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=config.int("offsets.topic.num.partitions"),
            replication_factor=replicas,
            configs=[
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(
                    name="segment.bytes", value=str(config.int("offsets.topic.segment.bytes"))
                ),
            ],
        )
