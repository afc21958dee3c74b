"""The first phase of a seed, safety: anything may fail while operators change the voters and clients write."""

from __future__ import annotations

import random
from math import inf

from barnabas.raft.membership.target import TARGET
from barnabas.sim.kernel.report import Occurrence
from barnabas.sim.quorum.faults import FAULTS, QuorumFault
from barnabas.sim.quorum.invariants.catalogue import watch
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.operations import OPERATIONS, Scene
from barnabas.sim.quorum.targeted_faults import TARGETED_FAULTS
from barnabas.sim.quorum.workload import Autopilot, Operator, Writers
from barnabas.sim.quorum.world import World
from barnabas.sim.quorum.wrong_format import WrongFormat

__all__ = ["WANTED_CHANGES", "WANTED_COMMITS", "WANTED_OVERLAPS", "SafetyPhase"]

WANTED_CHANGES, WANTED_OVERLAPS, WANTED_COMMITS = 3, 3, 200

KINDS: tuple[type[QuorumFault], ...] = (*FAULTS, *TARGETED_FAULTS, WrongFormat)


class SafetyPhase:
    """See the module.  `run()` raises InvariantViolation, StepLimit, or whatever the code under test lets fall."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.world = World(seed, story=story)
        watch(self.world)
        self.rng = random.Random(f"life {seed}")
        self.occurrences: list[Occurrence] = []
        self.active: list[tuple[QuorumFault, Occurrence]] = []
        self.enabled = [fault for fault in KINDS if self.rng.random() < 0.6]
        self.pace = self.rng.choice((0.4, 0.8, 1.6))
        """Mean seconds from fault to fault."""
        self.sizes = self.rng.choice(((1, 3, 5, 3), (3, 1, 3), (3, 5, 3), (2, 4), (3,)))
        racing = 2 if self.rng.random() < 0.5 else 1
        self.operators = [Operator(self.world, n + 1, self.rng) for n in range(racing)]
        self.autopilot = Autopilot(self.world)
        self.writers = Writers(self.world, interval=0.15, rng=self.rng)
        self.fair = False
        """No fault begins for a while: what else could not be done gets done."""
        self.stay_down: set[int] = set()
        self.world.on_down = self._down
        self.world.change_pending = self.change_pending

    def __repr__(self) -> str:
        return f"<SafetyPhase {self.world!r} faults={len(self.occurrences)}>"

    def run(self) -> None:
        world = self.world
        for node in list(world.nodes.values()):
            node.start()
        world.run(3.0)
        for operator in self.operators:
            world.at(self.rng.uniform(0.1, 1.0), lambda one=operator: self._operate(one))  # type: ignore[misc]
        world.at(0.5, self._break)
        world.run(30.0)
        for number in range(75):
            if self.reached:
                break
            if number == 15:
                self.pace *= 4  # under so many faults nothing gets done
            self._weather(fair=number >= 20 and number % 8 < 5)
            world.run(4.0)

    @property
    def reached(self) -> bool:
        """Whether enough has happened for the safety phase to end."""
        committed_log = self.world.committed_log
        overlaps = sum(one.overlaps for one in self.occurrences)
        return (
            committed_log.changes >= WANTED_CHANGES
            and overlaps >= WANTED_OVERLAPS
            and committed_log.writes >= WANTED_COMMITS
        )

    # Membership.

    def change_pending(self) -> bool:
        """Whether anybody's change of the voters is under way, as far as the whole world knows."""
        if any(operator.pending for operator in self.operators):
            return True
        for node in self.world.nodes.values():
            if node.apart:
                continue
            if node.last is not None and node.last.log_view.note(TARGET) is not None:
                return True
            if node.process is not None and node.process.node.is_leader:
                if node.process.node.describe(node.clock.now()).waiting:
                    return True
        return False

    def _operate(self, operator: Operator) -> None:
        if self.world.calm:
            return
        if self.world.time < self.world.hold_until:
            self.world.when(self.world.hold_until, lambda: self._operate(operator))
            return
        size = self.sizes[int(self.world.time / 8) % len(self.sizes)]
        scene = Scene(self.world, operator, self.rng, size)
        kinds = list(OPERATIONS)
        for _ in range(4):
            kind = self.rng.choices(kinds, [one.weight for one in kinds])[0]
            known = operator.done[kind.name]
            if kind.begin(scene):
                if operator.done[kind.name] == known:
                    operator.done[kind.name] += 1
                break
        for _, occurrence in self.active:
            occurrence.overlaps = True
        if self.rng.random() < 0.3:
            self.world.at(self.rng.random() * 0.1, self._strike)
        pause = 0.8 if self.world.autopilot is None else 4.0  # it acts only while nobody else does
        self.world.at(self.rng.expovariate(1 / pause), lambda: self._operate(operator))

    # Faults.

    def _break(self) -> None:
        if not self.world.calm:
            self._strike()
            self.world.at(self.rng.expovariate(1 / self.pace), self._break)

    def _strike(self) -> None:
        """One fault of those enabled."""
        if self.world.calm or self.fair or not self.enabled or len(self.active) >= 4:
            return
        kind = self.rng.choices(self.enabled, [one.rate for one in self.enabled])[0]
        fault = kind(self.world, self.rng)
        pending = self.change_pending()
        text = fault.begin()
        if text is None:
            return
        occurrence = Occurrence(self.world.time, kind.name, text, fault.lasts, pending)
        self.occurrences.append(occurrence)
        self.world.tell(0, f"{kind.name}: {text}, {fault.lasts:.2f} s")
        if fault.lasts > 0:
            entry = (fault, occurrence)
            self.active.append(entry)
            self.world.at(fault.lasts, lambda: self._mend(entry))

    def _weather(self, *, fair: bool) -> None:
        if fair and not self.fair:
            for entry in list(self.active):
                self._mend(entry)
        self.fair = fair

    def _mend(self, entry: tuple[QuorumFault, Occurrence]) -> None:
        if entry in self.active:
            self.active.remove(entry)
            entry[0].end()
            self.world.tell(0, f"{entry[1].name} ends")

    def heal(self) -> None:
        """Every fault ends now, and no other begins."""
        self.world.calm = True
        for entry in list(self.active):
            self._mend(entry)
        self.world.network.heal()
        for node in self.world.nodes.values():
            node.disk.heal()

    # Restarts.

    def _down(self, node: Machine, why: str) -> None:
        """A node is down: somebody starts it again after a while."""
        run_number = node.run_number
        delay = self.rng.choice((0.1, 0.5, 1.0, 2.0, 6.0)) * self.rng.uniform(0.5, 1.5)

        def start() -> None:
            if node.process is None and node.run_number == run_number and node.id not in self.stay_down:
                if node.restart_at < inf and node.restart_at > self.world.time:
                    self.world.when(node.restart_at, start)
                    return
                self.start(node)

        self.world.at(delay, start)

    def start(self, node: Machine) -> None:
        started = node.start()
        if node.rotten:
            if started and node.process is not None:
                node.off("all", "its disk is exchanged, though it was read without an error")
            node.new_disk()
            self.world.format(node, first=False)
