"""Spark closes lines to Python workers that it does not need: with our daemon nobody hears of it."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

import pytest

pytest.importorskip("pyspark")
if not hasattr(os, "pidfd_open"):
    pytest.skip("the end of another's process is seen on Linux only", allow_module_level=True)


def sized(stream: IO[bytes]) -> bytes:
    """What Spark's processes say: four bytes of length, then so many."""
    return stream.read(struct.unpack(">i", stream.read(4))[0])


@pytest.fixture
def folder() -> Iterator[str]:
    """One whose path is short enough for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as name:
        yield name


def said_after_a_closed_line(daemon: str, folder: str) -> str:
    """What a daemon prints when a worker was started, and the line to it is closed without a task."""
    spark = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": folder}
    spark |= {"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1", "SPARK_REUSE_WORKER": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", daemon, "pyspark.worker"],
        env=os.environ | spark,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        path = sized(process.stdout)
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(path)
            worker = os.pidfd_open(*struct.unpack(">i", line.recv(4, socket.MSG_WAITALL)))
        ended, _, _ = select.select([worker], [], [], 60)
        os.close(worker)
        assert ended, "a worker without a line ends"
        return process.communicate()[1].decode()


def test_a_line_that_spark_closes_is_no_news(folder: str) -> None:
    assert said_after_a_closed_line("barnabas.pipeline.worker_daemon", folder) == ""


def test_sparks_own_daemon_prints_a_traceback_for_it(folder: str) -> None:
    """So that ours may go once Spark's does not."""
    assert "BrokenPipeError" in said_after_a_closed_line("pyspark.daemon", folder)
