"""Gauges of topics, partitions and brokers as the metadata has them, under Kafka's names.

All are counted in one walk when somebody looks.  A partition that moves is not under-replicated for the sake
of the replicas that are being added.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from barnabas.controller.image import MetadataImage
from barnabas.model import NO_NODE, NodeId
from barnabas.server.observe.metrics import Gauge, Metric

if TYPE_CHECKING:
    from barnabas.server.kraft.driver import Quorum

__all__ = ["image_gauges"]

_CONTROLLER = "kafka.controller:type=KafkaController,name="
_REPLICAS = "kafka.server:type=ReplicaManager,name="


def image_gauges(quorum: Quorum) -> Iterator[Metric]:
    """What the image says now, of the cluster and of what this node leads."""
    own = quorum.settings.key.id
    for name, (meaning, value) in _counted(quorum.image, own).items():
        yield Gauge(name, meaning, partial(float, value))


def _counted(image: MetadataImage, own: NodeId) -> dict[str, tuple[str, int]]:
    partitions = offline = elsewhere = behind = moving = 0
    for topic in image.topics.values():
        for state in topic.partitions.values():
            partitions += 1
            offline += state.leader == NO_NODE
            elsewhere += state.leader != state.replicas[0]
            if state.leader == own:
                behind += len(state.isr) < len(state.replicas) - len(state.adding)
                moving += bool(state.adding or state.removing)
    leaving = sum(b.in_controlled_shutdown and not b.fenced for b in image.brokers.values())
    return {
        f"{_CONTROLLER}GlobalTopicCount": ("Topics", len(image.topics)),
        f"{_CONTROLLER}GlobalPartitionCount": ("Partitions", partitions),
        f"{_CONTROLLER}OfflinePartitionsCount": ("Partitions that nobody leads", offline),
        f"{_CONTROLLER}PreferredReplicaImbalanceCount": (
            "Partitions that their first replica does not lead",
            elsewhere,
        ),
        f"{_CONTROLLER}ControlledShutdownBrokerCount": ("Brokers that are leaving", leaving),
        f"{_REPLICAS}UnderReplicatedPartitions": ("Partitions led here below the full set", behind),
        f"{_REPLICAS}ReassigningPartitions": ("Partitions led here that move", moving),
    }
