"""Clients that say where they stand read from the replica there (KIP-392): librdkafka and Java."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from tests.compat.conftest import kafka_class, run_kafka_class
from tests.compat.test_replication import Topic
from tests.server.quorum_processes import Members, eventually

from barnabas.broker.replicas.broker import RACK_AWARE
from barnabas.client.admin.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.client.fetching import fetch_range
from barnabas.wire.records import read_records
from barnabas.wire.schemas.cluster import MetadataRequest

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def racked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topic]:
    """Three nodes in racks r1, r2, r3, and topic `t` on all of them."""
    folder = tmp_path_factory.mktemp("racks")
    with Members.formed(folder, 3, replica_selector_class=RACK_AWARE) as nodes:
        for member in nodes.all.values():
            member.settings["broker.rack"] = f"r{member.id}"
            member.write_properties()
        nodes.start()
        nodes.settled([1, 2, 3])
        for member in nodes.all.values():
            member.serving()
        topic = Topic(nodes)
        with Admin(f"127.0.0.1:{nodes[1].port}", timeout=20) as admin:
            eventually(lambda: len(nodes[1].ask(MetadataRequest(topics=[]), broker=True).brokers) == 3)
            admin.create_topic("t", partitions=1, replication=3)
        topic.full()
        yield topic


def produce(topic: Topic, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": topic.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce("t", str(number).encode(), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def test_librdkafka_reads_from_the_replica_in_its_rack_and_from_the_leader_when_that_dies(
    racked: Topic,
) -> None:
    produce(racked, 0, 1000)
    leader = racked.leader()
    near = next(member for member in racked.nodes.all.values() if member is not leader)
    sources: Counter[int] = Counter()

    def statistics(text: str) -> None:
        partitions = json.loads(text)["topics"].get("t", {}).get("partitions", {})
        sources[partitions.get("0", {}).get("broker", -1)] += 1

    consumer = Consumer(
        {
            "bootstrap.servers": racked.bootstrap,
            "group.id": "near",
            "enable.auto.commit": False,
            "client.rack": f"r{near.id}",
            "statistics.interval.ms": 50,
            "stats_cb": statistics,
            "check.crcs": True,
        }
    )
    seen: Counter[int] = Counter()

    def read(until: int) -> None:
        deadline = time.monotonic() + 60
        while len(seen) < until:
            assert time.monotonic() < deadline, (len(seen), sources)
            message: Any = consumer.poll(0.2)
            if message is not None and message.error() is None:
                seen[int(message.value())] += 1

    try:
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        read(1000)
        eventually(lambda: (consumer.poll(0.05), sources[near.id] > 3)[1], 20, "reads from the near one")
        delays = []
        for n in range(20):
            produce(racked, 1000 + n, 1)
            begun = time.monotonic()
            read(1001 + n)
            delays.append(time.monotonic() - begun)
        assert sorted(delays)[10] < 0.3, delays  # half a second would be a follower's long poll
        near.kill()
        produce(racked, 1020, 500)
        read(1520)
        near.start()
        racked.full()
        assert set(seen) == set(range(1520))
        assert set(seen.values()) == {1}
    finally:
        consumer.close()


def test_our_reader_of_ranges_reads_in_its_rack(racked: Topic) -> None:
    with Admin(f"127.0.0.1:{racked.nodes[1].port}", timeout=20) as admin:
        admin.create_topic("ranges", partitions=1, replication=3)
        leader = admin.describe_topic("ranges").partitions[0].leader
    producer = Producer({"bootstrap.servers": racked.bootstrap, "acks": "all"})
    for number in range(300):
        producer.produce("ranges", str(number).encode(), partition=0)
    assert producer.flush(60) == 0
    near = leader % 3 + 1
    with Cluster(racked.bootstrap) as cluster:
        read = [
            record.value
            for batch in fetch_range(cluster, "ranges", 0, 0, 300, rack=f"r{near}", max_bytes=1)
            for record in read_records(batch.buffer, 0, batch.header)
        ]
        open_ = cluster.awaited._connections
        asked = {broker.id for broker in cluster.brokers() if (broker.host, broker.port) in open_}
    assert read == [b"%d" % number for number in range(300)]
    assert near in asked, "a connection to the replica in its rack"


def test_deleted_records_are_gone_on_all_three_and_a_reader_nearby_begins_behind_them(
    apache: Path, racked: Topic, tmp_path: Path
) -> None:
    with Admin(f"127.0.0.1:{racked.nodes[1].port}", timeout=20) as admin:
        admin.create_topic("u", partitions=1, replication=3)
    producer = Producer({"bootstrap.servers": racked.bootstrap, "acks": "all"})
    for number in range(300):
        producer.produce("u", str(number).encode(), partition=0)
    assert producer.flush(60) == 0
    until = tmp_path / "until.json"
    until.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "u", "partition": 0, "offset": 120}]})
    )
    printed = kafka_class(
        "org.apache.kafka.tools.DeleteRecordsCommand",
        *("--bootstrap-server", racked.bootstrap, "--offset-json-file", str(until)),
    )
    assert "low_watermark: 120" in printed
    for rack in ("r1", "r2", "r3"):
        consumer = Consumer(
            {
                "bootstrap.servers": racked.bootstrap,
                "group.id": f"of {rack}",
                "client.rack": rack,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.assign([TopicPartition("u", 0, 0)])
            seen: list[int] = []
            deadline = time.monotonic() + 40
            while len(seen) < 180 and time.monotonic() < deadline:
                message: Any = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    seen.append(message.offset())
            assert seen == list(range(120, 300)), rack
        finally:
            consumer.close()


def test_java_reads_from_the_replica_in_its_rack(apache: Path, racked: Topic) -> None:
    leader = racked.leader()
    near = next(member for member in racked.nodes.all.values() if member is not leader)
    os.environ["KAFKA_LOG"] = "debug"
    try:
        code, printed = run_kafka_class(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", racked.bootstrap, "--topic", "t", "--partition", "0"),
            *("--from-beginning", "--max-messages", "1000", "--timeout-ms", "20000"),
            *("--command-property", f"client.rack=r{near.id}"),
        )
    finally:
        del os.environ["KAFKA_LOG"]
    assert code == 0, printed[-3000:]
    assert f"Updating preferred read replica for partition t-0 to {near.id}" in printed
    numbers = [line for line in printed.splitlines() if line.isdigit()]
    assert len(numbers) == 1000
