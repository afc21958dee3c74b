"""A follower's fetches are answered with the same bytes whether or not a node recognizes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.harness import batch
from tests.frames import frame
from tests.server.alike import counting, node_of
from tests.server.fast_path import request
from tests.server.harness import LOOPS, Client, decoded
from tests.topics import creation_of

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.server.net.fetch_fast_path import FetchFastPath
from barnabas.server.node.process import Node
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

VERSION = 17


async def conversation(node: Node) -> list[bytes]:
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


def run(factory: Any, *, memo: bool) -> Said:
    result = Said()

    async def whole() -> None:
        settings = Config.load(
            {
                "log.dirs": "/data",
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "barnabas.fetch.memo": str(memo).lower(),
            }
        )
        async with asyncio.timeout(60):
            async with node_of(settings) as node:
                result.answers = await conversation(node)
                assert node.runtime is not None
                name = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch"
                result.counted = node.runtime.metrics.counter(name).value

    with counting(FetchFastPath, result), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(whole())
    return result


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_recognized_fetches_have_the_same_answers(loop: str) -> None:
    slowly, fast = run(LOOPS[loop], memo=False), run(LOOPS[loop], memo=True)
    assert fast.answers == slowly.answers
    assert slowly.recognized == 0
    assert fast.recognized >= 5
    assert fast.counted == slowly.counted
