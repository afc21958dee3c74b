"""Damaged directories are recovered or refused with a next step, or what is lost is told; none hangs.

The short form is a part of every change; the long one takes DAMAGED=n directories from seed SEED on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.damage.directory import Made, make
from tests.damage.harms import HARMS, KINDS, damage
from tests.damage.verdict import Verdict, judge

SHORT = 40
LONG = int(os.environ.get("DAMAGED", "300"))
FIRST = int(os.environ.get("SEED", "1"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return asyncio.run(make(tmp_path_factory.mktemp("made")))


def judged(made: Made, folder: Path, seed: int) -> tuple[str, Verdict] | None:
    """Damage a copy of the directory by a seed, and see; None where there was nothing to damage."""
    copy = folder / f"{seed}"
    shutil.copytree(made.killed if seed % 2 else made.stopped, copy)
    done = damage(copy, seed)
    if done is None:
        return None
    logging.disable(logging.NOTSET)
    verdict = asyncio.run(judge(copy, made))
    shutil.rmtree(copy)
    return done, verdict


def run(made: Made, folder: Path, seeds: range) -> Counter[str]:
    words: Counter[str] = Counter()
    bad: list[str] = []
    for seed in seeds:
        if (found := judged(made, folder, seed)) is None:
            continue
        done, verdict = found
        words[verdict.word] += 1
        if os.environ.get("DAMAGED"):
            print(f"{seed} {verdict.word}: {done}: {verdict.detail}", flush=True)
        if not verdict.good:
            bad.append(f"seed {seed}, {done}: {verdict.word}: {verdict.detail}")
    assert not bad, "\n".join(bad)
    return words


def test_the_directory_itself_is_whole(made: Made, tmp_path: Path) -> None:
    for name, whole in (("stopped", made.stopped), ("killed", made.killed)):
        shutil.copytree(whole, tmp_path / name)
        verdict = asyncio.run(judge(tmp_path / name, made))
        assert verdict == Verdict("recovered", ""), name


def test_some_damaged_directories(made: Made, tmp_path: Path) -> None:
    step = len(KINDS) * len(HARMS) // SHORT | 1  # every kind of file, every kind of damage
    words = run(made, tmp_path, range(FIRST, FIRST + SHORT * step, step))
    assert words.total() > SHORT * 3 // 4 and words["recovered"] and words["refused"]


@pytest.mark.slow
def test_many_damaged_directories(made: Made, tmp_path: Path) -> None:
    words = run(made, tmp_path, range(FIRST, FIRST + LONG))
    print(dict(words))
