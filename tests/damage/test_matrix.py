"""The matrix itself: its rows cover what they must, its harms do harm, and its verdicts tell good from bad."""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.damage.matrix import __main__ as command
from tests.damage.matrix.apache import ApacheNodes
from tests.damage.matrix.beside import table
from tests.damage.matrix.harm import EVENTS, choose, damage
from tests.damage.matrix.nodes import _differences, _segments
from tests.damage.matrix.plan import COLUMNS, FILES, HARMS, PLACES, SMALL, WAYS, row_of, spread
from tests.damage.matrix.readers import Found, _Reader, value_of
from tests.damage.matrix.tally import good, kept, lines
from tests.damage.matrix.verdict import BAD, GOOD, judge

from barnabas.testing import Node
from barnabas.wire.records import Record, write_batch

ROUND = sum(len(HARMS) - 2 * (file in SMALL) for file in FILES) - 1
FINE: dict[str, Any] = {
    **row_of(1)._asdict(), "kind": "barnabas", "seed": 1, "nodes": 3, "victim": 1,
    "path": "events-0/0.log", "size": 9, "acknowledged": 50, "lost": 0, "losses": {},
    "twice": 0, "served_before": 2, "served_after": 0, "healed_s": 3.0, "told": {"log.damaged by 1": 1},
    "gone_by_itself": False, "refused": "", "gone": [], "rotten": [], "failed": "", "load": 1.0, "verdict": "well",
}  # fmt: skip


@pytest.mark.parametrize("first", [1, 2, 73, 1000])
def test_300_seeds_in_a_row_cover_each_value_of_each_column_ten_times(first: int) -> None:
    rows = [row_of(seed) for seed in range(first, first + 300)]
    for column, values in zip(zip(*rows, strict=True), (HARMS, FILES, PLACES, WAYS), strict=True):
        counts = Counter(column)
        assert min(counts[value] for value in values) >= 10, counts


def test_each_cell_comes_once_before_any_comes_twice() -> None:
    cells = ROUND * len(PLACES) * len(WAYS)
    assert len({row_of(seed) for seed in range(1, cells + 1)}) == cells


def test_a_tenth_of_300_seeds_has_each_value_of_each_column_about_as_often() -> None:
    seeds = spread(range(1, 301), 30)
    assert len(set(seeds)) == 30
    for column, values in zip(zip(*map(row_of, seeds), strict=True), COLUMNS.values(), strict=True):
        counts = Counter(column)
        assert {counts[value] for value in values} <= {30 // len(values), 30 // len(values) + 1}, counts


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data directory with two segments, the second of which was longer than its older copy."""
    for name, blocks in (("new", 4), ("older", 3)):
        folder = tmp_path / name / EVENTS
        folder.mkdir(parents=True)
        for base in (0, 9):
            content = b"".join(bytes([65 + base + n]) * 4096 for n in range(blocks))
            (folder / f"{base:020}.log").write_bytes(content)
    return tmp_path / "new"


@pytest.mark.parametrize("harm", HARMS)
def test_each_harm_changes_one_file_and_no_other(root: Path, harm: str) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*.log")}
    done = damage(root, root.parent / "older", "active segment", harm, random.Random(3))
    assert done is not None and done.path == f"{EVENTS}/{9:020}.log" and done.size == 4 * 4096
    changed = root / done.path
    assert changed.exists() is (done.left is not None) and done.left != before.pop(changed)
    assert all(path.read_bytes() == content for path, content in before.items())


def test_harms_are_what_they_are_called(root: Path) -> None:
    path = root / EVENTS / f"{9:020}.log"
    whole = path.read_bytes()

    def left(harm: str) -> bytes:
        path.write_bytes(whole)
        done = damage(root, root.parent / "older", "active segment", harm, random.Random(5))
        assert done is not None
        return done.left or b""

    assert sum((a ^ b).bit_count() for a, b in zip(left("bit flip"), whole, strict=True)) == 1
    assert Counter(left("4 KiB zeroed"))[0] == 4096
    swapped = left("blocks swapped")
    assert swapped != whole and Counter(swapped) == Counter(whole)
    assert left("older copy") == (root.parent / "older" / EVENTS / path.name).read_bytes()
    assert whole.startswith(left("truncated"))


def test_a_file_without_blocks_cannot_have_them_swapped(root: Path) -> None:
    (root / EVENTS / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    chance = random.Random(1)
    assert damage(root, root, "epoch checkpoint", "blocks swapped", chance) is None
    assert damage(root, root, "producer snapshot", "bit flip", chance) is None


def test_an_older_copy_is_waited_for_where_nothing_differs_from_it_yet(root: Path) -> None:
    (root / EVENTS / f"{9:020}.log").unlink()
    (root / EVENTS / f"{0:020}.index").write_bytes(b"as before")
    chance = random.Random(1)
    assert choose(root, root, "index", "older copy", chance) is None
    (root / EVENTS / f"{9:020}.index").write_bytes(b"of another segment")
    assert choose(root, root, "index", "older copy", chance) is not None
    assert (root / EVENTS / f"{0:020}.index").read_bytes() == b"as before"


APACHE_LOG = """\
[2026-11-29 10:00:00,001] INFO [LogLoader partition=events-0] Loading producer state (o.a.k.UnifiedLog)
[2026-11-29 10:00:00,002] WARN Found invalid messages in log segment /d/events-0/00.log: ... (o.a.k.LogSegment)
[2026-11-29 10:00:00,003] WARN [events-1] Corruption found (o.a.k.LogLoader)
[2026-11-29 10:00:00,004] WARN Error in response for fetch request (..., events-0=...) (kafka.ReplicaFetcherThread)
java.lang.Exception: events-0
[2026-11-29 10:00:00,005] ERROR Encountered a fault (o.a.k.FaultHandler)
CorruptRecordException: Found record size 0 in file /d/events-0/00.log
[2026-11-29 10:00:00,006] INFO events-0 (o.a.k.LocalLog)
"""


def test_a_node_of_apache_kafka_tells_by_warnings_and_errors_that_name_the_log(tmp_path: Path) -> None:
    node = Node(1, str(tmp_path), lambda _: [])
    (tmp_path / "node.log").write_text(APACHE_LOG)
    nodes = object.__new__(ApacheNodes)
    nodes._nodes, nodes._marks = [node], {1: 0}
    assert [told.event for told in nodes.told(["events-0"])] == ["LogSegment", "FaultHandler"]
    nodes.mark()
    assert nodes.told(["events-0"]) == []


def _reader() -> _Reader:
    reader = object.__new__(_Reader)
    reader._found = Found({}, [], [])
    return reader


def test_the_reader_that_trusts_nothing_sees_a_bad_crc_and_a_bad_value_and_what_is_no_batch() -> None:
    batch = bytearray(write_batch([Record(0, 1, None, value_of("sent", 7, 60), ())]))
    assert _reader()._take(0, bytes(batch)) == 1
    batch[-20] ^= 1
    torn = _reader()
    assert torn._take(0, bytes(batch)) == 1 and torn._found.bad == [0]
    other = _reader()
    other._take(0, bytes(write_batch([Record(0, 1, None, value_of("sent", 7, 60)[:-1] + b"x", ())])))
    assert other._found.bad == [0]
    for garbled in (bytes(len(batch)), b"\x7f" * len(batch)):
        torn = _reader()
        assert torn._take(0, garbled) == 0 and torn._found.bad == [0]


def test_replicas_that_differ_where_both_have_records_are_found(tmp_path: Path) -> None:
    logs = {}
    for number, value in ((1, b"a"), (2, b"a"), (3, b"b"), (4, b"")):
        folder = tmp_path / str(number)
        folder.mkdir()
        whole = bytes(write_batch([Record(0, 1, None, value, ())]))
        (folder / f"{0:020}.log").write_bytes(whole if value else bytes(len(whole)))
        logs[number] = _segments(folder)
    assert _differences({1: logs[1], 2: logs[2]}) == []
    assert [words.partition(" differ")[0] for words in _differences(logs)] == [
        "nodes 1 and 3",
        "nodes 2 and 3",
    ]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "well"),
        ({"told": {}, "gone_by_itself": True}, "harmless"),
        ({"told": {}}, "silent"),
        ({"lost": 1}, "lost"),
        ({"lost": 1, "nodes": 2}, "told"),
        ({"lost": 1, "nodes": 1, "told": {}}, "lost"),
        ({"served_after": 1}, "served"),
        ({"twice": 1}, "twice"),
        ({"healed_s": 30.1}, "late"),
        ({"healed_s": None}, "late"),
        ({"healed_s": None, "load": 5.0}, "busy"),
        ({"rotten": ["node 1: events-0"]}, "rotten"),
        ({"gone": [2]}, "ended"),
        ({"refused": "node 1: error: ... next: ..."}, "ended"),
        ({"refused": "node 1: error: ... next: ...", "nodes": 1}, "refused"),
        ({"refused": "node 1: Traceback", "nodes": 1}, "ended"),
        ({"failed": "no traffic"}, "harness"),
    ],
)
def test_a_run_comes_to_the_worst_that_its_facts_say(change: dict[str, Any], word: str) -> None:
    assert judge(FINE | change) == word
    assert (word in GOOD) is not (word in BAD)


def test_runs_of_several_files_are_added_up_and_bad_ones_named(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(json.dumps(FINE) + "\n" + json.dumps(FINE | {"seed": 2, "verdict": "silent"}) + "\n")
    two.write_text(json.dumps(FINE | {"seed": 2, "verdict": "harmless", "told": {}}) + "\n")
    assert not good(kept([one])) and good(
        kept([one, two])
    )  # a seed that was run again counts as it came last
    text = "\n".join(lines(kept([one])))
    assert "barnabas, 3 nodes: 2 runs" in text and re.search(
        r"BAD  silent: seed 2, 3 nodes of barnabas: .*told {'log.damaged by 1': 1}", text
    )
    assert "fewer than 10" in text


def test_both_kinds_stand_side_by_side_over_the_seeds_that_both_ran() -> None:
    bad = {"kind": "apache", "lost": 7, "healed_s": None, "told": {}, "served_after": 2, "rotten": ["node 1"]}
    ours = [FINE | {"losses": {"records": 0}}, FINE | {"seed": 2}]
    runs = [*ours, FINE | bad, FINE | {"kind": "apache", "seed": 9}]
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in table(runs).splitlines()[2:]]
    assert rows == [
        ["1", "50", "0", "0", "2 (1)", "0", "0", "0", "0"],
        ["1", "50", "7 (1)", "2 (1)", "2 (1)", "1", "1", "1", "1"],
        ["2", "100", "0", "0", "4 (2)", "0", "0", "0", "1"],
    ]


def test_the_command_ends_with_1_where_a_run_was_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs"
    for verdict, code in (("well", 0), ("lost", 1)):
        file.write_text(json.dumps(FINE | {"verdict": verdict}) + "\n")
        monkeypatch.setattr(sys, "argv", ["matrix", str(file)])
        assert command.main() == code
    assert "BAD  lost" in capsys.readouterr().out
