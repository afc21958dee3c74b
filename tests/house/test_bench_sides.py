"""The two sides of a benchmark: what is measured is what was started, and nothing stays when it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
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


def test_a_bench_that_is_terminated_lets_go_of_what_it_stopped_and_ends_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_ONE_STILL], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as bench:
        assert bench.stdout is not None
        assert bench.stdout.readline() == "held\n"
        bench.send_signal(signal.SIGTERM)
        assert bench.stdout.readline() == f"ended by signal {signal.SIGTERM:d}\n"
    assert bench.returncode == 128 + signal.SIGTERM
