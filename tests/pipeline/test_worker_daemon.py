"""Spark closes lines to Python workers that it does not need: with our daemon nobody hears of it."""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from tests.pidfd import pidfd_open

pytest.importorskip("pyspark")

from barnabas.pipeline.worker_daemon import STREAM_PLANNER

if sys.platform != "linux":
    pytest.skip("the end of another's process is seen on Linux only", allow_module_level=True)


def sized(stream: IO[bytes]) -> bytes:
    """What Spark's processes say: four bytes of length, then so many."""
    return stream.read(struct.unpack(">i", stream.read(4))[0])


@pytest.fixture
def folder() -> Iterator[str]:
    """One whose path is short enough for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        yield name


PLANS = """
from barnabas.pipeline.worker_heap import settle

def main(asked, answered):
    if asked.read(1) == b"p":
        if {settles}:
            settle()
        answered.write(b"a")
    else:
        answered.write(b"EOFError")
"""
"""A program like those of Spark's that plan: it is asked, answers, and is asked again; here by one byte."""


def test_a_jobs_own_modules_are_found_where_the_folder_is_left_out_but_hide_none_of_pythons(
    tmp_path: Path,
) -> None:
    (tmp_path / "queue.py").write_text("MINE = True\n")
    (tmp_path / "helpers.py").touch()
    program = (
        "from barnabas.pipeline import worker_daemon\n"
        "worker_daemon.daemon.manager = lambda: None\n"
        "worker_daemon.main()\n"
        "import helpers, queue\n"
        "print(hasattr(queue, 'MINE'))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout == "False\n", ran.stderr


def said_after_a_closed_line(daemon: str, folder: str, *, program: str = "pyspark.worker") -> str:
    """What a daemon prints when a worker was started, was asked if it plans, and the line to it is closed."""
    spark = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": folder}
    spark |= {"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1", "SPARK_REUSE_WORKER": "1"}
    spark["PYTHONPATH"] = os.pathsep.join([folder, *sys.path])
    with subprocess.Popen(
        [sys.executable, "-m", daemon, program],
        env=os.environ | spark,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        path = sized(process.stdout)
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            if program != "pyspark.worker":
                line.sendall(b"p")
            worker = pidfd_open(*struct.unpack(">i", line.recv(4, socket.MSG_WAITALL)))
            if program != "pyspark.worker":
                assert line.recv(1) == b"a"
        ended, _, _ = select.select([worker], [], [], 60)
        os.close(worker)
        assert ended, "a worker without a line ends"
        return process.communicate()[1].decode()


def test_a_line_that_spark_closes_is_no_news(folder: str) -> None:
    assert said_after_a_closed_line("barnabas.pipeline.worker_daemon", folder) == ""


def test_sparks_own_daemon_prints_a_traceback_for_it(folder: str) -> None:
    """So that ours may go once Spark's does not."""
    assert "BrokenPipeError" in said_after_a_closed_line("pyspark.daemon", folder)


@pytest.mark.parametrize(("settles", "said"), [(True, False), (False, True)])
def test_sparks_own_daemon_is_silent_where_our_code_has_planned(
    folder: str, *, settles: bool, said: bool
) -> None:
    (Path(folder) / "pyspark_plans.py").write_text(PLANS.replace("{settles}", str(settles)))
    heard = said_after_a_closed_line("pyspark.daemon", folder, program="pyspark_plans")
    assert ("BrokenPipeError" in heard) == said and (said or heard == "")


def test_the_planner_of_a_stream_that_was_stopped_ends_without_a_word_and_tells_all_else() -> None:
    """As Spark runs it: a program of its own, which calls our code and then finds its line closed."""
    program = """
import importlib.machinery, sys
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec({name!r}, None)
from barnabas.pipeline.worker_heap import settle
settle()
raise {error}("planted")
"""
    for error, heard in (("BrokenPipeError", False), ("ValueError", True)):
        text = program.format(name=STREAM_PLANNER, error=error)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and ("planted" in done.stderr) == heard, done.stderr
    spec = importlib.util.find_spec(STREAM_PLANNER)
    assert spec is not None, "Spark has a program of that name"
