"""The node of the demo: `barnabas start` as a process, with a data directory and ports of its own.

It is killed with SIGKILL and started again on the same directory and port.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.children import Child

__all__ = ["Node"]

START_SECONDS = 30.0


class Node:
    """`node = Node(work); node.start(); node.kill(); node.start()`; `state` in words for the screen."""

    def __init__(self, work: str) -> None:
        self.port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.state = "not started"
        self.log = os.path.join(work, "node.log")
        self.child: Child | None = None
        self._began = 0.0
        self._command = start_command(os.path.join(work, "data"), self.port, controller_port)

    def __repr__(self) -> str:
        return f"<Node {self.bootstrap} {self.state}>"

    def start(self) -> None:
        """Start the process; `ready` says when it answers."""
        self._began = time.monotonic()
        self.state = "starting"
        self.child = Child("node", self._command, self.log)

    def ready(self) -> bool:
        """Whether it answers; asked again and again.  Raises BarnabasError when it ended or takes too long."""
        assert self.child is not None
        if not self.child.running or time.monotonic() - self._began > START_SECONDS:
            why = "ended" if not self.child.running else f"does not answer after {START_SECONDS:.0f} s"
            raise BarnabasError(f"the node {why}: {self.child.tail()}", next_step=f"read {self.log}")
        try:
            BlockingConnection("127.0.0.1", self.port, timeout=1.0, connect_timeout=1.0).close()
        except ConnectionFailed:
            return False
        self.state = f"running (pid {self.child.pid})"
        return True

    def wait(self) -> None:
        """Wait until it answers."""
        while not self.ready():
            time.sleep(0.05)

    def check(self) -> None:
        """Raises BarnabasError when the process is gone although nobody killed it."""
        if self.child is not None and self.state.startswith("running") and not self.child.running:
            raise BarnabasError(
                f"the node ended by itself: {self.child.tail()}", next_step=f"read {self.log}"
            )

    def kill(self) -> int:
        """kill -9, without any warning.  Returns the process id that is gone."""
        assert self.child is not None
        self.child.kill()
        self.state = "KILLED (-9)"
        return self.child.pid


def start_command(data: str, port: int, controller_port: int) -> list[str]:
    """`barnabas start` without a file: a combined node, which formats its directory the first time."""
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    settings = (f"log.dirs={data}", f"listeners={listeners}")
    return [sys.executable, "-m", "barnabas", "start", *(w for s in settings for w in ("--override", s))]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
