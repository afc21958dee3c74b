"""Real clients against a real node: 10,000 records each way, subscribed and assigned, on both event loops."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest
from tests.compat.conftest import NodeProcess

pytestmark = pytest.mark.compat

RECORDS = 10_000
PARTITIONS = 3
EXPECTED = [(f"key-{i}".encode(), f"value-{i}".encode() * 5) for i in range(RECORDS)]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def topic_name(client: str) -> str:
    return f"{client}-{uuid.uuid4().hex[:8]}"


def assert_each_once(found: list[tuple[bytes, bytes]]) -> None:
    assert len(found) == RECORDS
    assert sorted(found) == sorted(EXPECTED)


class Confluent:
    """librdkafka."""

    name = "confluent"

    def compresses(self, codec: str) -> bool:
        return True

    def create(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": bootstrap})
        futures = admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        futures[topic].result(timeout=20)

    def produce(self, bootstrap: str, topic: str, codec: str = "none") -> None:
        from confluent_kafka import Producer

        failures = []
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 5,
            }
        )
        for key, value in EXPECTED:
            producer.produce(
                topic, value, key, on_delivery=lambda error, _: failures.append(error) if error else None
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failures

    def consume(self, bootstrap: str, topic: str, group: str | None) -> list[tuple[bytes, bytes]]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "check.crcs": True}
        consumer = Consumer(
            {**settings, "group.id": group or "unused", "enable.auto.commit": group is not None}
        )
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        found = []
        deadline = time.monotonic() + 60
        while len(found) < RECORDS and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=1):
                assert message.error() is None, message.error()
                found.append((message.key(), message.value()))
        consumer.close()
        return found


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def create(self, bootstrap: str, topic: str) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        admin.close()

    def produce(self, bootstrap: str, topic: str, codec: str = "none") -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        futures = [producer.send(topic, key=key, value=value) for key, value in EXPECTED]
        producer.flush(60)
        for future in futures:
            future.get(timeout=30)
        producer.close()

    def compresses(self, codec: str) -> bool:
        from kafka.codec import has_snappy

        return codec != "snappy" or bool(has_snappy())  # wants python-snappy, which nobody else here needs

    def consume(self, bootstrap: str, topic: str, group: str | None) -> list[tuple[bytes, bytes]]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=15_000,
        )
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
        found = []
        for message in consumer:
            found.append((message.key, message.value))
            if len(found) == RECORDS:
                break
        consumer.close()
        return found


class AioKafka:
    """aiokafka."""

    name = "aiokafka"

    def compresses(self, codec: str) -> bool:
        return True

    def create(self, bootstrap: str, topic: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        async def main() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
            await admin.start()
            await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
            await admin.close()

        asyncio.run(main())

    def produce(self, bootstrap: str, topic: str, codec: str = "none") -> None:
        from aiokafka import AIOKafkaProducer

        async def main() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                enable_idempotence=True,
                compression_type=None if codec == "none" else codec,
                linger_ms=5,
            )
            await producer.start()
            sent = [await producer.send(topic, key=key, value=value) for key, value in EXPECTED]
            await asyncio.gather(*sent)
            await producer.stop()

        asyncio.run(main())

    def consume(self, bootstrap: str, topic: str, group: str | None) -> list[tuple[bytes, bytes]]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def main() -> list[tuple[bytes, bytes]]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
            )
            if group:
                consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
            await consumer.start()
            found: list[tuple[bytes, bytes]] = []
            while len(found) < RECORDS:
                batches = await asyncio.wait_for(consumer.getmany(timeout_ms=1000), 60)
                found += [(record.key, record.value) for records in batches.values() for record in records]
            await consumer.stop()
            return found

        return asyncio.run(main())


CLIENTS = (Confluent(), KafkaPython(), AioKafka())


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_what_a_client_writes_it_reads_back_subscribed_and_assigned(client, node: NodeProcess) -> None:
    topic = topic_name(client.name)
    client.create(node.bootstrap, topic)
    client.produce(node.bootstrap, topic)
    assert_each_once(client.consume(node.bootstrap, topic, None))
    assert_each_once(client.consume(node.bootstrap, topic, f"group-{topic}"))


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: f"read-by-{client.name}")
@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: f"written-by-{client.name}")
def test_what_one_client_writes_another_reads(writer, reader, one_node: NodeProcess) -> None:
    topic = topic_name("mixed")
    writer.create(one_node.bootstrap, topic)
    writer.produce(one_node.bootstrap, topic, "lz4")
    assert_each_once(reader.consume(one_node.bootstrap, topic, None))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_comes_back_as_it_went(codec: str, one_node: NodeProcess) -> None:
    for writer in CLIENTS:
        if not writer.compresses(codec):
            continue
        topic = topic_name(codec)
        writer.create(one_node.bootstrap, topic)
        writer.produce(one_node.bootstrap, topic, codec)
        assert_each_once(Confluent().consume(one_node.bootstrap, topic, None))


def test_a_topic_is_made_by_the_first_who_writes_to_it(one_node: NodeProcess) -> None:
    topic = topic_name("auto")
    Confluent().produce(one_node.bootstrap, topic)
    assert_each_once(KafkaPython().consume(one_node.bootstrap, topic, "auto-group"))


def test_a_group_goes_on_where_it_stopped(one_node: NodeProcess) -> None:
    topic = topic_name("resume")
    client = Confluent()
    client.create(one_node.bootstrap, topic)
    client.produce(one_node.bootstrap, topic)
    assert_each_once(client.consume(one_node.bootstrap, topic, "resume"))
    client.produce(one_node.bootstrap, topic)
    assert_each_once(KafkaPython().consume(one_node.bootstrap, topic, "resume"))


def test_librdkafka_lists_the_topics_of_a_cluster_that_has_none(node: NodeProcess) -> None:
    """Its request has three bytes more than it should; Apache Kafka does not mind."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    assert list(admin.list_topics(timeout=10).brokers) == [1]
