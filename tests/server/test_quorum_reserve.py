"""A controller whose volume is full goes on from its reserve, refuses what would need most, and recovers."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

from tests.server.harness import until
from tests.server.test_node import connect, on, settings

from barnabas.client.aio import AsyncConnection
from barnabas.errors import ErrorCode, StorageError
from barnabas.server.kraft import reserve as quorum_reserve
from barnabas.server.kraft.reserve import FILE
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

METADATA = "/data/__cluster_metadata-0"
SIZE = 100_000


class Volume(MemoryDisk):
    """A disk on which the metadata has so much room."""

    room = 1 << 40

    def take_space(self, path: str, size: int) -> None:
        if path.startswith(METADATA) and self.used() + size > self.room:
            raise StorageError(f"cannot append to {path}: No space left on device", full=True)

    def used(self) -> int:
        return sum(self.size(f"{METADATA}/{name}") for name in self.list(METADATA))


async def create(connection: AsyncConnection, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer: Any = await connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
    return int(answer.topics[0].error_code)


def test_a_full_metadata_volume_costs_new_topics_and_not_the_node() -> None:
    disk = Volume()
    config = settings("/data", barnabas_metadata_reserve_bytes=str(SIZE))

    async def work(node: ServerNode) -> None:
        quorum = node.quorum
        reserve = quorum._store.reserve
        await until(lambda: reserve.held)
        assert disk.size(f"{METADATA}/{FILE}") == SIZE
        async with await connect(node) as connection:
            assert await create(connection, "before") == 0
            disk.room = disk.used() + 10
            assert await create(connection, "from the reserve".replace(" ", "-")) == 0
            assert reserve.short and not disk.exists(f"{METADATA}/{FILE}")
            assert await create(connection, "refused") == ErrorCode.KAFKA_STORAGE_ERROR
            gone: Any = await connection.request(
                DeleteTopicsRequest(topic_names=["before"], timeout_ms=5000), 5
            )
            assert gone.responses[0].error_code == 0
            assert quorum.failed is None and not node.failed.is_set()
            disk.room = 1 << 40
            await until(lambda: reserve.held)
            assert await create(connection, "after") == 0

    async def again(node: ServerNode) -> None:
        assert sorted(node.quorum.image.topics_by_name) == ["after", "from-the-reserve"]

    with mock.patch.object(quorum_reserve, "_LOOK_EVERY", 0.05):
        on(asyncio.new_event_loop, config, work, disk=disk)
        disk.crash("all")
        on(asyncio.new_event_loop, config, again, disk=disk)


def test_a_quorum_state_that_finds_no_room_is_written_from_the_reserve() -> None:
    disk = MemoryDisk()
    reserve = quorum_reserve.Reserve(disk, "/d", SIZE)
    disk.make_directories("/d")
    reserve.make()
    reserve.made(None)
    full = [StorageError("no room", full=True)]

    def write() -> None:
        if full:
            raise full.pop()

    reserve.spend(write)
    assert reserve.short and not disk.exists(f"/d/{FILE}")
    full.append(StorageError("no room", full=True))
    try:
        reserve.spend(write)
    except StorageError as error:
        assert error.full
    else:
        raise AssertionError("there was nothing left to give up")
