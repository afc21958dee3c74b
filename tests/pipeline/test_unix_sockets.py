"""The directory of the sockets between Java and Python: private, short enough, and gone with its process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipeline.unix_sockets import unix_sockets

DIRECTORY = "spark.python.unix.domain.socket.dir"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    unix_sockets.cache_clear()
    yield
    unix_sockets.cache_clear()


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="b-", dir="/tmp") as name:
        yield Path(name)


def test_only_we_enter_the_directory(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    made = Path(unix_sockets()[DIRECTORY])
    assert made.parent == short and made.stat().st_mode & 0o077 == 0
    assert unix_sockets()[DIRECTORY] == str(made), "one for a process"


def test_a_path_that_no_socket_can_have_means_tcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert unix_sockets() == {} and list(long.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [short / f"barnabas-spark-{os.getpid()}-mine", short / "barnabas-spark-1234", short / "notes"]
    gone = short / f"barnabas-spark-{dead.pid}-abcd"
    for directory in (*kept, gone):
        directory.mkdir()
    (gone / ".some.sock").touch()
    unix_sockets()
    assert all(directory.is_dir() for directory in kept) and not gone.exists()


def test_it_goes_when_the_process_ends(short: Path) -> None:
    program = f"from barnabas.pipeline.unix_sockets import unix_sockets; print(unix_sockets()[{DIRECTORY!r}])"
    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TMPDIR": str(short)},
    ).stdout.strip()
    assert said.startswith(str(short)) and not os.path.exists(said)
