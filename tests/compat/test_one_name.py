"""Through a hundred refreshes on three nodes a client keeps one connection per broker, and nothing is there twice.

The nodes' `listeners` name a host, clients dial an address of it, and nobody advertises anything: the example of
docs/controllers.md.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.conftest import kafka_class
from tests.server.quorum_processes import Members, eventually

pytestmark = pytest.mark.compat
REFRESHES = 100
PARTITIONS = 3


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Members.formed(tmp_path_factory.mktemp("one-name"), 3) as nodes:
        for member in nodes.all.values():
            member.settings["listeners"] = member.settings["listeners"].replace(
                "PLAINTEXT://127.0.0.1", "PLAINTEXT://localhost"
            )
            member.write_properties()
        nodes.start()
        addresses = ",".join(f"127.0.0.1:{member.port}" for member in nodes.all.values())
        admin = AdminClient({"bootstrap.servers": addresses, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=5).brokers) == 3, 60, "three brokers")
        yield addresses


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = NewTopic(topic, PARTITIONS, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    admin.create_topics([wanted])[topic].result(30)


def values(bootstrap: str, topic: str, expected: int) -> Counter[bytes]:
    """How often each value is in the topic; read until so many are there and nothing follows."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        found: Counter[bytes] = Counter()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None and found.total() >= expected:
                break
            if message is not None and message.error() is None:
                found[message.value() or b""] += 1
        return found
    finally:
        consumer.close()


def test_librdkafka_keeps_one_connection_per_broker_and_sends_nothing_twice(bootstrap: str) -> None:
    create(bootstrap, "one-name-librdkafka")
    told: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": False,
            "topic.metadata.refresh.interval.ms": 30,
            "statistics.interval.ms": 200,
            "stats_cb": lambda text: told.append(json.loads(text)),
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    failed: list[Any] = []
    sent = 0

    def refreshes() -> int:
        return sum(broker["req"].get("Metadata", 0) for broker in told[-1]["brokers"].values()) if told else 0

    deadline = time.monotonic() + 120
    while refreshes() < REFRESHES and time.monotonic() < deadline:
        producer.produce(
            "one-name-librdkafka",
            b"%d" % sent,
            partition=sent % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        sent += 1
        producer.poll(0.002)
    assert producer.flush(60) == 0 and not failed
    assert refreshes() >= REFRESHES
    connections = {
        broker["nodeid"]: (broker["connects"], broker["disconnects"])
        for broker in told[-1]["brokers"].values()
        if broker["nodeid"] >= 0
    }
    assert connections == dict.fromkeys((1, 2, 3), (1, 0))
    assert values(bootstrap, "one-name-librdkafka", sent) == Counter(b"%d" % n for n in range(sent))


@pytest.mark.usefixtures("apache")
def test_the_java_producer_keeps_one_connection_per_broker_and_sends_nothing_twice(bootstrap: str) -> None:
    create(bootstrap, "one-name-java")
    records, rate, every_ms = 3000, 500, 50
    words = (
        f"--topic one-name-java --num-records {records} --record-size 32 --throughput {rate} --print-metrics"
    )
    said = kafka_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *words.split(),
        "--producer-props",
        f"bootstrap.servers={bootstrap}",
        "enable.idempotence=false",
        f"metadata.max.age.ms={every_ms}",
    )
    created = re.search(r"producer-metrics:connection-creation-total:\S*\s*:\s*([\d.]+)", said)
    assert created is not None, said
    assert float(created[1]) <= 6, "at most one to each bootstrap address and one to each broker"
    assert values(bootstrap, "one-name-java", records).total() == records
