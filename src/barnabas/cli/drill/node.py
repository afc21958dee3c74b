"""One node of a drill: a property file, a directory and a process, `barnabas start n1.properties`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from barnabas.client.blocking import BlockingConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.client.security.options import Security
from barnabas.errors import BarnabasError
from barnabas.interpreter import python_words
from barnabas.pipeline.demo.children import Child

__all__ = ["StageNode"]


class StageNode:
    """`ports`: for clients and for controllers.  `settings` win over what is derived."""

    def __init__(
        self,
        id_: int,
        directory: str,
        roles: str,
        ports: tuple[int, int],
        controllers: Sequence[str],
        settings: Mapping[str, str],
    ) -> None:
        self.id = id_
        self.file = f"n{id_}.properties"
        self.data = os.path.join(directory, f"n{id_}")
        self.log = os.path.join(directory, f"n{id_}.log")
        self.roles = roles
        self.port, self.controller_port = ports
        self.settings: dict[str, str] = {
            "process.roles": roles,
            "node.id": str(id_),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(controllers),
            "log.dirs": f"n{id_}",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        self.security: dict[str, str] | None = None
        """What one logs in with at `port`."""
        self.words: tuple[str, ...] = ()
        """What is typed after the file."""
        self._directory = directory
        self._child: Child | None = None
        self._expected = False
        self.write()

    def __repr__(self) -> str:
        return f"<StageNode {self.id} {self.roles} {self.pid}>"

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def address(self) -> str:
        """Where clients reach it."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.running else None

    @property
    def serves(self) -> bool:
        """Whether it is a controller whose process runs."""
        return self.is_controller and self.pid is not None

    @property
    def directory_id(self) -> str:
        """The id of its disk, from meta.properties.  Raises BarnabasError where it is not formatted."""
        from barnabas.log.files.disk import OsDisk
        from barnabas.log.files.meta_properties import read_meta_properties

        meta = read_meta_properties(OsDisk(), self.data)
        if meta is None or meta.directory_id is None:
            raise BarnabasError(f"{self.data} is not formatted")
        return str(meta.directory_id)

    def listen_apart(self, security: dict[str, str] | None) -> None:
        """Listeners CLIENTS, where one logs in with `security`, NODES and CONTROLLER, at ports of their own."""
        from barnabas.testing.cluster import free_ports

        self.port, self.security = free_ports(2), security
        self.settings |= {
            "listeners": f"CLIENTS://127.0.0.1:{self.port},NODES://127.0.0.1:{self.port + 1},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "inter.broker.listener.name": "NODES",
        }

    def write(self) -> None:
        """Write its property file as the settings and ports are now."""
        listeners = []
        if "broker" in self.roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.port}")
        if self.is_controller:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_port}")
        lines = {
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            **self.settings,
        }
        with open(os.path.join(self._directory, self.file), "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in lines.items() if value)

    def start(self) -> None:
        """Start the process."""
        self._child = Child(
            f"node {self.id}",
            python_words("barnabas", "start", self.file, "--until-eof", *self.words),
            self.log,
            cwd=self._directory,
        )
        self._expected = True

    def is_ready(self) -> bool:
        """Whether its listener answers.  Raises BarnabasError when it does not run."""
        try:
            port = self.port if "broker" in self.roles else self.controller_port
            security = Security.parse(self.security or {})
            BlockingConnection("127.0.0.1", port, timeout=2.0, connect_timeout=2.0, security=security).close()
        except ConnectionFailed:
            return False
        return True

    def check(self) -> None:
        """Raises BarnabasError when its process is gone although nobody ended it."""
        if self._expected and self.pid is None:
            raise BarnabasError(f"node {self.id} ended by itself: {self.tail()}")

    def may_end(self) -> None:
        """That it ends by itself is what the drill shows."""
        self._expected = False

    def tail(self) -> str:
        """The end of its log."""
        return self._child.tail(6) if self._child is not None else ""

    def text(self) -> str:
        """All of its log."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to its process."""
        assert self._child is not None
        os.kill(self._child.pid, sign)

    def stop(self) -> None:
        """A clean stop."""
        self._expected = False
        if self._child is not None:
            self._child.end(10.0)

    def kill(self) -> None:
        """kill -9."""
        self._expected = False
        if self._child is not None:
            self._child.kill()
