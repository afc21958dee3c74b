"""What the leader of a partition knows of its replicas: who is in sync, and how far each follower is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.replicas.held_back import HeldBack
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
        "_least",
        "_max_lag",
        "enough_in_sync",
        "epoch_start",
        "held_back",
        "isr",
        "may_spare_one",
        "noted",
        "progress",
        "proposed",
        "stalled",
        "traffic",
    )

    def __init__(
        self, max_lag: float, eligible: Callable[[NodeId, int], bool], held_back: HeldBack[Any]
    ) -> None:
        """`max_lag` in seconds; `eligible(node, broker epoch)`: whether a replica may be in sync at all."""
        self._max_lag = max_lag
        self.held_back = held_back
        self.noted = False
        """Whether `held_back` looks at the partition."""
        self._least = 1
        self._eligible = eligible
        self.epoch_start: Offset = 0
        """Where the leader's epoch starts."""
        self.isr: tuple[NodeId, ...] = ()
        self.proposed: tuple[NodeId, ...] | None = None
        self.progress: dict[NodeId, ReplicaProgress] = {}
        self.stalled: set[NodeId] = set()
        """Followers that held acknowledgements back and have not kept up for long enough since (`held_back`)."""
        self.enough_in_sync = False
        self.may_spare_one = False
        """Whether enough stay in sync without one follower: the leader, another, and min.insync.replicas."""
        self.traffic = PartitionTraffic()
        """What clients wrote and read since this node has the partition, whoever led it meanwhile."""

    def __repr__(self) -> str:
        return f"<LeaderState isr={'·'.join(map(str, self.isr))} proposed={self.proposed}>"

    def lead(self, state: PartitionState, node: NodeId, now: Now, *, fresh: bool) -> None:
        """`node` leads it; `fresh`: in a new epoch, for which nothing counts that an earlier leader was told."""
        self.isr = state.isr
        known = {} if fresh else self.progress
        if fresh:
            self.stalled.clear()
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
        self.stalled.clear()

    def count_in_sync(self, least: int, replicas: int) -> None:
        """Note whether at least `least` replicas are in sync, of as many as there are."""
        self._least = min(least, replicas or 1)
        self.enough_in_sync = len(self.isr) >= self._least
        self.may_spare_one = len(self.isr) > max(self._least, 2)

    def agreed(self, isr: tuple[NodeId, ...]) -> None:
        """The controller agreed to this in-sync set."""
        self.isr = isr
        self.proposed = None

    def least_end(self, here: Offset, now: Now) -> Offset:
        """Return the least end among the in-sync replicas and those that keep up and will soon be in sync.

        One of the latter counts no longer than a stall may last: it would hold acknowledgements back.
        """
        end = here
        proposed = self.proposed or ()
        for node, replica in self.progress.items():
            if (
                node in self.isr
                or node in proposed
                or (
                    replica.caught_up(here, now, self.held_back.limit)
                    and node not in self.stalled
                    and self._eligible(node, replica.broker_epoch)
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
        """Return whether a follower holds everything that is committed, has reached this leader's epoch, and is
        not stalled."""
        replica = self.progress.get(node)
        return (
            replica is not None
            and replica.log_end >= high_watermark
            and replica.log_end >= self.epoch_start
            and node not in self.stalled
            and self._eligible(node, replica.broker_epoch)
        )

    def holding_back(self, end: Offset) -> tuple[NodeId, ...]:
        """Return the in-sync replicas that have not reached `end`, if enough have (as for `may_spare_one`)."""
        lacking = tuple(n for n in self.isr if n in self.progress and self.progress[n].log_end < end)
        return lacking if len(self.isr) - len(lacking) >= max(self._least, 2) else ()

    def laggards(self, end: Offset, now: Now) -> tuple[NodeId, ...]:
        """The in-sync replicas that have not caught up with `end` for `max_lag`."""
        progress = self.progress
        return tuple(
            node
            for node in self.isr
            if node in progress and not progress[node].caught_up(end, now, self._max_lag)
        )
