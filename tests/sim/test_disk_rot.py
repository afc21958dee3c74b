"""Quorums whose disks lose and change what was synced: nothing committed goes, and every node heals."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.sim.kernel.mutants import Mutant, applied, find
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.lying.directed import DIRECTED
from barnabas.sim.quorum.lying.disk_rot import files_of, rot
from barnabas.sim.quorum.lying.seed_run import run_seed, tell
from barnabas.sim.quorum.mutants.lying import ROT_MUTANTS

MOST = 300
"""Seeds within which each planted bug is found."""
FOUND = [mutant for mutant in ROT_MUTANTS if mutant.seed]
QUICK = ("who lost entries stands", "votes stand in one file", "damage is not cut", "a cut leaves the row")
DIRECTED_SEED = 27


@pytest.mark.parametrize("seed", [2, 7, 28])
def test_a_quorum_whose_disks_rot_loses_nothing_and_heals(seed: int) -> None:
    """Seed 7: a bit in the epoch of a batch, which no CRC covers, made a log the newest of all."""
    report = run_seed(seed)
    assert report.ok, "\n".join(tell(run_seed(seed, story=True)))
    assert report.damaged >= 5 and report.commits > 100


def test_the_same_seed_is_the_same_history() -> None:
    assert run_seed(28).digest == run_seed(28, story=True).digest != run_seed(29).digest


def test_damage_reaches_every_file_that_the_quorum_reads_in_every_way() -> None:
    contents = {
        "00000000000000000000.log": bytes(range(250)) * 8,
        "00000000000000000009-0000000001.checkpoint": b"snapshot" * 200,
        "quorum-state": b'{"leaderEpoch":1}',
        "barnabas-synced-end": b"row" * 40,
        "recovery-point.json": b"{}" * 9,
    }
    seen: set[tuple[str, str]] = set()
    rng = random.Random(1)
    for _ in range(400):
        disk = MemoryDisk()
        for name, content in contents.items():
            disk.put(f"{METADATA}/{name}", content)
        before = files_of(disk)
        assert set(before) == {f"{METADATA}/{name}" for name in contents}
        what = rot(disk, {path: content[:3] for path, content in before.items()}, rng)
        after = files_of(disk)
        changed = [path for path in before if after.get(path) != before[path]]
        assert len(changed) <= 1, "one file at a time"
        disk.crash("all")
        assert files_of(disk) == after, "durably"
        seen.add((what.split()[-1], what.split()[1] if what.startswith("a ") else what.split()[0]))
    assert {file for file, _ in seen} == set(contents)
    assert len(seen) == 5 * 4


@pytest.mark.long
@pytest.mark.parametrize(
    "seed",
    [240, 554, 1673],
    ids=["a snapshot beyond the recovery point", "a read that begins at damage", "offsets that go back"],
)
def test_a_start_takes_nothing_good_for_damage_and_no_damage_for_an_end(seed: int) -> None:
    report = run_seed(seed)
    assert report.ok, report


def test_faults_that_wait_for_their_moment_come_to_it() -> None:
    report = run_seed(DIRECTED_SEED)
    assert {kind.name for kind in DIRECTED} <= {fault.name for fault in report.faults}
    assert any("an older quorum-state" in fault.text for fault in report.faults)
    assert any("finds a log of which" in fault.text for fault in report.faults)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in FOUND],
)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    report = find(run_seed, mutant, [mutant.seed])
    assert report is not None, f"seed {mutant.seed} does not see that {mutant.says}"


def test_every_planted_bug_fits_the_code_has_a_seed_or_a_test_and_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    assert len(FOUND) >= 31 and {mutant.name for mutant in FOUND} >= set(QUICK)
    for mutant in ROT_MUTANTS:
        with applied(mutant):
            pass
        assert mutant.seed <= MOST and bool(mutant.seed) != bool(mutant.guard)
        assert f"| {mutant.name} |" in text
