"""What a seed decides before anything happens: how many nodes, the first voters, sizes and times."""

from __future__ import annotations

import random
from dataclasses import dataclass

from barnabas.model import ZERO_UUID, Endpoint, NodeId, ReplicaKey, Uuid
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import VersionRange, Voter, VoterSet

__all__ = ["Setup"]

EXCHANGE_S = 5.0
CLUSTER = "simulated-quorum-00000"


@dataclass(frozen=True, slots=True)
class Setup:
    """Sizes in bytes, times in seconds.  `first` are the ids of the first voters, `nodes` all ids."""

    nodes: tuple[NodeId, ...]
    first: tuple[NodeId, ...]
    kraft_version: int
    auto_join: bool
    segment_bytes: int
    snapshot_bytes: int
    retention_bytes: int
    fetch_max_bytes: int
    snapshot_max_bytes: int
    election_timeout: float
    fetch_timeout: float
    known: tuple[NodeId, ...] = ()
    """Whose names are in controller.quorum.bootstrap.servers; none: everybody's."""
    cluster_id: str = CLUSTER

    @classmethod
    def of(cls, rng: random.Random) -> Setup:
        """Draw one."""
        count = rng.choice((4, 5, 5, 6))
        first = rng.choice((1, 1, 2, 3, 3, 3))
        fetch_timeout = rng.choice((1.0, 2.0))
        nodes = tuple(range(1, count + 1))
        return cls(
            nodes=nodes,
            first=tuple(range(1, first + 1)),
            kraft_version=0 if rng.random() < 0.15 else 1,
            auto_join=rng.random() < 0.2,
            segment_bytes=rng.choice((1 << 10, 4 << 10, 16 << 10)),
            snapshot_bytes=rng.choice((2 << 10, 6 << 10, 20 << 10)),
            retention_bytes=rng.choice((1 << 10, 6 << 10, 1 << 20)),
            fetch_max_bytes=rng.choice((300, 2 << 10, 1 << 20)),
            snapshot_max_bytes=rng.choice((200, 1 << 10, 1 << 20)),
            election_timeout=rng.choice((0.5, 1.0)),
            fetch_timeout=fetch_timeout,
            known=(rng.choice(nodes),) if rng.random() < 0.5 else nodes,
        )

    def __str__(self) -> str:
        kind = "static" if self.kraft_version == 0 else "dynamic"
        names = f", all know the name of {self.known[0]}" if len(self.known) == 1 else ""
        join = ", who joins by itself" if self.auto_join else ""
        return (
            f"{len(self.nodes)} nodes{join}{names}, {kind} voters {'·'.join(map(str, self.first))}; "
            f"segments of {self.segment_bytes} B, snapshots every {self.snapshot_bytes} B, "
            f"fetch timeout {self.fetch_timeout} s"
        )

    @property
    def first_voters(self) -> VoterSet:
        """The voters that the storage is formatted with."""
        return VoterSet.of(
            Voter(ReplicaKey(i, Uuid.of(i, 1)), (Endpoint("CONTROLLER", f"n{i}", 9000),)) for i in self.first
        )

    @property
    def static_voters(self) -> VoterSet:
        """controller.quorum.voters."""
        if self.kraft_version > 0:
            return VoterSet.EMPTY
        return VoterSet.of(Voter(ReplicaKey(v.key.id, ZERO_UUID), v.endpoints) for v in self.first_voters)

    def config_of(self, versions: VersionRange) -> RaftConfig:
        """The settings of a node that supports these kraft versions, as it starts."""
        others = [Endpoint("CONTROLLER", f"name-of-{other}", 9000) for other in self.known or self.nodes]
        return RaftConfig(
            cluster_id=self.cluster_id,
            bootstrap=tuple(others),
            versions=versions,
            election_timeout=self.election_timeout,
            fetch_timeout=self.fetch_timeout,
            request_timeout=self.fetch_timeout,
            fetch_max_bytes=self.fetch_max_bytes,
            snapshot_max_bytes=self.snapshot_max_bytes,
            auto_join=self.auto_join,
            exchange_interval=EXCHANGE_S,
        )
