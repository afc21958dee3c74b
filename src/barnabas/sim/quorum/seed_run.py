"""One seed from start to end: the safety phase, in which anything may fail, then the liveness phase, in which a
majority is repaired, the rest stays broken, and progress must happen.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from barnabas.sim.kernel.report import Report, recorded
from barnabas.sim.quorum.liveness import LivenessPhase
from barnabas.sim.quorum.safety import WANTED_CHANGES, WANTED_COMMITS, WANTED_OVERLAPS, SafetyPhase

__all__ = ["QuorumReport", "run_seed"]


@dataclass(slots=True)
class QuorumReport(Report):
    """The result of a quorum's seed."""

    idle_seconds: float = 0.0
    commits: int = 0
    changes: int = 0
    overlaps: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def reached(self) -> bool:
        """Whether the seed did what a seed is for."""
        return (
            self.changes >= WANTED_CHANGES
            and self.overlaps >= WANTED_OVERLAPS
            and self.commits >= WANTED_COMMITS
        )


def run_seed(seed: int, *, story: bool = False) -> QuorumReport:
    """Run a seed; never raises what the seed brings to light, but says so in the report."""
    report = QuorumReport(seed)
    safety = SafetyPhase(seed, story=story)
    world = safety.world
    with recorded(report):
        safety.run()
        LivenessPhase(safety).run()
    report.digest = world.digest
    report.setup = str(world.setup)
    report.events = world.events
    report.virtual_seconds = world.time
    report.idle_seconds = world.idle
    report.commits = world.committed_log.writes
    report.changes = world.committed_log.changes
    report.faults = safety.occurrences
    report.overlaps = sum(one.overlaps for one in safety.occurrences)
    for operator in safety.operators:
        report.operations.update(operator.done)
        report.outcomes.update(operator.outcomes)
    report.operations.update(safety.autopilot.done)
    report.story = world.story or []
    return report
