"""Transactions by real clients: Apache Kafka's producer (KIP-890) and tool, librdkafka while nodes are killed."""

from __future__ import annotations

import asyncio
import threading
import time
from random import Random
from typing import Any

import pytest
from tests.compat.conftest import NodeProcess, kafka_class

from barnabas.testing import Cluster

pytestmark = pytest.mark.compat

TOOL = "org.apache.kafka.tools.TransactionsCommand"
PARTITIONS = 4


def open_transaction(bootstrap: str, name: str, topic: str) -> Any:
    """A librdkafka producer with one record in an open transaction."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"left open", partition=0)
    producer.flush(20)
    return producer


def test_apaches_producer_commits_many_transactions(apache: object, one_node: NodeProcess) -> None:
    """It sends Produce 12 and EndTxn 5: partitions join with their first batch, each end raises the epoch."""
    to = ("--bootstrap-server", one_node.bootstrap)
    one_node.barnabas("topics", "create", "t", "--partitions", "3", *to)
    printed = kafka_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "t", "--num-records", "3000", "--record-size", "100", "--throughput", "3000"),
        *("--transactional-id", "java", "--transaction-duration-ms", "50", *to),
    )
    assert "3000 records sent" in printed
    state = kafka_class(TOOL, *to, "describe", "--transactional-id", "java").splitlines()[-1].split()
    assert state[:3] == ["1", "java", "0"] and state[4] == "CompleteCommit"
    assert int(state[3]) > 5, "each transaction had an epoch of its own"
    assert committed(one_node.bootstrap, "t", 3) == 3000


def committed(bootstrap: str, topic: str, partitions: int) -> int:
    """How many committed records a topic has."""
    return sum(len(values) for values in read_committed(bootstrap, topic, partitions).values())


def read_committed(bootstrap: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """All committed values by partition, up to where the logs end now."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "r", "isolation.level": "read_committed", "log_level": 0}
    )
    places = [TopicPartition(topic, index, 0) for index in range(partitions)]
    ends = {place.partition: consumer.get_watermark_offsets(place, 20)[1] for place in places}
    consumer.assign(places)
    found: dict[int, list[bytes]] = {index: [] for index in range(partitions)}
    deadline = time.monotonic() + 60
    while any(at.offset < ends[at.partition] for at in consumer.position(places)):
        assert time.monotonic() < deadline, "a transaction hangs"
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None
            found[message.partition()].append(message.value())
    consumer.close()
    return found


ENDS = ((b"1", "commit"), (b"2", "abort"), (b"3", "commit"))
"""Values, and how their transactions end."""


def test_kafka_python_commits_and_aborts(one_node: NodeProcess) -> None:
    from kafka import KafkaProducer

    one_node.barnabas("topics", "create", "t", "--bootstrap-server", one_node.bootstrap)
    producer = KafkaProducer(bootstrap_servers=one_node.bootstrap, transactional_id="kafka-python")
    producer.init_transactions()
    for value, end in ENDS:
        producer.begin_transaction()
        producer.send("t", value)
        producer.flush()
        getattr(producer, f"{end}_transaction")()
    producer.close()
    assert read_committed(one_node.bootstrap, "t", 1) == {0: [b"1", b"3"]}


def test_aiokafka_commits_offsets_with_its_records(one_node: NodeProcess) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    one_node.barnabas("topics", "create", "t", "--bootstrap-server", one_node.bootstrap)

    async def main() -> int | None:
        producer = AIOKafkaProducer(bootstrap_servers=one_node.bootstrap, transactional_id="aiokafka")
        await producer.start()
        for value, end in ENDS:
            await producer.begin_transaction()
            await producer.send_and_wait("t", value)
            await producer.send_offsets_to_transaction({TopicPartition("t", 0): int(value)}, "g")
            await getattr(producer, f"{end}_transaction")()
        await producer.stop()
        consumer = AIOKafkaConsumer("t", bootstrap_servers=one_node.bootstrap, group_id="g")
        await consumer.start()
        try:
            position: int | None = await consumer.committed(TopicPartition("t", 0))
            return position
        finally:
            await consumer.stop()

    assert asyncio.run(main()) == 3
    assert read_committed(one_node.bootstrap, "t", 1) == {0: [b"1", b"3"]}


def test_kafka_transactions_lists_describes_and_aborts(apache: object, one_node: NodeProcess) -> None:
    to = ("--bootstrap-server", one_node.bootstrap)
    one_node.barnabas("topics", "create", "t", *to)
    producer = open_transaction(one_node.bootstrap, "open", "t")
    assert kafka_class(TOOL, *to, "list").splitlines()[-1].split() == ["open", "1", "0", "Ongoing"]
    only = ("list", "--transactional-id-pattern")
    assert "open" in kafka_class(TOOL, *to, *only, "o.*n")
    assert "open" not in kafka_class(TOOL, *to, *only, "o")
    assert "t-0" in kafka_class(TOOL, *to, "describe", "--transactional-id", "open")
    of = ("--topic", "t", "--partition", "0")
    assert kafka_class(TOOL, *to, "describe-producers", *of).splitlines()[-1].split()[-1] == "0"
    kafka_class(TOOL, *to, "abort", *of, "--start-offset", "0")
    assert kafka_class(TOOL, *to, "describe-producers", *of).splitlines()[-1].split()[-1] == "None"
    assert committed(one_node.bootstrap, "t", 1) == 0
    del producer


def test_no_transaction_is_torn_or_lost_while_nodes_are_killed() -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    rng, ends = Random(1), {}
    stop = time.monotonic() + 15
    with Cluster(nodes=3) as cluster:
        topic = NewTopic("t", PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic])["t"].result(30)
        threads = [
            threading.Thread(target=transact, args=(cluster.bootstrap, name, stop, Random(name), ends))
            for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for _ in range(3):
            time.sleep(1 + rng.random() * 2)
            node = rng.randint(1, 3)
            cluster.kill(node)
            cluster.start(node)
        for thread in threads:
            thread.join()
        found = read_committed(cluster.bootstrap, "t", PARTITIONS)
    assert sum(end == "commit" for end in ends.values()) > 20
    wrong = {}
    for name, end in ends.items():
        seen = sum(values.count(name) for values in found.values())
        allowed = {"commit": (PARTITIONS,), "abort": (0,), "unknown": (0, PARTITIONS)}[end]
        if seen not in allowed:
            wrong[name] = (end, seen)
    assert wrong == {}


def transact(bootstrap: str, name: str, stop: float, rng: Random, ends: dict[bytes, str]) -> None:
    """One transaction after the other, each with one record per partition; notes how each ended."""
    from confluent_kafka import KafkaException, Producer

    producer = None
    number = 0
    while time.monotonic() < stop:
        if producer is None:
            producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
            producer.init_transactions(60)
        number += 1
        value = f"{name}{number}".encode()
        end = "commit" if rng.random() < 0.7 else "abort"
        ends[value] = "unknown"
        try:
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce("t", value, partition=index)
            producer.flush(30)
            getattr(producer, f"{end}_transaction")(60)
            ends[value] = end
        except KafkaException:
            producer = None
