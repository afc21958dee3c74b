"""The node of the demo: `barnabas start` as a process, with a data directory and ports of its own.

It is killed with SIGKILL and started again on the same directory and port.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.children import Child

__all__ = ["Node"]

START_SECONDS = 30.0
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
log.dirs={data}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
"""


class Node:
    """`node = Node(work); node.start(); node.kill(); node.start()`; `state` in words for the screen."""

    def __init__(self, work: str) -> None:
        self.port, controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.state = "not started"
        self.log = os.path.join(work, "node.log")
        self.properties = os.path.join(work, "server.properties")
        self.child: Child | None = None
        self._began = 0.0
        data = os.path.join(work, "data")
        with open(self.properties, "w", encoding="utf-8") as file:
            file.write(_PROPERTIES.format(data=data, port=self.port, controller_port=controller_port))

    def __repr__(self) -> str:
        return f"<Node {self.bootstrap} {self.state}>"

    def format(self) -> None:
        """Give the data directory its identity, once.  Raises BarnabasError."""
        ran = subprocess.run(format_command(self.properties), capture_output=True, text=True, check=False)
        if ran.returncode:
            raise BarnabasError(
                f"the data directory cannot be formatted: {(ran.stderr or ran.stdout).strip()}"
            )

    def start(self) -> None:
        """Start the process; `ready` says when it answers."""
        self._began = time.monotonic()
        self.state = "starting"
        self.child = Child("node", start_command(self.properties), self.log)

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


def format_command(properties: str) -> list[str]:
    return [sys.executable, "-m", "barnabas", "storage", "format", "--config", properties, "--standalone"]


def start_command(properties: str) -> list[str]:
    return [sys.executable, "-m", "barnabas", "start", properties]


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
