"""`barnabas simulate` over many seeds: what is written down, whatever ends the run, and what is said of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.cli.simulate.many import Kind, run_many
from barnabas.sim.kernel.ledger import Ledger


@dataclass
class Lived:
    """A seed that was not really lived."""

    seed: int
    error: str = ""
    virtual_seconds: float = 60.0
    cpu_seconds: float = 0.5

    @property
    def ok(self) -> bool:
        return not self.error


@dataclass
class Sum:
    seeds: int = 0
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, report: Lived) -> None:
        self.seeds += 1
        if not report.ok:
            self.failed[report.seed] = report.error

    def lines(self) -> Iterator[str]:
        yield f"{self.seeds} seeds"

    def document(self) -> dict[str, Any]:
        return {"version": 1, "seeds": self.seeds, "failed": self.failed}


def run(
    tmp_path: Path,
    run_seeds: Callable[..., Iterator[Lived]],
    *,
    seeds: int = 200,
    code: Callable[[], str] = lambda: "code",
    **flags: Any,
) -> tuple[int, Ledger]:
    ledger = Ledger(tmp_path / "ledger.jsonl", "code")
    kind = Kind(ledger, code, Sum, run_seeds, lambda seed: f"again {seed}", "--cluster")
    given = {"first": 1, "jobs": 1, "ledger": True, "resume": False, "json": False, **flags}
    return run_many(argparse.Namespace(seeds=seeds, **given), kind), ledger


def lived(seeds: range, *, jobs: int) -> Iterator[Lived]:
    yield from map(Lived, seeds)


def test_a_run_is_written_down_and_the_next_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, lived)[0] == 0
    assert "200 seeds of this code, 200 of any" in capsys.readouterr().out
    code, ledger = run(tmp_path, lived, seeds=30, resume=True)
    assert code == 0 and ledger.seeds() == 230
    assert len(ledger.path.read_text().splitlines()) == 1


def test_without_ledger_nothing_is_written(tmp_path: Path) -> None:
    code, ledger = run(tmp_path, lived, ledger=False)
    assert code == 0 and not ledger.path.exists()


def test_a_broken_seed_is_told_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(seeds: range, *, jobs: int) -> Iterator[Lived]:
        for seed in seeds:
            yield Lived(seed, "Q1: two leaders" if seed == 7 else "")

    code, ledger = run(tmp_path, broken, seeds=20)
    assert code == 1 and ledger.by_code()[0].failed == [7]
    assert "seed 7: BROKEN Q1: two leaders\n  again: again 7" in capsys.readouterr().out


def test_an_interrupted_run_keeps_what_was_lived_without_a_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(seeds: range, *, jobs: int) -> Iterator[Lived]:
        for seed in seeds:
            if seed == 130:
                raise KeyboardInterrupt
            if seed != 127:  # another process is at it
                yield Lived(seed)

    code, ledger = run(tmp_path, interrupted)
    assert code == 130 and ledger.seeds() == 126
    assert "next: barnabas simulate --cluster --seeds 200 --resume" in capsys.readouterr().out


def test_a_run_that_is_killed_keeps_all_but_the_last_few_seeds(tmp_path: Path) -> None:
    def killed(seeds: range, *, jobs: int) -> Iterator[Lived]:
        for seed in seeds:
            if seed == 130:
                assert Ledger(tmp_path / "ledger.jsonl", "code").seeds() == 100
            yield Lived(seed)

    run(tmp_path, killed)


def test_seeds_count_for_the_code_they_ran_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = iter(["code", "code", "other", "other"])
    code, ledger = run(tmp_path, lived, code=lambda: next(codes, "other"))
    assert code == 0 and ledger.seeds() == 100
    assert "the code changed during the run" in capsys.readouterr().out


def test_one_document_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, lived, seeds=3, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["seeds"] == 3 and document["code"] == "code" and document["interrupted"] is False


def test_the_status_says_how_many_seeds_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger(tmp_path / "simulation" / "ledger.jsonl", "0123456789abcdef").add(1, 1200, [5], 1.0, 1.0)
    assert main(["simulate", "--status"]) == 0
    out = capsys.readouterr().out
    assert "0123456789abcdef     1,200       1" in out
    assert "0 seeds of this code" in out and "1,200 of any" in out
    assert main(["simulate", "--status", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["codes"][0]["seeds"] == 1200 and document["seeds"] == 0


def test_only_clusters_have_other_clients(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--transactions", "--seed", "1"]) == 2
    assert "next: barnabas simulate --cluster --transactions" in capsys.readouterr().err


def test_each_kind_of_clients_has_a_ledger_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Ledger(tmp_path / "simulation" / "cluster-transactions.jsonl", "0123456789abcdef").add(1, 7, [], 1.0, 1.0)
    assert main(["simulate", "--cluster", "--transactions", "--status"]) == 0
    assert "7 of any" in capsys.readouterr().out
    assert main(["simulate", "--cluster", "--status"]) == 0
    assert "0 of any" in capsys.readouterr().out


def test_two_real_seeds_in_two_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--seeds", "2", "--ledger", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seeds"] == 2 and document["failed"] == {}
    assert {"events_per_cpu_second", "busy_virtual_seconds_per_cpu_second"} <= set(document)
    assert document["shares"]["operations"] and document["shares"]["faults"]
