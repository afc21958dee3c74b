"""Faults beyond the budget: what each does, which node can detect it, and what must hold afterwards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, ClassVar

from barnabas.model import NodeId, Offset
from barnabas.raft.membership.recovery import RecoveryPlan, plan_recovery
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.recovery_point import read_point
from barnabas.server.kraft.storage import MetadataStore, metadata_log_config
from barnabas.server.node.recovery import Found, execute, survivor_of
from barnabas.sim.quorum.invariants.committed_log import METADATA, Truth
from barnabas.sim.quorum.invariants.durable_view import batches_on_platter
from barnabas.sim.quorum.node import DIRECTORY, Node

if TYPE_CHECKING:
    from barnabas.sim.kernel.disk import MemoryDisk
    from barnabas.sim.quorum.over_budget import BeyondWorld

__all__ = ["BEYOND", "BeyondFault"]


class BeyondFault:
    """One of them.  `detected`: every promise holds all the same, and the damaged refuse."""

    name: ClassVar[str] = ""
    detected: bool = True
    late: NodeId = 0
    """A node that is not started in the beginning; 0: none."""

    def __init__(self, world: BeyondWorld, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.away: list[Node] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} detected={self.detected}>"

    def prepare(self) -> None:
        """Some time before the strike."""

    def strike(self) -> str:
        """Do the damage; what it was, in words."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Some time after it: who was away comes back."""
        for node in self.away:
            self._on(node)

    def check(self) -> str:
        """What is wrong after a detected fault; "" when all is as it should be."""
        refused = self.world.refusals
        silent = [node for node in self.world.lost if node not in refused]
        return f"nodes {silent} did not notice" if silent else ""

    def writes(self) -> int:
        """How much is committed, to see whether it goes on."""
        return self.world.truth.writes

    # What the faults below need.

    def _voters(self) -> list[Node]:
        return [node for node in self.world.nodes.values() if node.id in self.world.setup.first]

    def _victim(self) -> Node:
        """A voter, often the leader."""
        leader = self.world.leader
        if leader is not None and self.chance.random() < 0.4:
            return leader
        return self.chance.choice(self._voters())

    def _off(self, node: Node) -> None:
        self.world.stay_down.add(node.id)
        if node.process is not None:
            node.off("none", "is switched off", reset=True)

    def _on(self, node: Node) -> None:
        self.world.stay_down.discard(node.id)
        if node.process is None:
            node.start()

    def _leave_alone(self, victims: list[Node]) -> None:
        """Often, those that know better are away for a while."""
        self.away = [node for node in self._voters() if node not in victims]
        if len(victims) <= len(self.away) or self.chance.random() < 0.3:
            self.away = []
        for node in self.away:
            self._off(node)

    @property
    def _absent(self) -> str:
        return f"; {[node.id for node in self.away]} are away" if self.away else ""

    def _damaged(self, node: Node) -> None:
        """This node's disk is not what it was; it may refuse, and a few checks of it make no sense."""
        node.rotten = True
        self.world.lost.add(node.id)


class RotBelowThePoint(BeyondFault):
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
        path, begin, end, _ = self.chance.choice(places)
        position = self.chance.randrange(begin, end)
        node.disk.corrupt(path, position, flip=1 << self.chance.randrange(8))
        self._on(node)
        return f"node {node.id}, byte {position} of {path.rpartition('/')[2]}, in a batch at {begin}"

    def _places(self, node: Node) -> list[tuple[str, int, int, Offset]]:
        """The batches that are vouched for: below the point, which is after every snapshot."""
        process = node.process
        if process is None:
            return []
        point = read_point(node.disk, METADATA)
        latest = process.log_view.latest_snapshot
        if latest is not None and point.offset <= latest.end_offset:
            return []
        found = batches_on_platter(node.disk, METADATA)
        return [one for one in found if one[3] <= point.offset and one[3] > process.log_view.log_start]


class RotInTheTail(BeyondFault):
    """A bit flips in the newest records of several voters: it looks like a write that a crash tore."""

    name = "rot in the newest records"
    detected = False

    def strike(self) -> str:
        victims = self.chance.sample(self._voters(), self.chance.randint(1, 4))
        for node in victims:
            self._off(node)
        for node in victims:
            self._damaged(node)
            path, begin, end, _ = batches_on_platter(node.disk, METADATA)[-1]
            node.disk.corrupt(path, self.chance.randrange(begin, end), flip=1 << self.chance.randrange(8))
        self._leave_alone(victims)
        for node in victims:
            self._on(node)
        return f"nodes {[node.id for node in victims]}, in the last batch{self._absent}"


class OldCopy(BeyondFault):
    """Voters come back with an old copy of their disks, the recovery point with it."""

    name = "an old copy of the disk"
    detected = False

    def prepare(self) -> None:
        self.victims = self.chance.sample(self._voters(), self.chance.randint(1, 4))
        self.copies = [node.disk.clone() for node in self.victims]
        self.world.run(self.chance.uniform(1.0, 12.0))

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


class LyingSync(BeyondFault):
    """Syncs of some voters do nothing for a while; then the power goes."""

    name = "an fsync that lies"
    detected = False

    def strike(self) -> str:
        victims = self.chance.sample(self._voters(), self.chance.randint(1, 4))
        for node in victims:
            self._damaged(node)
            node.disk.lying = True
        lies = self.chance.uniform(0.5, 12.0)
        self.world.run(lies)
        for node in victims:
            self._off(node)
            node.disk.crash("all")
            node.disk.lying = False
        self._leave_alone(victims)
        for node in victims:
            self._on(node)
        return f"nodes {[node.id for node in victims]} for {lies:.1f} s{self._absent}"


class SwappedDisks(BeyondFault):
    """Two nodes start with each other's disk; later somebody puts them right."""

    name = "swapped disks"

    def strike(self) -> str:
        one, two = self.chance.sample(self._voters(), 2)
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


class SpoiledSnapshot(BeyondFault):
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
        position = self.chance.randrange(leader.disk.size(name))
        leader.disk.corrupt(name, position, flip=1 << self.chance.randrange(8))
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
        self.world.spoil = self.chance.randint(1, 6)
        self.world.nodes[self.late].start()
        return f"{self.world.spoil} pieces"


class LostMajority(BeyondFault):
    """A majority is gone, the rest is put together by force, and the lost ones come back."""

    name = "recovery by force, the lost come back"
    alive: ClassVar[bool] = False
    """Whether the lost majority lives on, cut off, instead of being down."""

    def strike(self) -> str:
        world, voters = self.world, self._voters()
        self.chance.shuffle(voters)
        count = self.chance.randint(1, 2)
        self.survivors, self.gone = voters[:count], voters[count:]
        ids, others = [n.id for n in self.survivors], [n.id for n in self.gone]
        observer = world.nodes[6]
        self._off(observer)
        pairs = [(a, b) for a in (*ids, observer.id) for b in others]
        pairs += [(b, a) for a, b in pairs]
        world.network.cut(pairs)
        self.pairs = pairs
        world.run(self.chance.uniform(0.0, 6.0))  # the others may go on without them
        for node in self.survivors:
            self._off(node)
        if not self.alive:
            for node in self.gone:
                self._off(node)
        with_observer = self.chance.random() < 0.3
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

    def _recover(self, nodes: list[Node]) -> RecoveryPlan:
        from barnabas.sim.quorum.over_budget import IncarnationPromises

        world = self.world
        found = [self._read(node) for node in nodes]
        plan = plan_recovery(tuple(one.survivor for one in found))
        chosen = next(n for n in nodes if n.key == plan.chosen)
        end = next(one for one in found if one.survivor.voter.key == plan.chosen).survivor.end_offset
        execute(
            chosen.disk, chosen.clock, plan, next(f for f in found if f.survivor.voter.key == plan.chosen)
        )
        chosen.disk.crash("all")
        old, new = world.truth, Truth()
        log_view = _opened(chosen.disk.clone(), chosen, world.setup.cluster_id).log_view
        for base, one in old.batches.items():
            if one.end_offset > end or (base >= log_view.log_start and log_view.epoch_at(base) != one.epoch):
                break
            new.batches[base] = one
        new.end = max((one.end_offset for one in new.batches.values()), default=0)
        new.sets = [(offset, voters) for offset, voters in old.sets if offset < new.end]
        self.truth, world.truth = new, new
        world.promises = IncarnationPromises(world, plan.epoch, {0: old, 1: new})
        self.plan = plan
        self.chosen = chosen
        return plan

    def _read(self, node: Node) -> Found:
        store = _opened(node.disk.clone(), node, self.world.setup.cluster_id)
        return Found(survivor_of(store, node.key, node.endpoints), self.world.setup.cluster_id, DIRECTORY)

    def go_on(self) -> None:
        """The lost ones come back, when the new quorum stands."""
        world = self.world
        if not world.run(60.0, lambda: self.truth.writes > 5):
            raise AssertionError(f"the recovered quorum commits nothing: {self.plan}")
        leader = world.leader
        world.network.mend(self.pairs)
        assert leader is not None and leader.process is not None
        self.leads = leader.id, leader.process.node.epoch
        for node in self.gone:
            world.at(self.chance.uniform(0.0, 4.0), lambda node=node: self._on(node))  # type: ignore[misc]

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
                return f"node {node.id} of the old incarnation runs: {node.process.node}"
        return ""

    def writes(self) -> int:
        return self.truth.writes


class MajorityLives(LostMajority):
    """The same by mistake: the majority lives, cut off, and is heard again later."""

    name = "recovery by force while the majority lives"
    alive = True


def _opened(disk: MemoryDisk, node: Node, cluster_id: str) -> MetadataStore:
    return MetadataStore.open(
        disk,
        node.clock,
        DIRECTORY,
        metadata_log_config(node.world.setup.segment_bytes, 1 << 40),
        cluster_id=cluster_id,
        static_voters=VoterSet.EMPTY,
    )


BEYOND: tuple[type[BeyondFault], ...] = (
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
