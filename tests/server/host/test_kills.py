"""`barnabas start --nodes` under kill -9: each process of the host in turn, and the one that started them."""

from __future__ import annotations

import os
import re
import signal
import threading

import pytest
from tests.patience import PATIENCE_S
from tests.server.host.hosts import Host, bootstrap, gone
from tests.server.quorum_processes import eventually

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError

NODES, PARTITIONS, TOGETHER = 4, 8, 20


class Sender(threading.Thread):
    """Sends numbers, acks=all, until it is told to stop; remembers those that were acknowledged."""

    def __init__(self, servers: list[str]) -> None:
        super().__init__(daemon=True)
        self.servers, self.next = servers, 0
        self.acknowledged: set[int] = set()
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with Producer(self.servers) as producer:
                    while not self.over.is_set():
                        batch = range(self.next, self.next + TOGETHER)
                        self.next += TOGETHER
                        for number in batch:
                            producer.send("t", b"%d" % number, partition=number % PARTITIONS)
                        producer.flush()
                        self.acknowledged.update(batch)
            except (BarnabasError, OSError):
                self.over.wait(0.1)  # what was under way is not acknowledged

    def sends(self, count: int) -> None:
        """Returns once so many more were acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, what=f"{count} more records acknowledged")

    def stop(self) -> set[int]:
        self.over.set()
        self.join(2 * PATIENCE_S)
        assert not self.is_alive()
        return self.acknowledged


def again_pid(host: Host, node: int) -> int:
    """The process of a node that was started again."""
    (pid,) = re.findall(rf"host\.node-again.*node={node} pid=(\d+)", host.log())
    return int(pid)


def everything(servers: list[str]) -> set[int]:
    with Consumer(servers, "t", start="earliest", idle=5.0) as consumer:
        return {int(record.value or b"") for record in consumer}


def in_sync(servers: list[str]) -> bool:
    """Whether every replica is."""
    with Admin(servers) as admin:
        partitions = admin.describe_topic("t").partitions.values()
        return all(len(one.isr) == len(one.replicas) == 3 for one in partitions)


@pytest.mark.slow
def test_whatever_process_of_a_host_is_killed_nothing_acknowledged_is_lost(host: Host) -> None:
    about = host.about(NODES)
    servers = bootstrap(about)
    with Admin(servers) as admin:
        safe = {"min.insync.replicas": "2"}
        admin.create_topic("t", partitions=PARTITIONS, replication=3, configs=safe)
    sender = Sender(servers)
    sender.start()
    for place, node in enumerate(about["nodes"]):
        sender.sends(200)
        os.kill(node["pid"], signal.SIGKILL)
        sender.sends(200)
        eventually(lambda: host.log().count("host.node-again") > place, what="it is started again")  # noqa: B023
        eventually(lambda: in_sync(servers), what="all replicas in sync")
    assert host.end(signal.SIGKILL) == -signal.SIGKILL
    for node in about["nodes"]:
        gone(again_pid(host, node["node_id"]))
    again = host.about(NODES)
    sender.sends(200)
    assert host.process is not None
    for pid in (host.process.pid, *(node["pid"] for node in again["nodes"])):
        os.kill(pid, signal.SIGKILL)
    host.process.wait(PATIENCE_S)
    host.about(NODES)
    sender.sends(200)
    acknowledged = sender.stop()
    assert len(acknowledged) >= 2000
    assert acknowledged <= everything(servers)
    assert host.end() == 0
