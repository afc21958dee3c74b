"""Whole lives of quorums at random, faults and membership changes included (K149, K151, K153).

Every event is checked against `raft_invariants`; at the end everything is healed and a
leader must come, write, and be heard by all.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from raft_chaos import Chaos

SEEDS = range(1, 17)


@cache
def life(seed: int) -> Chaos:
    """A seed's life, lived once for all tests."""
    chaos = Chaos(seed)
    try:
        chaos.run()
    except Exception:
        print("\n".join(chaos.cluster.story[-80:]))
        raise
    return chaos


@pytest.mark.parametrize("seed", SEEDS)
def test_no_fault_breaks_an_invariant(seed: int) -> None:
    assert life(seed).writes > 0


def trace(seed: int) -> str:
    return hashlib.sha256("\n".join(life(seed).cluster.story).encode()).hexdigest()


def test_the_seeds_reach_what_they_are_for() -> None:
    lives = [life(seed) for seed in SEEDS]
    assert sum(chaos.writes for chaos in lives) > 300
    assert sum(len(chaos.cluster.invariants.committed_sets) for chaos in lives) > 60


def test_the_same_seed_goes_the_same_way_in_another_process_with_another_hash_seed() -> None:
    here = Path(__file__).parent
    code = f"import sys; sys.path.insert(0, {str(here)!r}); import test_raft_seeds as t; print(t.trace(3))"
    source = str(here.parents[1] / "src")
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1
