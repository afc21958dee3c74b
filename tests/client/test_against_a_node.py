"""The whole client against a real node: what a user does, end to end."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest
from tests.broker.hostile_batches import lying
from tests.client.conftest import Clients
from tests.patience import PATIENCE_S

from barnabas import Admin, Consumer, KafkaError, Producer, TopicPartition
from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster as ClusterView
from barnabas.client.consumer import Message
from barnabas.client.fetching import fetch_range
from barnabas.errors import BarnabasError, CorruptRecordError, ErrorCode
from barnabas.testing import Cluster
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def read(consumer: Any, count: int) -> list[Message]:
    """So many records, however long they take, and whatever comes after them."""
    consumer.idle = PATIENCE_S
    found = list(itertools.islice(consumer, count))
    consumer.idle = 0.3
    return found + list(consumer)


def test_what_is_sent_is_read(clients: Clients, kafka: Cluster, topic: str) -> None:
    with Producer(kafka.bootstrap, compression="lz4") as producer:
        for n in range(1000):
            producer.send(topic, b"%d" % n, key=b"k%d" % (n % 7), headers={"n": b"%d" % n})
    with clients.consumer(kafka.bootstrap, topic, start="earliest") as consumer:
        messages = read(consumer, 1000)
    assert [m.value for m in messages] == [b"%d" % n for n in range(1000)]
    assert messages[3].headers == (("n", b"3"),)


def test_assigned_partitions_positions_and_seeks(clients: Clients, kafka: Cluster, topic: str) -> None:
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
    with Producer(kafka.bootstrap) as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n, partition=n % 2, timestamp=1000 + n)
    with clients.consumer(kafka.bootstrap, start="earliest") as consumer:
        consumer.assign([(topic, 1)])
        assert [m.value for m in read(consumer, 10)] == [b"%d" % n for n in range(1, 20, 2)]
        assert consumer.position(topic, 1) == 10
        consumer.seek(topic, 1, 8)
        assert [m.offset for m in read(consumer, 2)] == [8, 9]
        consumer.seek_to_time(1015)
        assert [m.value for m in read(consumer, 3)] == [b"15", b"17", b"19"]
        consumer.seek(topic, 1, "latest")
        assert list(consumer) == []
        with pytest.raises(KafkaError, match=f"{topic}-0 is not assigned"):
            consumer.seek(topic, 0, 1)


def test_an_offset_that_is_gone_goes_on_where_start_says(
    clients: Clients, kafka: Cluster, topic: str
) -> None:
    with Producer(kafka.bootstrap) as producer:
        producer.send(topic, b"only")
    with clients.consumer(kafka.bootstrap, topic, start="earliest") as consumer:
        consumer.seek(topic, 0, 99)
        assert [m.value for m in read(consumer, 1)] == [b"only"]
    with clients.consumer(kafka.bootstrap, topic, start="error", idle=PATIENCE_S) as consumer:
        consumer.seek(topic, 0, 99)
        with pytest.raises(KafkaError) as caught:
            list(consumer)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_records_whose_lengths_lie_are_an_error_that_names_them_and_hold_up_nobody_else(
    kafka: Cluster, topic: str
) -> None:
    """Apache Kafka takes packed records with wrong lengths, and so do we: whoever reads them is told."""
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=2)

    def send(value: bytes, partition: int) -> None:
        with Producer(kafka.bootstrap) as producer:
            producer.send(topic, value, partition=partition)

    send(b"before", 0)
    host, _, port = kafka.bootstrap.rpartition(":")
    with BlockingConnection(host, int(port)) as connection:
        lies = PartitionProduceData(index=0, records=lying(b"1", b"2", at=int(time.time() * 1000)))
        data = [TopicProduceData(name=topic, partition_data=[lies])]
        answer = connection.request(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    send(b"behind", 0)
    send(b"elsewhere", 1)
    said = f"{topic}-0: .*batch at offset 1: "
    read: list[bytes | None] = []
    with Consumer(kafka.bootstrap, start="earliest", idle=0.3) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        with pytest.raises(CorruptRecordError, match=said) as caught:
            while True:
                read += [message.value for message in consumer.poll(1.0)]
        assert caught.value.next_step == "to go on after it, seek to offset 3"
        with pytest.raises(CorruptRecordError, match=said):
            while True:
                read += [message.value for message in consumer.poll(1.0)]
        assert sorted(read) == [b"before", b"elsewhere"]  # type: ignore[type-var]
        consumer.seek(topic, 0, 3)
        assert [message.value for message in consumer.poll(PATIENCE_S)] == [b"behind"]


def test_a_group_goes_on_where_it_stopped(clients: Clients, kafka: Cluster, topic: str) -> None:
    with Producer(kafka.bootstrap) as producer:
        for n in range(30):
            producer.send(topic, b"%d" % n)
    found: list[bytes | None] = []
    for _ in range(3):
        with clients.consumer(
            kafka.bootstrap, topic, group=topic, start="earliest", idle=PATIENCE_S
        ) as consumer:
            for message in consumer:
                found.append(message.value)
                if len(found) % 10 == 0:
                    break
    assert found == [b"%d" % n for n in range(30)]


def test_what_failed_midway_is_read_again(clients: Clients, kafka: Cluster, topic: str) -> None:
    with Producer(kafka.bootstrap) as producer:
        producer.send(topic, b"x")
    with (
        pytest.raises(ZeroDivisionError),
        clients.consumer(kafka.bootstrap, topic, group=topic, start="earliest", idle=PATIENCE_S) as consumer,
    ):
        for _ in consumer:
            raise ZeroDivisionError
    with clients.consumer(kafka.bootstrap, topic, group=topic, start="earliest", idle=PATIENCE_S) as consumer:
        assert next(iter(consumer)).value == b"x"


def test_two_members_share_the_partitions_and_one_takes_over(kafka: Cluster, topic: str) -> None:
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=4)
    first = Consumer(kafka.bootstrap, topic, group=topic, start="earliest")
    first.poll(0.1)
    assert len(first.assignment()) == 4
    second = Consumer(kafka.bootstrap, topic, group=topic, start="earliest")
    joined = threading.Thread(target=lambda: second.poll(0.1))
    joined.start()
    deadline = time.monotonic() + PATIENCE_S
    while len(first.assignment()) == 4 and time.monotonic() < deadline:
        first.poll(0.2)
    joined.join(PATIENCE_S)
    assert sorted(first.assignment() + second.assignment()) == [TopicPartition(topic, p) for p in range(4)]
    assert len(second.assignment()) == 2
    with Admin(kafka.bootstrap) as admin:
        members = admin.describe_group(topic).members
        assert sorted(len(m.partitions) for m in members) == [2, 2]
        with pytest.raises(KafkaError) as caught:
            admin.set_group_offsets(topic, {TopicPartition(topic, 0): 0})
        assert caught.value.code == ErrorCode.NON_EMPTY_GROUP
    second.close()
    deadline = time.monotonic() + PATIENCE_S
    while len(first.assignment()) < 4 and time.monotonic() < deadline:
        first.poll(0.2)
    assert len(first.assignment()) == 4
    first.close()


def test_offsets_of_a_group_are_seen_and_set(clients: Clients, kafka: Cluster, topic: str) -> None:
    target = TopicPartition(topic, 0)
    with Producer(kafka.bootstrap) as producer:
        for n in range(10):
            producer.send(topic, b"%d" % n)
    with clients.admin(kafka.bootstrap) as admin:
        admin.set_group_offsets(topic, {target: 4})
        [row] = admin.group_offsets(topic)
        assert (row.committed, row.end, row.lag, row.member) == (4, 10, 6, None)
        assert topic in [g.group for g in admin.groups()]
        with clients.consumer(kafka.bootstrap, topic, group=topic, idle=PATIENCE_S) as consumer:
            assert next(iter(consumer)).value == b"4"
            consumer.commit()
            assert consumer.committed() == {target: 5}
        admin.delete_group(topic)
        with pytest.raises(KafkaError, match=f"there is no group {topic}"):
            admin.describe_group(topic)


def test_topics_and_settings_are_managed(clients: Clients, kafka: Cluster, topic: str) -> None:
    with clients.admin(kafka.bootstrap) as admin:
        made = admin.create_topic(topic, partitions=3, configs={"retention.ms": "60000"})
        assert (made.partitions, made.replication) == (3, 1)
        assert admin.describe_topic(topic).id == made.id
        with pytest.raises(KafkaError) as caught:
            admin.create_topic(topic)
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        admin.create_topic(f"{topic}-not-really", validate_only=True)
        assert f"{topic}-not-really" not in [t.name for t in admin.topics()]
        admin.alter_configs("topic", topic, {"segment.bytes": "1048576"}, reset=["retention.ms"])
        mine = {c.name: c.value for c in admin.configs("topic", topic) if c.source == "topic"}
        assert mine == {"segment.bytes": "1048576"}
        with pytest.raises(KafkaError) as caught:
            admin.alter_configs("topic", topic, {"no.such.setting": "1"})
        assert caught.value.code == ErrorCode.INVALID_CONFIG
        admin.add_partitions(topic, 5)
        assert len(admin.describe_topic(topic).partitions) == 5
        admin.delete_topic(topic)
        with pytest.raises(KafkaError, match=f"there is no topic {topic}"):
            admin.delete_topic(topic)


def test_the_cluster_describes_itself(kafka: Cluster) -> None:
    with Admin(kafka.bootstrap) as admin:
        cluster = admin.describe_cluster(fenced=True)
        assert (cluster.cluster_id, cluster.fenced) == (kafka.about["cluster_id"], ())
        assert [b.address for b in cluster.brokers] == [kafka.bootstrap]
        quorum = admin.quorum()
        assert quorum.leader_replica is not None
        assert str(quorum.leader_replica.directory_id) == kafka.about["directory_id"]
        levels = {f.name: f for f in admin.features()}
        assert levels["metadata.version"].finalized > 0


def test_a_controller_describes_the_quorum_too(kafka: Cluster) -> None:
    address = next(text for text in kafka.about["listeners"] if text.startswith("CONTROLLER")).split("://")[1]
    with Admin(address) as admin:
        assert admin.quorum().cluster_id == kafka.about["cluster_id"]


def test_a_range_is_read_from_a_real_log(kafka: Cluster, topic: str) -> None:
    with Producer(kafka.bootstrap, linger=0, batch_size=400) as producer:
        for n in range(500):
            producer.send(topic, b"%d" % n)
    with ClusterView(kafka.bootstrap) as view:
        topic_id = view.topic(topic).id
        found = list(fetch_range(view, topic, 0, 123, 456, max_bytes=2000, topic_id=topic_id))
    assert found[0].first == 123
    assert found[-1].end == 456
    assert all(a.end == b.first for a, b in itertools.pairwise(found))


def test_a_producer_survives_kill_9_of_the_node_with_every_record_once(kafka_node: Cluster) -> None:
    with Producer(kafka_node.bootstrap, linger=0.001, request_timeout=5) as producer:
        sent = [producer.send("killed", b"%d" % n) for n in range(200)]
        sent[-1].result(PATIENCE_S)
        sent += [producer.send("killed", b"%d" % n) for n in range(200, 400)]
        kafka_node.kill()
        sent += [producer.send("killed", b"%d" % n) for n in range(400, 600)]
        kafka_node.start()
        producer.flush(PATIENCE_S)
        assert [d.result().offset for d in sent] == list(range(600))
    with Consumer(kafka_node.bootstrap, "killed", start="earliest") as consumer:
        assert [m.value for m in read(consumer, 600)] == [b"%d" % n for n in range(600)]


def test_a_node_that_cannot_start_says_why(tmp_path: object) -> None:
    with pytest.raises(BarnabasError, match="node 1 did not start"):
        Cluster({"log.segment.bytes": "not a number"}, directory=str(tmp_path)).start()


def test_a_record_is_given_up_when_its_time_is_over_though_nobody_answers(kafka_node: Cluster) -> None:
    producer = Producer(kafka_node.bootstrap, delivery_timeout=3.0)
    producer.send("given-up", "arrives").result(PATIENCE_S)
    kafka_node.kill()
    begun = time.monotonic()
    with pytest.raises(BarnabasError):
        producer.send("given-up", "does not").result(timeout=25)
    assert time.monotonic() - begun < 20, "it waited for the 30 s that a look-up may take by itself"
    producer.close()
