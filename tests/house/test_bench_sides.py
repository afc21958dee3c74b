"""The two sides of a benchmark: what is measured is what was started, and nothing stays when it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bench.firsts import table
from bench.processes import refuse_taken_port

ROOT = Path(__file__).parents[2]
HOLDS_ONE_STILL = """
import signal, subprocess, sys, time
from bench.processes import end_when_told, stopped
end_when_told()
child = subprocess.Popen(["sleep", "60"])
try:
    with stopped([child.pid]):
        print("held", flush=True)
        while True:  # (a signal that comes just before a long wait is seen at its end)
            time.sleep(0.01)
finally:
    child.terminate()
    print("ended by signal", -child.wait(10), flush=True)
"""


def test_a_port_where_somebody_listens_already_is_refused() -> None:
    """The node of a run that was killed was measured for a new one that could not start (2026-11-27)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SystemExit, match=f"something listens on 127.0.0.1:{port} already"):
            refuse_taken_port(port)
    refuse_taken_port(port)  # nobody does any more


def test_the_firsts_of_each_side_are_the_least_of_its_rounds_with_ratios_to_the_others() -> None:
    found = {
        "Barnabas": [{"join_s": 0.3, "fixture1_s": 0.5}, {"join_s": 0.2, "fixture1_s": 0.6}],
        "Barnabas at 0123abcd": [{"join_s": 0.25, "fixture1_s": 0.5}],
        "Apache Kafka": [{"join_s": 0.8}],
    }
    lines = table(found).splitlines()
    sides = " | ".join(found)
    ratios = "ratio to Barnabas at 0123abcd | ratio to Apache Kafka"
    assert lines[0] == f"| what | {sides} | {ratios} |"
    assert "| first group's join, s | 0.2 | 0.25 | 0.8 | 0.80 | 0.25 |" in lines
    assert "| fixture of one node, s | 0.5 | 0.5 | - | 1.00 | - |" in lines


def test_a_bench_that_is_terminated_lets_go_of_what_it_stopped_and_ends_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE_STILL], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as bench:
        assert bench.stdout is not None
        assert bench.stdout.readline() == "held\n"
        bench.send_signal(signal.SIGTERM)
        assert bench.stdout.readline() == f"ended by signal {signal.SIGTERM:d}\n"
    assert bench.returncode == 128 + signal.SIGTERM
