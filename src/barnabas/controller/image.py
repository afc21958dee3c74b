"""Everything that has been replayed: one image of the cluster, made of small immutable parts.

The parts (a partition's state, a broker's registration) never change: a change is a new part in the same
place, so two images can share parts and a delta can keep the state before.  Only `replay` writes an image;
everybody else reads it on the same loop, so there are no locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_NODE,
    NO_OFFSET,
    NO_TIMESTAMP,
    BrokerEpoch,
    DirectoryId,
    Epoch,
    NodeId,
    Offset,
    TopicId,
    Uuid,
)

if TYPE_CHECKING:
    from barnabas.security.acl import Acl
    from barnabas.wire.metadata import (
        DelegationTokenRecord,
        UserScramCredentialRecord,
    )

__all__ = [
    "RESOURCE_BROKER",
    "RESOURCE_GROUP",
    "RESOURCE_LOGGERS",
    "RESOURCE_METRICS",
    "RESOURCE_TOPIC",
    "BrokerEndpoint",
    "BrokerState",
    "ControllerState",
    "ImageDelta",
    "ImageStatistics",
    "MetadataImage",
    "PartitionState",
    "QuotaEntity",
    "Resource",
    "Topic",
]

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_LOGGERS = 8
"""Loggers of a node, which are no part of the metadata (KIP-412)."""
RESOURCE_METRICS = 16
RESOURCE_GROUP = 32

Resource = tuple[int, str]
"""Whom a setting belongs to: resource type (2 topic, 4 broker, 16 client metrics, 32 group) and name."""

QuotaEntity = frozenset[tuple[str, str | None]]
"""Whom a quota limits: pairs of entity type (user, client-id, ip) and name (None: the default)."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


class BrokerEndpoint(NamedTuple):
    """A listener of a registered node; `security_protocol` is 0 PLAINTEXT, 1 SSL, 2 and 3 with SASL."""

    listener: str
    host: str
    port: int
    security_protocol: int


class BrokerState(NamedTuple):
    """A registered broker.  `epoch` is the offset of its registration record; it fences older ones."""

    id: NodeId
    epoch: BrokerEpoch
    incarnation: Uuid
    endpoints: tuple[BrokerEndpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[DirectoryId, ...]
    cordoned: tuple[DirectoryId, ...]

    @property
    def active(self) -> bool:
        """Whether it may lead: neither fenced nor on its way out."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def wholly_cordoned(self) -> bool:
        """Return whether it gets no new replicas: each of its directories is cordoned (KIP-1066)."""
        return bool(self.directories) and set(self.directories) <= set(self.cordoned)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host of each of its listeners, in order of their names.

        Brokers with the same hosts run on one machine, as far as anybody can see: a listener that is reached by
        a shared address alone does not put two machines together.
        """
        return tuple(host for _, host in sorted((e.listener, e.host) for e in self.endpoints))

    def has_online(self, directory: DirectoryId) -> bool:
        """Whether one of its directories is online; one that nobody told yet counts as that."""
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or not self.directories:
            return True
        return directory in self.directories

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """Its endpoint of that listener name, None where it has none."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


class ControllerState(NamedTuple):
    """A registered controller: what it can do, not whether it votes (the quorum knows that)."""

    id: NodeId
    incarnation: Uuid
    endpoints: tuple[BrokerEndpoint, ...]
    features: Mapping[str, tuple[int, int]]


class PartitionState(NamedTuple):
    """One partition as the controller sees it.  `directories` runs parallel to `replicas`.

    `leader_epoch` grows with each new leader, `partition_epoch` with every change.  `elr` are replicas
    that left the ISR but hold everything committed (KIP-966).
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId = NO_NODE
    leader_epoch: Epoch = 0
    partition_epoch: int = 0
    directories: tuple[DirectoryId, ...] = ()
    removing: tuple[NodeId, ...] = ()
    adding: tuple[NodeId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    recovering: bool = False

    def directory_of(self, broker: NodeId) -> DirectoryId | None:
        """The directory where `broker` keeps this partition; None where it is no replica."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker:
                return directory
        return None


class Topic:
    """A topic: its name, its id (a topic created again has another), its partitions by index."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: TopicId, partitions: dict[int, PartitionState] | None = None):
        self.name = name
        self.id = topic_id
        self.partitions: dict[int, PartitionState] = {} if partitions is None else partitions

    def __repr__(self) -> str:
        return f"<Topic {self.name} {self.id} partitions={len(self.partitions)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topic):
            return NotImplemented
        return (self.name, self.id, self.partitions) == (other.name, other.id, other.partitions)

    __hash__ = None  # type: ignore[assignment]  # it changes


class ImageStatistics(NamedTuple):
    """Sizes of an image, for metrics."""

    brokers: int
    fenced_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    offset: Offset


class MetadataImage:
    """What the metadata log says up to `offset` (inclusive; -1 before the first record)."""

    __slots__ = (
        "acl_ids",
        "acls",
        "brokers",
        "client_quotas",
        "cluster_id",
        "configs",
        "controllers",
        "epoch",
        "features",
        "next_producer_id",
        "offset",
        "scram",
        "timestamp_ms",
        "tokens",
        "topics",
        "topics_by_name",
    )

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.offset: Offset = NO_OFFSET
        self.epoch: Epoch = -1
        self.timestamp_ms: int = NO_TIMESTAMP
        self.brokers: dict[NodeId, BrokerState] = {}
        self.controllers: dict[NodeId, ControllerState] = {}
        self.topics: dict[TopicId, Topic] = {}
        self.topics_by_name: dict[str, Topic] = {}
        self.configs: dict[Resource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id: int = 0
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.acls: dict[Uuid, Acl] = {}
        self.acl_ids: dict[Acl, Uuid] = {}
        self.scram: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}

    def __repr__(self) -> str:
        return (
            f"<MetadataImage offset={self.offset} epoch={self.epoch} brokers={len(self.brokers)} "
            f"topics={len(self.topics)}>"
        )

    def topic(self, name: str) -> Topic | None:
        """The topic of that name, None where there is none."""
        return self.topics_by_name.get(name)

    def partition(self, name: str, index: int) -> PartitionState | None:
        """A partition by topic name and index, None where there is none."""
        topic = self.topics_by_name.get(name)
        return None if topic is None else topic.partitions.get(index)

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 where it has none."""
        return self.features.get(name, 0)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """What was set on a topic."""
        return self.configs.get((RESOURCE_TOPIC, name), _NOTHING)

    def broker_config(self, broker: NodeId) -> Mapping[str, str]:
        """What was set on one broker, dynamically."""
        return self.configs.get((RESOURCE_BROKER, str(broker)), _NOTHING)

    def group_config(self, group: str) -> Mapping[str, str]:
        """What was set on a group."""
        return self.configs.get((RESOURCE_GROUP, group), _NOTHING)

    def cluster_config(self) -> Mapping[str, str]:
        """What was set for all brokers, dynamically (the broker resource with the empty name)."""
        return self.configs.get((RESOURCE_BROKER, ""), _NOTHING)

    def alive_brokers(self) -> list[BrokerState]:
        """Unfenced brokers by id."""
        return [self.brokers[id_] for id_ in sorted(self.brokers) if not self.brokers[id_].fenced]

    def offline_replicas(self, state: PartitionState, listener: str) -> list[NodeId]:
        """Replicas that cannot be reached through that listener, or lie in a directory that is offline."""
        found = []
        for id_ in state.replicas:
            broker = self.brokers.get(id_)
            directory = state.directory_of(id_)
            if (
                broker is None
                or broker.fenced
                or broker.endpoint(listener) is None
                or (directory is not None and not broker.has_online(directory))
            ):
                found.append(id_)
        return found

    def copy(self) -> MetadataImage:
        """Another image with the same immutable parts; replaying into one leaves the other alone."""
        other = MetadataImage(self.cluster_id)
        other.offset, other.epoch, other.timestamp_ms = self.offset, self.epoch, self.timestamp_ms
        other.brokers = dict(self.brokers)
        other.controllers = dict(self.controllers)
        other.topics = {id_: Topic(t.name, t.id, dict(t.partitions)) for id_, t in self.topics.items()}
        other.topics_by_name = {topic.name: topic for topic in other.topics.values()}
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other.client_quotas = {entity: dict(values) for entity, values in self.client_quotas.items()}
        other.acls = dict(self.acls)
        other.acl_ids = dict(self.acl_ids)
        other.scram = dict(self.scram)
        other.tokens = dict(self.tokens)
        return other

    def statistics(self) -> ImageStatistics:
        """Count brokers, topics and partitions (walks all partitions)."""
        states = [state for topic in self.topics.values() for state in topic.partitions.values()]
        return ImageStatistics(
            brokers=len(self.brokers),
            fenced_brokers=sum(broker.fenced for broker in self.brokers.values()),
            topics=len(self.topics),
            partitions=len(states),
            offline_partitions=sum(state.leader == NO_NODE for state in states),
            offset=self.offset,
        )


class ImageDelta:
    """What one commit touched, and what it was before.  `image` is the image after it.

    `partitions` maps a topic id to its touched partitions (those of new topics too) and the state each
    had before, None where it is new.  `topics_deleted` keeps deleted topics as they were.
    """

    __slots__ = (
        "acls",
        "brokers",
        "configs",
        "controllers",
        "features",
        "image",
        "partitions",
        "producer_ids",
        "quotas",
        "scram",
        "tokens",
        "topics_created",
        "topics_deleted",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.topics_created: dict[TopicId, Topic] = {}
        self.topics_deleted: dict[TopicId, Topic] = {}
        self.partitions: dict[TopicId, dict[int, PartitionState | None]] = {}
        self.brokers: set[NodeId] = set()
        self.controllers: set[NodeId] = set()
        self.configs: set[Resource] = set()
        self.features: set[str] = set()
        self.producer_ids = False
        self.quotas = False
        self.acls: set[Uuid] = set()
        self.scram = False
        self.tokens = False

    def __repr__(self) -> str:
        touched = [name for name in self.__slots__ if name != "image" and getattr(self, name)]
        return f"<ImageDelta to {self.image.offset}: {', '.join(touched) or 'nothing'}>"

    @property
    def empty(self) -> bool:
        """Whether nothing a reader could see has changed."""
        return not any(getattr(self, name) for name in self.__slots__ if name != "image")

    def changed_partitions(self) -> Iterator[tuple[Topic, PartitionState, PartitionState | None]]:
        """Touched partitions of topics that still exist: (topic, state now, state before)."""
        for topic_id, states in self.partitions.items():
            topic = self.image.topics.get(topic_id)
            if topic is None:
                continue
            for index, before in states.items():
                yield topic, topic.partitions[index], before
