"""A transactional producer of ours against a real node: all of a transaction, or nothing of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.patience import PATIENCE_S

from barnabas import Consumer, Producer, TransactionalProducer
from barnabas.client.admin.quorum import update_features
from barnabas.client.cluster import Cluster as ClientCluster
from barnabas.client.group_offsets import committed_offsets
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.testing import Cluster


@pytest.fixture(scope="module", params=["2", "0"], ids=["transaction.version 2", "transaction.version 0"])
def node(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A node that has agreed on this transaction.version."""
    with Cluster() as kafka:
        if request.param != "2":
            with ClientCluster(kafka.bootstrap) as cluster:
                update_features(cluster, {"transaction.version": int(request.param)}, upgrade_type=2)
        yield kafka


def committed(node: Cluster, topic: str) -> list[bytes | None]:
    """What a consumer of committed records reads, to the end."""
    with Consumer(node.bootstrap, topic, start="earliest", isolation="read_committed", idle=1.0) as consumer:
        return [message.value for message in consumer]


def offset_of(node: Cluster, topic: str) -> int:
    """What the group of that name has committed of partition 0, when no transaction can change it any more."""
    partition = TopicPartition(topic, 0)
    with ClientCluster(node.bootstrap, timeout=PATIENCE_S) as cluster:
        return cluster.retrying(
            lambda: committed_offsets(cluster.coordinator(topic), topic, [partition], stable=True)
        )[partition]


def test_what_is_committed_is_read_and_what_is_aborted_is_not(node: Cluster, topic: str) -> None:
    with TransactionalProducer(node.bootstrap, topic) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(topic, b"kept %d" % number)
            producer.begin()
            producer.send(topic, b"dropped %d" % number).result(PATIENCE_S)
            producer.abort()
    assert committed(node, topic) == [b"kept 0", b"kept 1", b"kept 2"]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_reader_stands_behind_the_markers_that_came_with_its_records(
    node: Cluster, topic: str, isolation: str
) -> None:
    with TransactionalProducer(node.bootstrap, topic) as producer, producer.transaction():
        for number in range(3):
            producer.send(topic, b"%d" % number, partition=0)
    with Consumer(node.bootstrap, topic, start="earliest", isolation=isolation) as consumer:
        end = 4  # three records and a marker, which is written a moment after the commit is answered
        while consumer.offsets_at("latest")[TopicPartition(topic, 0)] < end:
            pass
        read = consumer.poll(PATIENCE_S, 2)
        assert consumer.position(topic, 0) == read[-1].offset + 1
        while consumer.position(topic, 0) < end:
            assert consumer.poll(PATIENCE_S), "it never gets there"


def test_an_error_in_the_block_aborts(node: Cluster, topic: str) -> None:
    with TransactionalProducer(node.bootstrap, topic) as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(topic, b"dropped")
            raise ZeroDivisionError
        with producer.transaction():
            producer.send(topic, b"kept")
    assert committed(node, topic) == [b"kept"]


def test_a_transaction_of_nothing_is_committed(node: Cluster, topic: str) -> None:
    with TransactionalProducer(node.bootstrap, topic) as producer:
        for _ in range(2):
            with producer.transaction():
                pass


def test_nothing_is_sent_outside_a_transaction(node: Cluster, topic: str) -> None:
    with TransactionalProducer(node.bootstrap, topic) as producer:
        with pytest.raises(BarnabasError, match="no transaction is open"):
            producer.send(topic, b"lost")
        with pytest.raises(BarnabasError, match="no transaction is open"):
            producer.commit()
        producer.begin()
        with pytest.raises(BarnabasError, match="open already"):
            producer.begin()


def test_who_takes_the_id_later_fences_who_had_it(node: Cluster, topic: str) -> None:
    with (
        TransactionalProducer(node.bootstrap, topic) as old,
        TransactionalProducer(node.bootstrap, topic) as new,
    ):
        old.begin()
        old.send(topic, b"dropped").result(PATIENCE_S)
        with new.transaction():
            new.send(topic, b"kept")
        with pytest.raises(KafkaError) as refused:
            old.commit()
        assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        with pytest.raises(KafkaError, match="another producer works as"):
            old.begin()
    assert committed(node, topic) == [b"kept"]


def test_offsets_are_committed_with_the_records_or_not_at_all(node: Cluster, topic: str) -> None:
    with Producer(node.bootstrap) as producer:
        for number in range(4):
            producer.send(topic, b"%d" % number, partition=0)
    out = f"{topic}.out"
    with (
        Consumer(node.bootstrap, topic, group=topic, start="earliest", auto_commit=False) as consumer,
        TransactionalProducer(node.bootstrap, topic) as worker,
    ):
        first = consumer.poll(PATIENCE_S, max_messages=2)
        with worker.transaction():
            for message in first:
                worker.send(out, message.value)
            worker.send_offsets(consumer)
        rest = consumer.poll(PATIENCE_S, max_messages=2)
        worker.begin()
        for message in rest:
            worker.send(out, message.value)
        worker.send_offsets(consumer)
        worker.abort()
    assert offset_of(node, topic) == len(first)
    assert committed(node, out) == [message.value for message in first]


def test_a_group_that_was_never_joined_may_be_named(node: Cluster, topic: str) -> None:
    with TransactionalProducer(node.bootstrap, topic) as producer, producer.transaction():
        producer.send(topic, b"one", partition=0)
        producer.send_offsets({TopicPartition(topic, 0): 1}, topic)
    assert offset_of(node, topic) == 1
