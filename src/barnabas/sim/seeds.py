"""Many seeds at once: a pool of processes, and what they came to in sum."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from barnabas.sim.life import Report, run_seed

__all__ = ["Summary", "run_seeds"]


def run_seeds(seeds: Iterable[int], *, jobs: int = 2) -> Iterator[Report]:
    """Live these seeds, in `jobs` processes; the reports come as they get ready."""
    if jobs <= 1:
        yield from map(run_seed, seeds)
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=4)


@dataclass(slots=True)
class Summary:
    """The sum over seeds.  Shares are of all seeds."""

    seeds: int = 0
    reached: int = 0
    events: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    commits: int = 0
    changes: int = 0
    overlaps: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def add(self, report: Report) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.reached += report.reached
        self.events += report.events
        self.virtual_seconds += report.virtual_seconds
        self.cpu_seconds += report.cpu_seconds
        self.commits += report.commits
        self.changes += report.changes
        self.overlaps += report.overlaps
        if not report.ok:
            self.failed[report.seed] = report.error
        self.faults.update({fault.name for fault in report.faults})
        self.operations.update(set(report.operations))
        self.outcomes.update(report.outcomes)

    def lines(self) -> Iterator[str]:
        """For people."""
        seeds = max(1, self.seeds)
        cpu = max(self.cpu_seconds, 1e-9)
        yield (
            f"{self.seeds} seeds, {len(self.failed)} failed, {self.reached} reached all that a seed is for; "
            f"{self.commits} commits, {self.changes} changes of the voters, {self.overlaps} faults during one"
        )
        yield (
            f"{self.virtual_seconds:.0f} virtual seconds in {self.cpu_seconds:.0f} s of CPU "
            f"({self.virtual_seconds / cpu:.0f} times real time), {self.events} events "
            f"({self.events / cpu:.0f} per CPU second)"
        )
        yield "share of seeds with each operation:"
        yield from (f"  {count / seeds:5.0%}  {name}" for name, count in sorted(self.operations.items()))
        yield "share of seeds with each fault:"
        yield from (f"  {count / seeds:5.0%}  {name}" for name, count in sorted(self.faults.items()))

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "version": 1,
            "seeds": self.seeds,
            "failed": self.failed,
            "reached": self.reached,
            "commits": self.commits,
            "changes": self.changes,
            "overlaps": self.overlaps,
            "events": self.events,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "operations": dict(sorted(self.operations.items())),
            "faults": dict(sorted(self.faults.items())),
            "outcomes": dict(sorted(self.outcomes.items())),
        }
