"""A simulated cluster that finds nothing proves nothing: each mutant raises its alarm on its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.cluster.mutants.mutants import MUTANTS
from barnabas.sim.cluster.seed_run import run_seed
from barnabas.sim.kernel.mutants import SEARCHED, Mutant, applied, find

pytestmark = pytest.mark.long

FOUND = [mutant for mutant in MUTANTS if mutant.seed]
NEIGHBOURS = 200
"""Any change of the code draws other histories from the seeds: then as many others are looked at as well."""


@pytest.mark.parametrize("mutant", FOUND, ids=lambda mutant: mutant.name)
def test_a_replication_mutant_is_found(mutant: Mutant) -> None:
    report = find(run_seed, mutant, dict.fromkeys((mutant.seed, *range(1, NEIGHBOURS + 1))))
    assert report is not None, f"seed {mutant.seed} and the first {NEIGHBOURS} do not see that {mutant.says}"


def test_every_replication_mutant_still_fits_the_code() -> None:
    for mutant in MUTANTS:
        with applied(mutant):
            pass


def test_at_least_forty_five_are_found_and_each_within_the_search() -> None:
    assert len(FOUND) >= 45
    assert all(mutant.seed <= SEARCHED for mutant in FOUND)


def test_of_every_mutant_that_is_not_found_it_is_said_why() -> None:
    assert all(bool(mutant.seed) != bool(mutant.guard) for mutant in MUTANTS)


def test_every_replication_mutant_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cluster-simulation.md").read_text()
    for mutant in MUTANTS:
        assert f"| {mutant.name} | {mutant.says} |" in text
