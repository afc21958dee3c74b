"""The parts of the demo: answers and their differences, processes that never outlive us, its directory."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.pidfd import pidfd_open

from barnabas.cli.drill.node import StageNode
from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.children import Child, session_members
from barnabas.pipeline.demo.directory import ResultDirectory
from barnabas.pipeline.demo.node import DemoNode
from barnabas.pipeline.demo.proof import differences, expected_cells, read_back
from barnabas.pipeline.demo.report import (
    _draw_timeline,
    by_carrier_and_hour,
    picture,
    plain_table,
    write_parquet,
)
from barnabas.pipeline.demo.screen import Numbers, Screen
from barnabas.pipeline.demo.timeline import Timeline
from barnabas.pipeline.demo.voters import MOVE
from barnabas.pipeline.jobs.flights import (
    END_OF_YEAR,
    ROWS,
    FlightsAnswer,
    date_of,
    events,
    find_data,
    straight_answer,
    table,
)

FLIGHTS = [
    (0, "2013-01-01", "EWR", "UA", 5, 2),
    (1, "2013-01-01", "JFK", "B6", 5, -4),
    (2, "2013-01-02", "EWR", "UA", 6, None),
]


def answer(rows: list[tuple]) -> FlightsAnswer:
    found = FlightsAnswer()
    for row in rows:
        found.add(*row)
    return found


def flights_topic(rows: list[tuple]) -> list[bytes]:
    """What a reader finds in the topic of flights."""
    names = ("id", "date", "origin", "carrier", "hour", "dep_delay")
    return [*(json.dumps(dict(zip(names, row, strict=True))).encode() for row in rows), END_OF_YEAR.value]


def delays_topic(rows: list[tuple]) -> list[bytes]:
    """What a reader finds in the topic of delays when Spark has read these flights."""
    return [
        json.dumps(
            {"date": cell.date, "carrier": cell.carrier, "hour": cell.hour, **cell.delays._asdict()}
        ).encode()
        for cell in expected_cells(answer(rows))
    ]


def test_an_answer_counts_flights_and_adds_up_delays_by_key_and_by_day_and_hour() -> None:
    found = answer(FLIGHTS)
    assert found.keys == {"EWR/UA": (2, 1, 2), "JFK/B6": (1, 1, -4)}
    assert found.cells["2013-01-02", "UA", 6] == (1, 0, 0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (FLIGHTS[:-1], "flights: 1 rows are lost, the first is 2"),
        ([*FLIGHTS, FLIGHTS[1]], "flights: 1 rows came more than once, the first is 1"),
        ([*FLIGHTS, (9, "2013-01-01", "EWR", "UA", 5, 0)], "flights: 1 rows are unknown, the first is 9"),
        ([*FLIGHTS[:2], (2, "2013-01-02", "EWR", "UA", 6, 1)], "flights: key EWR/UA"),
        ([*FLIGHTS[:2], (2, "2013-01-03", "EWR", "UA", 6, None)], "('2013-01-03', 'UA', 6)"),
        ([*FLIGHTS[:2], FLIGHTS[1]], "flights: 1 rows are lost"),
    ],
)
def test_every_difference_of_the_topic_of_flights_shows(rows: list[tuple], said: str) -> None:
    good = read_back(flights_topic(FLIGHTS), delays_topic(FLIGHTS))
    assert differences(good, answer(FLIGHTS)) == []
    found = differences(read_back(flights_topic(rows), delays_topic(FLIGHTS)), answer(FLIGHTS))
    assert said in "; ".join(found)


def test_every_difference_of_the_topic_of_delays_shows() -> None:
    good = delays_topic(FLIGHTS)
    other = good[0].replace(b'"minutes": 2', b'"minutes": 3')
    assert other != good[0]
    for delays, said in (
        (good[1:], "delays: 1 records are lost, the first is 2013-01-01 UA 5h (1, 1, 2)"),
        ([*good, good[1]], "delays: 1 records came more than once, the first is 2013-01-01 B6 5h"),
        ([other, *good[1:]], "delays: 1 records are not of this data set"),
    ):
        found = differences(read_back(flights_topic(FLIGHTS), delays), answer(FLIGHTS))
        assert said in "; ".join(found)


def test_the_data_set_gives_messages_and_the_straight_answer() -> None:
    path = find_data()
    again = read_back([event.value for event in events(path, 50)], []).flights
    assert sorted(again.ids) == list(range(50))
    assert again.differences(straight_answer(path, 50)) == []
    assert next(events(path, 1)).key == b"EWR/UA"


def test_flights_come_a_day_after_the_other_whatever_the_order_of_the_file() -> None:
    path, rows = find_data(), 30_000  # (October follows January there)
    days = [json.loads(event.value)["date"] for event in events(path, rows)]
    assert days == sorted(days) and days[-1] > "2013-10"
    assert sorted(days) == sorted(date_of(row) for row in table(path, rows))
    assert days[-1] < json.loads(END_OF_YEAR.value)["date"]


def test_the_data_set_has_the_rows_it_is_known_for() -> None:
    assert sum(1 for _ in table(find_data())) == ROWS


def test_the_table_the_file_and_the_picture_show_every_carrier(tmp_path: Path) -> None:
    from pyarrow import parquet

    records = read_back([], delays_topic(FLIGHTS)).delays
    cells = by_carrier_and_hour(records)
    assert [line.split() for line in plain_table(cells).splitlines()[1:]] == [
        ["5h"],
        ["UA", "2"],
        ["B6", "-4"],
    ]
    write_parquet(records.elements(), str(tmp_path / "x.parquet"))
    assert parquet.read_table(tmp_path / "x.parquet").num_rows == 3
    timeline = Timeline()
    timeline.begin("Spark is dead", killed=True)
    timeline.sample(3, 2, 1)
    timeline.end("Spark is dead")
    timeline.begin("the quorum moves", killed=False)
    assert [period.until is None for period in timeline.periods] == [False, True]
    picture(cells, timeline, str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_marks_what_was_killed_and_when_the_quorum_moved() -> None:
    from matplotlib.figure import Figure

    timeline = Timeline()
    timeline.sample(3, 2, 1)
    timeline.begin("Spark is dead", killed=True)
    timeline.end("Spark is dead")
    timeline.begin(MOVE, killed=False)
    axes = Figure().subplots()
    _draw_timeline(axes, timeline)
    assert [(text.get_text().strip(), text.get_color()) for text in axes.texts] == [
        ("Spark is dead (kill -9)", "darkred"),
        ("barnabas quorum reassign --target 4,5,6", "navy"),
    ]
    assert [text.get_position()[0] for text in axes.texts] == [one.since for one in timeline.periods]


def test_a_screen_that_is_no_terminal_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen(plain=True) as screen:
        screen.say("hello")
        nodes = [("node 1", "up", 2), ("node 2", "KILLED (-9)", 0), ("node 3", "up", 2)]
        screen.show(Numbers(100, 50, 20, 7, None, nodes, "8 of 12", "batch 3"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("hello") and "lag 30  delays out 7" in lines[1]
    assert "node 1 up, leads 2; node 2 KILLED (-9); node 3 up, leads 2  in sync 8 of 12" in lines[1]


def test_a_terminal_gets_three_bars() -> None:
    from rich.console import Console

    screen, console = Screen(plain=False), Console(width=120, record=True, file=io.StringIO())
    numbers = Numbers(100, 50, 20, 7, None, [("node 1", "up", 2)], "4 of 4", "KILLED (-9)")
    for shown in (numbers, numbers._replace(to_write=40)):
        console.print(screen._picture(shown))
    before, after = console.export_text().split("flights in")[1:]
    assert "delays out, committed" in before and "of 40" not in before
    assert "of 40" in after and "spark KILLED (-9)" in after


# -- the directory of results ------------------------------------------------------------------------


def test_a_second_run_replaces_the_results_of_the_first(tmp_path: Path) -> None:
    first = ResultDirectory(str(tmp_path / "out"))
    (tmp_path / "out" / "demo.png").write_text("old")
    (tmp_path / "out" / "flights").mkdir()
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


def test_a_child_hears_that_who_started_it_was_killed(tmp_path: Path) -> None:
    program = (
        "from barnabas.pipeline.demo.children import Child\n"
        f"print(Child('c', ['cat'], {str(tmp_path / 'log')!r}).pid, flush=True)\n"
        "input()\n"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    ended = pidfd_open(int(starter.stdout.readline()))
    starter.kill()
    starter.communicate()
    assert select.select([ended], [], [], PATIENCE_S)[0]
    os.close(ended)


def test_nodes_of_demo_and_drill_stop_when_their_input_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed: list[list[str]] = []
    for module in ("barnabas.pipeline.demo.node", "barnabas.cli.drill.node"):
        monkeypatch.setattr(f"{module}.Child", lambda name, words, *_, **__: typed.append(words))
    DemoNode(1, str(tmp_path), (1, 2), [2]).start()
    StageNode(1, str(tmp_path), "broker", (1, 2), [], {}).start()
    assert ["--until-eof" in words for words in typed] == [True, True]


def test_whoever_started_children_takes_them_along_when_interrupted(tmp_path: Path) -> None:
    program = (
        "from barnabas.pipeline.demo.children import Child; import time\n"
        f"c = Child('c', ['sleep', '600'], {str(tmp_path / 'log')!r})\n"
        "print(c.pid, flush=True)\n"
        "while True: time.sleep(0.01)\n"  # (a signal that comes just before a long sleep waits for its end)
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
