"""`barnabas start --nodes`, as it is typed: processes, signals, what stands on the terminal."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.testing.cluster import free_ports


class Host:
    """`barnabas start --nodes N` with ports of its own."""

    def __init__(self, directory: Path, first_port: int) -> None:
        self.directory = directory
        self.first_port = first_port
        self.process: subprocess.Popen[str] | None = None

    def start(self, nodes: int, *words: str) -> str:
        """Returns its first line."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.first_port},CONTROLLER://127.0.0.1:{self.first_port + 1}"
        command = [sys.executable, "-m", "barnabas", "start", "--nodes", str(nodes), *words]
        command += ["--override", f"log.dirs={self.directory}/data", "--override", f"listeners={listeners}"]
        with open(self.directory / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def about(self, nodes: int) -> dict[str, Any]:
        """What it says with --json."""
        document: dict[str, Any] = json.loads(self.start(nodes, "--json"))
        return document

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        return (self.directory / "log").read_text()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    one = Host(tmp_path, free_ports(10))
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()


def bootstrap(about: dict[str, Any]) -> list[str]:
    return [node["listeners"][0].partition("://")[2] for node in about["nodes"]]


def gone(pid: int) -> None:
    """Returns when a process that is not our child is gone."""
    descriptor = os.pidfd_open(pid)
    try:
        assert select.select([descriptor], [], [], PATIENCE_S)[0]
    finally:
        os.close(descriptor)


def test_a_cluster_of_this_machine_keeps_everything_when_processes_of_it_are_killed(host: Host) -> None:
    about = host.about(4)
    assert [node["node_id"] for node in about["nodes"]] == [1, 2, 3, 4]
    servers = bootstrap(about)
    sent = 0
    with Admin(servers) as admin:
        admin.create_topic("t", partitions=8)
        for killed in (about["nodes"][0], about["nodes"][3]):
            with Producer(servers) as producer:
                for _ in range(100):
                    producer.send("t", b"%d" % sent, partition=sent % 8)
                    sent += 1
                producer.flush(PATIENCE_S)
                os.kill(killed["pid"], signal.SIGKILL)
                for _ in range(100):
                    producer.send("t", b"%d" % sent, partition=sent % 8)
                    sent += 1
                producer.flush(PATIENCE_S)
    with Consumer(servers, "t", start="earliest") as consumer:
        read = [int(record.value or b"") for record in itertools.islice(consumer, sent)]
    assert sorted(read) == list(range(sent))
    assert host.end() == 0
    said = host.log()
    assert said.count("host.node-died") == 2
    assert "[4] node.stopped" in said


def test_the_second_start_is_the_same_cluster_and_a_node_more_joins(host: Host) -> None:
    first = host.about(3)
    assert host.end() == 0
    again = host.about(4)
    assert again["cluster_id"] == first["cluster_id"]
    assert [node["formatted"] for node in again["nodes"]] == [False, False, False, True]
    with Admin(bootstrap(again)) as admin:
        assert {broker.id for broker in admin.describe_cluster().brokers} <= {1, 2, 3, 4}
    assert host.end(signal.SIGTERM) == 0


def test_no_node_outlives_the_process_that_started_them_even_when_that_is_killed(host: Host) -> None:
    about = host.about(2)
    host.end(signal.SIGKILL)
    for node in about["nodes"]:
        gone(node["pid"])
    assert host.log().count("node.stopped") == 2


def test_people_read_a_line_for_each_node_and_a_node_that_cannot_start_ends_them_all(host: Host) -> None:
    assert "2 nodes are ready" in host.start(2)
    other = Host(host.directory, host.first_port)
    assert other.start(2) == ""
    assert other.process is not None
    assert other.process.wait(PATIENCE_S) == 1
    assert "before it served" in host.log()
    assert host.end() == 0
