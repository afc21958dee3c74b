"""The table of docs/disks.md: the same seeds on Barnabas and on Apache Kafka, side by side."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from bench.processes import machine
from bench.report import put_between, revision
from tests.damage.matrix.tally import on_time
from tests.damage.matrix.verdict import AGAIN
from tools.peer import PEER

__all__ = ["table", "write"]

_BEGIN, _END = (f"<!-- {word}: written by make damage ARGS=--write -->" for word in ("begin", "end"))
_NODES = 3
_HEAD = (
    "",
    "runs",
    "acknowledged",
    "lost (runs)",
    "served damaged, once met (runs)",
    "served damaged, before (runs)",
    "not in sync after 30 s",
    "damaged at the end",
    "silent",
    "loss not judged",
)


def write(runs: Collection[dict[str, Any]]) -> Path:
    """Put the table into docs/disks.md, between its marks; return its path."""
    said = f"Measured {datetime.date.today()} at {revision()}; {machine()}; all nodes and clients on it."
    return put_between(_BEGIN, _END, f"{said}\n\n{table(runs)}", page="disks.md")


def table(runs: Collection[dict[str, Any]]) -> str:
    """Return a row for each side, of the seeds that both have, and one for all of ours where these are more."""
    counted = [run for run in runs if run["verdict"] not in AGAIN]
    sides = {
        kind: {run["seed"]: run for run in counted if (run["kind"], run["nodes"]) == (kind, _NODES)}
        for kind in ("barnabas", "apache")
    }
    ours, theirs = sides["barnabas"], sides["apache"]
    both = sorted(ours.keys() & theirs.keys())
    rows = {
        "Barnabas": [ours[seed] for seed in both],
        PEER: [theirs[seed] for seed in both],
    }
    if len(ours) > len(both):
        rows["Barnabas, all seeds"] = list(ours.values())
    lines = [
        _HEAD,
        ["---", *["---:"] * (len(_HEAD) - 1)],
        *([name, *_cells(own)] for name, own in rows.items()),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(runs: Collection[dict[str, Any]]) -> Iterator[str]:
    def total(name: str) -> str:
        count = sum(run[name] > 0 for run in runs)
        return f"{sum(run[name] for run in runs):,}" + (f" ({count})" if count else "")

    yield str(len(runs))
    yield f"{sum(run['acknowledged'] for run in runs):,}"
    yield from map(total, ("lost", "served_after", "served_before"))
    yield str(sum(not on_time(run) for run in runs))
    yield str(sum(bool(run["rotten"]) for run in runs))
    yield str(sum(map(_silent, runs)))
    yield str(sum(not run["losses"] for run in runs))


def _silent(run: dict[str, Any]) -> bool:
    """Return whether something is lost, or damage stays, and no node said so, not by its end either."""
    harmed = run["lost"] or run["rotten"] or not run["gone_by_itself"]
    return bool(harmed and not run["told"] and not run["gone"])
