"""A node that may have fewer files open than it has partitions."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from barnabas import Admin, Consumer, Producer
from barnabas.testing.cluster import free_ports

LIMIT, PARTITIONS = 256, 600
SERVERS = list[str]


class Node:
    """`barnabas start` as somebody types it who has a low limit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_ports(2)
        self.process: subprocess.Popen[str] | None = None

    @property
    def servers(self) -> SERVERS:
        return [f"127.0.0.1:{self.port}"]

    def start(self, *settings: str) -> None:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 1}"
        words = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh"]
        words += [sys.executable, "-m", "barnabas", "start", "--json"]
        for one in (f"log.dirs={self.folder}/data", f"listeners={listeners}", *settings):
            words += ["--override", one]
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("{"), (self.folder / "log").read_text()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def opened(self) -> list[str]:
        assert self.process is not None
        folder, names = f"/proc/{self.process.pid}/fd", []
        for one in os.listdir(folder):
            with suppress(FileNotFoundError):  # closed meanwhile
                names.append(os.readlink(f"{folder}/{one}"))
        return names


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path)
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()
        one.process.wait()


def produce(servers: SERVERS, turn: int) -> None:
    with Producer(servers) as producer:
        for index in range(PARTITIONS):
            producer.send("many", b"%d/%d" % (turn, index), partition=index)
        producer.flush(PATIENCE_S)


def read(servers: SERVERS, turns: int) -> list[bytes]:
    with Consumer(servers, "many", start="earliest") as consumer:
        found = []
        for record in consumer:
            found.append(record.value or b"")
            if len(found) == turns * PARTITIONS:
                return sorted(found)
    raise AssertionError("the consumer ended")


def check(node: Node, turns: int) -> None:
    assert read(node.servers, turns) == sorted(
        b"%d/%d" % (turn, index) for turn in range(turns) for index in range(PARTITIONS)
    )
    assert len([name for name in node.opened() if name.endswith(".log")]) <= LIMIT // 2


@pytest.mark.slow
@pytest.mark.parametrize("flush", [1, 9223372036854775807])
def test_more_partitions_than_descriptors_are_written_and_read_and_clients_come_in(
    node: Node, flush: int
) -> None:
    settings = f"log.flush.interval.messages={flush}", "barnabas.events.level=info"
    node.start(*settings)
    with Admin(node.servers) as admin:
        admin.create_topic("many", partitions=PARTITIONS)
    for turn in range(2):
        produce(node.servers, turn)
        check(node, turn + 1)
    clients = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(40)]
    produce(node.servers, 2)
    check(node, 3)
    for client in clients:
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)  # nobody has closed it
        client.close()
    assert "node.descriptors-low" not in node.log()
    assert node.stop() == 0
    node.start(*settings)
    assert "node.descriptors-low" in node.log() and "LimitNOFILE=4096" in node.log()
    produce(node.servers, 3)
    check(node, 4)
    assert node.process is not None
    node.process.kill()
    node.process.wait()
    node.start(*settings)
    check(node, 4)
    doctor = [sys.executable, "-m", "barnabas", "doctor", *node.servers, "--json"]
    rows = json.loads(subprocess.run(doctor, capture_output=True, check=True, timeout=PATIENCE_S).stdout)
    (row,) = [row for row in rows["checks"] if row["check"].startswith("open files")]
    assert row["state"] == "warning" and "LimitNOFILE=4096" in row["next"] and "600" in row["said"]
    assert node.stop() == 0
    for word in (
        "KAFKA_STORAGE_ERROR",
        "descriptors-short",
        "accept-failed",
        "connection.refused",
        "offline",
    ):
        assert word not in node.log()
