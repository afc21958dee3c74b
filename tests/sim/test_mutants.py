"""A simulator that finds nothing proves nothing: each mutant raises its alarm on its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.kernel.mutants import SEARCHED, Mutant, applied, find
from barnabas.sim.quorum.mutants.mutants import MUTANTS
from barnabas.sim.quorum.mutants.subtle import SUBTLE
from barnabas.sim.quorum.seed_run import run_seed

pytestmark = pytest.mark.long

FOUND = [mutant for mutant in MUTANTS if mutant.seed]


FALLBACK = 400
"""Seeds that are tried where the stored one draws another history now: a new fault in the simulator moves all."""


@pytest.mark.parametrize("mutant", FOUND, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found(mutant: Mutant) -> None:
    report = find(run_seed, mutant, [mutant.seed, *range(1, FALLBACK + 1)])
    assert report is not None, f"seed {mutant.seed} and the first {FALLBACK} do not see {mutant.says}"


def test_every_mutant_still_fits_the_code() -> None:
    for mutant in MUTANTS:
        with applied(mutant):
            pass


def test_there_are_at_least_twenty_and_all_are_found_within_the_search() -> None:
    assert len(MUTANTS) >= 20 and len(FOUND) == len(MUTANTS)
    assert all(mutant.seed <= SEARCHED for mutant in FOUND)


def test_the_subtle_ones_are_found_within_two_hundred_seeds() -> None:
    assert len(SUBTLE) >= 20
    assert all(0 < mutant.seed <= 200 for mutant in SUBTLE)


def test_every_mutant_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    for mutant in MUTANTS:
        assert f"| {mutant.name} |" in text
