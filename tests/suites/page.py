"""The table of docs/compatibility.md, from docs/compatibility.json, which keeps the latest run of each kind."""

from __future__ import annotations

import json
from pathlib import Path

from tests.suites.declared import SUITES, Suite
from tests.suites.run import Result

DOCS = Path(__file__).parents[2] / "docs"
RUNS = DOCS / "compatibility.json"
PAGE = DOCS / "compatibility.md"
BEGIN, END = "<!-- begin: written by make suites -->", "<!-- end: written by make suites -->"
OURS = "Barnabas"


def load() -> list[Result]:
    """The latest run of each suite, by peer, number of nodes and kills."""
    return [Result(**row) for row in json.loads(RUNS.read_text())] if RUNS.exists() else []


def keep(result: Result) -> None:
    """Put a run in the place of the one of its kind, and write the page."""
    kept = {_kind(earlier): earlier for earlier in load()}
    kept[_kind(result)] = result
    order = [suite.name for suite in SUITES]
    rows = sorted(
        kept.values(), key=lambda row: (order.index(row.suite), row.nodes, row.kills_every, row.peer)
    )
    RUNS.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")
    PAGE.write_text(placed(PAGE.read_text(), section(rows)))


def placed(page: str, text: str) -> str:
    """The page with this text between its marks."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def section(results: list[Result]) -> str:
    """The table of the runs, and the tests that fail, each with its reason."""
    rows = [
        "| suite | cluster | passed | failed | skipped | seconds | Apache Kafka 4.3.1 | day |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    theirs = {(row.suite, row.nodes, row.kills_every): row for row in results if row.peer != OURS}
    ours = [row for row in results if row.peer == OURS]
    for row in ours:
        declared = _declared(row)
        peer = theirs.get((row.suite, row.nodes, row.kills_every))
        beside = f"{peer.passed} / {peer.failed} / {peer.skipped}, {peer.seconds} s" if peer else "not run"
        rows.append(
            f"| {declared.title} (`tests/suites/{declared.script.name}`) | {_cluster(row)} "
            f"| {row.passed} | {row.failed} | {row.skipped} | {row.seconds} | {beside} | {row.day} |"
        )
    failures = {
        (row.suite, name): _declared(row).known.get(name, "**not explained yet**")
        for row in ours
        for name in row.failures
    }
    if failures:
        rows += ["", "| fails | of | why |", "|---|---|---|"]
        rows += [f"| `{name}` | {suite} | {why} |" for (suite, name), why in sorted(failures.items())]
    return "\n".join(rows)


def _kind(row: Result) -> tuple[str, str, int, float]:
    return row.suite, row.peer, row.nodes, row.kills_every


def _declared(row: Result) -> Suite:
    return next(suite for suite in SUITES if suite.name == row.suite)


def _cluster(row: Result) -> str:
    nodes = "one node" if row.nodes == 1 else f"{row.nodes} nodes"
    return f"{nodes}, one killed every {row.kills_every:g} s" if row.kills_every else nodes
