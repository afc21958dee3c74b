"""Telling the log of brokers that count the partitions of a coordinators' topic otherwise than the topic does.

Apache Kafka's brokers do, until their next start, where another broker made the topic with a count that is not in
their settings (`settings.coordinator_topics`).  They are asked for these when such a topic is made, by one broker,
and when they register, where a count is not Kafka's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from barnabas.broker.groups.placement import grown
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, BrokerEpoch, NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.observe import events
from barnabas.server.replication.broker_connections import PeerListener, dial_broker
from barnabas.settings.coordinator_topics import (
    ASKED,
    COUNT_SETTINGS,
    KAFKAS_COUNT,
    kafkas_counts,
    properties_for,
)

__all__ = ["CoordinatorCounts"]

DIFFER = events.register(
    "broker.counts-differ",
    logging.WARNING,
    "a broker of Apache Kafka may count the partitions of a coordinators' topic otherwise than the topic does",
)
GREW = events.register(
    "broker.coordinators-grew",
    logging.WARNING,
    "a coordinators' topic got more partitions: most groups or transactional ids belong to others now",
)

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Between attempts: a broker of Apache Kafka serves only some time after it is unfenced."""
_RESTART = "start each broker of Apache Kafka again, which counts as before until then; "
_AFTER_GROWTH = {
    OFFSETS_TOPIC: _RESTART + "set the positions of your groups with `barnabas groups reset`",
    TRANSACTIONS_TOPIC: _RESTART + "then start transactional producers again",
}


class CoordinatorCounts:
    """The brokers that were asked: each once in a registration, all anew when a topic is made or grows."""

    __slots__ = ("_asked", "_image", "_peers", "_runtime")

    def __init__(self, runtime: Runtime, image: MetadataImage, peers: PeerListener) -> None:
        self._runtime = runtime
        self._image = image
        self._peers = peers
        self._asked: dict[NodeId, BrokerEpoch] = {}
        """Brokers whose present registration was looked at."""

    def changed(self, delta: ImageDelta) -> None:
        """Look at brokers that are new, and at all of them when the count of a topic is."""
        topics = [self._image.topics_by_name.get(name) for name in COUNT_SETTINGS]
        # (one broker asks for all, and tells: the one that leads the first partition)
        led = [topic for topic in topics if topic and topic.partitions[0].leader == self._runtime.node_id]
        grew = [topic for topic in led if grown(delta, topic.name)]
        for topic in grew:
            events.emit(
                GREW, topic=topic.name, partitions=len(topic.partitions), next=_AFTER_GROWTH[topic.name]
            )
        if grew or any(topic.id in delta.topics_created for topic in led):
            self._asked.clear()
            self._ask(self._image.brokers)
        elif delta.brokers and any(count != KAFKAS_COUNT for count in self._counts().values()):
            self._ask(delta.brokers)

    def _ask(self, nodes: Iterable[NodeId]) -> None:
        """Look at those of them that run, once for each registration."""
        for node in nodes:
            broker = self._image.brokers.get(node)
            if broker is None or broker.fenced or node == self._runtime.node_id:
                continue
            if self._asked.get(node) != broker.epoch:
                self._asked[node] = broker.epoch
                self._runtime.tasks.start(self._look(node), f"counts of broker {node}")

    def _counts(self) -> dict[str, int]:
        """The partitions of each topic; of one that is still to be made, as this node would make it."""
        topics = self._image.topics_by_name
        return {
            name: len(topics[name].partitions) if name in topics else self._runtime.config.int(setting)
            for name, setting in COUNT_SETTINGS.items()
        }

    async def _look(self, node: NodeId) -> None:
        from barnabas.wire.broker_settings import request_of, values_of  # few starts ask anybody

        for pause in PAUSES_S:
            with suppress(BarnabasError):
                connection = await dial_broker(self._image, node, self._peers, "counts")
                try:
                    answer = await connection.request(request_of(node, ASKED))
                finally:
                    connection.abort()
                self._judge(node, values_of(answer))
                return
            await asyncio.sleep(pause)

    def _judge(self, node: NodeId, told: dict[str, str | None]) -> None:
        counts, theirs = self._counts(), kafkas_counts(told)
        if any(theirs.get(name, count) != count for name, count in counts.items()):
            events.emit(
                DIFFER,
                broker=node,
                settings=properties_for(theirs),
                next=f"set {properties_for(counts)} in the file of broker {node}, and start it again",
            )

    def __repr__(self) -> str:
        return f"<CoordinatorCounts {len(self._asked)} asked>"
