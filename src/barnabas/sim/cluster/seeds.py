"""Many seeds of whole clusters: a pool of processes, their total results, and a seed's story."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.sim.cluster.clients.workloads import USUAL, flags_of, seed_runner
from barnabas.sim.cluster.seed_run import ClusterReport
from barnabas.sim.kernel.pool import run_in_pool

__all__ = ["Summary", "code_hash", "command", "run_seeds", "tell"]

_LEFT_OUT = ("cli", "pipeline", "testing", "__pycache__")
_NOT_RUN = ("sim/cluster/mutants", "sim/quorum/mutants", "sim/kernel/mutants.py")
"""Bugs that are planted: no seed runs them."""


def code_hash() -> str:
    """A fingerprint of everything that a seed runs: all but the command line, guests of the package, mutants."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _LEFT_OUT and not name.as_posix().startswith(_NOT_RUN):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_seeds(seeds: Iterable[int], *, jobs: int = 2, workload: str = USUAL) -> Iterator[ClusterReport]:
    """Run these seeds of a workload, in `jobs` processes; the reports come as they get ready."""
    return run_in_pool(seed_runner(workload), seeds, jobs=jobs, seeds_each=100, at_a_time=4)


@dataclass(slots=True)
class Summary:
    """The sum over seeds."""

    seeds: int = 0
    events: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    occurrences: int = 0
    operations: Counter[str] = field(default_factory=Counter)

    def add(self, report: ClusterReport) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.events += report.events
        self.virtual_seconds += report.virtual_seconds
        self.cpu_seconds += report.cpu_seconds
        if not report.ok:
            self.failed[report.seed] = report.error
        self.counts.update(report.counts)
        self.faults.update({fault.name for fault in report.faults})
        self.occurrences += len(report.faults)
        self.operations.update(set(report.operations))

    def lines(self) -> Iterator[str]:
        """For people."""
        seeds, cpu = max(1, self.seeds), max(self.cpu_seconds, 1e-9)
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        yield f"{self.seeds} seeds, {len(self.failed)} failed, {self.occurrences} faults; records: {counts}"
        yield (
            f"{self.virtual_seconds:.0f} virtual seconds in {self.cpu_seconds:.0f} s of CPU "
            f"({self.cpu_seconds / seeds:.2f} s per seed, {self.virtual_seconds / cpu:.0f} times real time)"
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
            "faults": self.occurrences,
            "records": dict(self.counts),
            "events": self.events,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "operations": dict(sorted(self.operations.items())),
            "fault_shares": dict(sorted(self.faults.items())),
        }


def command(seed: int, workload: str = USUAL) -> str:
    """What repeats a seed of a workload."""
    return f"barnabas simulate {flags_of(workload)} --seed {seed}"


def tell(report: ClusterReport, *, lines: int = 60, quiet: bool = False) -> Iterator[str]:
    """The lines of a seed's story; `lines` of its timeline (0: all)."""
    yield f"seed {report.seed}: {report.setup}"
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items())
    yield (
        f"{report.events} events in {report.virtual_seconds:.0f} virtual seconds, {len(report.faults)} faults; "
        f"records: {counts}"
    )
    if not quiet:
        yield "faults:"
        yield from (f"  {fault}" for fault in report.faults)
        yield "operations:"
        yield from (f"  {count:4d}  {name}" for name, count in sorted(report.operations.items()))
    if report.story:
        told = report.story if lines == 0 else report.story[-lines:]
        yield "timeline:" if len(told) == len(report.story) else f"timeline (its last {len(told)} lines):"
        yield from (f"{line.time:10.4f}  {line.who:<10} {line.text}" for line in told)
    if report.ok:
        yield f"every promise was kept; trace {report.digest}"
    else:
        yield f"BROKEN {report.error}"
        yield f"trace {report.digest}"
        yield f"again: {command(report.seed, report.workload)}"
