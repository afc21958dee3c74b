"""The invariants notice mutants: each one breaks an invariant on its known seed."""

from __future__ import annotations

import pytest
from raft_chaos import Chaos
from raft_mutants import KNOWN, MUTANTS, Mutant, mutated

from barnabas.raft.core import IllegalTransition

LIMIT = 60
"""So many seeds may pass before a mutant is noticed."""


def alarm(seed: int) -> bool:
    try:
        Chaos(seed).run()
    except (AssertionError, IllegalTransition):
        return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_breaks_an_invariant(mutant: Mutant) -> None:
    with mutated(mutant):
        assert alarm(KNOWN[mutant.__name__]) or any(alarm(seed) for seed in range(1, LIMIT))


def test_without_it_the_same_seeds_pass() -> None:
    assert not any(alarm(seed) for seed in sorted(set(KNOWN.values()))[:4])
