"""A cluster of Apache Kafka's own for a suite or an application, killed and started as one of ours."""

from __future__ import annotations

import random
import shutil
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from bench.peers import apache_is_here
from bench.trio import KILL, ApacheTrio, Seat
from tools.peer import PEER

from barnabas.testing import Cluster

__all__ = ["APACHE", "OURS", "ApacheCluster", "ApacheUnavailableError", "cluster"]

OURS, APACHE = "Barnabas", PEER
_BASES = range(21_000, 24_000, 100)
"""Where the ports of a cluster may begin: below those that systems give to connections."""


class ApacheUnavailableError(Exception):
    """There is no Apache Kafka to run; the text says why."""


class ApacheCluster:
    """`with ApacheCluster({}, nodes=3) as kafka: ... kafka.bootstrap`, with as many copies as `Cluster`."""

    def __init__(
        self, settings: Mapping[str, str], *, nodes: int, directory: str | None = None, first: int = 1
    ) -> None:
        if why := apache_is_here():
            raise ApacheUnavailableError(why)
        copies, enough = str(min(3, nodes)), str(min(2, nodes))
        usual = {
            "default.replication.factor": copies,
            "min.insync.replicas": enough,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": enough,
            "group.initial.rebalance.delay.ms": "0",
        }
        self._temporary = None if directory else tempfile.mkdtemp(prefix="apache-kafka-")
        self._trio = ApacheTrio(
            Path(directory or str(self._temporary)),
            _free_base(range(first, first + nodes)),
            fsync=False,
            brokers=nodes,
            first=first,
            settings=usual | dict(settings),
        )

    @property
    def bootstrap(self) -> str:
        return self._trio.bootstrap

    @property
    def nodes(self) -> list[Seat]:
        return list(self._trio.seats.values())

    def __enter__(self) -> ApacheCluster:
        try:
            self._trio.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def kill(self, number: int) -> None:
        """kill -9."""
        self._trio.seats[number].end(KILL)

    def start(self, number: int) -> None:
        """Start a node that was killed, and wait until it takes connections."""
        self._trio.start_one(number)
        self._trio.wait_port(number)

    def _close(self) -> None:
        self._trio.stop()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _free_base(numbers: range) -> int:
    """Where the ports of these nodes can begin: nobody listens on any of them."""
    for base in random.sample(_BASES, len(_BASES)):
        if all(_is_free(base + 10 * number + port) for number in numbers for port in (0, 1)):
            return base
    raise ApacheUnavailableError(f"no free ports from {_BASES.start} to {_BASES.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def cluster(
    peer: str, settings: Mapping[str, str], *, nodes: int, directory: str | None = None, first: int = 1
) -> Cluster | ApacheCluster:
    """A cluster of ours or of Apache Kafka, to be entered."""
    kind = Cluster if peer == OURS else ApacheCluster
    return kind(settings, nodes=nodes, directory=directory, first=first)
