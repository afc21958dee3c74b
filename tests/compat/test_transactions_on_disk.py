"""Transactions that Apache Kafka wrote, read and ended by our node in the same directory, and read there again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, Producer, TopicPartition
from confluent_kafka import Consumer as Librdkafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.compat.conftest import NodeProcess, kafka_class
from tests.compat.test_apache import dumped, files_of
from tests.compat.test_compaction import SETTINGS, apache_kafka_on

from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import Consumer
from barnabas.client.fetching import fetch_range
from barnabas.client.offsets import list_offsets
from barnabas.wire.records import read_records
from barnabas.wire.schemas.transactions import (
    DescribeProducersRequest,
    TopicRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

pytestmark = pytest.mark.compat

LEVELS = ("read_committed", "read_uncommitted")
Row = tuple[int, bytes | None]


def digest(rows: Iterator[Row]) -> tuple[int, str]:
    """How many records, and what they are."""
    seen, count = hashlib.sha256(), 0
    for offset, value in rows:
        seen.update(b"%d %r " % (offset, value))
        count += 1
    return count, seen.hexdigest()


def read_by_librdkafka(bootstrap: str, level: str) -> Iterator[Row]:
    consumer = Librdkafka(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": level,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 20_000,
        }
    )
    try:
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        while True:
            message: Any = consumer.poll(30)
            assert message is not None
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return
            yield message.offset(), message.value()
    finally:
        consumer.close()


def end_of(bootstrap: str, level: str) -> int:
    with Cluster(bootstrap) as cluster:
        return list_offsets(cluster, "t", "latest", [0], isolation=level)[0].offset


def read_by_range(bootstrap: str, level: str) -> Iterator[Row]:
    """As the PySpark reader does."""
    end = end_of(bootstrap, level)
    for batch in fetch_range(bootstrap, "t", 0, 0, end, isolation=level, max_bytes=20_000):
        for record in read_records(batch.buffer, 0, batch.header):
            if batch.first <= record.offset < batch.end:
                yield record.offset, record.value


def read_by_consumer(bootstrap: str, level: str) -> Iterator[Row]:
    with Consumer(bootstrap, "t", start="earliest", isolation=level, idle=3) as consumer:
        for message in consumer:
            yield message.offset, message.value


def seen(bootstrap: str) -> dict[str, tuple[int, str]]:
    """What librdkafka reads at each level."""
    return {level: digest(read_by_librdkafka(bootstrap, level)) for level in LEVELS}


def committed(bootstrap: str, group: str) -> int | None:
    """Where a group stands (librdkafka asks for stable offsets); None: a transaction may change it."""
    consumer = Librdkafka({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        return int(consumer.committed([TopicPartition("t", 0)], timeout=5)[0].offset)
    except KafkaException as error:
        assert error.args[0].name() == "_TIMED_OUT", error
        return None
    finally:
        consumer.close()


def commit_in(producer: Any, bootstrap: str, group: str, offset: int) -> None:
    consumer = Librdkafka({"bootstrap.servers": bootstrap, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("t", 0, offset)], metadata, 60)
    consumer.close()


def transact(bootstrap: str) -> None:
    """Three producers at a time commit and abort, a fourth without transactions; one transaction stays open."""
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"x{number}",
                "transaction.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        for number in range(4)
    ]
    for producer in producers:
        producer.init_transactions(60)
    plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for round_ in range(12):
        for producer in producers[:3]:
            producer.begin_transaction()
        for part in range(4):
            for number, producer in enumerate(producers[:3]):
                value = b"%d of %d in %d" % (part, number, round_)
                producer.produce("t", value.ljust(900, b"."), partition=0)
                producer.flush(60)
        plain.produce("t", b"outside", partition=0)
        plain.flush(60)
        commit_in(producers[0], bootstrap, f"g{round_ % 3}", round_)
        for number, producer in enumerate(producers[:3]):
            if (round_ + number) % 3:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    producers[3].begin_transaction()
    producers[3].produce("t", b"open", partition=0)
    producers[3].flush(60)
    commit_in(producers[3], bootstrap, "open", 777)
    plain.produce("t", b"after the open one", partition=0)
    plain.flush(60)


def end_what_is_open(node: NodeProcess) -> int:
    """COMMIT markers for the open transactions, as their coordinator sends them; returns how many."""
    found = 0
    with BlockingConnection("127.0.0.1", node.port) as connection:
        topics = [TopicRequest(name=name, partition_indexes=[0]) for name in ("t", "__consumer_offsets")]
        for topic in connection.request(DescribeProducersRequest(topics=topics)).topics:
            for state in topic.partitions[0].active_producers:
                if state.current_txn_start_offset < 0:
                    continue
                marker = WritableTxnMarker(
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    transaction_result=True,
                    coordinator_epoch=max(0, state.coordinator_epoch),
                    topics=[WritableTxnMarkerTopic(name=topic.name, partition_indexes=[0])],
                )
                answer = connection.request(WriteTxnMarkersRequest(markers=[marker]))
                assert answer.markers[0].topics[0].partitions[0].error_code == 0
                found += 1
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_transactions_of_apache_kafka_are_read_and_ended_here_and_read_there(
    apache: Path, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "log_roll_ms": "604800000", "offsets_topic_num_partitions": "1"}
    node = NodeProcess(tmp_path / "node", **settings)
    where = node.bootstrap
    try:
        node.start()
        topic = NewTopic("t", 1, 1, config={"segment.bytes": str(1 << 20), "index.interval.bytes": "512"})
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([topic])["t"].result(20)
        assert node.stop() == 0
        with apache_kafka_on(node, apache):
            transact(where)
            theirs = seen(where)
            groups = {name: committed(where, name) for name in ("g0", "g1", "g2", "open")}
        assert theirs["read_committed"][0] < theirs["read_uncommitted"][0] and groups["open"] is None

        node.start()
        assert seen(where) == theirs
        assert {name: committed(where, name) for name in groups} == groups
        for level in LEVELS:
            assert digest(read_by_range(where, level)) == theirs[level]
            assert digest(read_by_consumer(where, level)) == theirs[level]
        assert end_what_is_open(node) == 2
        ours = seen(where)
        assert ours["read_committed"][0] == theirs["read_committed"][0] + 2
        assert committed(where, "open") == 777
        node.kill()
        node.start()
        assert seen(where) == ours and committed(where, "open") == 777
        assert node.stop() == 0, node.log.read_text()

        for name in ("t-0", "__consumer_offsets-0"):
            printed = dumped(node, files_of(node.data / name))
            assert not [line for line in printed if "isvalid: false" in line]
        with apache_kafka_on(node, apache):
            assert seen(where) == ours and committed(where, "open") == 777
            described = kafka_class(
                "org.apache.kafka.tools.TransactionsCommand",
                *("--bootstrap-server", where, "describe-producers", "--topic", "t", "--partition", "0"),
            )
            assert "None" in described and described.count("\n") >= 5
        assert "Unexpected exception" not in (node.folder / "kafka.log").read_text()
    finally:
        node.discard()
