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
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barnabas.errors import BarnabasError
from barnabas.interpreter import check_posix, python_words
from barnabas.scratch import scratch_directory
from barnabas.testing.logins import CLIENTS, NODES, client_settings, node_settings
from barnabas.testing.node import READY_SECONDS, Node

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

__all__ = ["Cluster", "free_ports"]

_PORTS = (10_000, 32_000)
"""Below those that the system gives to dialling sockets, which could take one between two starts."""
_QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
}
"""Settings of a node with little to do, whose first group and first transaction should wait for nothing."""


class Cluster:
    """`with Cluster(nodes=3) as kafka: Producer(kafka.bootstrap)`; also `async with`.

    `settings` are Kafka's property names, for every node.  `directory` keeps the data; without it they are in a
    temporary directory and removed at the end.  (The log of a node that did not start is kept until another test
    run makes such a directory.)  The first node has the number `first`, which is its node.id.  `users` are names
    and passwords: nobody else is let in, and `kafka.login("ada")` returns what a client logs in with.  `security`
    is how this object itself logs in, where your own listeners ask for it (Kafka's option names).
    Raises ValueError for arguments that contradict each other, BarnabasError where nodes cannot run.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        nodes: int = 1,
        directory: str | None = None,
        first: int = 1,
        security: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        check_posix()
        if nodes < 1:
            raise ValueError(f"a cluster has one node or more, not {nodes}")
        self.settings = dict(settings or {})
        self.users = dict(users or {})
        """Names and passwords."""
        self._listeners = _listeners(self.settings, self.users)
        given = {**(node_settings(self.users) if self.users else {}), **self.settings}
        self._security = security or (self.login() if self.users else None)
        self._cut: set[frozenset[int]] = set()
        self._layout: _Layout | None = None
        if nodes > 1:
            self._layout = _Layout(range(first, first + nodes), self._listeners, given)
        self._given = given
        self._held: int | None = None
        if directory is None:
            directory, self._held = scratch_directory("barnabas-nodes-")
        self.directory = directory
        """Where the nodes' data and logs are."""
        places = {first: directory}
        if nodes > 1:
            places = {n: os.path.join(directory, str(n)) for n in range(first, first + nodes)}
        command = self._alone if nodes == 1 else self._together
        self.nodes: tuple[Node, ...] = tuple(
            Node(number, place, command, held=self._held) for number, place in places.items()
        )

    def __repr__(self) -> str:
        return f"<Cluster {self.bootstrap or 'stopped'} {self.directory}>"

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BarnabasError:
            self.kill()  # (their logs stay: the error names them)
            if self._held is not None:
                for node in self.nodes:
                    shutil.rmtree(node.data, ignore_errors=True)
            raise
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

    def login(self, name: str | None = None) -> dict[str, str]:
        """`Producer(kafka.bootstrap, security=kafka.login("ada"))`: the Kafka options with which a user logs in.

        Without a name it is the first user.  Raises ValueError where there is no such user.
        """
        if not self.users:
            raise ValueError('this cluster has no users: Cluster(users={"ada": "secret"})')
        found = next(iter(self.users)) if name is None else name
        if found not in self.users:
            raise ValueError(f"no user {found!r}; there are {', '.join(self.users)}")
        return client_settings(found, self.users[found])

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
        if self._held is None:
            self.stop()
            return
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # (closed before)
            os.close(self._held)

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
        settings = {
            "node.id": str(node.number),
            "log.dirs": node.data,
            **_QUICK,
            **self._given,
            "listeners": ",".join(node.listeners or self._listeners),  # (once it ran: the ports that it had)
        }
        return python_words("barnabas", "start", "--json", "--until-eof", *_overrides(settings))

    def _together(self, node: Node) -> list[str]:
        layout = self._layout
        assert layout is not None
        words = python_words("barnabas.testing.child", "--cluster-id", layout.cluster_id)
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

    def __init__(self, numbers: Iterable[int], listeners: Sequence[str], settings: Mapping[str, str]) -> None:
        """Raises ValueError for a listener with a port, which several nodes cannot share."""
        from barnabas.server.loop.system import SystemRandomness

        for listener in listeners:
            if not listener.endswith(":0"):
                raise ValueError(
                    f"{listener}: several nodes share no port; give port 0, and each gets its own"
                )
        self._listeners = listeners
        self.ports = {number: tuple(free_ports() for _ in listeners) for number in numbers}
        """Of each node, in the order of its listeners; the last is the controllers'."""
        rng = SystemRandomness()
        self.cluster_id = str(rng.uuid())
        self._controllers = [(number, f"127.0.0.1:{ports[-1]}") for number, ports in self.ports.items()]
        self.voters = ",".join(f"{number}@{address}:{rng.uuid()}" for number, address in self._controllers)
        self._settings = settings

    def settings(self, node: Node) -> dict[str, str]:
        """The properties of one node; those of the test win."""
        copies, enough = str(min(3, len(self.ports))), str(min(2, len(self.ports)))
        listeners = (
            f"{listener.removesuffix(':0')}:{port}"
            for listener, port in zip(self._listeners, self.ports[node.number], strict=True)
        )
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "log.dirs": node.data,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(address for _, address in self._controllers),
            "controller.quorum.auto.join.enable": "true",
            "default.replication.factor": copies,
            "min.insync.replicas": enough,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": enough,
            **_QUICK,
            **self._settings,
            "listeners": ",".join(listeners),
        }


def _listeners(settings: Mapping[str, str], users: Mapping[str, str]) -> list[str]:
    """The listeners of a node, the controllers' last.  Raises ValueError for both users and own listeners."""
    own = settings.get("listeners")
    if own is None:
        clients = (CLIENTS, NODES) if users else ("PLAINTEXT",)
        return [f"{name}://127.0.0.1:0" for name in (*clients, "CONTROLLER")]
    if users:
        raise ValueError("users log in at listeners of their own: leave out `listeners`, or `users`")
    controller = settings.get("controller.listener.names", "CONTROLLER")
    given = [text.strip() for text in own.split(",")]
    given.sort(key=lambda text: text.startswith(f"{controller}://"))
    return given if given[-1].startswith(f"{controller}://") else [*given, f"{controller}://127.0.0.1:0"]


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
