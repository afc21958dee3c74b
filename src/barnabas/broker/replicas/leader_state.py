"""What the leader of a partition knows of its replicas: who is in sync, and how far each follower is."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.replicas.replica_progress import NEVER, ReplicaProgress
from barnabas.broker.traffic import PartitionTraffic
from barnabas.controller.image import PartitionState
from barnabas.model import NodeId, Now, Offset

__all__ = ["LeaderState"]


class LeaderState:
    """Empty while another node leads.

    `isr` is what the controller agreed to, `proposed` what it is asked for; `progress` is by follower.
    """

    __slots__ = (
        "_eligible",
        "_max_lag",
        "enough_in_sync",
        "epoch_start",
        "isr",
        "progress",
        "proposed",
        "traffic",
    )

    def __init__(self, max_lag: float, eligible: Callable[[NodeId, int], bool]) -> None:
        """`max_lag` in seconds; `eligible(node, broker epoch)`: whether a replica may be in sync at all."""
        self._max_lag = max_lag
        self._eligible = eligible
        self.epoch_start: Offset = 0
        """Where the leader's epoch starts."""
        self.isr: tuple[NodeId, ...] = ()
        self.proposed: tuple[NodeId, ...] | None = None
        self.progress: dict[NodeId, ReplicaProgress] = {}
        self.enough_in_sync = False
        self.traffic = PartitionTraffic()
        """What clients wrote and read since this node has the partition, whoever led it meanwhile."""

    def __repr__(self) -> str:
        return f"<LeaderState isr={'·'.join(map(str, self.isr))} proposed={self.proposed}>"

    def lead(self, state: PartitionState, node: NodeId, now: Now, *, fresh: bool) -> None:
        """`node` leads it; `fresh`: in a new epoch, for which nothing counts that an earlier leader was told."""
        self.isr = state.isr
        known = {} if fresh else self.progress
        self.progress = {
            replica: known.get(replica) or ReplicaProgress(now.mono if replica in state.isr else NEVER)
            for replica in state.replicas
            if replica != node
        }

    def clear(self) -> None:
        """Another node leads it."""
        self.isr = ()
        self.proposed = None
        self.progress = {}

    def count_in_sync(self, least: int, replicas: int) -> None:
        """Whether at least `least` replicas are in sync, of as many as there are."""
        self.enough_in_sync = len(self.isr) >= min(least, replicas or 1)

    def agreed(self, isr: tuple[NodeId, ...]) -> None:
        """The controller agreed to this in-sync set."""
        self.isr = isr
        self.proposed = None

    def least_end(self, here: Offset, now: Now) -> Offset:
        """The least end among the in-sync replicas and those that keep up and will soon be in sync."""
        end = here
        proposed = self.proposed or ()
        for node, replica in self.progress.items():
            if (
                node in self.isr
                or node in proposed
                or (
                    replica.caught_up(here, now, self._max_lag) and self._eligible(node, replica.broker_epoch)
                )
            ):
                if replica.log_end < end:
                    end = replica.log_end
        return end

    def least_start(self, start: Offset) -> Offset:
        """The least log start over all replicas that live; `start` is the leader's."""
        for node, replica in self.progress.items():
            if self._eligible(node, -1):
                start = min(start, replica.log_start)
        return start

    def may_join(self, node: NodeId, high_watermark: Offset) -> bool:
        """Whether a follower holds everything that is committed, and has reached this leader's epoch."""
        replica = self.progress.get(node)
        return (
            replica is not None
            and replica.log_end >= high_watermark
            and replica.log_end >= self.epoch_start
            and self._eligible(node, replica.broker_epoch)
        )

    def laggards(self, end: Offset, now: Now) -> tuple[NodeId, ...]:
        """The in-sync replicas that have not caught up with `end` for `max_lag`."""
        progress = self.progress
        return tuple(
            node
            for node in self.isr
            if node in progress and not progress[node].caught_up(end, now, self._max_lag)
        )
