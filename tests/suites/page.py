"""The tables of docs/compatibility.md, from docs/compatibility.json, which keeps the latest run of each kind."""

from __future__ import annotations

import json
from pathlib import Path

from tests.suites.apache import OURS
from tests.suites.apps.declared import APPS, app
from tests.suites.apps.run import AppResult
from tests.suites.declared import SUITES, Suite
from tests.suites.run import Result

DOCS = Path(__file__).parents[2] / "docs"
RUNS = DOCS / "compatibility.json"
PAGE = DOCS / "compatibility.md"
NOT_EXPLAINED = "**not explained yet**"
BEGIN, END = "<!-- begin: written by make suites -->", "<!-- end: written by make suites -->"
BEGIN_APPS, END_APPS = (mark.replace(": ", ": applications, ") for mark in (BEGIN, END))


def load() -> tuple[list[Result], list[AppResult]]:
    """The latest run of each suite and of each application, by peer, number of nodes and kills."""
    if not RUNS.exists():
        return [], []
    kept = json.loads(RUNS.read_text())
    return [Result(**row) for row in kept["suites"]], [AppResult(**row) for row in kept["applications"]]


def keep(result: Result | AppResult) -> None:
    """Put a run in the place of the one of its kind, and write the page."""
    suites, apps = load()
    if isinstance(result, Result):
        suites = [row for row in suites if _kind(row) != _kind(result)] + [result]
    else:
        apps = [row for row in apps if _kind_of_app(row) != _kind_of_app(result)] + [result]
    order = [suite.name for suite in SUITES]
    suites.sort(key=lambda row: (order.index(row.suite), row.nodes, row.kills_every, row.peer))
    order_of_apps = [each.name for each in APPS]
    apps.sort(key=lambda row: (order_of_apps.index(row.app), row.nodes, bool(row.kills), row.peer))
    rows = {"suites": [row.as_json() for row in suites], "applications": [row.as_json() for row in apps]}
    RUNS.write_text(json.dumps(rows, indent=1) + "\n")
    PAGE.write_text(written(PAGE.read_text(), suites, apps))


def written(page: str, suites: list[Result], apps: list[AppResult]) -> str:
    """The page with the tables of these runs."""
    page = _placed(page, BEGIN, END, section(suites))
    return _placed(page, BEGIN_APPS, END_APPS, section_of_apps(apps))


def _placed(page: str, begin: str, end: str, text: str) -> str:
    """The page with this text between its marks."""
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def section(results: list[Result]) -> str:
    """The table of the runs, and the tests that fail, each with its reason."""
    rows = [
        "| suite | cluster | passed | failed | skipped | seconds | Apache Kafka | day |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    theirs = {(row.suite, row.nodes, row.kills_every): row for row in results if row.peer != OURS}
    ours = [row for row in results if row.peer == OURS]
    for row in ours:
        declared = _declared(row)
        peer = theirs.get((row.suite, row.nodes, row.kills_every))
        beside = _beside(peer) if peer else "not run"
        rows.append(
            f"| {declared.title} (`tests/suites/{declared.script.name}`) | {_cluster(row)} "
            f"| {row.passed} | {row.failed} | {row.skipped} | {row.seconds} | {beside} | {row.day} |"
        )
    failures = {
        (row.suite, name): why_it_fails(row, name, theirs.get((row.suite, row.nodes, row.kills_every)))
        for row in ours
        for name in row.failures
    }
    if failures:
        rows += ["", "| fails | of | why |", "|---|---|---|"]
        rows += [f"| `{name}` | {suite} | {why} |" for (suite, name), why in sorted(failures.items())]
    return "\n".join(rows)


def _beside(peer: Result) -> str:
    """The counts of Apache Kafka, and which release it was."""
    release = peer.peer.removeprefix("Apache Kafka ")
    return f"{release}: {peer.passed} / {peer.failed} / {peer.skipped}, {peer.seconds} s"


def why_it_fails(row: Result, name: str, peer: Result | None) -> str:
    """Why a test failed in a run of ours; `peer` is the same run against Apache Kafka."""
    if (why := _declared(row).known.get(name)) is not None:
        return why
    reasons = [row.reasons[name]] if name in row.reasons else []
    if row.kills_every and peer is not None and name in peer.failures:
        reasons.append("fails with Apache Kafka, too")
    elif row.kills_every and peer is not None and reasons and (others := _others(peer, reasons[0])):
        reasons.append(f"with Apache Kafka that ends {others} tests")
    if reasons:
        return f"through kills: {'; '.join(reasons)}"
    return NOT_EXPLAINED


def _others(peer: Result, reason: str) -> int:
    """How many tests failed there for that reason."""
    return sum(1 for why in peer.reasons.values() if why == reason)


def section_of_apps(results: list[AppResult]) -> str:
    """The table of the applications, and what is wrong with them."""
    rows = [
        "| application | cluster | minutes | kill -9 | numbers | lost | twice | seen | day |",
        "|---|---|---:|---:|---:|---:|---:|---|---|",
    ]
    for row in results:
        whose = "" if row.peer == OURS else f" of {row.peer}"
        nodes = "one node" if row.nodes == 1 else f"{row.nodes} nodes"
        rows.append(
            f"| {app(row.app).title} | {nodes}{whose} | {row.minutes:g} | {row.kills} | {row.numbers:,} "
            f"| {row.lost} | {row.twice} | {'; '.join(row.seen)} | {row.day} |"
        )
    wrong = [f"- {row.app}: **{' '.join(what.split())[:300]}**" for row in results for what in row.wrong]
    return "\n".join([*rows, *([""] if wrong else []), *wrong])


def _kind_of_app(row: AppResult) -> tuple[str, str, int, bool]:
    return row.app, row.peer, row.nodes, bool(row.kills)


def _kind(row: Result) -> tuple[str, str, int, float]:
    return row.suite, row.peer, row.nodes, row.kills_every


def _declared(row: Result) -> Suite:
    return next(suite for suite in SUITES if suite.name == row.suite)


def _cluster(row: Result) -> str:
    nodes = "one node" if row.nodes == 1 else f"{row.nodes} nodes"
    return f"{nodes}, one killed every {row.kills_every:g} s" if row.kills_every else nodes
