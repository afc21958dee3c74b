"""The ledger counts seeds for the code they ran, and only for that."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import barnabas
from barnabas.sim.kernel.ledger import NOT_RUN, Ledger, code_hash
from barnabas.sim.quorum.seed_run import run_seed


def lines(ledger: Ledger) -> list[dict[str, object]]:
    return [json.loads(line) for line in ledger.path.read_text().splitlines()]


def test_a_run_goes_on_behind_the_seeds_this_code_has_lived(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "simulation" / "ledger.jsonl", "code")
    assert ledger.next_seed(1) == 1
    ledger.add(1, 100, [], 6000.0, 50.0)
    ledger.add(101, 100, [150], 6000.0, 50.0)
    assert ledger.next_seed(1) == 201
    assert ledger.next_seed(500) == 500
    assert ledger.seeds() == 200


def test_a_run_is_one_line_that_grows(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "code")
    ledger.add(1, 50, [7], 100.0, 20.0)
    ledger.add(51, 50, [60], 100.0, 20.5)
    ledger.add(500, 10, [], 100.0, 4.0)
    one, other = lines(ledger)
    assert (one["first"], one["seeds"], one["failed"], one["cpu_seconds"]) == (1, 100, [7, 60], 40.5)
    assert (other["first"], other["seeds"], other["code"]) == (500, 10, "code")
    assert len(str(one["date"])) == len("2026-01-31")


def test_a_seed_lived_twice_counts_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "code")
    for first in (1, 51, 1):
        ledger.add(first, 100, [], 1.0, 1.0)
    assert ledger.seeds() == 150 and ledger.next_seed(1) == 151


def test_seeds_of_other_code_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path, "before").add(1, 100, [3], 1.0, 1.0)
    now = Ledger(path, "now")
    assert now.next_seed(1) == 1
    assert now.seeds() == 0
    assert now.seeds(all_code=True) == 100
    (before,) = now.by_code()
    assert (before.code, before.seeds, before.failed) == ("before", 100, [3])


def test_a_write_that_is_broken_off_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "code")
    ledger.add(1, 50, [], 1.0, 1.0)

    def fail(*arguments: object) -> None:
        raise OSError

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError):
        ledger.add(51, 50, [], 1.0, 1.0)
    assert ledger.seeds() == 50


def test_the_code_has_one_fingerprint() -> None:
    assert code_hash() == code_hash()
    assert len(code_hash()) == 16


def test_what_the_hash_leaves_out_is_not_run_by_a_seed() -> None:
    ran: set[str] = set()

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            ran.add(frame.f_code.co_filename)

    gc.collect()  # what other tests left would be finalised in the middle
    gc.disable()
    sys.setprofile(called)
    try:
        run_seed(1)
    finally:
        sys.setprofile(None)
        gc.enable()
    root = Path(barnabas.__file__).parent
    names = {
        str(path.with_suffix("").relative_to(root)) for path in map(Path, ran) if path.is_relative_to(root)
    }
    assert {"log/log", "sim/quorum/seed_run"} <= names
    assert not names & NOT_RUN
