"""The demo's cluster: three nodes, each a broker and a controller, and who leads which partition now."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter

from barnabas.client.cluster import Cluster
from barnabas.client.metadata import PartitionInfo
from barnabas.errors import BarnabasError
from barnabas.model import Uuid
from barnabas.pipeline.demo.node import DemoNode, free_ports

__all__ = ["NODES", "Leaders", "Nodes"]

NODES = 3
LOOK_EVERY = 0.1


class Nodes:
    """`nodes = Nodes(work); nodes.start()`: three processes, formatted as one cluster."""

    def __init__(self, work: str) -> None:
        ports = free_ports(2 * NODES)
        clients, controllers = ports[:NODES], ports[NODES:]
        self.all = {
            number: DemoNode(number, work, pair, controllers)
            for number, pair in enumerate(zip(clients, controllers, strict=True), 1)
        }
        self.cluster = _random_id()
        self.controllers = controllers
        self.bootstrap = ",".join(node.address for node in self.all.values())

    def __repr__(self) -> str:
        return f"<Nodes {list(self.all.values())}>"

    @property
    def running(self) -> bool:
        """Whether all of them answer."""
        return all(node.running for node in self.all.values())

    def start(self) -> None:
        """Format the directories, start all nodes, and wait until all three are brokers of one cluster."""
        voters = ",".join(
            f"{node.number}@127.0.0.1:{node.controller_port}:{_random_id()}" for node in self.all.values()
        )
        for format_ in [node.format(self.cluster, voters) for node in self.all.values()]:
            if format_.process.wait():
                raise BarnabasError(f"{format_.name}: {format_.tail()}", next_step=f"read {format_.log}")
            format_.end()
        for node in self.all.values():
            node.start()
        for node in self.all.values():
            while not node.ready():
                time.sleep(0.05)
        with Cluster(self.bootstrap, client_id="demo") as client:
            client.refresh([])
            while len(client.brokers()) < NODES:
                self.check()
                time.sleep(0.05)
                client.refresh([])

    def check(self) -> None:
        """Raises BarnabasError when a process is gone although nobody killed it."""
        for node in self.all.values():
            node.check()


class Leaders(threading.Thread):
    """Asks the cluster, again and again, who leads the topic's partitions and who is in sync.

    Numbers may be read at any time from another thread.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="leaders", daemon=True)
        self._servers, self._topic = bootstrap, topic
        self._partitions: list[PartitionInfo] = []
        self._ended = threading.Event()

    def __repr__(self) -> str:
        return f"<Leaders {dict(self.led)} in_sync={self.in_sync}>"

    @property
    def led(self) -> Counter[int]:
        """How many partitions each node leads; a partition without a leader does not count."""
        return Counter(p.leader for p in self._partitions if p.leader >= 0)

    def leader(self, partition: int) -> int:
        """Who leads that partition; -1 when nobody does, or it is not known yet."""
        return next((p.leader for p in self._partitions if p.partition == partition), -1)

    @property
    def in_sync(self) -> str:
        """In words: how many replicas are in sync, of how many."""
        return f"{sum(len(p.isr) for p in self._partitions)} of {self._replicas}"

    @property
    def _replicas(self) -> int:
        return sum(len(p.replicas) for p in self._partitions)

    @property
    def full(self) -> bool:
        """Whether every replica of every partition is in sync."""
        return bool(self._partitions) and sum(len(p.isr) for p in self._partitions) == self._replicas

    def without(self, node: int) -> bool:
        """Whether every partition is led by another node than this one."""
        return bool(self._partitions) and all(p.leader not in (-1, node) for p in self._partitions)

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def run(self) -> None:
        with Cluster(self._servers, client_id="demo-leaders", timeout=2.0) as client:
            while not self._ended.wait(LOOK_EVERY):
                try:
                    found = client.refresh([self._topic])
                except BarnabasError:  # nobody answers at the moment
                    continue
                self._partitions = list(found[self._topic].partitions.values())


def _random_id() -> str:
    """A random id as the command line takes it (never one that looks like a flag)."""
    while (text := str(Uuid(uuid.uuid4().bytes))).startswith("-"):
        pass
    return text
