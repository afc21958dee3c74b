"""Planted bugs in the client's machines: the test that each names passes without it, and fails with it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from barnabas.sim.cluster.mutants.clients import CLIENTS
from barnabas.sim.kernel.mutants import Mutant, applied


@pytest.mark.parametrize("mutant", CLIENTS, ids=[mutant.name for mutant in CLIENTS])
def test_a_bug_in_the_client_is_found(mutant: Mutant) -> None:
    path, name = mutant.guard.split("::")
    guard = getattr(import_module(path.removesuffix(".py").replace("/", ".")), name)
    guard()
    with applied(mutant), pytest.raises(AssertionError):
        guard()


def test_every_bug_in_the_client_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cluster-simulation.md").read_text()
    for mutant in CLIENTS:
        assert f"| {mutant.name} | {mutant.says} |" in text
