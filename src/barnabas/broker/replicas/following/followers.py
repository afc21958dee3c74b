"""All leaders that this node fetches from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.replicas.following.fetcher import Follower
from barnabas.model import NodeId

if TYPE_CHECKING:
    from barnabas.broker.replicas.hosted_partitions import HostedPartitions
    from barnabas.broker.replicas.partition import Partition

__all__ = ["Followers"]


class Followers:
    """All leaders that this node follows.  Empty ones stay: their connection may be wanted again."""

    __slots__ = ("_broker", "by_leader")

    def __init__(self, broker: HostedPartitions) -> None:
        self._broker = broker
        self.by_leader: dict[NodeId, Follower] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch it from its leader in its present epoch."""
        partition.stop_following()
        follower = self.by_leader.get(partition.leader)
        if follower is None:
            follower = self.by_leader[partition.leader] = Follower(self._broker, partition.leader)
        partition.followed = followed = follower.add(partition)
        if partition.no_room:
            followed.pause(True)

    def __repr__(self) -> str:
        return f"<Followers {list(self.by_leader.values())}>"
