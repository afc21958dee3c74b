"""Many seeds at once: a pool of processes, and their total results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from barnabas.sim.kernel.pool import run_in_pool
from barnabas.sim.quorum.seed_run import QuorumReport, run_seed

__all__ = ["Summary", "run_seeds"]


def run_seeds(seeds: Iterable[int], *, jobs: int = 2) -> Iterator[QuorumReport]:
    """Run these seeds, in `jobs` processes; the reports come as they get ready."""
    return run_in_pool(run_seed, seeds, jobs=jobs, seeds_each=200)


@dataclass(slots=True)
class Summary:
    """The sum over seeds.  Shares are of all seeds."""

    seeds: int = 0
    reached: int = 0
    events: int = 0
    virtual_seconds: float = 0.0
    idle_seconds: float = 0.0
    cpu_seconds: float = 0.0
    commits: int = 0
    changes: int = 0
    overlaps: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    missed: list[int] = field(default_factory=list)
    """Seeds that did not reach what a seed is for."""
    faults: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    """Seeds in which an operation was answered with success at least once."""

    def add(self, report: QuorumReport) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.reached += report.reached
        if not report.reached:
            self.missed.append(report.seed)
        self.events += report.events
        self.virtual_seconds += report.virtual_seconds
        self.idle_seconds += report.idle_seconds
        self.cpu_seconds += report.cpu_seconds
        self.commits += report.commits
        self.changes += report.changes
        self.overlaps += report.overlaps
        if not report.ok:
            self.failed[report.seed] = report.error
        self.faults.update({fault.name for fault in report.faults})
        self.operations.update(set(report.operations))
        self.outcomes.update(report.outcomes)
        self.succeeded.update({name[:-6] for name in report.outcomes if name.endswith(": NONE")})

    @property
    def events_rate(self) -> float:
        """Events per second of the processor."""
        return self.events / max(self.cpu_seconds, 1e-9)

    @property
    def busy_rate(self) -> float:
        """Virtual seconds in which something happened, per second of the processor."""
        return (self.virtual_seconds - self.idle_seconds) / max(self.cpu_seconds, 1e-9)

    def lines(self) -> Iterator[str]:
        """For people."""
        seeds = max(1, self.seeds)
        yield (
            f"{self.seeds} seeds, {len(self.failed)} failed, {self.reached} reached all that a seed is for; "
            f"{self.commits} commits, {self.changes} changes of the voters, {self.overlaps} faults during one"
        )
        if self.missed:
            yield f"these did not: {', '.join(map(str, sorted(self.missed)))}"
        yield (
            f"{self.virtual_seconds:.0f} virtual seconds ({self.idle_seconds:.0f} of them idle) in "
            f"{self.cpu_seconds:.0f} s of CPU: {self.busy_rate:.0f} busy virtual seconds and "
            f"{self.events_rate:.0f} events per CPU second, {self.cpu_seconds / seeds:.2f} CPU s per seed"
        )
        yield ""
        yield "SEEDS  SUCCESS  OPERATION"
        for name, count in sorted(self.operations.items()):
            asked = any(outcome.startswith(f"{name}: ") for outcome in self.outcomes)
            success = f"{self.succeeded[name] / seeds:.0%}" if asked else "-"
            yield f"{count / seeds:5.0%}  {success:>7}  {name}"
        yield ""
        yield "SEEDS  FAULT"
        yield from (f"{count / seeds:5.0%}  {name}" for name, count in sorted(self.faults.items()))

    def document(self) -> dict[str, object]:
        """For programs."""
        seeds = max(1, self.seeds)
        return {
            "version": 1,
            "seeds": self.seeds,
            "failed": self.failed,
            "reached": self.reached,
            "missed": sorted(self.missed),
            "commits": self.commits,
            "changes": self.changes,
            "overlaps": self.overlaps,
            "events": self.events,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "idle_seconds": round(self.idle_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "events_per_cpu_second": round(self.events_rate),
            "busy_virtual_seconds_per_cpu_second": round(self.busy_rate, 1),
            "shares": {
                "operations": {name: round(n / seeds, 4) for name, n in sorted(self.operations.items())},
                "succeeded": {name: round(n / seeds, 4) for name, n in sorted(self.succeeded.items())},
                "faults": {name: round(n / seeds, 4) for name, n in sorted(self.faults.items())},
            },
            "outcomes": dict(sorted(self.outcomes.items())),
        }
