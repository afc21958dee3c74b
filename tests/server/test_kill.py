"""kill -9 in the middle of the work of many producers: what was acknowledged is there afterwards."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from tests.frames import frame
from tests.patience import PATIENCE_S
from tests.server.harness import decoded
from tests.server.running import RunningNode

from barnabas.errors import ErrorCode
from barnabas.wire.frame import FrameReader
from barnabas.wire.records import Record, batches, read_records, write_batch
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

VERSION = 9
AHEAD = 3
"""Requests that a producer has in flight."""


class Producer:
    """One connection that sends records named after it and its count, and remembers where they went."""

    def __init__(self, name: int, port: int) -> None:
        self.name = name
        self.sent = 0
        self.acknowledged: dict[int, bytes] = {}
        self.socket = socket.create_connection(("127.0.0.1", port))
        self._received = FrameReader(1 << 20)

    def send(self) -> None:
        value = self._value(self.sent)
        data = [
            PartitionProduceData(index=0, records=write_batch([Record(0, 1_700_000_000_000, None, value)]))
        ]
        topics = [TopicProduceData(name="t", partition_data=data)]
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)
        self.socket.sendall(frame(request, VERSION, self.sent))
        self.sent += 1

    def _value(self, number: int) -> bytes:
        return b"%d/%d" % (self.name, number)

    def receive(self) -> bool:
        """Take the answers that are there; False when the node is gone."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._received.feed(data)
        while (body := self._received.take()) is not None:
            (number,) = struct.unpack(">i", body[:4])
            (answer,) = decoded(0, VERSION, body[4:]).responses[0].partition_responses
            assert answer.error_code == ErrorCode.NONE
            self.acknowledged[answer.base_offset] = self._value(number)
        return bool(data)


def everything(node: RunningNode) -> dict[int, bytes]:
    """Every record of the topic, by offset."""
    found: dict[int, bytes] = {}
    with node.connect() as reader:
        while True:
            partition = FetchPartition(partition=0, fetch_offset=len(found), partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic="t", partitions=[partition])]
            request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)
            answer: Any = reader.request(request, 11)
            records = bytes(answer.responses[0].partitions[0].records or b"")
            if not records:
                return found
            for position, header in batches(records):
                for record in read_records(records, position, header):
                    assert record.value is not None
                    found[record.offset] = record.value


@pytest.mark.parametrize("flush", [1, 2**63 - 1], ids=["synced", "page cache"])
@pytest.mark.parametrize("connections", [5, 200])
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, connections: int, flush: int) -> None:
    node = RunningNode(tmp_path, flush=flush)
    producers: list[Producer] = []
    try:
        with node.connect() as admin:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            admin.request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        producers += [Producer(name, node.port) for name in range(connections)]
        work_until_killed(node, producers)
        node.start()
        kept = everything(node)
    finally:
        for producer in producers:
            producer.socket.close()
        node.stop()
    acknowledged = {offset: value for p in producers for offset, value in p.acknowledged.items()}
    assert len(acknowledged) == sum(len(producer.acknowledged) for producer in producers) >= 5 * connections
    assert acknowledged.items() <= kept.items()
    assert sorted(kept) == list(range(len(kept)))
    assert len(set(kept.values())) == len(kept)


def work_until_killed(node: RunningNode, producers: list[Producer]) -> None:
    """All produce; once each has a few answers, and something is in flight, the node is killed."""
    with selectors.DefaultSelector() as ready:
        for producer in producers:
            ready.register(producer.socket, selectors.EVENT_READ, producer)
            for _ in range(AHEAD):
                producer.send()
        deadline = time.monotonic() + PATIENCE_S
        while min(len(producer.acknowledged) for producer in producers) < 5:
            assert time.monotonic() < deadline
            for key, _ in ready.select(1):
                producer = key.data
                assert producer.receive()
                while producer.sent - len(producer.acknowledged) < AHEAD:
                    producer.send()
        node.process.kill()
        node.process.wait()
        for producer in producers:
            while producer.receive():
                pass
