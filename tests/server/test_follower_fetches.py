"""A follower's fetches are answered with the same bytes whether they are read from theirs, or decoded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.broker.harness import batch
from tests.frames import frame
from tests.server.alike import counting, decoding_fetches, node_of
from tests.server.fast_path import request
from tests.server.harness import LOOPS, Client, decoded, until
from tests.topics import creation_of

from barnabas.broker.replicas.replica_progress import ReplicaProgress
from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.server.net.fetch_door import FetchDoor
from barnabas.server.node.process import ServerNode
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

VERSION = 17


async def conversation(node: ServerNode) -> list[bytes]:
    """Fetches of one session by somebody who says that it is replica 2, between those of a producer."""
    async with await AsyncConnection.connect(*node.address) as producer:
        await producer.request(creation_of({"t": {}}, partitions=2))
        answer: Any = await producer.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        topic_id = answer.topics[0].topic_id
        client = Client(*await asyncio.open_connection(*node.address))
        session, said = 0, list[bytes]()
        for epoch in range(12):
            await producer.request(request(batch("a record"), "t", epoch % 2), 9)
            rows = [
                FetchPartition(partition=n, fetch_offset=epoch, partition_max_bytes=1 << 20)
                for n in (range(2) if not epoch or epoch % 3 else [])
            ]
            fetch = FetchRequest(
                replica_state=ReplicaState(replica_id=2, replica_epoch=1),
                max_wait_ms=0 if epoch == 7 else 20,
                min_bytes=1,
                session_id=session,
                session_epoch=epoch if epoch != 10 else 99,
                topics=[FetchTopic(topic_id=topic_id, partitions=rows)],
            )
            client.writer.write(frame(fetch, VERSION, 100 + epoch))
            correlation, body = await client.answer()
            assert correlation == 100 + epoch
            session = session or decoded(1, VERSION, body).session_id
            said.append(body.replace(node.address[1].to_bytes(4, "big"), b"port"))
        client.writer.write(frame(fetch, VERSION, 5)[:-1] + b"\x07")
        assert await client.closed() == b""
        client.close()
    return said


class Said:
    """What a node told a follower, how often it recognized a fetch, and how many it counted."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.recognized = self.counted = 0


def wanted(topic_id: Any, session: tuple[int, int], offset: int) -> FetchRequest:
    """A fetch from there that waits for any record."""
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, log_start_offset=0)
    return FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=1),
        max_wait_ms=60_000,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic_id=topic_id, partitions=[row])],
    )


async def in_sync(node: ServerNode) -> list[bytes]:
    """Fetches of a replica that is in sync: one is answered at once, others wait: for a record, for the one
    before, for ever."""
    async with await AsyncConnection.connect(*node.address) as producer:
        await producer.request(creation_of({"t": {}}))
        answer: Any = await producer.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
        topic_id = answer.topics[0].topic_id
        broker = node.broker
        assert broker is not None
        partition = broker.partition("t", 0)
        assert partition is not None
        await producer.request(request(batch("a record"), "t"), 9)
        partition.leading.isr = (1, 2)  # nothing else knows of a second node
        partition.leading.progress[2] = ReplicaProgress(time.monotonic())
        client = Client(*await asyncio.open_connection(*node.address))
        session, said = 0, list[bytes]()

        def fetch(epoch: int, offset: int) -> bytes:
            return frame(wanted(topic_id, (session, epoch), offset), VERSION, 100 + epoch)

        async def told(epoch: int) -> None:
            correlation, body = await client.answer()
            assert correlation == 100 + epoch
            said.append(body)

        for epoch in range(4):
            client.writer.write(fetch(epoch, 0))
            await told(epoch)
            session = session or decoded(1, VERSION, said[0]).session_id
        waiters = broker.purgatory
        client.writer.write(fetch(4, 1))
        await until(lambda: len(waiters) == 1)
        safe = asyncio.ensure_future(producer.request(request(batch("a record"), "t"), 9))
        await told(4)
        # This says that the second record is here, which lets the producer go on.
        client.writer.write(fetch(5, 2))
        await safe
        await until(lambda: len(waiters) == 1)
        # The next is answered after the one that it leaves behind, though it need not wait.
        client.writer.write(fetch(6, 0) + fetch(7, 0))
        await until(lambda: route_count(node) == 8)
        safe = asyncio.ensure_future(producer.request(request(batch("a record"), "t", acks=1), 9))
        for epoch in range(5, 8):
            await told(epoch)
        await safe
        assert len(waiters) == 0
        client.writer.write(fetch(8, 3))
        await until(lambda: len(waiters) == 1)
        client.close()
        await until(lambda: len(waiters) == 0)
        left = broker.sessions.get(session)
        assert left is not None and left.parked is None
    return said


def route_count(node: ServerNode) -> int:
    """How many fetches this node has counted."""
    assert node.runtime is not None
    name = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch"
    return int(node.runtime.metrics.counter(name).value)


def run(factory: Any, talk: Callable[[ServerNode], Awaitable[list[bytes]]], *, decoded_all: bool) -> Said:
    result = Said()

    async def whole() -> None:
        settings = Config.load(
            {
                "log.dirs": "/data",
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            }
        )
        async with asyncio.timeout(60):
            async with node_of(settings) as node:
                result.answers = await talk(node)
                result.counted = route_count(node)

    with (
        decoding_fetches(decoded_all),
        counting(FetchDoor, result),
        asyncio.Runner(loop_factory=factory) as runner,
    ):
        runner.run(whole())
    return result


@pytest.mark.parametrize("talk", [conversation, in_sync])
@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_recognized_fetches_have_the_same_answers(
    loop: str, talk: Callable[[ServerNode], Awaitable[list[bytes]]]
) -> None:
    slowly, fast = run(LOOPS[loop], talk, decoded_all=True), run(LOOPS[loop], talk, decoded_all=False)
    assert fast.answers == slowly.answers
    assert slowly.recognized == 0
    assert fast.recognized >= 5
    assert fast.counted == slowly.counted
