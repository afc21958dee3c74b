"""Consumer groups of KIP-848 under real clients: librdkafka, Apache Kafka's consumer and its tools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from tests.compat.conftest import NodeProcess, kafka_class

pytestmark = pytest.mark.compat

PARTITIONS, RECORDS = 6, 600


@pytest.fixture
def quick_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node whose members send a heartbeat every 300 ms."""
    node = NodeProcess(
        tmp_path / "node",
        group_consumer_heartbeat_interval_ms="300",
        group_consumer_assignment_interval_ms="0",
    )
    try:
        yield node.start()
        node.stop()
    finally:
        node.discard()


def produce(node: NodeProcess, topic: str = "flights", first: int = 0) -> None:
    if not first:
        count = str(PARTITIONS)
        node.barnabas("topics", "create", topic, "--partitions", count, "--bootstrap-server", node.bootstrap)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(first, first + RECORDS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


@contextmanager
def consumer(
    node: NodeProcess, topic: str = "flights", protocol: str = "consumer", **settings: str
) -> Iterator[Consumer]:
    reader = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "g",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    reader.subscribe([topic])
    try:
        yield reader
    finally:
        reader.close()


def read(readers: list[Consumer], into: list[int], until: int, within: float = 30.0) -> None:
    """Poll in rotation until so many records have come."""
    deadline = time.monotonic() + within
    while len(into) < until:
        for reader in readers:
            message = reader.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                into.append(int(message.value()))
        assert time.monotonic() < deadline, f"{len(into)} of {until}"


def shared(readers: list[Consumer], within: float = 30.0) -> list[int]:
    """How many partitions each has, once together they have all."""
    deadline = time.monotonic() + within
    while True:
        for reader in readers:
            assert reader.poll(0.02) is None
        counts = [len(reader.assignment()) for reader in readers]
        if sum(counts) == PARTITIONS and all(counts):
            return counts
        assert time.monotonic() < deadline, counts


def test_librdkafka_shares_the_partitions_and_reads_every_record_once(quick_node: NodeProcess) -> None:
    got: list[int] = []
    produce(quick_node)
    with consumer(quick_node) as one:
        read([one], got, RECORDS)
        with consumer(quick_node, client_id="two") as two:
            assert shared([one, two]) == [3, 3]
            with consumer(quick_node, group_remote_assignor="range") as three:
                assert shared([one, two, three]) == [2, 2, 2]
                produce(quick_node, first=RECORDS)
                read([one, two, three], got, 2 * RECORDS)
        assert shared([one]) == [PARTITIONS]
    assert sorted(got) == list(range(2 * RECORDS))


def test_a_group_of_librdkafkas_changes_its_protocol_and_changes_back(quick_node: NodeProcess) -> None:
    """KIP-848, online migration: members are replaced one by one, and every record is read once."""
    got: list[int] = []
    classic = {
        "protocol": "classic",
        "heartbeat_interval_ms": "300",
        "partition_assignment_strategy": "range",
    }
    produce(quick_node)
    with consumer(quick_node, **classic) as old:
        read([old], got, RECORDS)
        with consumer(quick_node) as new:
            assert shared([old, new]) == [3, 3]
            assert "consumer" in quick_node.barnabas(
                "groups", "list", "--bootstrap-server", quick_node.bootstrap
            )
            produce(quick_node, first=RECORDS)
            read([old, new], got, 2 * RECORDS)
        assert shared([old]) == [PARTITIONS]
        assert "classic" in quick_node.barnabas("groups", "list", "--bootstrap-server", quick_node.bootstrap)
        produce(quick_node, first=2 * RECORDS)
        read([old], got, 3 * RECORDS)
    assert sorted(got) == list(range(3 * RECORDS))


def test_librdkafka_goes_on_after_the_coordinator_was_killed(quick_node: NodeProcess) -> None:
    got: list[int] = []
    produce(quick_node)
    with consumer(quick_node) as one, consumer(quick_node) as two:
        read([one, two], got, RECORDS)
        for reader in (one, two):
            if reader.assignment():
                reader.commit(asynchronous=False)
        quick_node.kill()
        quick_node.start()
        produce(quick_node, first=RECORDS)
        read([one, two], got, 2 * RECORDS)
        assert shared([one, two]) == [3, 3]
    assert sorted(got) == list(range(2 * RECORDS))


def test_librdkafka_subscribes_by_pattern(quick_node: NodeProcess) -> None:
    got: list[int] = []
    produce(quick_node)
    produce(quick_node, "flights-old")
    with consumer(quick_node, "^flights.*") as one:
        read([one], got, 2 * RECORDS)
        assert len(one.assignment()) == 2 * PARTITIONS


def test_apache_kafkas_consumer_and_its_tools_take_the_protocol(
    apache: object, quick_node: NodeProcess
) -> None:
    produce(quick_node)
    bootstrap = ("--bootstrap-server", quick_node.bootstrap)
    printed = kafka_class(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*bootstrap, "--topic", "flights", "--group", "g", "--from-beginning"),
        *("--max-messages", str(RECORDS), "--command-property", "group.protocol=consumer"),
    )
    numbers = [int(line) for line in printed.splitlines() if line.strip().isdigit()]
    assert sorted(numbers) == list(range(RECORDS))
    groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    listed = kafka_class(groups, *bootstrap, "--list", "--type", "consumer", "--state")
    assert "g" in listed.split() and "Empty" in listed, listed
    with consumer(quick_node) as one:
        shared([one])
        described = kafka_class(groups, *bootstrap, "--describe", "--group", "g", "--members", "--verbose")
        assert "flights" in described and "rdkafka" in described, described
        assert "Stable" in kafka_class(groups, *bootstrap, "--describe", "--group", "g", "--state")
    assert f"{RECORDS // PARTITIONS}" in kafka_class(groups, *bootstrap, "--describe", "--group", "g")
    assert "successful" in kafka_class(groups, *bootstrap, "--delete", "--group", "g")
    assert "g" not in kafka_class(groups, *bootstrap, "--list").split()


def test_apache_kafka_reads_the_records_that_are_written(apache: object, quick_node: NodeProcess) -> None:
    produce(quick_node)
    with consumer(quick_node) as one, consumer(quick_node, "^fl.*") as two:
        read([one, two], [], RECORDS)
    quick_node.stop()
    types = set()
    for log in quick_node.data.glob("__consumer_offsets-*/*.log"):
        printed = kafka_class(
            "org.apache.kafka.tools.DumpLogSegments",
            "--offsets-decoder",
            "--print-data-log",
            "--files",
            str(log),
        )
        types |= {kind for kind in range(24) if f'"type":"{kind}"' in printed}
    assert {3, 5, 6, 7, 8, 16} <= types, types
    quick_node.start()
