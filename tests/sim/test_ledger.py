"""The ledger counts seeds for the code they ran, and only for that."""

from __future__ import annotations

from pathlib import Path

from barnabas.sim.ledger import Ledger, code_hash


def test_a_run_goes_on_behind_the_seeds_this_code_has_lived(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "simulation" / "ledger.jsonl", "code")
    assert ledger.next_seed(1) == 1
    ledger.add(1, 100, [], 6000.0, 50.0)
    ledger.add(101, 100, [150], 6000.0, 50.0)
    assert ledger.next_seed(1) == 201
    assert ledger.next_seed(500) == 500
    assert ledger.seeds() == 200


def test_seeds_of_other_code_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path, "before").add(1, 100, [], 1.0, 1.0)
    now = Ledger(path, "now")
    assert now.next_seed(1) == 1
    assert now.seeds() == 0
    assert now.seeds(all_code=True) == 100


def test_the_code_has_one_fingerprint() -> None:
    assert code_hash() == code_hash()
    assert len(code_hash()) == 16
