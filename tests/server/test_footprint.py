"""What a node of this release weighs: modules loaded by a start, memory under many clients."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.frames import frame, read_frame
from tests.patience import PATIENCE_S
from tests.server.running import RunningNode

from barnabas.wire.codec.message import Message
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

BARE = {
    *("acls", "apis", "brokers", "cluster", "compression", "configs", "control", "control_records"),
    *(
        "declaration",
        "fetch",
        "frame",
        "groups",
        "message",
        "metadata",
        "metadata_records",
        "offsets",
        "primitives",
    ),
    *(
        "produce",
        "quorum",
        "reader",
        "reassignment",
        "records",
        "plane",
        "fetch_asked",
        "fetch_told",
        "produce_asked",
        "produce_told",
        "objects",
        "registry",
        "schema",
        "topics",
    ),
    *("consumer_groups", "quotas", "sasl", "transactions", "writer"),
    *("consumer_protocol", "coordinator", "group_records", "transaction_records"),  # groups read their log
    "java_hash",
    "record_check",
    "record_stream",
    "walk",
    "walk__mypyc",
    "large_spans",
    "spans",  # what the cleaner reads, which may begin at once
}
"""Modules of barnabas.wire that a start may load: the words of the protocol, and what this node serves."""
CLIENTS, DEAF = 2000, 200
LOADED_MB = 150.0


def wire_modules(code: str, folder: Path) -> set[str]:
    """Names of the barnabas.wire modules that a fresh process has loaded after `code`."""
    shown = "import sys; print(*(n for n in sys.modules if n.startswith('barnabas.wire.')))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{shown}"], capture_output=True, text=True, cwd=folder, check=True
    )
    return {name.rpartition(".")[2] for name in done.stdout.split()} - {"codec", "schemas"}


def test_importing_the_server_loads_no_messages(tmp_path: Path) -> None:
    assert wire_modules("import barnabas.server", tmp_path) == set()


def test_a_bare_start_loads_only_the_messages_it_serves(tmp_path: Path) -> None:
    code = """
import asyncio
from barnabas.config import Config
from barnabas.server.node.process import ServerNode
async def whole():
    local = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    async with ServerNode(Config.load({"log.dirs": "data", "listeners": local}), format_new=True):
        pass
asyncio.run(whole())
"""
    loaded = wire_modules(code, tmp_path)
    assert "produce" in loaded
    assert loaded <= BARE, sorted(loaded - BARE)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path)
    try:
        yield running
    finally:
        running.stop()


def produce(topic: str, size: int) -> Message:
    data = [
        PartitionProduceData(
            index=0, records=write_batch([Record(0, 1_700_000_000_000, None, os.urandom(size))])
        )
    ]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def fetch(topic: str) -> Message:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_two_thousand_clients_of_which_two_hundred_stop_reading_fit_into_the_budget(
    node: RunningNode,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CLIENTS + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CLIENTS + 500), hard))
    with node.connect() as admin:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("large", "small")
        ]
        admin.request(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
        for _ in range(8):
            admin.request(produce("large", 500_000), 9)
        admin.request(produce("small", 100), 9)
        assert node.peak_mb < 80
        clients: list[socket.socket] = []
        try:
            serve(node, clients)
            begun = time.monotonic()
            made: Any = admin.request(produce("small", 100), 9)
            assert made.responses[0].partition_responses[0].error_code == 0
            assert time.monotonic() - begun < 30
        finally:
            for client in clients:
                client.close()
    assert node.peak_mb < LOADED_MB


def serve(node: RunningNode, clients: list[socket.socket]) -> None:
    """The deaf ask for 20 MB each and read nothing; everybody else reads, and some write."""
    for number in range(CLIENTS):
        client = socket.socket()
        if number < DEAF:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE_S)
        client.connect(("127.0.0.1", node.port))
        clients.append(client)
    for client in clients[:DEAF]:
        client.sendall(frame(fetch("large"), 11) * 20)
    listening = clients[DEAF:]
    for client in listening:
        client.sendall(frame(fetch("small"), 11))
    for client in listening:
        assert len(read_frame(client)) > 100
    for client in listening[:300]:
        client.sendall(frame(produce("small", 100_000), 9))
    for client in listening[:300]:
        assert b"small" in read_frame(client)
