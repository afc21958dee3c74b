"""The second mode: one fault more than a quorum can survive, and "refused or documented" as the invariant.

A seed is a quorum of five voters that works, has a few small faults, and then gets one fault beyond the budget
(`faults`).  For each such fault it is known whether a node can detect it:

* It can: then every invariant of the main mode still holds, the damaged node refuses with a reason and stays away,
  and the others continue.
* It cannot (a disk that was restored to an earlier state, a sync that lied, rot in the newest records): then an
  invariant may be violated.  The simulator counts and documents which one.

In both cases no node ends without a reason.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from barnabas.model import NodeId
from barnabas.sim.kernel.events import StepLimit
from barnabas.sim.kernel.pool import run_in_pool
from barnabas.sim.kernel.report import InvariantViolation, Occurrence, Report, ending, timeline
from barnabas.sim.quorum.invariants.catalogue import Invariants
from barnabas.sim.quorum.over_budget.faults import OVER_BUDGET_FAULTS
from barnabas.sim.quorum.over_budget.world import VOTERS, OverBudgetFault, OverBudgetWorld
from barnabas.sim.quorum.workload import Writers

__all__ = [
    "OverBudgetReport",
    "OverBudgetRun",
    "OverBudgetSummary",
    "command",
    "run_seed",
    "run_seeds",
    "tell",
]


@dataclass(slots=True)
class OverBudgetReport(Report):
    """The result of a seed beyond the budget; `outcome` in words."""

    fault: str = ""
    outcome: str = ""
    commits: int = 0
    refusals: dict[NodeId, str] = field(default_factory=dict)


class OverBudgetRun:
    """One seed: a quorum that works, a fault beyond the budget, and what comes of it."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.world = OverBudgetWorld(seed, story=story)
        self.rng = random.Random(f"beyond {seed}")
        self.writers = Writers(self.world, interval=0.15, rng=self.rng)
        self.fault: OverBudgetFault = OVER_BUDGET_FAULTS[seed % len(OVER_BUDGET_FAULTS)](self.world, self.rng)
        self.occurrences: list[Occurrence] = []

    def __repr__(self) -> str:
        return f"<OverBudgetRun {self.fault!r} {self.world!r}>"

    def run(self) -> str:
        """The outcome.  Raises InvariantViolation, or what the code under test lets fall."""
        world = self.world
        for node in world.nodes.values():
            if node.id != self.fault.late:
                node.start()
        if not world.run(30.0, lambda: world.committed_log.writes > 10):
            raise InvariantViolation("L1", "nothing is committed, though nothing was broken")
        self._disturb()
        if not world.run(30.0, self._calm):
            raise InvariantViolation("L1", "the quorum does not come to rest before the strike")
        self.fault.prepare()
        world.struck = self.fault
        if not self.fault.detected:
            assert isinstance(world.invariants, Invariants)
            world.invariants.forget("Q2", "Q3", "S1", "S2")  # they are about what the disk says
        try:
            text = self.fault.strike()
            self.occurrences.append(Occurrence(world.time, self.fault.name, text, 0.0))
            world.tell(0, f"{self.fault.name}: {text}")
            self._aftermath()
        except InvariantViolation as violation:
            if self.fault.detected:
                raise
            return f"lost, {violation.invariant}" + (", and somebody refused" if world.refusals else "")
        return "refused" if world.refusals else "no harm"

    def _disturb(self) -> None:
        """A few power cuts, never of a majority at once, and enough time for recovery points."""
        world = self.world
        for _ in range(self.rng.randint(0, 3)):
            node = self.rng.choice(world.healthy)
            world.power_cut(node)
            world.run(self.rng.uniform(1.0, 5.0))
        world.run(self.rng.uniform(8.0, 16.0))

    def _calm(self) -> bool:
        leader = self.world.leader
        return leader is not None and len(self.world.healthy) >= VOTERS

    def _aftermath(self) -> None:
        world, fault = self.world, self.fault
        world.run(self.rng.uniform(2.0, 8.0))
        fault.go_on()
        world.run(15.0)
        if not fault.detected:
            return
        wrong = fault.check()
        if wrong:
            raise InvariantViolation("S2", wrong)
        before = fault.writes()
        if not world.run(40.0, lambda: fault.writes() >= before + 5):
            raise InvariantViolation("L1", f"nothing is committed any more; refused: {world.refusals}")
        strangers = {node: why for node, why in world.refusals.items() if node not in world.lost}
        if strangers:
            raise InvariantViolation("S1", f"nodes refuse that nothing happened to: {strangers}")


def run_seed(seed: int, *, story: bool = False) -> OverBudgetReport:
    """Run a seed; never raises what it brings to light."""
    report = OverBudgetReport(seed)
    began = time.process_time()
    run = OverBudgetRun(seed, story=story)
    world = run.world
    report.fault = run.fault.name
    try:
        report.outcome = run.run()
    except InvariantViolation as violation:
        report.invariant, report.error = violation.invariant, str(violation)
    except StepLimit as limit:
        report.invariant, report.error = "limit", str(limit)
    except Exception as error:
        report.invariant = "crash"
        report.error = f"{error!r}\n{''.join(traceback.format_exception(error)[-6:])}"
    report.digest = world.digest
    report.setup = str(world.setup)
    report.events = world.events
    report.virtual_seconds = world.time
    report.cpu_seconds = time.process_time() - began
    report.commits = world.committed_log.writes
    report.faults = run.occurrences
    report.refusals = dict(world.refusals)
    report.story = world.story or []
    return report


def run_seeds(seeds: Iterable[int], *, jobs: int = 2) -> Iterator[OverBudgetReport]:
    """Run these seeds, in `jobs` processes; the reports come as they get ready."""
    return run_in_pool(run_seed, seeds, jobs=jobs, seeds_each=200, at_a_time=2)


@dataclass(slots=True)
class OverBudgetSummary:
    """Many seeds: what came of which fault, how often."""

    seeds: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, report: OverBudgetReport) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.virtual_seconds += report.virtual_seconds
        self.cpu_seconds += report.cpu_seconds
        if report.ok:
            self.outcomes[report.fault, report.outcome] += 1
        else:
            self.failed[report.seed] = report.error

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.seeds} seeds beyond the budget, {len(self.failed)} failed"
        for (fault, outcome), count in sorted(self.outcomes.items()):
            yield f"  {count:5d}  {fault}: {outcome}"

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "version": 1,
            "seeds": self.seeds,
            "failed": self.failed,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "outcomes": {f"{fault}: {outcome}": n for (fault, outcome), n in sorted(self.outcomes.items())},
        }


def command(seed: int) -> str:
    """What repeats a seed."""
    return f"barnabas simulate --beyond --seed {seed}"


def tell(report: OverBudgetReport, *, lines: int = 60) -> Iterator[str]:
    """The lines of a seed's story; `lines` of its timeline (0: all)."""
    yield from timeline(report, report.commits, report.refusals, lines)
    yield from ending(report, f"{report.fault}: {report.outcome}", command(report.seed))
