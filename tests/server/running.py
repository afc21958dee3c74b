"""A node in a process of its own, for tests that weigh it or kill it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_S

from barnabas.client.blocking import BlockingConnection


class RunningNode:
    """`barnabas start` in a process of its own."""

    def __init__(self, folder: Path, *, flush: int = 2**63 - 1) -> None:
        properties = folder / "server.properties"
        properties.write_text(
            f"log.dirs={folder}/data\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
            f"log.flush.interval.messages={flush}\nmax.connections.per.ip=5000\n"
        )
        command = [sys.executable, "-m", "barnabas"]
        subprocess.run(
            [
                *command,
                "storage",
                "format",
                "--standalone",
                "-t",
                "5L6g3nShT-eMCtK--X86sw",
                "-c",
                str(properties),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.command = [*command, "start", str(properties)]
        self.start()

    def start(self) -> None:
        """Start the process and wait until it serves."""
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "PLAINTEXT://127.0.0.1:" in line:
                self.port = int(line.partition("PLAINTEXT://127.0.0.1:")[2].split(",")[0].split()[0])
            if "durability" in line:
                return
        raise AssertionError("the node did not start")

    def connect(self) -> BlockingConnection:
        return BlockingConnection("127.0.0.1", self.port)

    @property
    def peak_mb(self) -> float:
        """The most memory it ever had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE_S)
        finally:
            self.process.kill()
