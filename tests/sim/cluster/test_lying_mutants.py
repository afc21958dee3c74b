"""Planted bugs of what guards against disks that lie: each raises an alarm on its seed of `--lies`."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.cluster.lying.lying_run import run_lying_seed
from barnabas.sim.cluster.mutants.lying import LYING
from barnabas.sim.kernel.mutants import SEARCHED, Mutant, applied, find

FOUND = [mutant for mutant in LYING if mutant.seed]
QUICK = ("an eligible replica leads whatever its disk lost",)
NEIGHBOURS = 40
"""Any change of the code draws other histories from the seeds: then as many others are looked at as well."""


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in FOUND],
)
def test_a_bug_where_disks_lie_is_found(mutant: Mutant) -> None:
    report = find(run_lying_seed, mutant, dict.fromkeys((mutant.seed, *range(1, NEIGHBOURS + 1))))
    assert report is not None, f"seed {mutant.seed} and the first {NEIGHBOURS} do not see that {mutant.says}"


def test_every_bug_where_disks_lie_still_fits_the_code() -> None:
    for mutant in LYING:
        with applied(mutant):
            pass


def test_each_is_found_within_the_search_or_it_is_said_why_not() -> None:
    assert all(mutant.seed <= SEARCHED for mutant in FOUND)
    assert all(bool(mutant.seed) != bool(mutant.guard) for mutant in LYING)


def test_every_bug_where_disks_lie_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cluster-simulation.md").read_text()
    for mutant in LYING:
        assert f"| {mutant.name} | {mutant.says} |" in text
