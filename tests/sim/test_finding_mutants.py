"""The search for a planted bug: what counts as found."""

from __future__ import annotations

from barnabas.sim.kernel import lies
from barnabas.sim.kernel.mutants import find, mutant
from barnabas.sim.kernel.report import Report

BUG = mutant(
    "nothing before it", "what stands before a block is lost", "sim.kernel.lies _with", "content[:at] + ", ""
)


def run(seed: int) -> Report:
    """Seed 1 sees nothing, seed 2 fails whatever is planted, seed 3 sees the bug."""
    wrong = lies._with(b"ab", 1, b"c") != b"ac"
    return Report(seed, invariant="S1" if seed == 2 or (seed == 3 and wrong) else "")


def test_a_seed_that_fails_without_the_bug_shows_nothing_of_it() -> None:
    found = find(run, BUG, range(1, 5))
    assert found is not None and found.seed == 3
    assert run(3).ok, "the bug is gone again"


def test_a_bug_that_no_seed_sees_is_not_found() -> None:
    assert find(run, BUG, [1, 2, 4]) is None
