"""The ledger: which seeds ran with the present code, and their outcome.

Its key is a hash over the sources of raft/, log/, sim/ and the quorum's driver, so that a seed counts only
for the code that it ran; `--resume` continues after the last one.  A test checks that the hash leaves out
only what a seed of a quorum never runs: modules of log/ that only serve partitions (a quorum's log is neither
compacted nor moved, and its disk is simulated), the mutants, this ledger, the seeds beyond the budget.
There is one line of JSON per run of seeds; a run extends its line as it continues.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["NOT_RUN", "CodeRuns", "Ledger", "code_hash"]

_ROOMS = ("raft", "log", "sim/kernel", "sim/quorum")
_DRIVER = ("election_state", "marks", "records", "snapshots", "storage", "transfer")
NOT_RUN = frozenset(
    {"log/cleaning/aborted", "log/cleaning/compaction", "log/cleaning/dirty_range"}
    | {
        "log/directories/checkpoints",
        "log/directories/log_directories",
        "log/files/disk",
        "log/files/removal",
    }
    | {f"sim/kernel/{name}" for name in ("ledger", "mutants", "pool")}
    | {f"sim/quorum/over_budget/{name}" for name in ("__init__", "faults", "seed_run", "world")}
    | {f"sim/quorum/mutants/{name}" for name in ("__init__", "first", "mutants", "rot", "subtle")}
)
"""Modules that a quorum's seeds never run."""


def code_hash() -> str:
    """A fingerprint of the code under test and of the simulator."""
    root = Path(__file__).parents[2]
    modules = {path.with_suffix("") for room in _ROOMS for path in (root / room).rglob("*.py")}
    modules -= {root / name for name in NOT_RUN}
    modules |= {root / "server" / "kraft" / name for name in _DRIVER}
    digest = hashlib.sha256()
    for module in sorted(modules):
        digest.update(module.with_suffix(".py").read_bytes())
    return digest.hexdigest()[:16]


class CodeRuns(NamedTuple):
    """What ran with one code: different seeds, those that failed, the first day and the last."""

    code: str
    seeds: int
    failed: list[int]
    began: str
    ended: str


class Ledger:
    """A file of runs.  `path` need not exist."""

    def __init__(self, path: Path, code: str) -> None:
        self.path = path
        self.code = code

    def __repr__(self) -> str:
        return f"<Ledger {self.path} code={self.code} seeds={self.seeds()}>"

    def _rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def seeds(self, *, all_code: bool = False) -> int:
        """How many seeds ran: with this code, or with any.  A seed that ran twice counts once."""
        return sum(one.seeds for one in self.by_code() if all_code or one.code == self.code)

    def by_code(self) -> list[CodeRuns]:
        """What ran with each code, the oldest first."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in self._rows():
            rows.setdefault(row["code"], []).append(row)
        return [_runs_of(code, runs) for code, runs in rows.items()]

    def next_seed(self, first: int) -> int:
        """The first seed from `first` on that did not run with this code."""
        for low, high in _joined([row for row in self._rows() if row["code"] == self.code]):
            if low <= first < high:
                first = high
        return first

    def add(
        self, first: int, seeds: int, failed: list[int], virtual_seconds: float, cpu_seconds: float
    ) -> None:
        """Write down what follows on the last line (then it grows), or another run."""
        row = {
            "code": self.code,
            "date": datetime.now(UTC).date().isoformat(),
            "first": first,
            "seeds": seeds,
            "failed": failed,
            "virtual_seconds": round(virtual_seconds),
            "cpu_seconds": round(cpu_seconds, 1),
        }
        rows = self._rows()
        if rows and _follows(rows[-1], row):
            last = rows.pop()
            row["first"] = last["first"]
            for name in ("seeds", "failed", "virtual_seconds"):
                row[name] = last[name] + row[name]
            row["cpu_seconds"] = round(last["cpu_seconds"] + cpu_seconds, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        new.write_text("".join(json.dumps(one) + "\n" for one in [*rows, row]))
        os.replace(new, self.path)


def _follows(last: dict[str, Any], row: dict[str, Any]) -> bool:
    same = last["code"] == row["code"] and last.get("date") == row["date"]
    return same and bool(last["first"] + last["seeds"] == row["first"])


def _joined(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """The seeds of these runs as ranges, in order and without overlaps."""
    ranges: list[tuple[int, int]] = []
    for low, high in sorted((row["first"], row["first"] + row["seeds"]) for row in rows):
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], max(ranges[-1][1], high)
        else:
            ranges.append((low, high))
    return ranges


def _runs_of(code: str, rows: list[dict[str, Any]]) -> CodeRuns:
    dates = sorted(row["date"] for row in rows if "date" in row) or [""]
    failed = sorted({seed for row in rows for seed in row["failed"]})
    return CodeRuns(code, sum(high - low for low, high in _joined(rows)), failed, dates[0], dates[-1])
