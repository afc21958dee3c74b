"""The fuzzer itself: it sees what is wrong, it keeps what is new, and every input that it kept passes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.engine.corpus import kept, minimized
from tests.fuzz.engine.draw import Draw, piece
from tests.fuzz.engine.havoc import mutated
from tests.fuzz.engine.ledger import Ledger
from tests.fuzz.engine.runs import Run, plain
from tests.fuzz.engine.target import Judge, Target, limit_ns
from tests.fuzz.targets import NAMES, target_of

from barnabas.errors import WireError
from barnabas.wire.frame import read_request_header

ROOT = Path(__file__).parents[2]


def door(one: Callable[[bytes], object], *seeds: bytes, patience: int = 1) -> Judge:
    target = Target("door", "for a test", lambda: one, (ValueError,), lambda: seeds)  # type: ignore[arg-type]
    return Judge(target, patience)


def test_seeds_and_kept_inputs_pass_at_every_door() -> None:
    """In a process of its own: some doors replace what costs time, or start a node."""
    command = [sys.executable, "-m", "tests.fuzz", "--replay"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(NAMES)


def test_there_are_doors_for_all_that_comes_from_outside() -> None:
    assert len(NAMES) >= 12
    for name in NAMES:
        target = target_of(name)
        assert target.name == name and target.what and list(target.seeds())


def test_an_exception_that_is_not_declared_is_a_finding() -> None:
    def one(data: bytes) -> None:
        if data == b"declared":
            raise ValueError
        raise KeyError(data)

    judge = door(one)
    assert judge.look(b"declared")[0] is None
    finding, _ = judge.look(b"other")
    assert finding is not None and finding.kind == "exception" and "KeyError" in finding.text


def test_an_input_that_takes_too_long_is_a_finding() -> None:
    def one(data: bytes) -> None:
        until = time.process_time_ns() + limit_ns(len(data)) + 5_000_000
        while data == b"slow" and time.process_time_ns() < until:
            pass

    judge = door(one)
    assert judge.look(b"fast")[0] is None
    finding, _ = judge.look(b"slow")
    assert finding is not None and finding.kind == "slow"


def test_an_input_that_is_slow_once_is_none() -> None:
    """So a machine that is busy, or a collection of garbage, is no finding."""
    calls: list[bytes] = []

    def one(data: bytes) -> None:
        calls.append(data)
        until = time.process_time_ns() + limit_ns(0) + 5_000_000
        while len(calls) == 1 and time.process_time_ns() < until:
            pass

    assert door(one).look(b"")[0] is None
    assert len(calls) == 3


def test_an_input_that_takes_much_memory_is_a_finding() -> None:
    def one(data: bytes) -> None:
        assert len(bytearray(int.from_bytes(data, "big")) or b"x")

    judge = door(one, patience=1000)
    assert judge.look((1 << 20).to_bytes(8, "big"))[0] is None
    finding, _ = judge.look((1 << 30).to_bytes(8, "big"))
    assert finding is not None and finding.kind == "memory"


def test_our_own_mutator_finds_a_planted_bug() -> None:
    """A header that believes its length: what the real one refuses is read here."""

    def one(data: bytes) -> int:
        try:
            read_request_header(data)
        except WireError:
            assert data[8:10] != b"\xff\xfe", "a planted bug"
        return len(data).bit_length()

    judge = door(one, b"\0\x12\0\4\0\0\0\7\0\2me\0")
    assert plain(judge, 20, 1, most=60_000).findings != []


def test_a_seed_draws_the_same_inputs_again() -> None:
    def inputs() -> list[bytes]:
        rng = random.Random(7)
        return [mutated(rng, [b"seed", b"another"], [b"word"], 100) for _ in range(200)]

    assert inputs() == inputs()
    assert len(set(inputs())) > 150 and all(len(data) <= 100 for data in inputs())


def test_what_is_drawn_comes_back() -> None:
    pieces = [b"", b"a", b"b" * 199, b"c" * 200, b"d" * 5000]
    draw = Draw(b"".join(map(piece, pieces)))
    assert [draw.some() for _ in pieces] == pieces
    assert not draw and draw.byte() == 0


def test_only_inputs_that_reach_something_new_are_kept() -> None:
    inputs = [b"\3::1", b"\3::2", b"\3::3", b"\3x", b"\3y"]
    found = minimized(inputs, Judge(target_of("names")).look)
    assert 1 <= len(found) < len(inputs)


def test_the_ledger_adds_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(Run("sasl", "plain", cpu_s=60, runs=10, coverage=5, corpus=3), "code")
    ledger.add(Run("sasl", "plain", cpu_s=30, runs=5, coverage=6, corpus=4), "code")
    ledger.add(Run("sasl", "plain", cpu_s=30, runs=5, coverage=6, corpus=4), "later")
    ledger.add(Run("http", "guided", cpu_s=6, runs=5), "code")
    assert [row["runs"] for row in ledger.rows()] == [15, 5, 5]
    assert ledger.rows()[0]["coverage"] == 6
    assert ledger.minutes() == {"sasl": 2.0, "http": 0.1}


def test_kept_inputs_are_few_and_small() -> None:
    for name in NAMES:
        inputs = kept(name)
        assert len(inputs) <= 150 and sum(map(len, inputs)) <= 24 * 1024
