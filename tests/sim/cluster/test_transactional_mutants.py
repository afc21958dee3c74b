"""Planted bugs in transactions: each raises an alarm on its transactional seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.cluster.clients.transactions.workload import run_transactional_seed
from barnabas.sim.cluster.mutants.transactions import TRANSACTIONAL
from barnabas.sim.kernel.mutants import SEARCHED, Mutant, applied, find

FOUND = [mutant for mutant in TRANSACTIONAL if mutant.seed]
QUICK = ("positions are forgotten at a failover", "everything committed is stable")
NEIGHBOURS = 200
"""Any change of the code draws other histories from the seeds: then as many others are looked at as well."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in FOUND],
)
def test_a_bug_in_transactions_is_found(mutant: Mutant) -> None:
    report = find(run_transactional_seed, mutant, dict.fromkeys((mutant.seed, *range(1, NEIGHBOURS + 1))))
    assert report is not None, f"seed {mutant.seed} and the first {NEIGHBOURS} do not see that {mutant.says}"


def test_every_bug_in_transactions_still_fits_the_code() -> None:
    for mutant in TRANSACTIONAL:
        with applied(mutant):
            pass


def test_at_least_thirteen_are_found_and_each_within_the_search() -> None:
    assert len(FOUND) >= 13
    assert all(mutant.seed <= SEARCHED for mutant in FOUND)


def test_of_every_bug_in_transactions_that_is_not_found_it_is_said_why() -> None:
    assert all(bool(mutant.seed) != bool(mutant.guard) for mutant in TRANSACTIONAL)


def test_every_bug_in_transactions_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cluster-simulation.md").read_text()
    for mutant in TRANSACTIONAL:
        assert f"| {mutant.name} | {mutant.says} |" in text
