"""Java's client, librdkafka and ours: each transacts, and reads back in a group of either protocol."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from tests.compat.conftest import kafka_class

from barnabas.client.consumer import Consumer
from barnabas.client.transactional import TransactionalProducer
from barnabas.model import TopicPartition

__all__ = ["CLIENTS", "PROTOCOLS", "Client", "Librdkafka", "Ours"]

PROTOCOLS = ("classic", "consumer")
WAIT_S = 90.0
ABORTED = b"aborted"


class Client(Protocol):
    """One of the clients."""

    name: str

    def transact(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        """Commit these to partition 0 of a topic; abort something else where the client's tool can."""
        ...

    def read(self, bootstrap: str, topic: str, group: str, protocol: str, count: int) -> list[bytes]:
        """Return what a new group reads that sees committed records only."""
        ...


class Librdkafka:
    """confluent-kafka."""

    name = "librdkafka"

    def transact(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"{self.name}-{topic}", "log_level": 0}
        )
        producer.init_transactions(WAIT_S)
        for these in ([ABORTED], values):
            producer.begin_transaction()
            for value in these:
                producer.produce(topic, value, partition=0)
            producer.flush(WAIT_S)
            producer.abort_transaction(WAIT_S) if these == [ABORTED] else producer.commit_transaction(WAIT_S)

    def read(self, bootstrap: str, topic: str, group: str, protocol: str, count: int) -> list[bytes]:
        from confluent_kafka import Consumer as Theirs

        consumer = Theirs(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        found: list[bytes] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
        consumer.close()
        return found


class Ours:
    """Barnabas' own client; its transaction commits an offset of a group too."""

    name = "barnabas"

    def transact(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        with TransactionalProducer(bootstrap, f"{self.name}-{topic}", request_timeout=WAIT_S) as producer:
            producer.begin()
            producer.send(topic, ABORTED, partition=0)
            producer.flush()
            producer.abort()
            with producer.transaction():
                for value in values:
                    producer.send(topic, value, partition=0)
                producer.send_offsets({TopicPartition(topic, 0): 1}, f"{topic}-offsets")

    def read(self, bootstrap: str, topic: str, group: str, protocol: str, count: int) -> list[bytes]:
        found: list[bytes] = []
        with Consumer(
            bootstrap,
            topic,
            group=group,
            group_protocol=protocol,
            start="earliest",
            isolation="read_committed",
            idle=WAIT_S,
        ) as consumer:
            for message in consumer:
                found.append(message.value or b"")
                if len(found) == count:
                    break
        return found


class Java:
    """Apache Kafka's client by its tools; its producer's values are 0, 1, 2 ..., as everybody's here."""

    name = "java"

    def transact(self, bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
        words = f"--topic {topic} --num-records {len(values)} --payload-monotonic --throughput -1".split()
        id_ = ("--transactional-id", f"{self.name}-{topic}", "--transaction-duration-ms", "60000")
        where = ("--bootstrap-server", bootstrap)
        kafka_class("org.apache.kafka.tools.ProducerPerformance", *words, *id_, *where)

    def read(self, bootstrap: str, topic: str, group: str, protocol: str, count: int) -> list[bytes]:
        words = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning")
        limits = ("--max-messages", str(count), "--timeout-ms", str(int(WAIT_S * 1000)))
        how = ("--command-property", f"group.protocol={protocol}", "--isolation-level", "read_committed")
        read = kafka_class("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, *limits, *how)
        return [word.encode() for word in read.split()]


CLIENTS: tuple[Client, ...] = (Librdkafka(), Ours(), Java())
