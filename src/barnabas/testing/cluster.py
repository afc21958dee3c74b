"""One node or several for a test, and what a test does to them: kill, pause, cut, heal, lose a disk.

Each node is a process of its own, so a test sees what a user sees.  One node is what `barnabas start` runs; of
several each is a broker and a voter of the quorum (`barnabas.testing.child`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barnabas.errors import BarnabasError
from barnabas.testing.node import READY_SECONDS, Node

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

__all__ = ["Cluster", "free_ports"]

_PORTS = (10_000, 32_000)
"""Below those that the system gives to dialling sockets, which could take one between two starts."""


class Cluster:
    """`with Cluster(nodes=3) as kafka: Producer(kafka.bootstrap)`; also `async with`.

    `settings` are Kafka's property names, for every node.  `directory` keeps the data; without it they are in a
    temporary directory and removed at the end.  The first node has the number `first`, which is its node.id.
    `security` is how this object itself logs in, where the first listener asks for it (Kafka's option names).
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        nodes: int = 1,
        directory: str | None = None,
        first: int = 1,
        security: Mapping[str, str] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has one node or more, not {nodes}")
        self.settings = dict(settings or {})
        self._security = security
        self._temporary = None if directory else tempfile.mkdtemp(prefix="barnabas-test-")
        self.directory = directory or str(self._temporary)
        self._cut: set[frozenset[int]] = set()
        self._layout: _Layout | None = None
        self.nodes: tuple[Node, ...]
        if nodes == 1:
            self.nodes = (Node(first, self.directory, self._alone),)
        else:
            self._layout = layout = _Layout(range(first, first + nodes), self.settings)
            self.nodes = tuple(
                Node(number, os.path.join(self.directory, str(number)), self._together)
                for number in layout.ports
            )

    def __repr__(self) -> str:
        return f"<Cluster {self.bootstrap or 'stopped'} {self.directory}>"

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Cluster:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    @property
    def bootstrap(self) -> str:
        """`kafka.bootstrap` -> "127.0.0.1:40123", with a comma between the addresses of several nodes."""
        return ",".join(node.bootstrap for node in self.nodes if node.bootstrap)

    @property
    def about(self) -> dict[str, Any]:
        """What the first node said of itself when it was ready: cluster_id, node_id, listeners ..."""
        return self.nodes[0].about

    @property
    def pid(self) -> int | None:
        """`kafka.pid` -> the process id of the first node, None when it does not run."""
        return self.nodes[0].pid

    def node(self, number: int) -> Node:
        """`kafka.node(2)` -> the node of that number.  Raises ValueError where there is none."""
        first, last = self.nodes[0].number, self.nodes[-1].number
        if not first <= number <= last:
            raise ValueError(f"no node {number}; there are {first} to {last}")
        return self.nodes[number - first]

    # -- starting and stopping -------------------------------------------------------------------

    def start(self, *numbers: int) -> None:
        """`kafka.start()`: all nodes that do not run; returns when they serve clients.  Ports stay the same."""
        starting = [node for node in self._chosen(numbers) if node.pid is None]
        for node in starting:
            node.launch()
        for node in starting:
            node.wait_ready()
        if len(self.nodes) > 1 and starting:
            self._wait_known(starting)

    def stop(self, *numbers: int) -> int:
        """`kafka.stop()`: a clean stop (SIGTERM) of all nodes, or of these; returns the exit code.

        Of several nodes: the first that is not 0.
        """
        codes = [node.end(signal.SIGTERM) for node in self._chosen(numbers)]
        return next(filter(None, codes), 0)

    def kill(self, *numbers: int) -> None:
        """`kafka.kill(2)`: kill -9, as a crash of the machine would end the process; all nodes without number."""
        for node in self._chosen(numbers):
            node.end(signal.SIGKILL)

    def restart(self, *numbers: int) -> None:
        """`kafka.restart(2)`: stop if it runs, then start on the same data and ports; all without number."""
        self.stop(*numbers)
        self.start(*numbers)

    def close(self) -> None:
        """`kafka.close()`: a clean stop where a directory was given; else kill -9, and the data are removed."""
        if self._temporary is not None:
            self.kill()
            shutil.rmtree(self._temporary, ignore_errors=True)
        else:
            self.stop()

    # -- faults ----------------------------------------------------------------------------------

    def pause(self, *numbers: int) -> None:
        """`kafka.pause(2)`: it hangs (SIGSTOP): connections stay open, nothing is answered."""
        for node in self._chosen(numbers):
            node.pause()

    def resume(self, *numbers: int) -> None:
        """`kafka.resume(2)`: it goes on after `pause`; all nodes without number."""
        for node in self._chosen(numbers):
            node.resume()
        self._tell()

    def cut(self, node: int, *others: int) -> None:
        """`kafka.cut(1, 2)`: no packet passes between these nodes; `kafka.cut(1)`: none to any other node.

        Clients still reach every node.  Needs more than one node.
        """
        if self._layout is None:
            raise ValueError("a single node has no links; make the cluster with nodes=3")
        away = [self.node(number) for number in others] or [
            other for other in self.nodes if other.number != node
        ]
        self._cut |= {frozenset((self.node(node).number, other.number)) for other in away}
        self._tell()

    def heal(self) -> None:
        """`kafka.heal()`: every link is whole again, every paused node goes on."""
        self._cut.clear()
        self.resume()

    def lose_disk(self, number: int) -> None:
        """`kafka.lose_disk(2)`: kill it and remove its data; `kafka.start(2)` brings it back with an empty disk.

        The empty disk gets a new directory id, and its node joins the quorum by itself
        (controller.quorum.auto.join.enable).  Needs more than one node.
        """
        if self._layout is None:
            raise ValueError("a single node that loses its disk is a new cluster; make this one with nodes=3")
        self.node(number).lose_disk()

    # -- looking ---------------------------------------------------------------------------------

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """`kafka.leader_of("orders")` -> the number of the node that leads the partition, -1 when none does."""
        with self._admin() as admin:
            return admin.describe_topic(topic).partitions[partition].leader

    def clean(self) -> None:
        """`kafka.clean()`: delete every topic and every group that has no members, for the next test."""
        with self._admin() as admin:
            for listing in admin.groups():
                if not admin.describe_group(listing.group).members:
                    admin.delete_group(listing.group)
            for found in admin.topics():
                admin.delete_topic(found.name)

    def log(self, number: int | None = None) -> str:
        """`kafka.log(2)` -> what the node wrote to its log so far; of all nodes without number."""
        return "".join(node.log() for node in self._chosen(() if number is None else (number,)))

    # -- inside ----------------------------------------------------------------------------------

    def _admin(self) -> Admin:
        """A client of the nodes that can answer."""
        from barnabas.client.admin.admin import Admin

        able = [node.bootstrap for node in self.nodes if node.pid is not None and not node.paused]
        if not able:
            raise BarnabasError("no node runs", next_step="start() them first")
        return Admin(able, security=self._security)

    def _chosen(self, numbers: Sequence[int]) -> list[Node]:
        return [self.node(number) for number in numbers] or list(self.nodes)

    def _alone(self, node: Node) -> list[str]:
        ports = node.listeners or ["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"]
        settings = {
            "node.id": str(node.number),
            "log.dirs": node.data,
            "listeners": ",".join(ports),
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        return [sys.executable, "-m", "barnabas", "start", "--json", *_overrides(settings)]

    def _together(self, node: Node) -> list[str]:
        layout = self._layout
        assert layout is not None
        words = [sys.executable, "-m", "barnabas.testing.child", "--cluster-id", layout.cluster_id]
        if not node.formatted_anew:
            words += ["--voters", layout.voters]
        return [*words, "--cut", " ".join(self._out_of_reach(node)), *_overrides(layout.settings(node))]

    def _out_of_reach(self, node: Node) -> list[str]:
        layout = self._layout
        assert layout is not None
        away = {number for pair in self._cut if node.number in pair for number in pair - {node.number}}
        return [f"127.0.0.1:{port}" for number in sorted(away) for port in layout.ports[number]]

    def _tell(self) -> None:
        if self._layout is not None:
            for node in self.nodes:
                node.cut_from(self._out_of_reach(node))

    def _wait_known(self, nodes: Sequence[Node]) -> None:
        """Returns when the cluster's metadata name these nodes: they are brokers that may lead."""
        numbers = {node.number for node in nodes}
        deadline = time.monotonic() + READY_SECONDS
        with self._admin() as admin:
            while not numbers <= {broker.id for broker in admin.describe_cluster().brokers}:
                if time.monotonic() > deadline:
                    raise BarnabasError(
                        f"not all of the nodes {sorted(numbers)} became brokers within {READY_SECONDS:g} s",
                        next_step=f"see node.log in the directories below {self.directory}",
                    )
                time.sleep(0.01)


class _Layout:
    """Ports, ids and settings of a cluster of several nodes."""

    def __init__(self, numbers: Iterable[int], settings: Mapping[str, str]) -> None:
        from barnabas.cli.storage import random_uuid

        self.ports = {number: (free_ports(), free_ports()) for number in numbers}
        self.cluster_id = random_uuid()
        self.voters = ",".join(
            f"{number}@127.0.0.1:{controller}:{random_uuid()}"
            for number, (_, controller) in self.ports.items()
        )
        self._settings = settings

    def settings(self, node: Node) -> dict[str, str]:
        """The properties of one node; those of the test win."""
        copies, enough = str(min(3, len(self.ports))), str(min(2, len(self.ports)))
        client, controller = self.ports[node.number]
        bootstrap = ",".join(f"127.0.0.1:{port}" for _, port in self.ports.values())
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "log.dirs": node.data,
            "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": bootstrap,
            "controller.quorum.auto.join.enable": "true",
            "default.replication.factor": copies,
            "min.insync.replicas": enough,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": enough,
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }


def _overrides(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]


class _Ports:
    """Where the next search begins: a place of chance, then behind the last one.

    So a process does not give a port away twice, and a node that is dead for a moment finds its own again.
    """

    def __init__(self) -> None:
        self.next = random.SystemRandom().randint(*_PORTS)  # a test may have seeded the usual generator

    def take(self, count: int) -> int:
        if self.next + count > _PORTS[1]:
            self.next = _PORTS[0]
        first = self.next
        self.next += count
        return first


_ports = _Ports()


def free_ports(count: int = 1) -> int:
    """The first of so many ports in a row on which nobody listens.  Raises BarnabasError."""
    for _ in range(1000):
        first = _ports.take(count)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    tried = stack.enter_context(socket.socket())
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise BarnabasError("no free port found", next_step="end what listens on 127.0.0.1")
