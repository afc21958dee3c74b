"""A simulator that finds nothing proves nothing: each planted bug raises its alarm on its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.quorum.mutants.mutants import BUGS, SEARCHED, Bug, find, planted
from barnabas.sim.quorum.mutants.subtle import SUBTLE

FOUND = [bug for bug in BUGS if bug.seed]


NEIGHBOURS = 40
"""Any change of raft/ draws other histories from the seeds: then as many others are looked at as well."""


@pytest.mark.parametrize("bug", FOUND, ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    report = find(bug, [bug.seed, *range(1, NEIGHBOURS + 1)])
    assert report is not None, f"seed {bug.seed} and the first {NEIGHBOURS} do not see {bug.says}"


def test_every_planted_bug_still_fits_the_code() -> None:
    for bug in BUGS:
        with planted(bug):
            pass


def test_at_least_twenty_are_planted_and_all_are_found_within_the_search() -> None:
    assert len(BUGS) >= 20 and len(FOUND) == len(BUGS)
    assert all(bug.seed <= SEARCHED for bug in FOUND)


def test_the_subtle_ones_are_found_within_forty_seeds() -> None:
    assert len(SUBTLE) >= 20
    assert all(0 < bug.seed <= NEIGHBOURS for bug in SUBTLE)


def test_every_planted_bug_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    for bug in BUGS:
        assert f"| {bug.name} |" in text
