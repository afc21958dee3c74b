"""Whole quorums by seed: every promise kept, enough reached, and every fifth the same in another process."""

from __future__ import annotations

import pytest
from tests.sim.seed_runs import Elsewhere, kept, report_of

from barnabas.sim.quorum.seeds import Summary
from barnabas.sim.quorum.targeted_faults import TARGETED_FAULTS
from barnabas.sim.quorum.wrong_format import WrongFormat

pytestmark = pytest.mark.long

CHUNK = 10
FIRST = range(1, 31, CHUNK)
"""`.ci/run` goes on where these end (`make sim`)."""


@pytest.mark.parametrize("first", FIRST)
def test_every_promise_is_kept_and_another_process_with_another_hash_seed_goes_the_same_way(
    first: int,
) -> None:
    seeds = range(first, first + CHUNK)
    elsewhere = Elsewhere(seeds[::5])
    here = [report_of(seed).digest for seed in seeds]
    assert elsewhere.digests() == here[::5]
    assert not kept(seeds), kept(seeds)


def test_the_seeds_do_what_they_are_for() -> None:
    summary = Summary()
    for seed in range(1, 31):
        summary.add(report_of(seed))
    assert summary.reached >= 28
    assert summary.changes > 3 * summary.seeds
    assert len(summary.faults) >= 22 and {kind.name for kind in (*TARGETED_FAULTS, WrongFormat)} <= set(
        summary.faults
    )
    assert {"add", "remove", "remove leader", "resize", "set target", "replace disk"} <= set(
        summary.operations
    )


def test_different_seeds_go_different_ways() -> None:
    assert len({report_of(seed).digest for seed in range(1, 21)}) == 20


@pytest.mark.parametrize("seed", [1059, 200261, 301796, 500027, 92067, 92451])
def test_a_seed_that_broke_a_promise_once_keeps_it(seed: int) -> None:
    """1059 the autopilot, 200261 a lone leader that moved, 92067 a voter without role; the others false alarms."""
    assert not kept([seed]), kept([seed])
