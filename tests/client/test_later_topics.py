"""A consumer without a group, and topics that are not there when it comes."""

from __future__ import annotations

import logging

import pytest
from tests.client.conftest import Clients
from tests.client.fake_broker import FakeBroker
from tests.patience import PATIENCE_S

from barnabas import Producer
from barnabas.client.consuming import growth
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import MetadataRequest


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "LOOK_S", 0.01)


def put(broker: FakeBroker, topic: str, *values: bytes) -> None:
    with Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, value, partition=0).result(PATIENCE_S)


def test_a_topic_that_comes_later_is_read_from_its_beginning(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeBroker(first=1) as broker:
        put(broker, "first", b"before")
        with clients.consumer(broker.address, "first", "later") as consumer:
            assert consumer.poll(0.0) == []
            broker.make("later", 2)
            put(broker, "later", b"one", b"two")
            put(broker, "first", b"after")
            found: list[bytes] = []
            while len(found) < 3:
                found += [message.value for message in consumer.poll(PATIENCE_S)]
    assert sorted(found) == [b"after", b"one", b"two"], "of what was there it reads from its start on"
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "topic later is not there: the consumer reads it as soon as it is\n"
        "next: see what there is with `barnabas topics list`"
    ], "said once, however often it looks"


def test_one_poll_waits_through_the_making_of_its_only_topic(clients: Clients) -> None:
    with FakeBroker() as broker:
        looks: list[MetadataRequest] = []

        def made_meanwhile(look: MetadataRequest) -> None:
            looks.append(look)
            if len(looks) == 3:
                broker.make("later", 1)
                broker.append(("later", 0), write_batch([Record(0, 1, None, b"x", ())]))

        broker.on(MetadataRequest, made_meanwhile)
        with clients.consumer(broker.address, "later") as consumer:
            assert [message.value for message in consumer.poll(PATIENCE_S)] == [b"x"]


def test_who_asks_about_a_topic_that_is_not_there_hears_so(clients: Clients) -> None:
    with FakeBroker(there=1) as broker, clients.consumer(broker.address, "there", "nowhere") as consumer:
        assert consumer.position("there", 0) == 0
        for ask in (lambda: consumer.position("nowhere", 0), lambda: consumer.seek("nowhere", 0, 0)):
            with pytest.raises(KafkaError, match="there is no topic nowhere") as caught:
                ask()
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.make("nowhere", 1)
        assert consumer.position("nowhere", 0) == 0, "it looks again when it is asked"


def test_who_reads_up_to_an_end_does_not_begin_with_partitions_that_come_later(clients: Clients) -> None:
    """They have no end, so the reading would have none either."""
    with FakeBroker(t=1) as broker:
        put(broker, "t", b"one")
        options = {"start": "earliest", "metadata_max_age": 0.0, "idle": PATIENCE_S}
        with clients.consumer(broker.address, "t", **options) as consumer:
            consumer.stop_at({TopicPartition("t", 0): 1})
            broker.make("t", 2)
            assert [message.value for message in consumer] == [b"one"]
            assert consumer.assignment() == []
