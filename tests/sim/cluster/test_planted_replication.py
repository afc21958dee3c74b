"""A simulated cluster that finds nothing proves nothing: each planted bug raises its alarm on its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.cluster.mutants.mutants import BUGS, SEARCHED, Bug, find, planted

FOUND = [bug for bug in BUGS if bug.seed]
NEIGHBOURS = 30
"""Any change of the code draws other histories from the seeds: then as many others are looked at as well."""


@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.name)
def test_a_planted_replication_bug_is_found(bug: Bug) -> None:
    report = find(bug, dict.fromkeys((bug.seed, *range(1, NEIGHBOURS + 1))))
    assert report is not None, f"seed {bug.seed} and the first {NEIGHBOURS} do not see that {bug.change.says}"


def test_every_planted_replication_bug_still_fits_the_code() -> None:
    for bug in BUGS:
        with planted(bug.change):
            pass


def test_at_least_forty_five_are_found_and_each_within_the_search() -> None:
    assert len(FOUND) >= 45
    assert all(bug.seed <= SEARCHED for bug in FOUND)


def test_of_every_bug_that_is_not_found_it_is_said_why() -> None:
    assert all(bool(bug.seed) != bool(bug.guard) for bug in BUGS)


def test_every_planted_replication_bug_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "cluster-simulation.md").read_text()
    for bug in BUGS:
        assert f"| {bug.name} | {bug.change.says} |" in text
