"""Quorums whose nodes all come back at new addresses and know the name of one."""

from __future__ import annotations

from math import inf

import pytest

from barnabas.sim.quorum import setup
from barnabas.sim.quorum.all_moved import SIZES, run_seed


@pytest.mark.parametrize("seed", [1, 2, 3, 245])
def test_voters_that_all_moved_are_a_quorum_again(seed: int) -> None:
    """Seed 245: a voter that came back under the same leader never told it where it was."""
    report = run_seed(seed)
    assert report.ok, report.error
    assert report.voters == SIZES[seed % 3] and report.seconds


@pytest.mark.parametrize("seed", [1, 2])
def test_without_the_exchange_four_and_five_do_not_find_each_other(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "EXCHANGE_S", inf)
    report = run_seed(seed)
    assert report.invariant == "L1"
