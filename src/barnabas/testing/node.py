"""One node as a child process, with the few things a test does to it: start, kill, pause, stop.

The child says in one line of JSON that it is ready; nothing is polled.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.errors import BarnabasError

__all__ = ["Node"]

READY_SECONDS = 30.0
STOP_SECONDS = 15.0
_ERRORS_KEPT = 20  # lines of the node's own log shown when it does not start


class Node:
    """`kafka.node(2)`: one process.  `directory` holds its data and its log.

    `command(node)` are the words that start it, which may differ from one start to the next.  It ends with this
    process, however that one ends.  `held` is a descriptor that holds `directory` (`scratch`): the node keeps it
    open while it lives.
    """

    def __init__(
        self,
        number: int,
        directory: str,
        command: Callable[[Node], Sequence[str]],
        *,
        held: int | None = None,
    ) -> None:
        self.number = number
        """Its node.id."""
        self.directory = directory
        self.about: dict[str, Any] = {}
        """What it said of itself when it was ready: cluster_id, node_id, listeners ..."""
        self.paused = False
        self.formatted_anew = False
        """Whether its disk was lost: it starts with an empty one."""
        self._command = command
        self._holds = () if held is None else (held,)
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""
        os.makedirs(directory, exist_ok=True)

    def __repr__(self) -> str:
        state = "stopped" if self.pid is None else "paused" if self.paused else self.bootstrap or "starting"
        return f"<Node {self.number} {state}>"

    @property
    def pid(self) -> int | None:
        """`node.pid` -> its process id, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def data(self) -> str:
        """The directory of its data: log.dirs."""
        return os.path.join(self.directory, "data")

    @property
    def listeners(self) -> list[str]:
        """`["PLAINTEXT://127.0.0.1:40123", ...]`, clients' first; empty before its first start."""
        return list(self.about.get("listeners", ()))

    @property
    def bootstrap(self) -> str:
        """`node.bootstrap` -> "127.0.0.1:40123", where clients reach it; "" before its first start."""
        clients = (text for text in self.listeners if not text.startswith("CONTROLLER"))
        return next(clients, "").partition("://")[2]

    def launch(self) -> None:
        """Start the process; `wait_ready` says when it serves."""
        with open(os.path.join(self.directory, "node.log"), "ab") as log:
            self._process = subprocess.Popen(
                self._command(self),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=self._holds,
            )
        self._read = b""

    def wait_ready(self) -> None:
        """Returns when it serves clients.  Raises BarnabasError with the end of its log when it does not."""
        line = self._line(READY_SECONDS)
        if line is None:
            self.end(signal.SIGKILL)
            why = "\n".join(self.log().splitlines()[-_ERRORS_KEPT:])
            raise BarnabasError(
                f"node {self.number} did not start:\n{why}", next_step=f"see {self.directory}/node.log"
            )
        self.about = json.loads(line)["node"]

    def cut_from(self, addresses: Iterable[str]) -> None:
        """These addresses are out of its reach from now on, all others within it."""
        if self.pid is None or self.paused:
            return
        process = self._process
        assert process is not None and process.stdin is not None
        process.stdin.write(" ".join(addresses).encode() + b"\n")
        process.stdin.flush()
        if self._line(STOP_SECONDS) is None:
            raise BarnabasError(
                f"node {self.number} does not answer", next_step=f"see {self.directory}/node.log"
            )

    def pause(self) -> None:
        """Stop it where it stands (SIGSTOP): its connections stay open, it answers nothing."""
        if self._process is not None and self.pid is not None:
            self._process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self._process is not None and self.paused:
            self._process.send_signal(signal.SIGCONT)
        self.paused = False

    def end(self, sign: signal.Signals) -> int:
        """Send it a signal and wait for its end, at most 15 s, then kill it; returns its exit code."""
        self.resume()
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
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return code

    def lose_disk(self) -> None:
        """Kill it and remove its data; its next start is with an empty disk."""
        self.end(signal.SIGKILL)
        shutil.rmtree(self.data, ignore_errors=True)
        self.formatted_anew = True

    def log(self) -> str:
        """What it wrote to its log so far."""
        path = os.path.join(self.directory, "node.log")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def _line(self, seconds: float) -> bytes | None:
        """The next line that it prints, None when none comes in time."""
        assert self._process is not None and self._process.stdout is not None
        output = self._process.stdout
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._read:
                left = deadline - time.monotonic()
                chunk = os.read(output.fileno(), 65536) if left > 0 and selector.select(left) else b""
                if not chunk:
                    return None
                self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line
