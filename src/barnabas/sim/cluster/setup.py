"""What a seed decides before anything happens: nodes and their roles, topics, sizes and times."""

from __future__ import annotations

import random
from dataclasses import dataclass

from barnabas.model import Endpoint, NodeId, ReplicaKey, Uuid
from barnabas.raft.voters import Voter, VoterSet

__all__ = ["CLIENT_PORT", "CONTROLLER_PORT", "DIRECTORIES", "Setup", "TopicPlan"]

CLIENT_PORT, CONTROLLER_PORT = 9092, 9093
DIRECTORIES = ("/data/a", "/data/b")


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that the seed's clients use."""

    name: str
    partitions: int
    configs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.name} of {self.partitions}"


@dataclass(frozen=True, slots=True)
class Setup:
    """`brokers` and `controllers` by node id; a node in both is a combined one.  Times in milliseconds."""

    controllers: tuple[NodeId, ...]
    brokers: tuple[NodeId, ...]
    topics: tuple[TopicPlan, ...]
    static: bool
    directories: int
    settings: tuple[tuple[str, str], ...]
    """The same on all nodes."""
    window: int
    cluster_id: str = "simulated-cluster-0000"

    @classmethod
    def of(cls, rng: random.Random) -> Setup:
        """Draw one."""
        controllers: tuple[NodeId, ...] = (1, 2, 3)
        shape = rng.random()
        if shape < 0.6:
            brokers: tuple[NodeId, ...] = (1, 2, 3)
        elif shape < 0.8:
            brokers = (1, 2, 3, 4)
        elif shape < 0.9:
            brokers, controllers = (1, 2, 3), (3,)
        else:
            brokers = (4, 5, 6)
        session = rng.choice((3_000, 6_000, 9_000))
        lag = rng.choice((1_500, 3_000, 10_000))
        settings = {
            "broker.heartbeat.interval.ms": rng.choice((500, 1_000, 2_000)),
            "broker.session.timeout.ms": session,
            "replica.lag.time.max.ms": lag,
            "controller.quorum.election.timeout.ms": rng.choice((500, 1_000)),
            "controller.quorum.fetch.timeout.ms": rng.choice((1_000, 2_000)),
            "controller.quorum.request.timeout.ms": 2_000,
            "metadata.max.idle.interval.ms": rng.choice((500, 2_000, 5_000)),
            "metadata.log.max.record.bytes.between.snapshots": rng.choice((1_000, 4_000, 20_971_520)),
            "replica.fetch.backoff.ms": rng.choice((100, 1_000)),
            "replica.fetch.max.bytes": rng.choice((1, 2_000, 1_048_576)),
            "replica.high.watermark.checkpoint.interval.ms": rng.choice((500, 5_000)),
            "log.retention.check.interval.ms": rng.choice((1_000, 300_000)),
            "barnabas.fast.fencing": "true" if rng.random() < 0.75 else "false",
            "barnabas.sendfile.min.bytes": rng.choice((4_096, 65_536)),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 1,
            "min.insync.replicas": 2,
            "barnabas.shutdown.timeout.ms": 10_000,
        }
        rng.random()  # (a setting that is gone was drawn here; without it every seed would be another run)
        topics = tuple(_topic(rng, number) for number in range(rng.choice((1, 1, 2))))
        return cls(
            controllers=controllers,
            brokers=brokers,
            topics=topics,
            static=rng.random() < 0.2,
            directories=rng.choice((1, 2)),
            settings=tuple((name, str(value)) for name, value in settings.items()),
            window=rng.choice((4_000, 64 * 1024, 256 * 1024)),
        )

    def __str__(self) -> str:
        apart = "combined" if set(self.controllers) & set(self.brokers) else "apart"
        kind = "static" if self.static else "dynamic"
        return (
            f"brokers {'·'.join(map(str, self.brokers))}, controllers {'·'.join(map(str, self.controllers))} "
            f"({apart}, {kind} voters), {self.directories} directories each; "
            f"topics {', '.join(map(str, self.topics))}; window {self.window} B"
        )

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(sorted({*self.controllers, *self.brokers}))

    @property
    def voters(self) -> VoterSet:
        """The first voters."""
        return VoterSet.of(
            Voter(ReplicaKey(i, Uuid.of(i, 1)), (Endpoint("CONTROLLER", f"n{i}", CONTROLLER_PORT),))
            for i in self.controllers
        )

    def setting(self, name: str) -> int:
        """A number among the settings, for whoever waits for it."""
        return int(dict(self.settings)[name])

    def properties(self, node_id: NodeId) -> dict[str, str]:
        """The configuration of a node."""
        roles, listeners = [], []
        if node_id in self.brokers:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://n{node_id}:{CLIENT_PORT}")
        if node_id in self.controllers:
            roles.append("controller")
            listeners.append(f"CONTROLLER://n{node_id}:{CONTROLLER_PORT}")
        quorum = {
            "controller.quorum.voters": ",".join(f"{i}@n{i}:{CONTROLLER_PORT}" for i in self.controllers)
        }
        if not self.static:
            quorum = {
                "controller.quorum.bootstrap.servers": ",".join(
                    f"n{i}:{CONTROLLER_PORT}" for i in self.controllers
                )
            }
        return {
            "process.roles": ",".join(roles),
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(DIRECTORIES[: self.directories]),
            "barnabas.metadata.reserve.bytes": "0",
            "barnabas.scrub.interval.ms": "-1",
            **quorum,
            **dict(self.settings),
        }


def _topic(rng: random.Random, number: int) -> TopicPlan:
    configs = {
        "min.insync.replicas": "2",
        "segment.ms": str(rng.choice((2_000, 10_000, 604_800_000))),
        "retention.ms": "-1",
    }
    return TopicPlan(f"t{number}", rng.choice((1, 2, 3)), tuple(configs.items()))
