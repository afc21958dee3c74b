"""One seed from start to end: the safety phase, in which anything may fail, then the liveness phase, in which a
majority is repaired, the rest stays broken, and progress must happen.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from math import inf

from barnabas.raft.membership.target import TARGET
from barnabas.sim.quorum.faults import FAULTS, Fault
from barnabas.sim.quorum.invariants.catalogue import Broken
from barnabas.sim.quorum.liveness import Liveness
from barnabas.sim.quorum.node import Node
from barnabas.sim.quorum.operations import OPERATIONS, Scene
from barnabas.sim.quorum.targeted_faults import NEMESES
from barnabas.sim.quorum.workload import Operator, Writers
from barnabas.sim.quorum.world import Line, StepLimit, World
from barnabas.sim.quorum.wrong_format import WrongFormat

__all__ = ["Life", "Occurrence", "Report", "run_seed"]

WANTED_CHANGES, WANTED_OVERLAPS, WANTED_COMMITS = 3, 3, 200


@dataclass(slots=True)
class Occurrence:
    """A fault as it happened; `overlaps`: a change of the voters was pending."""

    time: float
    name: str
    text: str
    lasts: float
    overlaps: bool = False

    def __str__(self) -> str:
        mark = " (during a change)" if self.overlaps else ""
        return f"{self.time:8.3f}  {self.name}: {self.text}, {self.lasts:.2f} s{mark}"


@dataclass(slots=True)
class Report:
    """What became of a seed.  `promise` names what was broken; "" when all was kept."""

    seed: int
    promise: str = ""
    error: str = ""
    digest: str = ""
    setup: str = ""
    events: int = 0
    virtual_seconds: float = 0.0
    idle_seconds: float = 0.0
    cpu_seconds: float = 0.0
    commits: int = 0
    changes: int = 0
    overlaps: int = 0
    faults: list[Occurrence] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    story: list[Line] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.promise

    @property
    def reached(self) -> bool:
        """Whether the seed did what a seed is for."""
        return (
            self.changes >= WANTED_CHANGES
            and self.overlaps >= WANTED_OVERLAPS
            and self.commits >= WANTED_COMMITS
        )


KINDS: tuple[type[Fault], ...] = (*FAULTS, *NEMESES, WrongFormat)


class Life:
    """See the module.  `run()` raises Broken, StepLimit, or whatever the code under test lets fall."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.world = World(seed, story=story)
        self.chance = random.Random(f"life {seed}")
        self.occurrences: list[Occurrence] = []
        self.active: list[tuple[Fault, Occurrence]] = []
        self.enabled = [fault for fault in KINDS if self.chance.random() < 0.6]
        self.pace = self.chance.choice((0.4, 0.8, 1.6))
        """Mean seconds from fault to fault."""
        self.sizes = self.chance.choice(((1, 3, 5, 3), (3, 1, 3), (3, 5, 3), (2, 4), (3,)))
        racing = 2 if self.chance.random() < 0.5 else 1
        self.operators = [Operator(self.world, n + 1, self.chance) for n in range(racing)]
        self.writers = Writers(self.world, interval=0.15, chance=self.chance)
        self.fair = False
        """No fault begins for a while: what else could not be done gets done."""
        self.stay_down: set[int] = set()
        self.world.on_down = self._down
        self.world.change_pending = self.change_pending

    def __repr__(self) -> str:
        return f"<Life {self.world!r} faults={len(self.occurrences)}>"

    def run(self) -> None:
        world = self.world
        for node in list(world.nodes.values()):
            node.start()
        world.run(3.0)
        for operator in self.operators:
            world.at(self.chance.uniform(0.1, 1.0), lambda one=operator: self._operate(one))  # type: ignore[misc]
        world.at(0.5, self._break)
        world.run(30.0)
        for number in range(75):
            if self.reached:
                break
            if number == 15:
                self.pace *= 4  # so hard a life gets nothing done
            self._weather(fair=number >= 20 and number % 8 < 5)
            world.run(4.0)
        Liveness(self).run()

    @property
    def reached(self) -> bool:
        """Whether enough has happened for the safety phase to end."""
        truth = self.world.truth
        overlaps = sum(one.overlaps for one in self.occurrences)
        return (
            truth.changes >= WANTED_CHANGES and overlaps >= WANTED_OVERLAPS and truth.writes >= WANTED_COMMITS
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
        scene = Scene(self.world, operator, self.chance, size)
        kinds = list(OPERATIONS)
        for _ in range(4):
            kind = self.chance.choices(kinds, [one.weight for one in kinds])[0]
            known = operator.done[kind.name]
            if kind.begin(scene):
                if operator.done[kind.name] == known:
                    operator.done[kind.name] += 1
                break
        for _, occurrence in self.active:
            occurrence.overlaps = True
        if self.chance.random() < 0.3:
            self.world.at(self.chance.random() * 0.1, self._strike)
        self.world.at(self.chance.expovariate(1 / 0.8), lambda: self._operate(operator))

    # Faults.

    def _break(self) -> None:
        if not self.world.calm:
            self._strike()
            self.world.at(self.chance.expovariate(1 / self.pace), self._break)

    def _strike(self) -> None:
        """One fault of those enabled."""
        if self.world.calm or self.fair or not self.enabled or len(self.active) >= 4:
            return
        kind = self.chance.choices(self.enabled, [one.rate for one in self.enabled])[0]
        fault = kind(self.world, self.chance)
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

    def _mend(self, entry: tuple[Fault, Occurrence]) -> None:
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

    # Lives.

    def _down(self, node: Node, why: str) -> None:
        """A node is down: somebody starts it again after a while."""
        life = node.life
        delay = self.chance.choice((0.1, 0.5, 1.0, 2.0, 6.0)) * self.chance.uniform(0.5, 1.5)

        def start() -> None:
            if node.process is None and node.life == life and node.id not in self.stay_down:
                if node.restart_at < inf and node.restart_at > self.world.time:
                    self.world.when(node.restart_at, start)
                    return
                self._start(node)

        self.world.at(delay, start)

    def _start(self, node: Node) -> None:
        started = node.start()
        if node.rotten:
            if started and node.process is not None:
                node.off("all", "its disk is exchanged, though it was read without an error")
            node.new_disk()
            self.world.format(node, first=False)


def run_seed(seed: int, *, story: bool = False) -> Report:
    """Live a seed; never raises what the seed brings to light, but says so in the report."""
    report = Report(seed)
    began = time.process_time()
    life = Life(seed, story=story)
    world = life.world
    try:
        life.run()
    except Broken as broken:
        report.promise, report.error = broken.promise, str(broken)
    except StepLimit as limit:
        report.promise, report.error = "limit", str(limit)
    except Exception as error:
        report.promise = "crash"
        report.error = f"{error!r}\n{''.join(traceback.format_exception(error)[-6:])}"
    report.digest = world.digest
    report.setup = str(world.setup)
    report.events = world.events
    report.virtual_seconds = world.time
    report.idle_seconds = world.idle
    report.cpu_seconds = time.process_time() - began
    report.commits = world.truth.writes
    report.changes = world.truth.changes
    report.faults = life.occurrences
    report.overlaps = sum(one.overlaps for one in life.occurrences)
    for operator in life.operators:
        report.operations.update(operator.done)
        report.outcomes.update(operator.outcomes)
    report.story = world.story or []
    return report
