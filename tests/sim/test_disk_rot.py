"""Quorums whose disks lose and change what was synced: nothing committed goes, and every node heals."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.sim.kernel.mutants import Mutant, applied, find
from barnabas.sim.quorum.invariants.committed_log import METADATA
from barnabas.sim.quorum.lying.disk_rot import files_of, rot
from barnabas.sim.quorum.lying.seed_run import run_seed, tell
from barnabas.sim.quorum.mutants.lying import ROT_MUTANTS

MOST = 300
"""Seeds within which each planted bug is found."""


@pytest.mark.parametrize("seed", [3, 7, 28])
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
    "seed", [240, 554], ids=["a snapshot beyond the recovery point", "a read that begins at damage"]
)
def test_a_start_takes_nothing_good_for_damage_and_no_damage_for_an_end(seed: int) -> None:
    report = run_seed(seed)
    assert report.ok, report


@pytest.mark.long
@pytest.mark.parametrize("mutant", ROT_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    report = find(run_seed, mutant, [mutant.seed])
    assert report is not None, f"seed {mutant.seed} does not see that {mutant.says}"


def test_every_planted_bug_fits_the_code_has_a_seed_and_stands_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text()
    assert len(ROT_MUTANTS) >= 6
    for mutant in ROT_MUTANTS:
        with applied(mutant):
            pass
        assert 0 < mutant.seed <= MOST
        assert f"| {mutant.name} |" in text
