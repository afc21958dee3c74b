"""What an administrator is told: plain values, one class per thing described."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.client.metadata import Broker
from barnabas.model import ZERO_UUID, DirectoryId, Epoch, NodeId, Offset, TopicId, TopicPartition

__all__ = [
    "ClusterDescription",
    "CreatedTopic",
    "FeatureRange",
    "GroupDescription",
    "GroupListing",
    "GroupOffset",
    "MemberDescription",
    "QuorumDescription",
    "QuorumDetail",
    "QuorumReplica",
    "SettingValue",
]

SOURCES = {
    -1: "unknown",
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "server.properties",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
"""Where a setting's value comes from, as DescribeConfigs numbers it."""


class CreatedTopic(NamedTuple):
    """A topic just made; partitions and replication -1 where the broker does not say."""

    name: str
    id: TopicId
    partitions: int
    replication: int


class SettingValue(NamedTuple):
    """One setting of a topic, broker or group.  `value` None: not set, or sensitive."""

    name: str
    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False
    doc: str | None = None


class ClusterDescription(NamedTuple):
    """The cluster and its live brokers (with fenced ones last where asked for)."""

    cluster_id: str
    controller: NodeId
    brokers: tuple[Broker, ...]
    fenced: tuple[NodeId, ...] = ()


class GroupListing(NamedTuple):
    """A group in a list.  `type` is classic, consumer, share or streams."""

    group: str
    type: str
    protocol: str
    state: str


class MemberDescription(NamedTuple):
    """A member of a group and what it reads."""

    id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A group: its state (Stable, Empty, PreparingRebalance ...), assignor and members."""

    group: str
    state: str
    type: str
    protocol: str
    coordinator: str
    members: tuple[MemberDescription, ...]


class GroupOffset(NamedTuple):
    """How far a group is in one partition.  committed None: nothing committed; lag in records."""

    topic: str
    partition: int
    committed: Offset | None
    end: Offset
    lag: int | None
    member: MemberDescription | None


FETCH_TIMEOUT_MS = 2000
"""Kafka's default of controller.quorum.fetch.timeout.ms: a voter that fetches later than that counts as gone."""


class QuorumReplica(NamedTuple):
    """A voter or observer as the leader sees it.  Times in ms since 1970, -1 unknown."""

    id: NodeId
    directory_id: DirectoryId = ZERO_UUID
    log_end_offset: Offset = -1
    last_fetch: int = -1
    last_caught_up: int = -1
    endpoints: tuple[str, ...] = ()


class QuorumDescription(NamedTuple):
    """The metadata quorum.  `voters` and `observers` by id."""

    cluster_id: str
    leader: NodeId
    epoch: Epoch
    high_watermark: Offset
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def leader_replica(self) -> QuorumReplica | None:
        """`quorum.leader_replica` -> the leader among the voters; None while it removes itself."""
        return next((voter for voter in self.voters if voter.id == self.leader), None)

    def live(self, replicas: Sequence[QuorumReplica]) -> list[QuorumReplica]:
        """Return those that the leader heard of within the usual fetch timeout, by the leader's clock."""
        own = next((one for one in (*self.voters, *self.observers) if one.id == self.leader), None)
        now = own.last_fetch if own is not None else max((one.last_fetch for one in replicas), default=-1)
        return [one for one in replicas if one is own or now - one.last_fetch <= FETCH_TIMEOUT_MS]


class QuorumDetail(NamedTuple):
    """What Barnabas says beside `quorum` (None: there is no leader).

    `committed`: the voters before the newest set, while that is not committed.  `waiting`: what changes wait for,
    in words.  `errors`: why nodes do not answer the one that was asked.  `survivable`: voters that may
    fail now with a majority left, -1: the leader does not say (`bears` counts them).
    `could_be_voters` None: unknown.  `leaderless_ms` -1: there is a leader.
    """

    quorum: QuorumDescription | None
    target: tuple[NodeId, ...] = ()
    steps_left: int = 0
    committed: tuple[NodeId, ...] = ()
    could_be_voters: tuple[NodeId, ...] | None = ()
    waiting: tuple[str, ...] = ()
    errors: tuple[tuple[NodeId, str], ...] = ()
    leaderless_ms: int = -1
    survivable: int = -1

    @property
    def kafkas(self) -> bool:
        """Whether Apache Kafka leads: it says nothing of what stands only here, and takes no target."""
        return self.quorum is not None and self.survivable < 0

    @property
    def bears(self) -> int:
        """The number of voters that may fail now with a majority left; -1 without a leader.

        Where Apache Kafka leads, it is counted from when each voter fetched.
        """
        if self.quorum is None or not self.kafkas:
            return self.survivable
        voters = self.quorum.voters
        return max(0, len(self.quorum.live(voters)) - (len(voters) // 2 + 1))


class FeatureRange(NamedTuple):
    """A feature: levels the broker supports, and the level the cluster has agreed on (0: none)."""

    name: str
    supported_min: int
    supported_max: int
    finalized: int
    epoch: int
