"""A whole node: real clients, stopping with clients that wait, starting again, and disks that fail."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.server.harness import LOOPS

from barnabas.client.aio import AsyncConnection
from barnabas.config import NO_FLUSH, Config
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.server.node.process import ServerNode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest

LOCAL = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
Work = Callable[[ServerNode], Awaitable[Any]]


def settings(folder: object, **more: str) -> Config:
    given = {"log.dirs": str(folder), "listeners": LOCAL, "offsets.topic.num.partitions": "2"}
    return Config.load({**given, **{name.replace("_", "."): value for name, value in more.items()}})


@pytest.fixture(params=sorted(LOOPS))
def loop_factory(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    factory: Callable[[], asyncio.AbstractEventLoop] = LOOPS[request.param]
    return factory


def on(
    factory: Callable[[], asyncio.AbstractEventLoop], config: Config, work: Work, **doors: Any
) -> ServerNode:
    """Run `work` with a started node; returns the node, stopped."""

    async def whole() -> ServerNode:
        async with asyncio.timeout(PATIENCE_S):
            node = ServerNode(config, **doors)
            async with node:
                await work(node)
            return node

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(whole())


def batch(*values: bytes) -> bytearray:
    return write_batch([Record(n, 1_700_000_000_000, None, value, ()) for n, value in enumerate(values)])


def produce(topic: str, *values: bytes, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=batch(*values))]
    return ProduceRequest(
        acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch(topic: str, offset: int = 0, wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


async def create(connection: AsyncConnection, topic: str) -> None:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)], timeout_ms=60_000
    )
    answer: Any = await connection.request(request)
    assert answer.topics[0].error_code == 0, answer


async def connect(node: ServerNode) -> AsyncConnection:
    return await AsyncConnection.connect(*node.address)


def error_of(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def test_what_was_acknowledged_is_there_after_a_restart(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    config = settings(tmp_path)

    async def first(node: ServerNode) -> None:
        assert node.storage.formatted
        async with await connect(node) as connection:
            await create(connection, "t")
            answer = await connection.request(produce("t", b"one", b"two"), 9)
            assert error_of(answer) == 0

    async def second(node: ServerNode) -> None:
        assert not node.storage.formatted
        assert all(directory.was_clean for directory in node.storage.logs.directories)
        async with await connect(node) as connection:
            answer: Any = await connection.request(fetch("t"), 11)
            found = bytes(answer.responses[0].partitions[0].records)
            assert b"one" in found and b"two" in found

    before = on(loop_factory, config, first)
    after = on(loop_factory, config, second)
    assert before.storage.cluster_id == after.storage.cluster_id
    assert before.storage.directory_id == after.storage.directory_id


def test_a_node_that_stops_answers_those_who_wait(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            waiting = asyncio.ensure_future(connection.request(fetch("t", wait_ms=600_000), 11, timeout=700))
            produced = asyncio.ensure_future(connection.request(produce("t", b"x"), 9))
            await asyncio.sleep(0.05)
            async with asyncio.timeout(PATIENCE_S):
                await node.stop()
                answer: Any = await waiting
                assert answer.error_code == 0
                assert error_of(await produced) == 0

    on(loop_factory, settings(tmp_path), work)


def test_a_topic_is_there_when_its_creation_is_answered_and_gone_when_its_deletion_is(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            for _ in range(5):
                await create(connection, "t")
                assert error_of(await connection.request(produce("t", b"x"), 9)) == 0
                deleted: Any = await connection.request(
                    DeleteTopicsRequest(topic_names=["t"], timeout_ms=60_000), 5
                )
                assert deleted.responses[0].error_code == 0
                asked = MetadataRequest(
                    topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
                )
                answer: Any = await connection.request(asked)
                assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    on(loop_factory, settings(tmp_path), work)


def test_asking_for_a_topic_makes_it_and_the_answer_names_its_leader(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            answer: Any = await connection.request(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
            assert [(t.name, t.error_code) for t in answer.topics] == [("new", 0)]
            assert answer.topics[0].partitions[0].leader_id == node.config.node_id
            assert [(b.host, b.port) for b in answer.brokers] == [node.address], (
                "the address that was dialled"
            )
            bad: Any = await connection.request(MetadataRequest(topics=[MetadataRequestTopic(name="a b")]))
            assert bad.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            refused = MetadataRequest(
                topics=[MetadataRequestTopic(name="no")], allow_auto_topic_creation=False
            )
            answer = await connection.request(refused)
            assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    on(loop_factory, settings(tmp_path), work)


def test_an_advertised_listener_is_what_clients_are_told(tmp_path: Path) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            answer: Any = await connection.request(MetadataRequest(topics=[]))
            assert [(b.host, b.port) for b in answer.brokers] == [("kafka.example.org", 19092)]

    config = settings(tmp_path, advertised_listeners="PLAINTEXT://kafka.example.org:19092")
    on(asyncio.new_event_loop, config, work)


def test_a_restart_of_the_same_node_object_is_not_needed_to_use_the_directory_again(tmp_path: Path) -> None:
    """Locks, sockets and files are given back."""
    config = settings(tmp_path)

    async def nothing(node: ServerNode) -> None:
        assert node.not_ready() is None

    for _ in range(3):
        on(asyncio.new_event_loop, config, nothing)
    descriptors = len(os.listdir("/proc/self/fd"))
    on(asyncio.new_event_loop, config, nothing)
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("operation", ["sync", "append"])
def test_a_failing_disk_refuses_the_write_and_stops_the_node(operation: str) -> None:
    disk = MemoryDisk()
    failed: list[BaseException | None] = []

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            disk.fail(operation, "/data/t-0")
            answer = await connection.request(produce("t", b"lost"), 9)
            assert error_of(answer) == ErrorCode.KAFKA_STORAGE_ERROR
            async with asyncio.timeout(PATIENCE_S):
                await node.failed.wait()
            failed.append(node.failure)
            assert "offline" in (node.not_ready() or "") or "failed" in (node.not_ready() or "")

    on(asyncio.new_event_loop, settings("/data"), work, disk=disk)
    assert isinstance(failed[0], BarnabasError)
    assert "/data" in failed[0].message


def test_a_full_disk_refuses_the_write_and_keeps_what_was_acknowledged() -> None:
    disk = MemoryDisk()
    config = settings("/data")

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            assert error_of(await connection.request(produce("t", b"kept"), 9)) == 0
            disk.full_after(100)
            answer = await connection.request(produce("t", bytes(10_000)), 9)
            assert error_of(answer) == ErrorCode.KAFKA_STORAGE_ERROR

    async def again(node: ServerNode) -> None:
        async with await connect(node) as connection:
            answer: Any = await connection.request(fetch("t"), 11)
            assert b"kept" in bytes(answer.responses[0].partitions[0].records)
            assert error_of(await connection.request(produce("t", b"more"), 9)) == 0

    on(asyncio.new_event_loop, config, work, disk=disk)
    disk.heal()
    disk.full_after(1 << 30)
    on(asyncio.new_event_loop, config, again, disk=disk)


def test_a_power_cut_loses_nothing_that_was_acknowledged() -> None:
    disk = MemoryDisk()
    config = settings("/data")
    acknowledged: list[bytes] = []

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            for n in range(20):
                assert error_of(await connection.request(produce("t", b"v%d|" % n), 9)) == 0
                acknowledged.append(b"v%d|" % n)
            node.fail(BarnabasError("the power is cut"))
            disk.crash()

    async def again(node: ServerNode) -> None:
        async with await connect(node) as connection:
            answer: Any = await connection.request(fetch("t"), 11)
            found = bytes(answer.responses[0].partitions[0].records)
            assert [found.count(value) for value in acknowledged] == [1] * 20

    on(asyncio.new_event_loop, config, work, disk=disk)
    assert len(acknowledged) == 20
    on(asyncio.new_event_loop, config, again, disk=disk)


def test_only_apis_that_answer_are_advertised(tmp_path: Path) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            answer: Any = await connection.request(
                ApiVersionsRequest(client_software_name="t", client_software_version="1")
            )
            ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
            assert ranges[0] == (0, 13)
            assert {feature.name for feature in answer.finalized_features} >= {
                "metadata.version",
                "kraft.version",
            }
            for internal in (52, 53, 54, 56, 58, 59, 62, 63, 67, 70):
                assert internal not in ranges

    on(asyncio.new_event_loop, settings(tmp_path), work)


def test_page_cache_mode_acknowledges_too(tmp_path: Path) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            for n in range(50):
                assert error_of(await connection.request(produce("t", b"%d" % n), 9)) == 0

    on(asyncio.new_event_loop, settings(tmp_path, log_flush_interval_messages=str(NO_FLUSH)), work)


_RUN = """
import sys
from barnabas.config import Config
from barnabas.server.node.run import run
config = Config.load({"log.dirs": sys.argv[1], "listeners": %r})
def ready(node):
    print(node.address[1], flush=True)
    assert sys.getswitchinterval() < 0.001, "so long a thread that computes holds the loop up"
sys.exit(run(config, on_ready=ready))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_in_order_with_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", _RUN % LOCAL, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert "node.stopped" in errors
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_kafka_python_and_confluent_produce_and_consume(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from kafka import KafkaConsumer, KafkaProducer

    values = [b"v%d" % n for n in range(300)]

    def librdkafka(bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
        for value in values:
            producer.produce("c", value)
        assert producer.flush(PATIENCE_S) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "check.crcs": True})
        consumer.assign([TopicPartition("c", 0, 0)])
        found: list[bytes] = []
        while len(found) < len(values):
            message = consumer.poll(PATIENCE_S)
            assert message is not None and message.error() is None
            found.append(message.value())
        consumer.close()
        assert found == values

    def kafka_python(bootstrap: str) -> None:
        producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        for sent in [producer.send("k", value) for value in values]:
            sent.get(PATIENCE_S)
        producer.close()
        consumer = KafkaConsumer(
            "k",
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            group_id="kp",
            consumer_timeout_ms=int(PATIENCE_S * 1000),
        )
        found = [message.value for _, message in zip(values, consumer, strict=False)]
        consumer.close()
        assert found == values

    async def work(node: ServerNode) -> None:
        bootstrap = f"127.0.0.1:{node.address[1]}"
        await asyncio.to_thread(librdkafka, bootstrap)
        await asyncio.to_thread(kafka_python, bootstrap)

    on(loop_factory, settings(tmp_path), work)


def test_metrics_and_health_of_a_node_over_http(tmp_path: Path) -> None:
    async def page(port: int, path: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    async def work(node: ServerNode) -> None:
        assert node.http_port is not None
        async with await connect(node) as connection:
            await create(connection, "t")
            assert error_of(await connection.request(produce("t", b"a", b"b"), 9)) == 0
        assert (await page(node.http_port, "/health/ready")).endswith("ready\n")
        text = await page(node.http_port, "/metrics")
        for line in (
            'kafka_network_RequestMetrics_RequestsPerSec_total{request="Produce"} 1.0',
            'kafka_log_Log_LogEndOffset{partition="0",topic="t"} 2.0',
            "kafka_server_ReplicaManager_LeaderCount 1.0",
            "kafka_server_ReplicaManager_PartitionsWithLateTransactionsCount 0.0",
            'kafka_cluster_Partition_LastStableOffsetLag{partition="0",topic="t"} 0.0',
            "kafka_server_BrokerTopicMetrics_MessagesInPerSec_total 2.0",
            'kafka_server_BrokerTopicMetrics_MessagesInPerSec_total{topic="t"} 2.0',
            "kafka_server_ReplicaManager_IsrShrinksPerSec_total 0.0",
            "kafka_controller_ControllerStats_UncleanLeaderElectionsPerSec_total 0.0",
            "process_cpu_seconds_total ",
            "kafka_controller_KafkaController_ActiveControllerCount 1.0",
            "kafka_coordinator_group_GroupMetadataManager_NumGroups 0.0",
            "barnabas_Groups_Unreadable 0.0",
            f'kafka_log_LogManager_LogDirectoryOffline{{logDirectory="{tmp_path}"}} 0.0',
            f'barnabas_Disk_Full{{logDirectory="{tmp_path}"}} 0.0',
            f'barnabas_Disk_FreeBytes{{logDirectory="{tmp_path}"}} ',
        ):
            assert line in text, line
        assert "kafka_log_LogFlushStats_LogFlushRateAndTime_seconds_count" in text
        assert "barnabas_Loop_Lag_seconds_bucket" in text

    on(asyncio.new_event_loop, settings(tmp_path, barnabas_http_listener="127.0.0.1:0"), work)


def test_a_limit_changed_at_run_time_counts_from_then_on(tmp_path: Path) -> None:
    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            change = IncrementalAlterConfigsRequestAlterableConfig(
                name="message.max.bytes", config_operation=0, value="2000"
            )
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsRequestAlterConfigsResource(
                        resource_type=4, resource_name="", configs=[change]
                    )
                ]
            )
            answer: Any = await connection.request(request)
            assert answer.responses[0].error_code == 0, answer
            refused = await connection.request(produce("t", bytes(5000)), 9)
            assert error_of(refused) == ErrorCode.MESSAGE_TOO_LARGE

    on(asyncio.new_event_loop, settings(tmp_path), work)


def test_an_event_loop_of_ones_own_may_hold_several_nodes(tmp_path: Path) -> None:
    async def whole() -> None:
        async with ServerNode(settings(tmp_path / "a")) as one, ServerNode(settings(tmp_path / "b")) as two:
            assert one.address != two.address
            assert one.storage.cluster_id != two.storage.cluster_id
            for node in (one, two):
                async with await connect(node) as connection:
                    await create(connection, "t")

    asyncio.run(whole())


_SLOW_START = """
import asyncio, sys
from barnabas.config import Config
from barnabas.server.node import run as process
async def for_ever(*_):
    print("starting", flush=True)
    await asyncio.sleep(1000)
process.ServerNode._start_broker = for_ever
sys.exit(process.run(Config.load({"log.dirs": sys.argv[1], "listeners": %r})))
"""


def test_a_signal_during_the_start_undoes_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SLOW_START % LOCAL, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors


_SLOW_STOP = """
import asyncio, sys
from barnabas.config import Config
from barnabas.server.node import run as process
async def for_ever(*_):
    print("stopping", flush=True)
    await asyncio.sleep(1000)
process.ServerNode._stop_serving = for_ever
config = Config.load({"log.dirs": sys.argv[1], "listeners": %r, "barnabas.shutdown.timeout.ms": sys.argv[2]})
sys.exit(process.run(config, on_ready=lambda node: print("ready", flush=True)))
"""


@pytest.mark.parametrize(("signals", "patience", "code"), [(2, "60000", 128 + signal.SIGTERM), (1, "100", 1)])
def test_a_stop_that_hangs_is_cut_short(tmp_path: Path, signals: int, patience: str, code: int) -> None:
    """By a second signal at once, by barnabas.shutdown.timeout.ms on its own."""
    command = [sys.executable, "-c", _SLOW_STOP % LOCAL, str(tmp_path), patience]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        if signals == 2:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, errors
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
