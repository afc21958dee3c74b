"""The parts of the demo: answers and their differences, processes that never outlive us, its directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.children import Child, session_members
from barnabas.pipeline.demo.directory import ResultDirectory
from barnabas.pipeline.demo.proof import committed_files, differences
from barnabas.pipeline.demo.report import picture, plain_table
from barnabas.pipeline.demo.screen import Numbers, Screen
from barnabas.pipeline.jobs.flights import ROWS, FlightsAnswer, events, find_data, straight_answer, table

FLIGHTS = [(0, "EWR", "UA", 5, 2), (1, "JFK", "B6", 5, -4), (2, "EWR", "UA", 6, None)]


def answer(rows: list[tuple]) -> FlightsAnswer:
    found = FlightsAnswer()
    for row in rows:
        found.add(*row)
    return found


def test_an_answer_counts_flights_and_adds_up_delays_by_key_and_by_hour() -> None:
    found = answer(FLIGHTS)
    assert found.keys == {"EWR/UA": (2, 1, 2), "JFK/B6": (1, 1, -4)}
    assert found.cells["UA", 6] == (1, 0, 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (FLIGHTS[:-1], "1 rows are lost, the first is 2"),
        ([*FLIGHTS, FLIGHTS[1]], "1 rows came more than once, the first is 1"),
        ([*FLIGHTS, (9, "EWR", "UA", 5, 0)], "1 rows are unknown, the first is 9"),
        ([*FLIGHTS[:2], (2, "EWR", "UA", 6, 1)], "key EWR/UA"),
        ([*FLIGHTS[:2], (2, "EWR", "UA", 7, None)], "('UA', 7)"),
        ([*FLIGHTS[:2], FLIGHTS[1]], "1 rows are lost"),
    ],
)
def test_every_difference_shows(rows: list[tuple], said: str) -> None:
    assert answer(FLIGHTS).differences(answer(FLIGHTS)) == []
    assert said in "; ".join(answer(rows).differences(answer(FLIGHTS)))


def test_the_data_set_gives_messages_and_the_straight_answer() -> None:
    path = find_data()
    sent = [json.loads(event.value) for event in events(path, 50)]
    assert [value["id"] for value in sent] == list(range(50))
    again = answer([(v["id"], v["origin"], v["carrier"], v["hour"], v["dep_delay"]) for v in sent])
    assert again.differences(straight_answer(path, 50)) == []
    assert next(events(path, 1)).key == b"EWR/UA"


def test_the_data_set_has_the_rows_it_is_known_for() -> None:
    assert sum(1 for _ in table(find_data())) == ROWS


def write_result(directory: Path, rows: list[tuple]) -> dict:
    """What the streaming query leaves behind, with one file that no batch committed."""
    import pyarrow as pa
    from pyarrow import parquet

    flights = directory / "flights"
    (flights / "_spark_metadata").mkdir(parents=True)
    names = ["id", "origin", "carrier", "hour", "dep_delay"]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    for name in ("a.parquet", "left-over.parquet"):
        parquet.write_table(pa.table(columns, names), flights / name)
    entry = json.dumps({"path": f"file://{flights}/a.parquet", "action": "add"})
    (flights / "_spark_metadata" / "0").write_text(f"v1\n{entry}")
    (flights / "_spark_metadata" / "1.compact").write_text(f"v1\n{entry}")
    found = answer(rows)
    return {
        "cells": [[*cell, *delays] for cell, delays in found.cells.items()],
        "keys": [[key, *delays] for key, delays in found.keys.items()],
    }


def test_only_files_that_a_batch_committed_count(tmp_path: Path) -> None:
    spark = write_result(tmp_path, FLIGHTS)
    assert [os.path.basename(path) for path in committed_files(str(tmp_path / "flights"))] == ["a.parquet"]
    assert differences(str(tmp_path), spark, answer(FLIGHTS)) == []


def test_a_wrong_table_of_sparks_is_not_proven(tmp_path: Path) -> None:
    spark = write_result(tmp_path, FLIGHTS)
    spark["cells"][0][2] += 1
    spark["keys"].pop()
    wrong = "; ".join(differences(str(tmp_path), spark, answer(FLIGHTS)))
    assert "by carrier and hour" in wrong and "by key" in wrong


def test_the_table_and_the_picture_show_every_carrier(tmp_path: Path) -> None:
    cells = answer(FLIGHTS).cells
    assert [line.split() for line in plain_table(cells).splitlines()[1:]] == [
        ["5h"],
        ["UA", "2"],
        ["B6", "-4"],
    ]
    picture(cells, str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_a_screen_that_is_no_terminal_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(plain=True) as screen:
        screen.say("hello")
        nodes = [("node 1", "up", 2), ("node 2", "KILLED (-9)", 0), ("node 3", "up", 2)]
        screen.show(Numbers(100, 50, 20, nodes, "8 of 12", "batch 3"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("hello") and "lag 30" in lines[1]
    assert "node 1 up, leads 2; node 2 KILLED (-9); node 3 up, leads 2  in sync 8 of 12" in lines[1]


# -- the directory of results ------------------------------------------------------------------------


def test_a_second_run_replaces_the_results_of_the_first(tmp_path: Path) -> None:
    first = ResultDirectory(str(tmp_path / "out"))
    (tmp_path / "out" / "delays.png").write_text("old")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    first.close()
    ResultDirectory(str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path / "out")) == [".barnabas-demo", "notes.txt", "work"]


def test_a_directory_with_foreign_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BarnabasError, match="no demo wrote"):
        ResultDirectory(str(tmp_path))


def test_two_demos_do_not_share_a_directory(tmp_path: Path) -> None:
    first = ResultDirectory(str(tmp_path / "out"))
    with pytest.raises(BarnabasError, match="another demo"):
        ResultDirectory(str(tmp_path / "out"))
    first.close()


# -- children ----------------------------------------------------------------------------------------

FAMILY = """
import os, subprocess, sys, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], process_group=0)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_goes_with_all_its_grandchildren(tmp_path: Path) -> None:
    child = Child("family", [sys.executable, "-c", FAMILY], str(tmp_path / "log"), talks=True)
    assert child.process.stdout is not None
    grandchild = int(child.process.stdout.readline())
    assert grandchild in session_members(child.pid)
    child.end(patience=0.1)
    assert session_members(child.pid) == []
    assert not child.running


def test_whoever_started_children_takes_them_along_when_interrupted(tmp_path: Path) -> None:
    program = (
        "from barnabas.pipeline.demo.children import Child; import time\n"
        f"c = Child('c', ['sleep', '600'], {str(tmp_path / 'log')!r})\n"
        "print(c.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGINT)
    parent.wait(PATIENCE_S)
    for _ in range(100):
        if not session_members(child):
            break
        time.sleep(0.02)
    assert session_members(child) == []
