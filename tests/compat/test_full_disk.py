"""A disk that is full for a moment, and librdkafka's idempotent producer: everything arrives, once."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from unittest import mock

import pytest
from tests.server.test_node import connect, settings

from barnabas.broker.replicas import disk_space as space
from barnabas.errors import StorageError
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.compat

RECORDS = 60
SIZE = 300_000


def produce(port: int, half: threading.Event, full: threading.Event) -> list[Any]:
    """Batches of one large record each; the disk is full while the second half is sent."""
    from confluent_kafka import Producer

    told: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": True,
            "batch.size": 1,
            "delivery.timeout.ms": 60_000,
        }
    )
    for n in range(RECORDS):
        if n == RECORDS // 2:
            producer.flush(30)
            half.set()
            assert full.wait(30)
        producer.produce("t", b"%d " % n + bytes(SIZE), on_delivery=lambda error, _: told.append(error))
    producer.flush(60)
    return told


def test_nothing_of_an_idempotent_producer_is_lost_or_there_twice_when_a_disk_is_full_for_a_while() -> None:
    disk = MemoryDisk()
    half, full = threading.Event(), threading.Event()
    refused: list[str] = []
    room = True

    def take_space(self: MemoryDisk, path: str, size: int) -> None:
        if not room and "/t-0/" in path:
            refused.append(path)
            raise StorageError(f"cannot append to {path}: No space left on device", full=True)

    async def work() -> None:
        nonlocal room
        async with asyncio.timeout(120), ServerNode(settings("/data"), disk=disk, format_new=True) as node:
            async with await connect(node) as connection:
                topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
                await connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
            producing = asyncio.ensure_future(asyncio.to_thread(produce, node.address[1], half, full))
            assert await asyncio.to_thread(half.wait, 60)
            room = False
            full.set()
            while not refused:  # noqa: ASYNC110 - bounded by the timeout
                await asyncio.sleep(0.01)
            room = True
            told = await producing
            assert told == [None] * RECORDS
            partition = node.broker.partition("t", 0)
            assert partition is not None and partition.log.log_end_offset == RECORDS

    with (
        mock.patch.object(MemoryDisk, "take_space", take_space),
        mock.patch.object(space, "_AFTER_REFUSAL_S", 1.0),
    ):
        asyncio.run(work())
    assert refused
