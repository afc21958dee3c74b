"""Faults beyond the budget: whoever can find out refuses; what cannot be found out is documented."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.sim.quorum.over_budget.faults import OVER_BUDGET_FAULTS
from barnabas.sim.quorum.over_budget.seed_run import OverBudgetReport, OverBudgetSummary, run_seed

KINDS = {kind.name: kind for kind in OVER_BUDGET_FAULTS}
DOCUMENT = Path(__file__).parents[2] / "docs" / "simulation.md"


@cache
def report_of(seed: int) -> OverBudgetReport:
    """What became of a seed."""
    return run_seed(seed)


@pytest.mark.parametrize("first", range(1, 19, 9))  # `.ci/run` goes on where these end
def test_every_fault_beyond_the_budget_ends_in_a_refusal_or_in_what_is_documented(first: int) -> None:
    reached = set()
    for seed in range(first, first + len(OVER_BUDGET_FAULTS)):
        report = report_of(seed)
        assert report.ok, f"{report.error}\nagain: barnabas simulate --beyond --seed {seed}"
        reached.add(report.fault)
        if KINDS[report.fault].detected:
            assert report.outcome in ("refused", "no harm"), report
    assert reached == set(KINDS), "nine seeds in a row have each of them once"


def test_what_nobody_can_find_out_can_really_lose_something() -> None:
    report = report_of(11)
    assert report.fault == "an old copy of the disk" and report.outcome.startswith("lost, "), report


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_table_of_what_happens_names_every_fault(name: str) -> None:
    assert f"| {name} |" in DOCUMENT.read_text()


def test_the_same_seed_beyond_the_budget_gives_the_same_trace() -> None:
    assert report_of(2).digest == run_seed(2, story=True).digest


def test_the_command_tells_of_one_seed_and_counts_many(capsys: Any) -> None:
    assert main(["simulate", "--beyond", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "swapped disks: refused; trace" in said and "belongs to node" in said
    assert main(["simulate", "--beyond", "--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "refused"
    assert main(["simulate", "--beyond", "--seeds", "2", "--first", "7", "--jobs", "1"]) == 0
    assert "2 seeds beyond the budget, 0 failed" in capsys.readouterr().out
    summary = OverBudgetSummary()
    summary.add(report_of(8))
    assert summary.document()["outcomes"] == {"rot in a download: no harm": 1}
