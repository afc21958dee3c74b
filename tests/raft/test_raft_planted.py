"""The promises notice bugs: each planted one sets off the alarm on its known seed."""

from __future__ import annotations

import pytest
from raft_chaos import Chaos
from raft_planted import BUGS, KNOWN, Bug, planted

from barnabas.raft.core import IllegalTransition

LIMIT = 60
"""So many seeds may pass before a bug is noticed."""


def alarm(seed: int) -> bool:
    try:
        Chaos(seed).run()
    except (AssertionError, IllegalTransition):
        return True
    return False


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_sets_off_the_alarm(bug: Bug) -> None:
    with planted(bug):
        assert alarm(KNOWN[bug.__name__]) or any(alarm(seed) for seed in range(1, LIMIT))


def test_without_it_the_same_seeds_are_quiet() -> None:
    assert not any(alarm(seed) for seed in sorted(set(KNOWN.values()))[:4])
