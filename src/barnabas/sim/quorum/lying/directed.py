"""Faults that wait for the moment at which a lying disk does most harm.

Each is a history for which there is a guard: a vote that is forgotten while another one wants it, a voter that
lost entries while a rival lacks them, a node that dies as it cuts its log.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from barnabas.model import Offset, ReplicaKey
from barnabas.raft.messages import Resign
from barnabas.server.kraft.election_state import QUORUM_STATE
from barnabas.sim.kernel.lies import LIES
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.lying.disk_rot import files_of
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.targeted_faults import TargetedFault
from barnabas.sim.quorum.world import World

__all__ = ["DIRECTED", "DirectedFault", "ForgottenVote"]

_PATH = f"{METADATA}/{QUORUM_STATE}"


class DirectedFault(TargetedFault):
    """A fault of one of the nodes, whose disk may be damaged within the budget."""

    separates = True

    def __init__(
        self,
        world: World,
        rng: random.Random,
        may_damage: Callable[[], bool],
        damage: Callable[[Machine, str, bytes, str], None],
    ) -> None:
        """`damage` kills a node, and gives it this content of a file, which is what in words."""
        super().__init__(world, rng)
        self.may_damage = may_damage
        self.damage = damage

    def _voters(self) -> list[Machine]:
        return [self.world.nodes[id_] for id_ in sorted(self.world.setup.first)]


class ForgottenVote(DirectedFault):
    """The leader resigns.  Only one voter hears of the next candidate; when it has given its vote it is killed,
    and its `quorum-state` is that from before.  Nobody hears of the candidate any more, so the others hold
    another election, perhaps in the same epoch.
    """

    name = "forgotten vote"
    duration = (3.0, 6.0)

    def plan(self) -> str | None:
        leader = self._leader()
        if leader is None or leader.process is None or not self.may_damage():
            return None
        self.candidate: Machine | None = None
        self.voter: Machine | None = None
        self.before = b""
        leader.process.receive(Resign(leader.process.node.epoch))
        return f"that of who votes after leader {leader.id}"

    def stood(self, node: Machine) -> None:
        if self.candidate is not None:
            return
        voters = [one for one in self._voters() if one is not node and one.up and not one.paused]
        voters = [one for one in voters if one.disk.exists(_PATH)]
        if voters:
            self.candidate, self.voter = node, self.rng.choice(voters)
            self.before = self.voter.disk.read(_PATH)
            self._cut({node.id}, set(self.world.nodes) - {node.id, self.voter.id})

    def voted(self, node: Machine, candidate: ReplicaKey) -> None:
        if node is not self.voter or self.candidate is None or candidate.id != self.candidate.id:
            return
        self.voter = None
        run_number = node.run_number
        self.world.at(0.0, lambda: self._forget(node, run_number))

    def _forget(self, node: Machine, run_number: int) -> None:
        assert self.candidate is not None
        if node.run_number == run_number and node.up and not self.world.calm and self.may_damage():
            self._cut({self.candidate.id}, {node.id})
            self.damage(node, _PATH, self.before, "an older quorum-state")


class LostEnd(DirectedFault):
    """As few voters as may commit do so, without the others.  Then one of the few loses the end of its log, and is
    alone with those others: together they are a majority.
    """

    name = "lost end"
    duration = (6.0, 9.0)

    def plan(self) -> str | None:
        leader, voters = self._leader(), self._voters()
        others = [one for one in voters if one is not leader and one.up and not one.paused]
        if leader is None or leader not in voters or len(others) < len(voters) - 1 or not self.may_damage():
            return None
        self.rng.shuffle(others)
        few = len(voters) // 2
        self.loser, self.holders = others[0], [leader, *others[1:few]]
        self.rest = {node.id for node in self.world.nodes.values()} - {
            one.id for one in (leader, *others[:few])
        }
        self._cut(self.rest, set(self.world.nodes) - self.rest)
        self.world.at(self.rng.uniform(0.5, 2.0), self._lose)
        return f"that of node {self.loser.id}, while {sorted(self.rest)} are cut off"

    def _lose(self) -> None:
        node = self.loser
        if self not in self.world.onlookers or self.world.calm or not self.may_damage() or not node.up:
            return
        logs = {path: held for path, held in files_of(node.disk).items() if path.endswith(".log") and held}
        if not logs:
            return
        path = max(logs)
        self._mend()
        self._cut({one.id for one in self.holders}, {node.id, *self.rest})
        cut = LIES["cut"](logs[path], self.rng, [])
        assert cut is not None, "a file with content can be cut"
        self.damage(node, path, cut[0], f"a log of which {cut[1]}")


class KilledAtACut(DirectedFault):
    """A leader is cut off and writes on.  As it cuts that from its log again it is killed, or loses its power."""

    name = "killed at a cut"
    duration = (4.0, 8.0)

    def plan(self) -> str | None:
        leader = self._leader()
        if leader is None:
            return None
        self.leader = leader
        self._cut({leader.id}, set(self.world.nodes) - {leader.id})
        self._write(leader, self.rng.choice((3, 10)))
        self.world.at(self.rng.uniform(1.5, 3.0), self._mend)
        return f"leader {leader.id}"

    def truncating(self, node: Machine, end_offset: Offset) -> None:
        run_number = node.run_number
        if node is self.leader:
            self.world.at(self.rng.choice((0.0, 0.0, 0.001, 0.01)), lambda: self._kill(node, run_number))

    def _kill(self, node: Machine, run_number: int) -> None:
        if node.run_number == run_number and node.up and not self.world.calm:
            node.off(self.rng.choice(("kill", "some", "all")), "killed as it cuts its log")
            node.restart_at = self.world.time + 0.01


DIRECTED: tuple[type[DirectedFault], ...] = (ForgottenVote, LostEnd, KilledAtACut)
