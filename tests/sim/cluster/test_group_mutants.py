"""Planted bugs in consumer groups: each raises an alarm on its seed of groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.cluster.clients.groups.workload import run_group_seed
from barnabas.sim.cluster.mutants.groups import GROUPS
from barnabas.sim.kernel.mutants import SEARCHED, Mutant, applied, find

FOUND = [mutant for mutant in GROUPS if mutant.seed]
QUICK = ("given before it was revoked", "epochs are used twice")
NEIGHBOURS = 200
"""Any change of the code draws other histories from the seeds: then as many others are looked at as well."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in FOUND],
)
def test_a_bug_in_groups_is_found(mutant: Mutant) -> None:
    report = find(run_group_seed, mutant, dict.fromkeys((mutant.seed, *range(1, NEIGHBOURS + 1))))
    assert report is not None, f"seed {mutant.seed} and the first {NEIGHBOURS} do not see that {mutant.says}"


def test_every_bug_in_groups_still_fits_the_code() -> None:
    for mutant in GROUPS:
        with applied(mutant):
            pass


def test_at_least_twelve_are_found_and_each_within_the_search() -> None:
    assert len(FOUND) >= 12
    assert all(mutant.seed <= SEARCHED for mutant in FOUND)


def test_of_every_bug_in_groups_that_is_not_found_it_is_said_why() -> None:
    assert all(bool(mutant.seed) != bool(mutant.guard) for mutant in GROUPS)


def test_every_bug_in_groups_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cluster-simulation.md").read_text()
    for mutant in GROUPS:
        assert f"| {mutant.name} | {mutant.says} |" in text
