"""What the autopilot promises, seen from outside: from logs, and from requests that reach the leader."""

from __future__ import annotations

from barnabas.model import NodeId, ReplicaKey
from barnabas.raft.entries import Batch, Note
from barnabas.raft.membership.target import AUTOPILOT, TARGET, parse_target
from barnabas.raft.messages import FetchRequest, FetchSnapshotRequest, Request, Supervise, UpdateVoterRequest
from barnabas.raft.voters import VoterSet
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World

__all__ = ["AutopilotKeepsItsWord"]

CLOCKS = 0.49
"""A node's clock may run up to twice as fast as the world's: so much of a bound must have passed."""


class AutopilotKeepsItsWord(Invariant):
    """M13: the autopilot leaves operators alone, gives up only the dead, takes only standbys that stayed.

    1. It names a target only while there is none, and not at all in a dry run.
    2. The target is as large as the present set, or odd and not larger than wanted.
    3. Of whom it gives up, nothing reached this leader for the bound.
    4. Whom it takes in has been with this leader for the stability window, and was never removed.
    """

    name = "M13"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._led: dict[NodeId, float] = {}
        self._first: dict[tuple[NodeId, ReplicaKey], float] = {}
        self._last: dict[tuple[NodeId, ReplicaKey], float] = {}

    def led(self, node: Machine) -> None:
        self._led[node.id] = self.world.time
        for heard in (self._first, self._last):
            for pair in [pair for pair in heard if pair[0] == node.id]:
                del heard[pair]

    def arrived(self, node: Machine, request: Request) -> None:
        if not isinstance(request, (FetchRequest, FetchSnapshotRequest, UpdateVoterRequest)):
            return
        if isinstance(request, FetchRequest) and not request.can_vote:
            return  # such a node counts as dead
        replica = request.voter if isinstance(request, UpdateVoterRequest) else request.replica
        self._first.setdefault((node.id, replica), self.world.time)
        self._last[node.id, replica] = self.world.time

    def appended(self, node: Machine, batch: Batch) -> None:
        process, order = node.process, self.world.autopilot
        if order is None or process is None or batch.raw is not None or not process.node.is_leader:
            return
        for entry in batch.entries:
            if isinstance(entry, Note) and entry.key == AUTOPILOT and entry.value is not None:
                if process.log_view.note(TARGET, batch.base_offset) is not None or order.dry_run:  # 1
                    self.fail(f"node {node.id} names a target that is not its to name")
                wanted = tuple(member.key for member in parse_target(entry.value))
                self._check(node, order, process.log_view.voters_at(batch.base_offset), wanted)

    def _check(
        self, node: Machine, order: Supervise, before: VoterSet, wanted: tuple[ReplicaKey, ...]
    ) -> None:
        now = self.world.time
        assert node.process is not None
        if len(wanted) != len(before) and (len(wanted) % 2 == 0 or len(wanted) > order.size):  # 2
            self.fail(f"node {node.id} makes {len(wanted)} voters of {before}, {order.size} are wanted")
        for key in before.keys:
            last = max(self._last.get((node.id, key), 0.0), self._led[node.id])
            if key not in wanted and now - last < CLOCKS * order.dead:  # 3
                self.fail(f"node {node.id} gives up {key}, heard {now - last:.2f} s ago")
        for key in wanted:
            if key in before.keys:
                continue
            first = self._first.get((node.id, key), now)
            buried = f"barnabas.quorum.removed.{key.id}-{key.directory_id}"
            if now - first < CLOCKS * order.stability or node.process.log_view.note(buried) is not None:  # 4
                self.fail(f"node {node.id} takes in {key}, here for {now - first:.2f} s, or removed before")
