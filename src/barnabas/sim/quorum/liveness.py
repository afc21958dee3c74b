"""The second phase of a seed: existing faults stay, a majority is repaired, and progress must happen."""

from __future__ import annotations

from math import inf

from barnabas.raft.entries import Batch, VotersEntry
from barnabas.raft.messages import RemoveVoterRequest, UpgradeRequest
from barnabas.raft.roles import Leader
from barnabas.sim.kernel.report import InvariantViolation
from barnabas.sim.quorum.budget import found, sets_in_force
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.safety import SafetyPhase
from barnabas.sim.quorum.targeted_faults import TargetedFault
from barnabas.sim.quorum.world import World

__all__ = ["LivenessPhase"]


class Leaving(TargetedFault):
    """Cuts the link between a leader and a voter, for good, as soon as the leader has removed itself."""

    name = "a lasting cut while the leader removes itself"

    def __init__(self, world: World, leader: Machine, other: Machine) -> None:
        self.world = world
        self.leader = leader
        self.other = other
        self.cut = False

    def appended(self, node: Machine, batch: Batch) -> None:
        if self.cut or node is not self.leader or batch.raw is not None:
            return
        for entry in batch.entries:
            if isinstance(entry, VotersEntry) and not entry.voters.has(node.key):
                self.cut = True
                self.world.network.cut([(node.id, self.other.id), (self.other.id, node.id)])
                self._say(f"leader {node.id} and node {self.other.id}")


class LivenessPhase:
    """The second phase: L1, L2, L4, L5."""

    def __init__(self, safety: SafetyPhase) -> None:
        self.safety = safety
        self.world = safety.world
        self.core: list[Machine] = []
        self.quiet = False
        """No change of the voters was under way when the faults ended."""

    def run(self) -> None:
        safety, world = self.safety, self.world
        safety.heal()
        self.quiet = world.run(12.0, lambda: not safety.change_pending())
        self._choose(self.quiet)
        world.run(1.0)
        if not self._electable():
            self._everybody()
        self._ask_upgrade()
        patience = 12 * (world.setup.election_timeout + world.setup.fetch_timeout)
        if not world.run(patience, self._leads):
            self._fail("L1", "no leader")
        self._leader_leaves(patience)
        target = world.committed_log.writes + 3
        if not world.run(patience, lambda: world.committed_log.writes >= target):
            self._fail("L1", "nothing is committed")
        safety.writers.stopped = True
        if not world.run(patience, self._all_caught_up):
            self._fail("L1", "a node of the core does not catch up")
        if not world.run(patience, self._nothing_waits):
            self._fail("L2", f"a change neither happens nor ends: {self._waiting()}")
        self._stable()
        world.invariants.finished()

    def _choose(self, quiet: bool) -> None:
        """Who is healed: enough for every voter set in force; the others stay as broken as they can be.

        While a change is under way that is everybody: a leader may be about to take a step towards a set
        that needs the node that we would break now, and cannot know it yet.
        """
        world, safety = self.world, self.safety
        nodes = [node for node in world.nodes.values() if not node.apart]
        safety.rng.shuffle(nodes)
        core = list(nodes)
        for node in nodes:
            rest = [other for other in core if other is not node]
            if (
                quiet
                and self.world.setup.known != (node.id,)  # the one whom all can find
                and safety.rng.random() < 0.6
                and all(found(world, voters, rest) >= voters.majority for voters in sets_in_force(world))
            ):
                core.remove(node)
        self.core = sorted(core, key=lambda node: node.id)
        for node in nodes:
            if node not in core:
                self._break(node)
        for node in self.core:
            if node.paused:
                node.resume()
            node.latency = (0.0002, 0.002)
            if node.process is None:
                world.at(safety.rng.uniform(0.0, 1.0), lambda node=node: self._start(node))  # type: ignore[misc]
        world.tell(0, f"the core {[node.id for node in self.core]} is healed")

    def _electable(self) -> bool:
        """Whether the core could agree on somebody, as its logs are.

        A node can need the vote of another one that it alone knows as a voter, and that has, as an observer,
        newer entries of a leader that is gone: then they must wait for that leader (see docs/simulation.md).
        """
        ends: dict[int, tuple[int, int]] = {}
        for node in self.core:
            if node.process is not None:
                log_view = node.process.log_view
                ends[node.id] = log_view.last_epoch, log_view.end_offset
        for node in self.core:
            if node.process is None or node.process.node.is_leader:
                return True  # it leads, or nobody knows yet
            voters, mine = node.process.node.voters, ends[node.id]
            votes = sum(ends.get(i, (mine[0] + 1, 0)) <= mine for i in voters.ids)
            if node.process.node.core.may_stand and votes >= voters.majority:
                return True
        return False

    def _everybody(self) -> None:
        """The nodes that were to stay broken are healed after all."""
        world = self.world
        world.tell(0, "the core cannot elect anybody: everybody is healed")
        world.network.heal()
        self.safety.stay_down.clear()
        for node in world.nodes.values():
            if node not in self.core:
                self._start(node)
        self.core = [node for node in world.nodes.values() if not node.apart]

    def _start(self, node: Machine) -> None:
        if node.process is None:
            node.restart_at = inf
            self.safety.start(node)

    def _break(self, node: Machine) -> None:
        how = self.safety.rng.choice(("off", "cut off", "deaf", "mute"))
        others = [other for other in self.world.nodes if other != node.id]
        network = self.world.network
        if how == "off":
            self.safety.stay_down.add(node.id)
            if node.process is not None:
                node.off("some", "for good")
        if how in ("cut off", "mute"):
            network.cut([(node.id, other) for other in others])
        if how in ("cut off", "deaf"):
            network.cut([(other, node.id) for other in others])
        self.world.tell(node.id, f"stays broken: {how}")

    def _ask_upgrade(self) -> None:
        leader = self.world.leader
        if leader is not None and leader.process is not None and leader.process.node.kraft_version == 0:
            self.safety.operators[0].ask("upgrade", UpgradeRequest(1))

    def _leader_leaves(self, patience: float) -> None:
        """The leader removes itself, and from that moment on one of those who stay cannot hear it, for good.

        Without itself the leader may have no majority any more that follows it.  Then it must give way to
        somebody who has: nobody heals this link.
        """
        world, leader = self.world, self._leader()
        assert leader is not None and leader.process is not None
        node = leader.process.node
        voters = [other for other in self.core if other is not leader and node.voters.has(other.key)]
        rest = [other for other in self.core if other is not leader]
        alone = node.voters.without(leader.key)
        if node.kraft_version < 1 or not self.quiet or len(voters) < 2 or self.safety.rng.random() < 0.4:
            return
        if found(world, alone, rest) < alone.majority:
            return
        leaving = Leaving(world, leader, self.safety.rng.choice(voters))
        world.onlookers.append(leaving)
        self.safety.operators[0].ask("remove leader", RemoveVoterRequest(leader.key, world.setup.cluster_id))
        world.run(patience, lambda: leaving.cut or not self.safety.operators[0].pending)
        world.onlookers.remove(leaving)
        if leaving.cut:
            self.core.remove(leader)
            if not world.run(patience, self._leads):
                self._fail("L1", f"nobody leads any more since {leader.id}, which led, removed itself")

    # What is demanded.

    def _leader(self) -> Machine | None:
        leaders = [
            node
            for node in self.core
            if node.process is not None and node.process.node.is_leader and node.process.active_epoch >= 0
        ]
        return max(leaders, key=lambda n: n.process.node.epoch if n.process else 0, default=None)

    def _leads(self) -> bool:
        return self._leader() is not None

    def _all_caught_up(self) -> bool:
        leader = self._leader()
        if leader is None or leader.process is None:
            return False
        end = leader.process.log_view.end_offset
        if (leader.process.node.high_watermark or 0) < end:
            return False
        return all(n.process is not None and (n.process.node.high_watermark or 0) >= end for n in self.core)

    def _waiting(self) -> list[str]:
        leader = self._leader()
        if leader is None or leader.process is None:
            return ["no leader"]
        role = leader.process.node.role
        assert isinstance(role, Leader)
        # A step towards a target set may wait for ever, for a node that is gone: the operator sees it.
        return [change.describe() for change in role.pending_changes if not change.planned]

    def _nothing_waits(self) -> bool:
        return not self._waiting() and not any(operator.pending for operator in self.safety.operators)

    def _stable(self) -> None:
        """L5: whoever is broken does not depose the leader.  L4: an idle quorum is quiet."""
        world = self.world
        leader = self._leader()
        if leader is None or leader.process is None:
            self._fail("L5", "the leader is gone")
            return
        target = leader.process.node.describe(leader.clock.now()).target
        epoch, sent, since = leader.process.node.epoch, world.network.sent, world.time
        cut = self._deaf_to(leader) if target is None else []
        world.network.cut(cut)
        world.run(5.0)
        world.network.mend(cut)
        if target is None:
            now = self._leader()
            if now is not leader or leader.process is None or leader.process.node.epoch != epoch:
                self._fail(
                    "L5", f"node {leader.id} led epoch {epoch}, undisturbed by the core, and does no more"
                )
            rate = (world.network.sent - sent) / (world.time - since) / len(world.nodes)
            if rate > 60:
                self._fail("L4", f"{rate:.0f} messages per node and second, though nothing happens")

    def _deaf_to(self, leader: Machine) -> list[tuple[int, int]]:
        """A voter that does not hear the leader, though everybody else: it must not make the others leave it."""
        world = self.world
        assert leader.process is not None
        for node in self.core:
            rest = [other for other in self.core if other is not node]
            voters = leader.process.node.voters
            if node is not leader and voters.has(node.key) and found(world, voters, rest) >= voters.majority:
                world.tell(node.id, f"does not hear the leader {leader.id} any more")
                return [(leader.id, node.id), (node.id, leader.id)]
        return []

    def _fail(self, invariant: str, text: str) -> None:
        nodes = ", ".join(
            f"{node.id} at {node.address[1]}: {node.process.node if node.process else 'down'}"
            for node in self.core
        )
        raise InvariantViolation(invariant, f"{text}; the core is {nodes}")
