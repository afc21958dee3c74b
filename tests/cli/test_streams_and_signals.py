"""Exit codes and a node's start depend neither on where a signal lands nor on what the standard streams are."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TextIO

import pytest
from tests.patience import PATIENCE_S

from barnabas.cli.main import main
from barnabas.cli.typed.streams import told_if_possible


@pytest.mark.parametrize("where", ["exec('interrupt()')", "interrupt()"], ids=["in an exec", "outside"])
def test_an_interrupted_command_ends_with_130_wherever_ctrl_c_lands(tmp_path: Path, where: str) -> None:
    program = f"""
        import signal, sys
        from barnabas.cli import main as cli
        def interrupt(*_):
            signal.raise_signal(signal.SIGINT)
            return 0
        cli._main = lambda _: {where}
        sys.exit(cli.main([]))
    """
    (tmp_path / "interrupted.py").write_text(textwrap.dedent(program))
    ran = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, check=False)
    assert ran.returncode == 130


@pytest.mark.parametrize("command", [["start"], ["console"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_stopped_before_it_listens_ends_with_0(
    monkeypatch: pytest.MonkeyPatch, command: list[str], number: signal.Signals
) -> None:
    for early in ("barnabas.cli.start.load_config", "barnabas.console.serving.run"):
        monkeypatch.setattr(early, lambda *_, **__: signal.raise_signal(number))
    before = signal.getsignal(number)
    assert main(command) == 0
    assert signal.getsignal(number) is before


CLOSED = """
import sys
from barnabas.cli import main as cli

def look(_):
    import os
    here = [os.fstat(number) for number in range(3)]
    sys.stdin.read(), print("x"), print("x", file=sys.stderr)
    os._exit(40 + sum(one.st_rdev == os.stat(os.devnull).st_rdev for one in here))

cli._main = look
cli.main([])
"""


@pytest.mark.parametrize(
    ("shut", "null"), [(">&-", 1), ("2>&-", 1), ("<&- >&-", 2), ("<&- >&- 2>&-", 3), ("<&-", 1)]
)
def test_closed_streams_are_the_null_device_and_no_socket_gets_their_place(shut: str, null: int) -> None:
    ran = subprocess.run(
        ["bash", "-c", f'exec "$0" -c "$1" {shut}', sys.executable, CLOSED],
        stdin=subprocess.PIPE,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 40 + null, ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is full")
@pytest.mark.parametrize(("command", "code"), [("--version", 1), ("nonsense", 2)])
def test_output_that_cannot_be_written_is_an_error_and_not_pythons_exit_code(command: str, code: int) -> None:
    words = [sys.executable, "-m", "barnabas", command]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        both = subprocess.run(words, stdout=full, stderr=full, check=False)
    assert (ran.returncode, both.returncode) == (code, code if code == 1 else 1)
    if code == 1:
        assert ran.stderr.startswith("error: the output cannot be written: No space left on device\n  next: ")


def test_output_without_room_has_its_advice_however_it_is_buffered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With PYTHONUNBUFFERED the command itself meets the error, not the flush at its end."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["drill", "list"]) == 1
    assert "No space left on device\n  next: make room where it goes" in capsys.readouterr().err


def test_a_node_serves_on_where_its_banner_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        flush = write

    stream: TextIO = Full()  # type: ignore[assignment]
    monkeypatch.setattr(sys, "stdout", stream)
    with told_if_possible():
        print("ready")


def test_a_node_without_standard_streams_starts_and_stops(tmp_path: Path) -> None:
    """uvloop ends a process whose sockets have the numbers of standard streams."""
    words = (
        f"{sys.executable} -m barnabas start --override barnabas.http.listener=127.0.0.1:0 --data {tmp_path}"
    )
    listeners = "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    made = tmp_path / "meta.properties"
    node = subprocess.Popen(["bash", "-c", f"exec {words} --override {listeners} <&- >&- 2>&-"])
    while not made.exists():
        try:
            node.wait(0.02)
            break
        except subprocess.TimeoutExpired:
            continue
    node.send_signal(signal.SIGTERM)
    assert node.wait(PATIENCE_S) == 0
