"""Formatting, looking, starting: what a node's operator meets first."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from barnabas.cli.main import main
from barnabas.model import Uuid
from barnabas.server.loop.system import SystemRandomness
from barnabas.testing import Cluster


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        f"log.dirs={tmp_path}/data\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    return path


def test_random_uuids_are_version_4_and_never_look_like_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "random-uuid"]) == 0
    text = capsys.readouterr().out.strip()
    rng = SystemRandomness()
    many = {str(rng.uuid()) for _ in range(500)} | {text}
    assert len(many) == 501
    for text in many:
        raw = Uuid.parse(text)
        assert (raw[6] >> 4, raw[8] >> 6) == (4, 2)
        assert not text.startswith("-")


def test_directories_are_formatted_once_and_described(
    properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["-c", str(properties), "-t", "5L6g3nShT-eMCtK--X86sw", "--standalone"]
    data = properties.parent / "data"
    assert main(["storage", "format", *flags]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Formatting dynamic metadata voter directory {data} with metadata.version 4.")
    assert main(["storage", "info", "-c", str(properties)]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found[:4] == ["Found log directory:", f"  {data}", "", found[3]]
    assert found[3].startswith("Found metadata: {cluster.id=5L6g3nShT-eMCtK--X86sw, directory.id=")
    assert found[3].endswith(", node.id=7, version=1}")
    assert main(["storage", "format", *flags]) == 1
    assert f"{data} is" in capsys.readouterr().err
    assert main(["storage", "format", *flags, "-g"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"


def test_an_unformatted_directory_is_a_problem(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", "info", "-c", str(properties)]) == 1
    assert "Found problem:\n" in capsys.readouterr().out


def run_start(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", "start", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_with_a_file_an_unformatted_directory_is_refused(properties: Path) -> None:
    run = run_start(str(properties))
    assert run.returncode != 0
    assert "not formatted" in run.stderr
    assert "barnabas storage format" in run.stderr
    assert not (properties.parent / "data" / "meta.properties").exists()


def test_a_formatted_node_starts_and_stops_on_ctrl_c(properties: Path) -> None:
    assert main(["storage", "format", "-c", str(properties), "-t", str(SystemRandomness().uuid()), "-s"]) == 0
    command = [sys.executable, "-m", "barnabas", "start", str(properties)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as node:
        assert node.stdout is not None
        lines = [node.stdout.readline() for _ in range(7)]
        begun = time.monotonic()
        node.send_signal(signal.SIGINT)
        assert node.wait(PATIENCE_S) == 0
        assert time.monotonic() - begun < 60
    assert lines[0].startswith("Barnabas ")
    assert lines[2] == "  node id       7\n"
    assert "PLAINTEXT://127.0.0.1:" in lines[5]
    assert "synced to disk" in lines[6]


def test_an_unknown_setting_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "--override", "log.segment.byte=1"]) == 2
    err = capsys.readouterr().err
    assert "log.segment.byte" in err
    assert "log.segment.bytes" in err


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["start", "/nowhere/server.properties"]) == 4
    assert "cannot read /nowhere/server.properties: No such file" in capsys.readouterr().err


def test_a_taken_port_is_one_error_with_a_next_step(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = run_start(
            "--override",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
            "--override",
            f"log.dirs={tmp_path}/data",
        )
    assert run.returncode == 1
    assert f"127.0.0.1:{port}" in run.stderr
    assert "Traceback" not in run.stderr
    assert "  next: " in run.stderr


def test_a_directory_in_use_is_refused(kafka: Cluster) -> None:
    run = run_start(
        "--override",
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "--override",
        f"log.dirs={kafka.directory}/data",
    )
    assert run.returncode == 1
    assert "error: " in run.stderr
    assert "Traceback" not in run.stderr


def test_a_restarted_node_is_the_same_one(kafka_node: Cluster) -> None:
    before = dict(kafka_node.about)
    assert before["formatted"] is True
    kafka_node.restart()
    assert kafka_node.about == {**before, "formatted": False}
    assert kafka_node.stop() == 0
