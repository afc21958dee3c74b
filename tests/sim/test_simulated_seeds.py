"""Whole quorums by seed: every promise kept, enough reached, and the same again anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from barnabas.sim.life import Report, run_seed
from barnabas.sim.seeds import Summary
from barnabas.sim.story import tell

CHUNK = 10
FIRST = range(1, 121, CHUNK)
AGAIN = range(1, 7)


@cache
def lived(seed: int) -> Report:
    return run_seed(seed)


@pytest.mark.parametrize("first", FIRST)
def test_no_fault_breaks_a_promise_while_the_voters_change(first: int) -> None:
    broken = [report for report in map(lived, range(first, first + CHUNK)) if not report.ok]
    assert not broken, "\n".join(tell(run_seed(broken[0].seed, story=True)))


def test_the_seeds_do_what_they_are_for() -> None:
    summary = Summary()
    for seed in range(1, 41):
        summary.add(lived(seed))
    assert summary.reached >= 38
    assert summary.changes > 3 * summary.seeds
    assert len(summary.faults) >= 20
    assert {"add", "remove", "remove leader", "resize", "set target", "replace disk"} <= set(
        summary.operations
    )


def test_the_same_seed_goes_the_same_way_in_another_process_with_another_hash_seed() -> None:
    code = (
        "from barnabas.sim.life import run_seed\n"
        f"print(*[run_seed(seed, story=True).digest for seed in range({AGAIN.start}, {AGAIN.stop})])"
    )
    source = str(Path(__file__).parents[2] / "src")
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for hash_seed in ("1", "2")
    ]
    assert printed[0] == printed[1] == [lived(seed).digest for seed in AGAIN]


def test_different_seeds_go_different_ways() -> None:
    assert len({lived(seed).digest for seed in range(1, 21)}) == 20
