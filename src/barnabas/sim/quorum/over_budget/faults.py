"""Faults beyond the budget: what each does, which node can detect it, and what must hold afterwards."""

from __future__ import annotations

from typing import ClassVar

from barnabas.model import Offset
from barnabas.raft.membership.recovery import RecoveryPlan, plan_recovery
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.marks import read_point
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.storage import MetadataStore
from barnabas.server.node.lost_majority import Found, execute, survivor_of
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.sim.quorum.invariants.committed_log import METADATA, CommittedLog
from barnabas.sim.quorum.invariants.durable_view import durable_batches
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.over_budget.world import InvariantsAfterRecovery, OverBudgetFault
from barnabas.sim.quorum.process import DIRECTORY

__all__ = ["OVER_BUDGET_FAULTS"]


class RotBelowThePoint(OverBudgetFault):
    """A bit flips in a record that the recovery point vouches for, while the node is down."""

    name = "rot below the recovery point"

    def strike(self) -> str:
        for _ in range(40):
            node = self._victim()
            places = self._places(node)
            if places:
                break
            self.world.run(1.0)
        else:
            self.detected = False
            return "no record is below a recovery point and behind the snapshots"
        self._off(node)
        self._damaged(node)
        path, begin, end, _ = self.rng.choice(places)
        position = self.rng.randrange(begin, end)
        node.disk.corrupt(path, position, flip=1 << self.rng.randrange(8))
        self._on(node)
        return f"node {node.id}, byte {position} of {path.rpartition('/')[2]}, in a batch at {begin}"

    def _places(self, node: Machine) -> list[tuple[str, int, int, Offset]]:
        """The batches that are vouched for: below the point, which is after every snapshot."""
        process = node.process
        if process is None:
            return []
        point = read_point(node.disk, METADATA)
        latest = process.log_view.latest_snapshot
        if latest is not None and point.offset <= latest.end_offset:
            return []
        found = durable_batches(node.disk, METADATA)
        return [one for one in found if one[3] <= point.offset and one[3] > process.log_view.log_start]


class RotInTheTail(OverBudgetFault):
    """A bit flips in the newest records of several voters: it looks like a write that a crash tore."""

    name = "rot in the newest records"
    detected = False

    def strike(self) -> str:
        victims = self.rng.sample(self._voters(), self.rng.randint(1, 4))
        for node in victims:
            self._off(node)
        for node in victims:
            self._damaged(node)
            path, begin, end, _ = durable_batches(node.disk, METADATA)[-1]
            node.disk.corrupt(path, self.rng.randrange(begin, end), flip=1 << self.rng.randrange(8))
        self._leave_alone(victims)
        for node in victims:
            self._on(node)
        return f"nodes {[node.id for node in victims]}, in the last batch{self._absent}"


class OldCopy(OverBudgetFault):
    """Voters come back with an old copy of their disks, the recovery point with it."""

    name = "an old copy of the disk"
    detected = False

    def prepare(self) -> None:
        self.victims = self.rng.sample(self._voters(), self.rng.randint(1, 4))
        self.copies = [node.disk.clone() for node in self.victims]
        self.world.run(self.rng.uniform(1.0, 12.0))

    def strike(self) -> str:
        for node in self.victims:
            self._off(node)
        for node, disk in zip(self.victims, self.copies, strict=True):
            self._damaged(node)
            node.disk = disk
            node.clean = False
        self._leave_alone(self.victims)
        for node in self.victims:
            self._on(node)
        return f"nodes {[node.id for node in self.victims]}{self._absent}"


class LyingSync(OverBudgetFault):
    """Syncs of some voters do nothing for a while; then the power goes."""

    name = "an fsync that lies"
    detected = False

    def strike(self) -> str:
        victims = self.rng.sample(self._voters(), self.rng.randint(1, 4))
        for node in victims:
            self._damaged(node)
            node.disk.lying = True
        lies = self.rng.uniform(0.5, 12.0)
        self.world.run(lies)
        for node in victims:
            self._off(node)
            node.disk.crash("all")
            node.disk.lying = False
        self._leave_alone(victims)
        for node in victims:
            self._on(node)
        return f"nodes {[node.id for node in victims]} for {lies:.1f} s{self._absent}"


class SwappedDisks(OverBudgetFault):
    """Two nodes start with each other's disk; later somebody puts them right."""

    name = "swapped disks"

    def strike(self) -> str:
        one, two = self.rng.sample(self._voters(), 2)
        self.pair = one, two
        self._swap()
        return f"nodes {one.id} and {two.id}"

    def _swap(self) -> None:
        one, two = self.pair
        for node in self.pair:
            self._off(node)
        one.disk, two.disk = two.disk, one.disk
        for node in self.pair:
            self.world.lost.add(node.id)
            node.rotten = not node.rotten
            node.clean = False
        for node in self.pair:
            self._on(node)

    def go_on(self) -> None:
        self._swap()

    def check(self) -> str:
        if wrong := super().check():
            return wrong
        down = [node.id for node in self.pair if node.process is None]
        return f"nodes {down} do not start with their own disks" if down else ""


class SpoiledSnapshot(OverBudgetFault):
    """The disk of a running leader changes a snapshot, and a newcomer asks for it."""

    name = "rot in the leader's snapshot"
    late = 6

    def strike(self) -> str:
        for _ in range(60):
            leader = self.world.leader
            latest = leader and leader.process and leader.process.log_view.latest_snapshot
            if leader is not None and latest and latest.end_offset > 0:
                break
            self.world.run(1.0)
        else:
            return "there was no snapshot"
        name = f"{METADATA}/{latest.end_offset:020d}-{latest.epoch:010d}.checkpoint"
        position = self.rng.randrange(leader.disk.size(name))
        leader.disk.corrupt(name, position, flip=1 << self.rng.randrange(8))
        self.world.nodes[self.late].start()
        return f"node {leader.id}, {latest} at {position}"

    def check(self) -> str:
        newcomer, leader = self.world.nodes[self.late], self.world.leader
        assert leader is not None and leader.process is not None
        if newcomer.process is None:
            return "the newcomer stopped"
        behind = leader.process.replay.image.offset - newcomer.process.replay.image.offset
        return f"the newcomer is {behind} records behind" if behind > 200 else ""


class SpoiledDownload(SpoiledSnapshot):
    """Pieces of a snapshot arrive with a flipped bit, several downloads in a row."""

    name = "rot in a download"

    def strike(self) -> str:
        for _ in range(60):
            leader = self.world.leader
            latest = leader and leader.process and leader.process.log_view.latest_snapshot
            if latest and latest.end_offset > 0:
                break
            self.world.run(1.0)
        self.world.spoil = self.rng.randint(1, 6)
        self.world.nodes[self.late].start()
        return f"{self.world.spoil} pieces"


class LostMajority(OverBudgetFault):
    """A majority is gone, the rest is put together by force, and the lost ones come back."""

    name = "recovery by force, the lost come back"
    alive: ClassVar[bool] = False
    """Whether the lost majority lives on, cut off, instead of being down."""

    def strike(self) -> str:
        world, voters = self.world, self._voters()
        self.rng.shuffle(voters)
        count = self.rng.randint(1, 2)
        self.survivors, self.gone = voters[:count], voters[count:]
        ids, others = [n.id for n in self.survivors], [n.id for n in self.gone]
        observer = world.nodes[6]
        self._off(observer)
        pairs = [(a, b) for a in (*ids, observer.id) for b in others]
        pairs += [(b, a) for a, b in pairs]
        world.network.cut(pairs)
        self.pairs = pairs
        world.run(self.rng.uniform(0.0, 6.0))  # the others may go on without them
        for node in self.survivors:
            self._off(node)
        if not self.alive:
            for node in self.gone:
                self._off(node)
        with_observer = self.rng.random() < 0.3
        plan = self._recover([*self.survivors, observer] if with_observer else self.survivors)
        for node in self.gone:
            node.rotten = True
            world.lost.add(node.id)
        self._on(observer)
        if not with_observer:
            observer.rotten = True  # it may have seen more than the survivors
            world.lost.add(observer.id)
        for node in self.survivors:
            self._on(node)
        how = "live on, cut off" if self.alive else "are down"
        return f"{ids} go on from {plan.chosen.id} as {plan.voters}, {others} {how}"

    def _recover(self, nodes: list[Machine]) -> RecoveryPlan:
        world = self.world
        found = [self._read(node) for node in nodes]
        plan = plan_recovery(tuple(one.survivor for one in found))
        chosen = next(n for n in nodes if n.key == plan.chosen)
        end = next(one for one in found if one.survivor.voter.key == plan.chosen).survivor.end_offset
        execute(
            chosen.disk, chosen.clock, plan, next(f for f in found if f.survivor.voter.key == plan.chosen)
        )
        chosen.disk.crash("all")
        old, new = world.committed_log, CommittedLog()
        log_view = _opened(chosen.disk.clone(), chosen, world.setup.cluster_id).log_view
        for base, one in old.batches.items():
            if one.end_offset > end or (base >= log_view.log_start and log_view.epoch_at(base) != one.epoch):
                break
            new.batches[base] = one
        new.end = max((one.end_offset for one in new.batches.values()), default=0)
        new.sets = [(offset, voters) for offset, voters in old.sets if offset < new.end]
        self.committed_log, world.committed_log = new, new
        world.invariants = InvariantsAfterRecovery(world, plan.epoch, {0: old, 1: new})
        self.plan = plan
        self.chosen = chosen
        return plan

    def _read(self, node: Machine) -> Found:
        store = _opened(node.disk.clone(), node, self.world.setup.cluster_id)
        return Found(survivor_of(store, node.key, node.endpoints), self.world.setup.cluster_id, DIRECTORY)

    def go_on(self) -> None:
        """The lost ones come back, when the new quorum stands."""
        world = self.world
        if not world.run(60.0, lambda: self.committed_log.writes > 5):
            raise AssertionError(f"the recovered quorum commits nothing: {self.plan}")
        leader = world.leader
        world.network.mend(self.pairs)
        assert leader is not None and leader.process is not None
        self.leads = leader.id, leader.process.node.epoch
        for node in self.gone:
            world.at(self.rng.uniform(0.0, 4.0), lambda node=node: self._on(node))  # type: ignore[misc]

    def check(self) -> str:
        """Each of the lost either follows or has refused; the new quorum's leader was not disturbed."""
        world = self.world
        leader = world.nodes[self.leads[0]]
        if leader.process is None or leader.process.node.epoch != self.leads[1]:
            return f"node {leader.id} does not lead epoch {self.leads[1]} any more: it was deposed"
        for node in self.gone:
            if node.process is None:
                if node.id not in world.refusals:
                    return f"node {node.id} is down, and nobody knows why"
                continue
            core = node.process.node.core
            if core.generation.number != 1 and node.id not in world.refusals:
                return f"node {node.id} of the old generation runs: {node.process.node}"
        return ""

    def writes(self) -> int:
        return self.committed_log.writes


class MajorityLives(LostMajority):
    """The same by mistake: the majority lives, cut off, and is heard again later."""

    name = "recovery by force while the majority lives"
    alive = True


def _opened(disk: MemoryDisk, node: Machine, cluster_id: str) -> MetadataStore:
    return open_store(
        disk,
        node.clock,
        DIRECTORY,
        metadata_log_config(node.world.setup.segment_bytes, 1 << 40),
        cluster_id=cluster_id,
        static_voters=VoterSet.EMPTY,
    )


OVER_BUDGET_FAULTS: tuple[type[OverBudgetFault], ...] = (
    RotBelowThePoint,
    LostMajority,
    OldCopy,
    SwappedDisks,
    MajorityLives,
    LyingSync,
    SpoiledSnapshot,
    RotInTheTail,
    SpoiledDownload,
)
