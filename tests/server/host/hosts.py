"""`barnabas start --nodes` as a process, for tests."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S
from tests.pidfd import pidfd_open


class Host:
    """`barnabas start --nodes N` with ports of its own."""

    def __init__(self, directory: Path, first_port: int) -> None:
        self.directory = directory
        self.first_port = first_port
        self.process: subprocess.Popen[str] | None = None

    def start(self, nodes: int, *words: str) -> str:
        """Returns its first line."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.first_port},CONTROLLER://127.0.0.1:{self.first_port + 1}"
        command = [sys.executable, "-m", "barnabas", "start", "--nodes", str(nodes), *words]
        command += ["--override", f"log.dirs={self.directory}/data", "--override", f"listeners={listeners}"]
        with open(self.directory / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def about(self, nodes: int) -> dict[str, Any]:
        """What it says with --json."""
        document: dict[str, Any] = json.loads(self.start(nodes, "--json"))
        return document

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        return (self.directory / "log").read_text()


def bootstrap(about: dict[str, Any]) -> list[str]:
    return [node["listeners"][0].partition("://")[2] for node in about["nodes"]]


def gone(pid: int) -> None:
    """Returns when a process that is not our child is gone."""
    try:
        descriptor = pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], PATIENCE_S)[0]
    finally:
        os.close(descriptor)
