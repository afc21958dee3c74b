"""The ledger: which seeds were lived with the code as it is, and what became of them.

It is keyed by a hash over the sources of raft/, log/, sim/ and the quorum's driver, so that a seed counts
only for the code it ran; `--resume` goes on behind the last one.  One line of JSON per run of seeds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Ledger", "code_hash"]

_ROOMS = ("raft", "log", "sim")
_DRIVER = [f"server/quorum_{part}.py" for part in ("records", "snapshots", "state", "store", "transfer")]


def code_hash() -> str:
    """A fingerprint of the code under test and of the simulator."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for room in _ROOMS for path in (root / room).glob("*.py")):
        digest.update(path.read_bytes())
    for name in _DRIVER:
        digest.update((root / name).read_bytes())
    return digest.hexdigest()[:16]


class Ledger:
    """A file of runs.  `path` need not exist."""

    def __init__(self, path: Path, code: str) -> None:
        self.path = path
        self.code = code

    def __repr__(self) -> str:
        return f"<Ledger {self.path} code={self.code} seeds={self.seeds()}>"

    def _rows(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                if line.strip():
                    yield json.loads(line)

    def seeds(self, *, all_code: bool = False) -> int:
        """How many seeds were lived: with this code, or with any."""
        return sum(row["seeds"] for row in self._rows() if all_code or row["code"] == self.code)

    def next_seed(self, first: int) -> int:
        """The first seed from `first` on that this code has not lived."""
        done = {
            (row["first"], row["first"] + row["seeds"]) for row in self._rows() if row["code"] == self.code
        }
        while any(low <= first < high for low, high in done):
            first = max(high for low, high in done if low <= first < high)
        return first

    def add(
        self, first: int, seeds: int, failed: list[int], virtual_seconds: float, cpu_seconds: float
    ) -> None:
        """Write a run down."""
        row = {
            "code": self.code,
            "first": first,
            "seeds": seeds,
            "failed": failed,
            "virtual_seconds": round(virtual_seconds),
            "cpu_seconds": round(cpu_seconds, 1),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
