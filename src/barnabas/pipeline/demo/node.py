"""One node of the demo's cluster: `barnabas start` as a process, with a data directory and ports of its own.

It may be killed with SIGKILL, and started again on the same directory and ports.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import time
from collections.abc import Sequence

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.errors import BarnabasError
from barnabas.interpreter import python_words
from barnabas.pipeline.demo.children import Child

__all__ = ["DemoNode", "free_ports"]

START_SECONDS = 30.0


class DemoNode:
    """`node = DemoNode(1, work, ports, controllers); node.format(...); node.start(); node.kill(); node.start()`.

    `state` is in words for the screen.
    """

    def __init__(
        self,
        number: int,
        work: str,
        ports: tuple[int, int],
        controllers: Sequence[int],
        roles: str = "broker,controller",
    ) -> None:
        """`ports`: for clients and for controllers; `controllers`: the controller ports of all nodes."""
        self.number = number
        self.name = f"node {number}"
        self.port, self.controller_port = ports
        self.address = f"127.0.0.1:{self.port}"
        self.state = "not started"
        self.log = os.path.join(work, f"node-{number}.log")
        self.child: Child | None = None
        self._asked = self.port if "broker" in roles else self.controller_port
        self._work = work
        self._began = 0.0
        self._properties = os.path.join(work, f"node-{number}.properties")
        settings = {
            "process.roles": roles,
            "node.id": str(number),
            "listeners": ",".join(
                ([f"PLAINTEXT://{self.address}"] if "broker" in roles else [])
                + [f"CONTROLLER://127.0.0.1:{self.controller_port}"]
            ),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in controllers),
            "log.dirs": os.path.join(work, f"node-{number}"),
            # (KIP-939: what Spark's driver has decided outlives any time in which there is no driver)
            "transaction.two.phase.commit.enable": "true",
            "unstable.api.versions.enable": "true",
        }
        with open(self._properties, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())

    def __repr__(self) -> str:
        return f"<DemoNode {self.number} {self.address} {self.state}>"

    @property
    def running(self) -> bool:
        """Whether it answered since its last start and was not killed."""
        return self.state == "up"

    def format(self, cluster: str, initial_controllers: str) -> Child:
        """`barnabas storage format` as a process that is under way."""
        first = ("--cluster-id", cluster, "--initial-controllers", initial_controllers)
        return self._barnabas("storage", "format", "--config", self._properties, *first)

    def format_to_join(self, cluster: str) -> Child:
        """The same for a node that follows a quorum which is there."""
        return self._barnabas(
            "storage",
            "format",
            "--config",
            self._properties,
            "--cluster-id",
            cluster,
            "--no-initial-controllers",
        )

    def start(self) -> None:
        """Start the process; `ready` says when it answers."""
        self._began = time.monotonic()
        self.state = "starting"
        self.child = self._barnabas("start", self._properties, "--until-eof")

    def _barnabas(self, *words: str) -> Child:
        return Child(self.name, python_words("barnabas", *words), self.log)

    def ready(self) -> bool:
        """Whether it answers; asked again and again.  Raises BarnabasError when it ended or takes too long."""
        assert self.child is not None
        if not self.child.running or time.monotonic() - self._began > START_SECONDS:
            why = "ended" if not self.child.running else f"does not answer after {START_SECONDS:.0f} s"
            raise BarnabasError(f"{self.name} {why}: {self.child.tail()}", next_step=f"read {self.log}")
        try:
            BlockingConnection("127.0.0.1", self._asked, timeout=1.0, connect_timeout=1.0).close()
        except ConnectionFailed:
            return False
        self.state = "up"
        return True

    def check(self) -> None:
        """Raises BarnabasError when the process is gone although nobody killed it."""
        if self.child is not None and self.running and not self.child.running:
            raise BarnabasError(
                f"{self.name} ended by itself: {self.child.tail()}", next_step=f"read {self.log}"
            )

    def kill(self) -> int:
        """kill -9, without any warning.  Returns the process id that is gone."""
        assert self.child is not None
        self.child.kill()
        self.state = "KILLED (-9)"
        return self.child.pid


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now, all different.

    They are below those that the system gives to dialling sockets: Spark could take one while its node is down.
    """
    found: dict[int, None] = {}
    while len(found) < count:
        port = random.randint(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found[port] = None
    return list(found)
