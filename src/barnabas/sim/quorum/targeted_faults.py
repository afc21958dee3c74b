"""Targeted faults: they watch the quorum and strike where it hurts most.

Random faults hardly ever reach the histories for which the quorum's subtler rules exist: a leader has to fall
within the few milliseconds between two messages, and then another one, twice over.  Each of these faults
knows such a history, waits for each of its steps, and gives up without harm if the history does not happen.
"""

from __future__ import annotations

from typing import ClassVar

from barnabas.model import NodeId, Offset, ReplicaKey
from barnabas.raft.entries import Batch, SnapshotId, VotersEntry
from barnabas.raft.messages import Resign
from barnabas.raft.roles import Leader
from barnabas.sim.quorum.faults import QuorumFault
from barnabas.sim.quorum.node import Machine

__all__ = [
    "TARGETED_FAULTS",
    "EpochBegun",
    "FigureEight",
    "InstallPoint",
    "KillThenPowerCut",
    "LateVotes",
    "RoleLost",
    "StrayLog",
    "TargetedFault",
    "TornWrites",
]


class TargetedFault(QuorumFault):
    """A fault that watches.  Whatever it has cut is mended at its end, at the latest."""

    separates: ClassVar[bool] = False
    """It cuts nodes off: one such plan at a time."""

    def begin(self) -> str | None:
        self._cuts: list[tuple[NodeId, NodeId]] = []
        if any(one.separates and self.separates for one in self.world.onlookers):
            return None
        text = self.plan()
        if text is not None:
            self.world.onlookers.append(self)
        return text

    def plan(self) -> str | None:
        """Choose whom it is about, and do the first step."""
        raise NotImplementedError

    def end(self) -> None:
        if self in self.world.onlookers:
            self.world.onlookers.remove(self)
        self._mend()

    # What it sees.

    def led(self, node: Machine) -> None:
        """The node leads from now on."""

    def appended(self, node: Machine, batch: Batch) -> None:
        """A batch stands in the node's log."""

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        """The node is about to replace its log by a snapshot."""

    def stood(self, node: Machine) -> None:
        """The node stands for election."""

    def voted(self, node: Machine, candidate: ReplicaKey) -> None:
        """A vote of the node leaves it."""

    def truncating(self, node: Machine, end_offset: Offset) -> None:
        """The node is about to cut its log."""

    # What it does.

    def _cut(self, one: set[NodeId], other: set[NodeId]) -> None:
        pairs = [pair for a in sorted(one) for b in sorted(other) if a != b for pair in ((a, b), (b, a))]
        self._cut_pairs(pairs)

    def _cut_pairs(self, pairs: list[tuple[NodeId, NodeId]]) -> None:
        self.world.network.cut(pairs)
        self._cuts += pairs

    def _mend(self) -> None:
        self.world.network.mend(self._cuts)
        self._cuts = []

    def _say(self, text: str) -> None:
        self.world.tell(0, f"{self.name}: {text}")

    def _leader(self) -> Machine | None:
        """The leader, if it has others to replicate to."""
        node = self.world.leader
        if node is None or node.process is None or node.paused or len(node.process.node.voters) < 3:
            return None
        return node

    def _write(self, node: Machine, count: int) -> None:
        for _ in range(count):
            if node.process is not None:
                self.world.write(node)


class FigureEight(TargetedFault):
    """The history of Raft's figure 8: an old leader's entry reaches a majority under a new epoch, is counted,
    and then somebody who has a newer entry in its place is elected.

    1. The leader is cut off and goes on writing.  2. Another is elected, and cut off before anybody hears
    more of it.  3. The first one comes back among just enough others, is elected again, and is silenced as
    soon as these have its first old entry.  4. The other one and these are left alone.
    """

    name = "figure eight"
    separates = True
    rate = 2.0
    duration = (15.0, 25.0)

    def plan(self) -> str | None:
        node = self._leader()
        if node is None or node.process is None:
            return None
        self.old, self.epoch = node.id, node.process.node.epoch
        self.voters = [i for i in node.process.node.voters.ids if self.world.nodes[i].up]
        self.quorum = node.process.node.voters.majority
        if len(self.voters) <= self.quorum:
            return None
        self.step = 2
        self.new = 0
        self.least: Offset = 0
        self.some: set[NodeId] = set()
        self.first: Offset = node.process.log_view.end_offset
        everybody = set(self.world.nodes)
        self._cut({self.old}, everybody)
        self._write(node, self.rng.randint(4, 12))
        return f"leader {self.old} of epoch {self.epoch} is cut off"

    def led(self, node: Machine) -> None:
        assert node.process is not None
        everybody = set(self.world.nodes)
        if self.step == 2 and node.id != self.old and node.process.node.epoch > self.epoch:
            self.new = node.id
            others = [i for i in self.voters if i not in (self.old, self.new)]
            if len(others) < self.quorum - 1:
                return
            self.some = set(self.rng.sample(others, self.quorum - 1))
            self.step = 3
            self._mend()
            group = self.some | {self.old}
            self._cut(group, everybody - group)
            self._cut({self.new}, everybody - group)
            self._say(f"leader {self.new} is cut off, {sorted(group)} are left to themselves")
        elif self.step == 3 and node.id == self.old:
            self.step, self.waiting = 4, set(self.some)
            role = node.process.node.role
            assert isinstance(role, Leader)
            if self.rng.random() < 0.5:  # all of its old entries, and nothing of its new epoch
                self.least = role.epoch_start

    def appended(self, node: Machine, batch: Batch) -> None:
        if self.step != 4 or node.id not in self.waiting:
            return
        if batch.epoch <= self.epoch and batch.base_offset >= self.first and batch.end_offset >= self.least:
            self.waiting.discard(node.id)
            self._cut_pairs([(self.old, node.id)])
            if not self.waiting:
                self.step = 5
                self.world.at(self.rng.choice((0.05, 0.2, 0.5)), self._turn)

    def _turn(self) -> None:
        if self.step == 5 and self in self.world.onlookers:
            self._mend()
            group = self.some | {self.new}
            self._cut(group, set(self.world.nodes) - group)
            self._say(f"{self.old} is cut off again, {sorted(group)} are left to themselves")


class StrayLog(TargetedFault):
    """A leader cut off writes on, while the others elect another and forget, after a snapshot, where the two
    parted; then it comes back, must replace its longer log by that snapshot, and may lose its power over it.
    """

    name = "stray log"
    separates = True
    rate = 2.0
    duration = (10.0, 20.0)

    def plan(self) -> str | None:
        node = self._leader()
        if node is None or node.process is None:
            return None
        self.node, self.epoch = node, node.process.node.epoch
        self.fork = node.process.log_view.end_offset
        self._cut({node.id}, set(self.world.nodes))
        self._write(node, self.rng.choice((30, 60, 120)))
        self.world.at(1.0, self._look)
        return f"leader {node.id} of epoch {self.epoch} is cut off, and writes on"

    def _look(self) -> None:
        if self not in self.world.onlookers or not self._cuts:
            return
        if any(self._forgot(other) for other in self.world.nodes.values()):
            self._say(f"node {self.node.id} comes back")
            self._mend()
        else:
            self.world.at(0.25, self._look)

    def _forgot(self, node: Machine) -> bool:
        if node.process is None or not node.process.node.is_leader or node is self.node:
            return False
        log_view = node.process.log_view
        if log_view.log_start <= self.fork:
            node.process.snapshot()  # an operator's request: it may be made at any time
        return node.process is not None and log_view.log_start > self.fork

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        if node is self.node and self.rng.random() < 0.8:
            _lose_power_soon(node, self.rng.randint(4, 24))


class InstallPoint(TargetedFault):
    """A node that replaces its log by a snapshot loses its power at one of the steps of that."""

    name = "crash at a download"
    duration = (5.0, 15.0)

    def plan(self) -> str | None:
        return "whoever installs a snapshot"

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        if self.rng.random() < 0.5:
            _lose_power_soon(node, self.rng.randint(0, 24))


class TornWrites(TargetedFault):
    """A leader, or a follower, loses its power while much is written: some of it is on the disk, torn."""

    name = "power cut in a burst of writes"
    rate = 1.5
    duration = (0.2, 3.0)
    victim: Machine | None = None

    def plan(self) -> str | None:
        leader = self.world.leader
        if leader is None or leader.process is None or leader.paused:
            return None
        self._write(leader, self.rng.choice((5, 10, 20)))
        followers = [node for node in self.world.nodes.values() if node.up and node is not leader]
        if followers and self.rng.random() < 0.4:
            self.victim = self.rng.choice(followers)
            return f"node {self.victim.id}, as soon as it writes"
        self._lose(leader)
        return f"leader {leader.id}"

    def appended(self, node: Machine, batch: Batch) -> None:
        if node is self.victim and not node.paused:
            self.victim = None
            self.world.at(self.rng.uniform(0.0, 0.0005), lambda: self._lose(node))

    def _lose(self, node: Machine) -> None:
        if node.process is not None:
            node.off("some", "power cut in a burst of writes")
            node.restart_at = self.world.time + self.lasts


def _lose_power_soon(node: Machine, step: int) -> None:
    disk, run_number = node.disk, node.run_number
    disk.crash_at(step)

    def disarm() -> None:
        if node.disk is disk and node.run_number == run_number:
            disk.crash_at(1 << 40)

    node.world.at(2.0, disarm)


class LateVotes(TargetedFault):
    """The answers to a candidate are held back until it stands again, in another epoch; all but one or two,
    which it needs in order to stand again.
    """

    name = "late votes"
    duration = (3.0, 10.0)

    def plan(self) -> str | None:
        self.held: list[tuple[NodeId, NodeId]] = []
        self.candidate = self.epoch = 0
        return "the answers to the next candidate"

    def stood(self, node: Machine) -> None:
        assert node.process is not None
        epoch = node.process.node.epoch
        if not self.candidate:
            self.candidate, self.epoch = node.id, epoch
            self.held = [(i, node.id) for i in self.world.nodes if i != node.id]
            self.rng.shuffle(self.held)
            self.world.network.clog(self.held)
            first = self.world.setup.election_timeout * self.rng.uniform(0.9, 2.1)
            self.world.at(first, self._release_one)
            self.world.at(4.0, self._release)
        elif node.id == self.candidate and epoch > self.epoch:
            self._release()

    def _release_one(self) -> None:
        if self.held and self in self.world.onlookers:
            self.world.network.unclog([self.held.pop()])
            self.world.at(self.rng.uniform(0.01, 0.3), self._release_one)

    def _release(self) -> None:
        if self in self.world.onlookers:
            held, self.held = self.held, []
            self.world.network.unclog(held)

    def end(self) -> None:
        self._release()
        super().end()


class KillThenPowerCut(TargetedFault):
    """A node is killed with much written and little synced, starts on what its kernel kept, and loses its power
    before it writes anything more: what it read at its start is not durable unless it has synced it.
    """

    name = "kill, then a power cut"
    rate = 2.0
    duration = (0.5, 4.0)
    victim: Machine | None = None

    def plan(self) -> str | None:
        up = [node for node in self.world.nodes.values() if node.up and not node.paused and not node.apart]
        if not up:
            return None
        leader = self.world.leader
        self.victim = self._one(up)
        assert self.victim is not None
        self.victim.latency = (0.1, 0.3)  # what it writes now is not synced soon
        if leader is not None:
            self.world.at(0.001, lambda: self._write(leader, self.rng.choice((3, 8))))
        return f"node {self.victim.id}"

    def appended(self, node: Machine, batch: Batch) -> None:
        if node is self.victim and not node.paused:
            self.victim = None
            self.world.at(self.rng.uniform(0.0005, 0.02), lambda: self._kill(node))

    def end(self) -> None:
        if self.victim is not None:
            self.victim.latency = (0.0002, 0.002)
        super().end()

    def _kill(self, node: Machine) -> None:
        node.latency = (0.0002, 0.002)
        if node.process is None or node.damaged:
            return
        node.off("kill", "killed", reset=True)
        again = self.rng.uniform(0.01, 0.1)
        node.restart_at = self.world.time + again
        self.world.at(again, lambda: self._start(node))

    def _start(self, node: Machine) -> None:
        if node.process is not None or node.damaged or not node.start():
            return
        run_number = node.run_number

        def cut() -> None:
            if node.run_number == run_number and node.process is not None:
                node.off("all", "power cut, nothing written since it started")
                node.restart_at = self.world.time + self.rng.uniform(0.1, 2.0)

        self.world.at(self.rng.choice((0.0, 0.02, 0.2, 0.5)), cut)


class EpochBegun(TargetedFault):
    """A leader is cut off as soon as it leads, its first batch with one of the others, or with none: where that is
    cut away, the log ends at the high watermark, exactly where the epoch began.
    """

    name = "cut off at the beginning of an epoch"
    separates = True
    rate = 2.0
    duration = (6.0, 12.0)

    def plan(self) -> str | None:
        leader = self._leader()
        if leader is None or leader.process is None:
            return None
        self.first: NodeId = 0
        self.times = 0
        leader.process.receive(Resign(leader.process.node.epoch))
        return "the next leaders"

    def led(self, node: Machine) -> None:
        if self.times >= 2 or self._cuts:
            return
        self.times += 1
        self.first, self.epoch = node.id, self._epoch(node)
        others = [i for i in self.world.nodes if i != node.id]
        self.witness = self.rng.choice(others) if self.rng.random() < 0.7 else 0
        self._cut({node.id}, set(others) - {self.witness})
        if self.witness:
            self._cut({self.witness}, set(others) - {self.witness})
        self._say(f"leader {node.id} of epoch {self.epoch} is cut off, with {self.witness or 'nobody'}")
        self.world.at(self.rng.uniform(2.0, 4.0), self._mend)

    def _epoch(self, node: Machine) -> int:
        assert node.process is not None
        return node.process.node.epoch


class RoleLost(TargetedFault):
    """A node is killed and started without the controller role, often the one that is just becoming a voter: its
    disk does not know of that yet.  A node whose disk knows that it votes does not start so.
    """

    name = "a voter without the controller role"
    rate = 2.0
    duration = (3.0, 10.0)
    victim: Machine | None = None

    def plan(self) -> str | None:
        up = [node for node in self.world.nodes.values() if node.up and not node.paused and not node.apart]
        if not up or self.rng.random() >= 0.2:
            return "whoever becomes a voter next"
        node = self.rng.choice(up)
        self.world.at(0.0, lambda: self._strike(node))
        return f"node {node.id}"

    def appended(self, node: Machine, batch: Batch) -> None:
        process = node.process
        if self.victim is not None or process is None or batch.raw is not None or not process.node.is_leader:
            return
        before = process.log_view.voters_at(batch.base_offset)
        for entry in batch.entries:
            for key in entry.voters.keys if isinstance(entry, VotersEntry) and before else ():
                new = self.world.nodes[key.id]
                if not before.has(key) and new.key == key and new.up and not new.paused:
                    self.world.at(0.0, lambda new=new: self._strike(new))  # type: ignore[misc]

    def _strike(self, node: Machine) -> None:
        if (
            self not in self.world.onlookers
            or self.victim is not None
            or node.process is None
            or node.damaged
        ):
            return
        self.victim = node
        node.without_role, node.held_with_role = True, node.process.log_view.persisted
        node.off("some", "killed, its controller role is taken away", reset=True)
        node.restart_at = self.world.time + self.rng.uniform(0.01, 0.2)
        self.world.when(node.restart_at, lambda: self._start(node))

    def _start(self, node: Machine) -> None:
        if node.process is None and node.without_role and not node.damaged:
            node.start()

    def end(self) -> None:
        node = self.victim
        if node is not None and node.without_role:
            node.without_role = False
            if node.process is not None:
                node.off("all", "power cut, then it has its controller role again")
                node.restart_at = self.world.time + self.rng.uniform(0.1, 1.0)
        super().end()


TARGETED_FAULTS: tuple[type[TargetedFault], ...] = (
    FigureEight,
    StrayLog,
    InstallPoint,
    LateVotes,
    TornWrites,
    KillThenPowerCut,
    EpochBegun,
    RoleLost,
)
