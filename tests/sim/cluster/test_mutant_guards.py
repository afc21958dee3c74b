"""Planted bugs that no seed finds yet: the test that `guard` names fails where the bug is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.sim.cluster.mutants.groups import GROUPS
from barnabas.sim.cluster.mutants.lying import LYING
from barnabas.sim.cluster.mutants.mutants import MUTANTS
from barnabas.sim.cluster.mutants.transactions import TRANSACTIONAL
from barnabas.sim.kernel.mutants import Mutant, applied
from barnabas.sim.quorum.mutants.lying import ROT_MUTANTS

ROOT = Path(__file__).parents[3]
GUARDED = [
    mutant for mutant in (*GROUPS, *TRANSACTIONAL, *MUTANTS, *LYING, *ROT_MUTANTS) if "::" in mutant.guard
]


def _outcome(guard: str) -> int:
    return pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", str(ROOT / guard)])


@pytest.mark.slow
@pytest.mark.parametrize("mutant", GUARDED, ids=[mutant.name for mutant in GUARDED])
def test_the_named_test_finds_the_bug(mutant: Mutant) -> None:
    assert _outcome(mutant.guard) == pytest.ExitCode.OK
    with applied(mutant):
        assert _outcome(mutant.guard) == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("mutant", GUARDED, ids=[mutant.name for mutant in GUARDED])
def test_the_named_test_is_there(mutant: Mutant) -> None:
    path, name = mutant.guard.split("::")
    assert f"\ndef {name}(" in (ROOT / path).read_text()
