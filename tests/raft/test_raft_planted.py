"""The promises notice bugs: each planted one sets off the alarm on its known seed."""

from __future__ import annotations

import pytest
from raft_chaos import Chaos
from raft_planted import BUGS, KNOWN, Bug, planted


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_sets_off_the_alarm(bug: Bug) -> None:
    with planted(bug), pytest.raises(Exception, match=KNOWN[bug.__name__][1]):
        Chaos(KNOWN[bug.__name__][0]).run()


def test_without_it_the_same_seeds_are_quiet() -> None:
    for seed in sorted({seed for seed, _ in KNOWN.values()})[:3]:
        Chaos(seed).run()
