"""Nodes with several disks: one fails, vanishes, is missing at the start, or fills up; the others go on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.server.harness import until
from tests.server.test_node import batch, connect, error_of, fetch, on, settings

from barnabas.client.aio import AsyncConnection
from barnabas.client.blocking import BlockingConnection
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError, StorageError
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.schemas.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.reassignment import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

CONFIG = settings("/one,/two", num_partitions="4")


async def create(connection: AsyncConnection, name: str = "t", partitions: int = 4) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer: Any = await connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    assert answer.topics[0].error_code == 0


async def send(connection: AsyncConnection, index: int, *values: bytes) -> int:
    data = [PartitionProduceData(index=index, records=batch(*values))]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=int(PATIENCE_S * 1000),
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )
    return error_of(await connection.request(request, 9))


async def read(connection: AsyncConnection, index: int) -> bytes:
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", partitions=[partition])
    answer: Any = await connection.request(FetchRequest(max_bytes=1 << 20, topics=[topic]), 11)
    found = answer.responses[0].partitions[0]
    return bytes(found.records or b"") if not found.error_code else b"error %d" % found.error_code


def places(node: ServerNode) -> dict[int, str]:
    """Where the partitions of `t` lie."""
    return {
        index: partition.directory.path
        for index in range(4)
        if (partition := node.broker.partition("t", index)) is not None and partition.directory is not None
    }


def test_one_disk_fails_and_the_other_goes_on_and_the_controller_knows() -> None:
    disk = MemoryDisk()
    lay: dict[int, str] = {}

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection)
            lay.update(places(node))
            assert sorted(lay.values()) == ["/one", "/one", "/two", "/two"]
            for index in range(4):
                assert await send(connection, index, b"before %d" % index) == 0
            disk.fail("sync", "/two/")
            lost = next(index for index, path in lay.items() if path == "/two")
            assert await send(connection, lost, b"lost") == ErrorCode.KAFKA_STORAGE_ERROR
            image = node.quorum.image
            await until(lambda: len(image.brokers[1].directories) == 1)
            for index, path in lay.items():
                state = image.partition("t", index)
                assert state is not None and (state.leader == 1) == (path == "/one")
                kept = await send(connection, index, b"after")
                assert (kept == 0) == (path == "/one")
            assert "/two" in (node.not_ready() or "") and not node.failed.is_set()
            described: Any = await connection.request(DescribeLogDirsRequest(topics=None), 4)
            errors = {row.log_dir: row.error_code for row in described.results}
            assert errors == {"/one": 0, "/two": ErrorCode.KAFKA_STORAGE_ERROR}
            await create(connection, "new", 3)
            assert len(node.broker.topics["new"].partitions) == 3

    async def again(node: ServerNode) -> None:
        assert node.not_ready() is None
        async with await connect(node) as connection:
            for index in range(4):
                assert b"before %d" % index in await read(connection, index)
                assert await send(connection, index, b"again") == 0

    on(asyncio.new_event_loop, CONFIG, work, disk=disk)
    disk.heal()
    on(asyncio.new_event_loop, CONFIG, again, disk=disk)


def test_a_start_with_a_disk_missing_serves_the_rest_and_all_of_it_when_it_is_back() -> None:
    disk = MemoryDisk()
    lay: dict[int, str] = {}

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection)
            lay.update(places(node))
            for index in range(4):
                assert await send(connection, index, b"before %d" % index) == 0

    async def without(node: ServerNode) -> None:
        assert "/two" in (node.not_ready() or "")
        assert len(node.quorum.image.brokers[1].directories) == 1
        async with await connect(node) as connection:
            for index, path in lay.items():
                found = await read(connection, index)
                assert (b"before %d" % index in found) == (path == "/one"), found
                sent = await send(connection, index, b"more")
                assert (sent == 0) == (path == "/one")

    async def with_it(node: ServerNode) -> None:
        async with await connect(node) as connection:
            for index in range(4):
                assert b"before %d" % index in await read(connection, index)
                assert await send(connection, index, b"more") == 0

    on(asyncio.new_event_loop, CONFIG, work, disk=disk)
    disk.fail("read", "/two/meta.properties")
    on(asyncio.new_event_loop, CONFIG, without, disk=disk)
    disk.heal()
    on(asyncio.new_event_loop, CONFIG, with_it, disk=disk)


@pytest.mark.parametrize(("part", "words"), [("/one/", "metadata directory /one failed")])
def test_without_the_directory_of_the_metadata_the_node_stops_and_says_so(part: str, words: str) -> None:
    disk = MemoryDisk()

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection)
            index = next(index for index, path in places(node).items() if path == "/one")
            disk.fail("sync", f"{part}t-")
            await send(connection, index, b"lost")
            async with asyncio.timeout(PATIENCE_S):
                await node.failed.wait()
            assert words in str(node.failure)

    on(asyncio.new_event_loop, CONFIG, work, disk=disk)


def test_a_failed_disk_that_no_controller_hears_of_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection)
            index = next(index for index, path in places(node).items() if path == "/two")
            assert node.part is not None
            lifecycle = node.part.lifecycle

            async def refused(request: Any) -> Any:
                raise KafkaError(ErrorCode.NOT_CONTROLLER)

            monkeypatch.setattr(lifecycle, "_submit", refused)
            disk.fail("sync", "/two/")
            await send(connection, index, b"lost")
            async with asyncio.timeout(PATIENCE_S):
                await node.failed.wait()
            assert isinstance(node.failure, StorageError) and "no controller has heard" in str(node.failure)

    on(
        asyncio.new_event_loop,
        settings("/one,/two", log_dir_failure_timeout_ms="300"),
        work,
        disk=disk,
    )


def test_a_replica_moves_between_the_disks_of_a_node_that_serves(tmp_path: Path) -> None:
    config = settings(f"{tmp_path}/one,{tmp_path}/two")

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection)
            here = places(node)[0]
            there = next(path for path in config.log_dirs if path != here)
            sent = [b"%d " % number * 1000 for number in range(300)]
            for value in sent[:200]:
                assert await send(connection, 0, value) == 0
            topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
            wish = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=there, topics=[topic])])
            answer: Any = await connection.request(wish, 2)
            assert answer.results[0].partitions[0].error_code == 0
            for value in sent[200:]:
                assert await send(connection, 0, value) == 0
            await until(lambda: places(node)[0] == there)
            state = node.quorum.image.partition("t", 0)
            assert state is not None
            assert state.directories == (node.storage.logs.at(there).directory_id,)  # type: ignore[union-attr]
            partition = node.broker.partition("t", 0)
            assert partition is not None and partition.log.log_end_offset == 300
            found = partition.read(0, 1 << 30).read()
            assert all(value in found for value in sent)
            described: Any = await connection.request(DescribeLogDirsRequest(topics=None), 4)
            rows = {row.log_dir: row for row in described.results}
            assert rows[there].total_bytes >= rows[there].usable_bytes > 0
            assert not [
                p for row in rows.values() for t in row.topics for p in t.partitions if p.is_future_key
            ]
            assert [
                row.log_dir
                for row in described.results
                for t in row.topics
                for p in t.partitions
                if (t.name, p.partition_index) == ("t", 0)
            ] == [there]

    on(asyncio.new_event_loop, config, work)


def test_a_disk_that_does_not_give_what_is_sent_from_it_is_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large answers go by sendfile, without this node ever seeing their bytes: the kernel says that it failed."""
    config = settings(f"{tmp_path}/one,{tmp_path}/two")

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection)
            index, path = next((i, p) for i, p in places(node).items() if p.endswith("two"))
            assert await send(connection, index, bytes(200_000)) == 0

            def broken(*_: object) -> int:
                raise OSError(errno.EIO, "Input/output error")

            monkeypatch.setattr(os, "sendfile", broken)
            with pytest.raises(BarnabasError):
                await read(connection, index)
            await until(lambda: [d.path for d in node.storage.logs.offline()] == [path])
            assert not node.failed.is_set()

    on(asyncio.new_event_loop, config, work)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    where = tmp_path / "volume"
    where.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small tmpfs to fill")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(where)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def test_a_disk_fills_up_under_a_real_node_which_refuses_reads_on_and_resumes(
    volume: Path, tmp_path: Path
) -> None:
    """Filled by producing until that is refused, to the last byte by somebody else, and then freed."""
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"log.dirs={volume}/data\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "barnabas.disk.reserve.percent=25\nlog.segment.delete.delay.ms=0\n"
    )
    command = [sys.executable, "-m", "barnabas"]
    formatted = ["storage", "format", "--standalone", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(properties)]
    subprocess.run([*command, *formatted], check=True, stdout=subprocess.DEVNULL)
    log = (tmp_path / "node.log").open("wb")
    process = subprocess.Popen(
        [*command, "start", str(properties)], stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        assert process.stdout is not None
        port = 0
        for line in process.stdout:
            if "PLAINTEXT://127.0.0.1:" in line:
                port = int(line.partition("PLAINTEXT://127.0.0.1:")[2].split(",")[0].split()[0])
            if "durability" in line:
                break
        _fill_and_free(port, volume)
        assert process.poll() is None
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
        log.close()
    told = (tmp_path / "node.log").read_text()
    assert "log.disk-full" in told and "log.disk-has-room" in told and "directory-offline" not in told


def _fill_and_free(port: int, volume: Path) -> None:
    piece = os.urandom(500_000)

    def sent(connection: BlockingConnection, value: bytes, name: str = "t") -> int:
        data = [PartitionProduceData(index=0, records=batch(value))]
        topic = TopicProduceData(name=name, partition_data=data)
        return error_of(connection.request(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic]), 9))

    def room() -> int:
        status = os.statvfs(volume)
        return status.f_bavail * status.f_frsize

    with BlockingConnection("127.0.0.1", port) as connection:
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "old")]
        connection.request(CreateTopicsRequest(topics=topics, timeout_ms=60_000))
        for _ in range(14):
            assert sent(connection, piece, "old") == 0
        deadline = time.monotonic() + PATIENCE_S
        while (error := sent(connection, piece)) == 0 and time.monotonic() < deadline:
            if room() < 8 << 20:
                time.sleep(0.7)  # the node looks once a second
        assert error == ErrorCode.KAFKA_STORAGE_ERROR and room() > 0
        with contextlib.suppress(OSError), (volume / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(piece)
        assert room() == 0 and sent(connection, b"no") == ErrorCode.KAFKA_STORAGE_ERROR
        answer: Any = connection.request(fetch("t"), 11)
        assert piece in bytes(answer.responses[0].partitions[0].records)
        (volume / "ballast").unlink()
        assert sent(connection, b"no") == ErrorCode.KAFKA_STORAGE_ERROR  # half as much again must be free
        connection.request(DeleteTopicsRequest(topic_names=["old"], timeout_ms=60_000), 3)
        deadline = time.monotonic() + PATIENCE_S
        while (error := sent(connection, b"yes")) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert error == 0, room()


def cordon(path: str) -> IncrementalAlterConfigsRequest:
    change = IncrementalAlterConfigsRequestAlterableConfig(
        name="cordoned.log.dirs", config_operation=0, value=path
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=4, resource_name="1", configs=[change]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def test_a_cordoned_directory_takes_no_new_replicas_and_serves_what_it_has() -> None:
    disk = MemoryDisk()

    async def work(node: ServerNode) -> None:
        image = node.quorum.image
        async with await connect(node) as connection:
            await create(connection)
            assert sorted(places(node).values()) == ["/one", "/one", "/two", "/two"]
            answer: Any = await connection.request(cordon("/two"))
            assert answer.responses[0].error_code == 0
            await until(lambda: len(image.brokers[1].cordoned) == 1)
            await create(connection, "new", 3)
            hosted = node.broker.topics["new"].partitions
            assert {one.directory.path for one in hosted.values() if one.directory} == {"/one"}
            for index in range(4):
                assert await send(connection, index, b"served") == 0
            described: Any = await connection.request(DescribeLogDirsRequest(topics=None), 5)
            assert {row.log_dir: row.is_cordoned for row in described.results} == {
                "/one": False,
                "/two": True,
            }
            here = next(index for index, path in places(node).items() if path == "/one")
            moving = AlterReplicaLogDirTopic(name="t", partitions=[here])
            moved: Any = await connection.request(
                AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/two", topics=[moving])])
            )
            assert moved.results[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            await connection.request(cordon("*"))
            await until(lambda: len(image.brokers[1].cordoned) == 2)
            topic = CreatableTopic(name="nowhere", num_partitions=1, replication_factor=1)
            refused: Any = await connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
            assert refused.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
            await connection.request(cordon(""))
            await until(lambda: not image.brokers[1].cordoned)
            await create(connection, "more", 2)
            placed = node.broker.topics["more"].partitions.values()
            assert "/two" in {one.directory.path for one in placed if one.directory}

    on(asyncio.new_event_loop, CONFIG, work, disk=disk)


def test_a_cordoned_directory_that_is_none_of_the_node_is_refused_at_the_start() -> None:
    async def start() -> None:
        node = ServerNode(settings("/one,/two", cordoned_log_dirs="/three"), disk=MemoryDisk())
        with pytest.raises(ConfigError, match="/three, which is not among"):
            await node.start()

    asyncio.run(start())
