"""A quorum of five voters that gets one fault more than it can survive: its world, the base of such faults, and
the invariants that hold after a recovery by force.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import ClassVar

from barnabas.model import NodeId
from barnabas.raft.entries import Batch
from barnabas.raft.messages import FetchSnapshotResponse, Response
from barnabas.raft.value import altered
from barnabas.sim.kernel.disk import Loss
from barnabas.sim.quorum.invariants.catalogue import Invariants, watch
from barnabas.sim.quorum.invariants.committed_log import CommittedLog
from barnabas.sim.quorum.invariants.elections import OneLeaderPerEpoch, OneVotePerEpoch
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.observer import listen
from barnabas.sim.quorum.process import Process
from barnabas.sim.quorum.setup import Setup
from barnabas.sim.quorum.world import World

__all__ = ["VOTERS", "InvariantsAfterRecovery", "OverBudgetFault", "OverBudgetWorld"]

VOTERS = 5


class OverBudgetWorld(World):
    """Five voters and an observer; from the strike on, refusals are written down instead of being alarms."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        drawn = Setup.of(random.Random(f"setup {seed}"))
        ids = tuple(range(1, VOTERS + 1))
        setup = replace(drawn, nodes=(*ids, VOTERS + 1), first=ids, kraft_version=1, auto_join=False)
        super().__init__(seed, story=story, setup=setup)
        watch(self)
        self.struck: OverBudgetFault | None = None
        self.refusals: dict[NodeId, str] = {}
        """Why a node does not take part any more, in its own words."""
        self.stay_down: set[NodeId] = set()
        self.lost: set[NodeId] = set()
        """Nodes that may refuse."""
        self.on_down = self._down
        self.spoil = 0
        """So many pieces of snapshots arrive with a flipped bit."""

    def tell(self, node: NodeId, text: str) -> None:
        super().tell(node, text)
        for word in ("does not start: ", "goes down (disk: "):
            if self.struck is not None and text.startswith(word):
                self.refusals[node] = text.removeprefix(word)

    def alarm(self, invariant: str, text: str) -> None:
        if self.struck is None or self.struck.detected:
            super().alarm(invariant, text)

    def _down(self, node: Machine, why: str) -> None:
        """Somebody starts it again, three times; one that refuses then stays away."""
        run_number = node.run_number
        refused = self.struck is not None and node.id in self.refusals and why != "stopped"
        if node.id in self.stay_down or (refused and node.id in self.lost and node.run_number > 40):
            return

        def start() -> None:
            if node.process is None and node.run_number == run_number and node.id not in self.stay_down:
                node.start()

        self.at(self.rng.uniform(0.2, 2.0) * (5.0 if refused else 1.0), start)

    def power_cut(self, node: Machine, loss: Loss | None = None) -> None:
        """A node is off for a while."""
        if node.process is not None:
            node.off(loss or self.loss(), "power cut", reset=True)

    def respond(self, process: Process, token: object, response: Response, data: bytes) -> None:
        if self.spoil > 0 and isinstance(response, FetchSnapshotResponse) and response.length > 0:
            self.spoil -= 1
            assert isinstance(response.data, bytes)
            spoiled = bytearray(response.data)
            spoiled[self.rng.randrange(len(spoiled))] ^= 1 << self.rng.randrange(8)
            response = altered(response, data=bytes(spoiled))
        super().respond(process, token, response, data)

    @property
    def healthy(self) -> list[Machine]:
        return [node for node in self.nodes.values() if node.process is not None]


class WithinGeneration(Invariant):
    """Q4 after a recovery by force: what is committed is the same everywhere in one generation, and an old
    node neither leads an epoch of the new one nor takes its leader's place."""

    name = "Q4"

    def __init__(self, world: World, first_epoch: int, committed_logs: dict[int, CommittedLog]) -> None:
        super().__init__(world)
        self.first_epoch = first_epoch
        self.committed_logs = committed_logs

    def committed(self, node: Machine, batch: Batch) -> None:
        assert node.process is not None
        core = node.process.node.core
        # Who has heard of the new generation may follow a leader of the old one until that has heard of it, too.
        # Who is of the new one itself may not: it would go back to what was lost.
        if core.generation.number > 0 and core.epoch < self.first_epoch:
            self.fail(f"node {node.id} of generation {core.generation.number} follows epoch {core.epoch}")
        wrong = self.committed_logs[int(core.epoch >= self.first_epoch)].commit(batch, core.epoch)
        if wrong:
            self.fail(f"node {node.id} of generation {core.generation.number}: {wrong}")

    def led(self, node: Machine) -> None:
        assert node.process is not None
        core = node.process.node.core
        if core.generation.number == 0 and core.epoch >= self.first_epoch:
            self.fail(f"{node.key} of the old generation leads epoch {core.epoch} of the new one")


class InvariantsAfterRecovery(Invariants):
    """The invariants that hold once the quorum was put together by force."""

    def __init__(self, world: World, first_epoch: int, committed_logs: dict[int, CommittedLog]) -> None:
        Invariant.__init__(self, world)
        self.all = [
            OneLeaderPerEpoch(world),
            OneVotePerEpoch(world),
            WithinGeneration(world, first_epoch, committed_logs),
        ]
        listen(self, self.all)


class OverBudgetFault:
    """One of them.  `detected`: every invariant holds all the same, and the damaged refuse."""

    name: ClassVar[str] = ""
    detected: bool = True
    late: NodeId = 0
    """A node that is not started in the beginning; 0: none."""

    def __init__(self, world: OverBudgetWorld, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.away: list[Machine] = []

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
        return self.world.committed_log.writes

    # What the faults below need.

    def _voters(self) -> list[Machine]:
        return [node for node in self.world.nodes.values() if node.id in self.world.setup.first]

    def _victim(self) -> Machine:
        """A voter, often the leader."""
        leader = self.world.leader
        if leader is not None and self.rng.random() < 0.4:
            return leader
        return self.rng.choice(self._voters())

    def _off(self, node: Machine) -> None:
        self.world.stay_down.add(node.id)
        if node.process is not None:
            node.off("none", "is switched off", reset=True)

    def _on(self, node: Machine) -> None:
        self.world.stay_down.discard(node.id)
        if node.process is None:
            node.start()

    def _leave_alone(self, victims: list[Machine]) -> None:
        """Often, those that know better are away for a while."""
        self.away = [node for node in self._voters() if node not in victims]
        if len(victims) <= len(self.away) or self.rng.random() < 0.3:
            self.away = []
        for node in self.away:
            self._off(node)

    @property
    def _absent(self) -> str:
        return f"; {[node.id for node in self.away]} are away" if self.away else ""

    def _damaged(self, node: Machine) -> None:
        """This node's disk is not what it was; it may refuse, and a few checks of it make no sense."""
        node.rotten = True
        self.world.lost.add(node.id)
