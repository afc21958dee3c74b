"""A few bytes in __consumer_offsets that unpack to very many, and a node that starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.broker.test_batch_checks import bomb
from tests.patience import PATIENCE_S
from tests.server.harness import LOOPS
from tests.server.test_node import connect, create, error_of, on, settings

from barnabas.broker.groups import loading as group_loading
from barnabas.broker.groups.loading import Loading
from barnabas.broker.ports import ADMIN_CLIENT
from barnabas.client.aio import AsyncConnection
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.server.node.process import ServerNode
from barnabas.wire.compression import Codec
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.groups import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SIZE = 99 << 20
"""Nearly the most that a batch may unpack to."""


@pytest.fixture(params=sorted(LOOPS))
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    factory: Callable[[], asyncio.AbstractEventLoop] = LOOPS[request.param]
    return factory


async def committed(connection: AsyncConnection) -> tuple[int, int]:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    answer: Any = await connection.request(asked, 9)
    (group,) = answer.groups
    return group.error_code, -1 if group.error_code else group.topics[0].partitions[0].committed_offset


async def prepare(node: ServerNode) -> None:
    """A committed offset, a bomb, and another one."""
    async with await connect(node) as connection:
        await create(connection, "t")
        for _ in range(1000):
            found: Any = await connection.request(
                FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4
            )
            if not found.coordinators[0].error_code:
                break
            await asyncio.sleep(0)
        await commit(connection, 5)
        async with await AsyncConnection.connect(*node.address, client_id=ADMIN_CLIENT) as admin:
            data = PartitionProduceData(index=0, records=bomb(Codec.GZIP, SIZE))
            topics = [TopicProduceData(name="__consumer_offsets", partition_data=[data])]
            answer = await admin.request(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=topics), 9)
            assert error_of(answer) == ErrorCode.NONE
        await commit(connection, 6)


async def commit(connection: AsyncConnection, offset: int) -> None:
    topic = OffsetCommitRequestTopic(
        name="t",
        partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
    )
    code: int = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    while code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        answer: Any = await connection.request(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
        code = answer.topics[0].partitions[0].error_code
    assert code == ErrorCode.NONE


class Watched:
    """Counts the steps of loading and the pieces that each unpacks; holds them back until `go`."""

    def __init__(self) -> None:
        self.go = False
        self.steps = self.unpacked = self.most = 0
        self._step, self._pieces = Loading.step, group_loading.pieces

    def step(self, loading: Loading, replay: group_loading.Replay, now: Now) -> bool:
        if not self.go:
            return True
        self.steps += 1
        before = self.unpacked
        more = self._step(loading, replay, now)
        self.most = max(self.most, self.unpacked - before)
        return more

    def pieces(self, codec: int, *given: Any) -> Iterator[bytes]:
        for piece in self._pieces(codec, *given):
            self.unpacked += codec != Codec.NONE
            yield piece


def test_a_node_that_loads_a_bomb_answers_a_ping_within_a_few_steps_of_its_loop(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    config = settings(tmp_path, offsets_topic_num_partitions="1")
    watched = Watched()

    async def pinged(node: ServerNode) -> None:
        async with await connect(node) as connection:
            assert (await committed(connection))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            watched.go = True
            for _ in range(5):
                before = watched.steps
                await connection.request(ApiVersionsRequest(), 3)
                assert watched.steps - before <= 20
            code, offset = await committed(connection)
            assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            async with asyncio.timeout(PATIENCE_S):
                while code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    code, offset = await committed(connection)
            assert (code, offset) == (ErrorCode.NONE, 6)

    on(loop_factory, config, prepare)

    def step(loading: Loading, replay: group_loading.Replay, now: Now) -> bool:
        return watched.step(loading, replay, now)

    with (
        mock.patch.object(Loading, "step", step),
        mock.patch.object(group_loading, "pieces", watched.pieces),
    ):
        on(loop_factory, config, pinged)
    assert watched.unpacked > SIZE >> 18
    assert watched.most == 1
    assert watched.steps >= watched.unpacked
