"""What a consumer asks brokers for, and what it hands out while partitions are paused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.conftest import Clients
from tests.client.fake_broker import FakeBroker
from tests.patience import PATIENCE_S

from barnabas.client.consuming.fetched import Fetched
from barnabas.client.consuming.reading import Reading
from barnabas.errors import KafkaError
from barnabas.model import TopicPartition
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(t=2) as broker:
        yield broker


def put(broker: FakeBroker, target: TopicPartition, *values: bytes) -> None:
    for value in values:
        broker.append(target, write_batch([Record(0, 1, None, value, ())]))


def take(consumer: Any, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [message.value for message in consumer.poll(PATIENCE_S, max_messages=count - len(found))]
    return found


def test_nothing_of_a_paused_partition_is_handed_out_until_it_goes_on(
    clients: Clients, broker: FakeBroker
) -> None:
    put(broker, T0, b"0", b"1", b"2")
    with clients.consumer(broker.address, "t", start="earliest", fetch_wait=0.01) as consumer:
        assert take(consumer, 1) == [b"0"], "the others are fetched, and wait"
        consumer.pause([T0])
        put(broker, T0, b"3")
        put(broker, T1, b"elsewhere")
        assert take(consumer, 1) == [b"elsewhere"]
        asked = len(broker.asked(FetchRequest))
        assert (consumer.poll(0.3), consumer.paused()) == ([], [T0])
        later = [p.partition for r in broker.asked(FetchRequest)[asked + 1 :] for p in r.topics[0].partitions]
        assert set(later) == {1}, "it is not asked for either"
        consumer.resume([T0])
        assert (take(consumer, 3), consumer.paused()) == ([b"1", b"2", b"3"], [])


def test_a_seek_in_a_paused_partition_counts_once_it_goes_on(clients: Clients, broker: FakeBroker) -> None:
    put(broker, T0, b"0", b"1", b"2")
    with clients.consumer(broker.address, "t", start="earliest") as consumer:
        assert take(consumer, 1) == [b"0"]
        consumer.pause([T0])
        consumer.seek("t", 0, 2)
        consumer.resume()
        assert take(consumer, 1) == [b"2"]
        with pytest.raises(KafkaError, match="t-7 is not assigned"):
            consumer.pause([("t", 7)])


def test_a_partition_that_comes_back_from_another_member_is_not_paused() -> None:
    class Alone(Reading):
        def _connect(self, *_: Any) -> None:
            pass

    reading = Alone("h:1", "t")
    reading._begin({T0: 0})
    reading._took([Fetched(T0, 0, [Record(0, 1, None, b"x", ())], 1, 1)])
    reading.pause([T0])
    assert (reading._to_fetch(), reading.statistics().buffered) == ({}, 1)
    reading._forget([T0])
    reading._begin({T0: 0})
    assert (reading.paused(), reading._to_fetch(), reading.statistics().buffered) == ([], {T0: 0}, 0)


def test_how_much_is_fetched_is_the_users_to_say(clients: Clients, broker: FakeBroker) -> None:
    put(broker, T0, b"0")
    sizes = {"fetch_min_bytes": 7, "fetch_max_bytes": 5000, "partition_max_bytes": 3000}
    with clients.consumer(
        broker.address, "t", start="earliest", fetch_wait=0.25, rack="r1", **sizes
    ) as consumer:
        assert take(consumer, 1) == [b"0"]
    asked = broker.asked(FetchRequest)[0]
    assert (asked.max_wait_ms, asked.min_bytes, asked.max_bytes, asked.rack_id) == (250, 7, 5000, "r1")
    assert {p.partition_max_bytes for p in asked.topics[0].partitions} == {3000}


@pytest.mark.parametrize(
    "wrong", [{"fetch_wait": -1}, {"fetch_max_bytes": 0}, {"partition_max_bytes": 1 << 31}]
)
def test_sizes_that_no_fetch_can_have_are_refused(clients: Clients, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        clients.consumer("127.0.0.1:1", "t", **wrong)


def test_a_replica_in_the_consumers_rack_is_read_until_it_fails(clients: Clients) -> None:
    nodes: list[FakeBroker] = []
    with FakeBroker(t=1, cluster=nodes) as leader, FakeBroker(node=2, cluster=nodes) as near:
        put(leader, T0, b"0", b"1")
        named: list[FetchRequest] = []
        served: list[FetchRequest] = []

        def name_the_other(request: FetchRequest) -> FetchResponse | None:
            named.append(request)
            data = PartitionData(partition_index=0, high_watermark=2, preferred_read_replica=2, records=b"")
            return answer(request, data) if len(named) == 1 else None

        def serve_once(request: FetchRequest) -> FetchResponse:
            served.append(request)
            failed = PartitionData(partition_index=0, error_code=6, high_watermark=-1)
            batch = bytes(leader.partitions[T0])[: len(leader.partitions[T0]) // 2]
            good = PartitionData(partition_index=0, high_watermark=2, records=batch)
            return answer(request, good if len(served) == 1 else failed)

        leader.on(FetchRequest, name_the_other)
        near.on(FetchRequest, serve_once)
        with clients.consumer(leader.address, "t", start="earliest", rack="r2") as consumer:
            assert take(consumer, 2) == [b"0", b"1"]
        assert [r.topics[0].partitions[0].fetch_offset for r in served] == [0, 1]
        assert [r.topics[0].partitions[0].fetch_offset for r in named][:2] == [0, 1]


def answer(request: FetchRequest, data: PartitionData) -> FetchResponse:
    [topic] = request.topics
    told = FetchableTopicResponse(topic="t", topic_id=topic.topic_id, partitions=[data])
    return FetchResponse(responses=[told])
