"""The ledger of fuzzing: which target ran how long with which code, and what it found.  One line of JSON per run.

A run with the code of the last line of its target extends that line.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fuzz.engine.runs import Run

__all__ = ["LEDGER", "Ledger", "code_hash"]

ROOT = Path(__file__).parents[3]
LEDGER = ROOT / "tests" / "fuzz" / "ledger.jsonl"


def code_hash() -> str:
    """A fingerprint of all our sources: commits get other names when they are moved, code does not."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "barnabas").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip()


class Ledger:
    """A file of runs.  `path` need not exist."""

    def __init__(self, path: Path = LEDGER) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<Ledger {self.path} {len(self.rows())} rows>"

    def rows(self) -> list[dict[str, Any]]:
        """All of them, the oldest first."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def add(self, run: Run, code: str | None = None) -> None:
        """Write a run down."""
        row: dict[str, Any] = {
            "target": run.target,
            "how": run.how,
            "code": code or code_hash(),
            "commit": _commit(),
            "date": datetime.now(UTC).date().isoformat(),
            "cpu_minutes": round(run.cpu_s / 60, 2),
            "runs": run.runs,
            "coverage": run.coverage,
            "corpus": run.corpus,
            "findings": [finding.key for finding in run.findings],
        }
        rows = self.rows()
        same = ("target", "how", "code", "date")
        for place, before in enumerate(rows):
            if all(before[name] == row[name] for name in same):
                row["cpu_minutes"] = round(before["cpu_minutes"] + run.cpu_s / 60, 2)
                row["runs"] += before["runs"]
                row["findings"] = sorted({*before["findings"], *row["findings"]})
                rows[place] = row
                break
        else:
            rows.append(row)
        new = self.path.with_name(self.path.name + ".new")
        new.write_text("".join(json.dumps(one) + "\n" for one in rows))
        os.replace(new, self.path)

    def minutes(self) -> dict[str, float]:
        """Processor minutes by target, with any code."""
        found: dict[str, float] = {}
        for row in self.rows():
            found[row["target"]] = round(found.get(row["target"], 0.0) + row["cpu_minutes"], 2)
        return found
