"""One node as a child process, with the few things a test does to it: kill, restart, stop.

It is what `barnabas start` runs, so a test sees what a user sees.  The child says in one line of JSON that
it is ready; nothing is polled.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from barnabas.errors import BarnabasError

__all__ = ["Cluster"]

READY_SECONDS = 30.0
STOP_SECONDS = 15.0
_ERRORS_KEPT = 20  # lines of the node's own log shown when it does not start


class Cluster:
    """`with Cluster() as kafka: kafka.bootstrap` -> "127.0.0.1:40123".

    `settings` are Kafka's property names.  `directory` keeps the data; without it they are in a temporary
    directory and removed at the end.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, *, directory: str | None = None) -> None:
        self.settings = dict(settings or {})
        self._temporary = None if directory else tempfile.mkdtemp(prefix="barnabas-test-")
        self.directory = directory or str(self._temporary)
        self.bootstrap = ""
        self.about: dict[str, Any] = {}
        """What the node said of itself when it was ready: cluster_id, node_id, listeners ..."""
        self._process: subprocess.Popen[bytes] | None = None
        self._listeners: list[str] = []

    def __repr__(self) -> str:
        return f"<Cluster {self.bootstrap or 'stopped'} {self.directory}>"

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """`kafka.pid` -> the process id of the node, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """`kafka.start()`: returns when the node serves clients.  The ports stay the same at later starts."""
        if self.pid is not None:
            return
        ports = self._listeners or ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]
        settings = {
            "log.dirs": os.path.join(self.directory, "data"),
            "listeners": ",".join(ports),
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        command = [sys.executable, "-m", "barnabas", "start", "--json"]
        for name, value in settings.items():
            command += ["--override", f"{name}={value}"]
        with open(os.path.join(self.directory, "node.log"), "ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.about = json.loads(self._first_line())["node"]
        self._listeners = self.about["listeners"]
        client = next(text for text in self._listeners if not text.startswith("CONTROLLER"))
        self.bootstrap = client.split("://")[1]

    def stop(self) -> int:
        """`kafka.stop()`: an orderly stop (SIGTERM); returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """`kafka.kill()`: kill -9, as a crash of the machine would end the process."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """`kafka.restart()`: stop if it runs, then start on the same data and ports."""
        self.stop()
        self.start()

    def close(self) -> None:
        """`kafka.close()`: stop and, unless a directory was given, remove the data."""
        self.stop()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def log(self) -> str:
        """`kafka.log()` -> what the node wrote to its log so far."""
        path = os.path.join(self.directory, "node.log")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    # -- the process -----------------------------------------------------------------------------

    def _first_line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + READY_SECONDS
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                left = deadline - time.monotonic()
                chunk = b""
                if left > 0 and selector.select(left):
                    chunk = os.read(self._process.stdout.fileno(), 65536)
                if not chunk:
                    self._end(signal.SIGKILL)
                    why = "\n".join(self.log().splitlines()[-_ERRORS_KEPT:])
                    raise BarnabasError(
                        f"the node did not start:\n{why}", next_step=f"see {self.directory}/node.log"
                    )
                line += chunk
        return line

    def _end(self, sign: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(sign)
        try:
            code = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return code
