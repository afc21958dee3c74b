"""Runs added up: how often each value of each column came, and what the runs came to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.damage.matrix.plan import COLUMNS
from tests.damage.matrix.verdict import AGAIN, BAD, GOOD, HEALED_S

__all__ = ["good", "kept", "lines", "on_time"]

AT_LEAST = 10


def kept(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the runs of these files, of each seed on so many nodes of a kind the last one."""
    runs = {}
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else ():
            found = {"kind": "barnabas", **json.loads(line)}
            runs[found["kind"], found["nodes"], found["seed"]] = found
    return list(runs.values())


def good(runs: Iterable[dict[str, Any]]) -> bool:
    """Return whether none of ours came to something bad."""
    return all(run["verdict"] in GOOD for run in runs if run["kind"] == "barnabas")


def on_time(run: dict[str, Any]) -> bool:
    """Return whether all was in sync again in time, without an operator."""
    return not run["gone"] and run["healed_s"] is not None and run["healed_s"] <= HEALED_S


def lines(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the coverage and the verdicts, then each bad run."""
    for kind, nodes in sorted({(run["kind"], run["nodes"]) for run in runs}):
        own = [run for run in runs if (run["kind"], run["nodes"]) == (kind, nodes)]
        yield f"{kind}, {nodes} node{'s' if nodes > 1 else ''}: {len(own)} runs"
        counted = [run for run in own if run["verdict"] not in AGAIN]
        yield from _coverage(counted)
        yield from _sums(counted)
        verdicts = Counter(run["verdict"] for run in own)
        yield from (
            f"  {count:4} {word}: {({**GOOD, **BAD})[word]}" for word, count in verdicts.most_common()
        )
    for run in sorted(runs, key=lambda run: (run["kind"], run["nodes"], run["seed"])):
        if run["verdict"] in BAD:
            yield f"BAD  {_words(run)}"


def _coverage(runs: list[dict[str, Any]]) -> Iterator[str]:
    for column, values in COLUMNS.items():
        counts = Counter(run[column] for run in runs)
        rare = [value for value in values if counts[value] < AT_LEAST]
        row = ", ".join(f"{value} {counts[value]}" for value in values)
        yield f"  {column}: {row}" + (f"  (fewer than {AT_LEAST}: {', '.join(rare)})" if rare else "")


def _sums(runs: list[dict[str, Any]]) -> Iterator[str]:
    def total(name: str) -> int:
        return sum(run[name] for run in runs)

    healed = sorted(run["healed_s"] for run in runs if run["healed_s"] is not None)
    yield (
        f"  acknowledged {total('acknowledged'):,}, lost {total('lost')}, twice {total('twice')}; damaged batches "
        f"served {total('served_after')} (before anybody met them: {total('served_before')})"
    )
    often = sum(any(count > 1 for count in run["told"].values()) for run in runs)
    yield f"  told by name in {sum(bool(run['told']) for run in runs)} runs, by one node more than once in {often}"
    if healed:
        late = sum(not on_time(run) for run in runs)
        yield (
            f"  in sync again after {healed[len(healed) // 2]} s (median), {healed[-1]} s at most; "
            f"{late} later than {HEALED_S:.0f} s or never"
        )


def _words(run: dict[str, Any]) -> str:
    row = f"{run['harm']}, {run['file']} of the {run['place']}, {run['way']}"
    why = {
        "harness": run["failed"],
        "lost": str(run["losses"]),
        "ended": run["refused"] or f"nodes {run['gone']} ended",
        "rotten": "; ".join(run["rotten"][:2]),
        "late": f"{run['healed_s']} s",
        "served": f"{run['served_after']} batches",
    }.get(run["verdict"], "")
    return (
        f"{run['verdict']}: seed {run['seed']}, {run['nodes']} nodes of {run['kind']}: {row}: {run['path']} "
        f"({run['size']} bytes) of node {run['victim']}; told {run['told'] or 'nothing'}"
        + (f"; {why[-600:]}" if why else "")
    )
