"""Quotas at a broker: what is used is counted, the client is told to wait, and its connection is muted.

A node in virtual time: waits of seconds take none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.server.virtual import Virtual

from barnabas.client.aio import AsyncConnection
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.sim.cluster.platform import VirtualPlatform
from barnabas.sim.cluster.setup import CLIENT_PORT
from barnabas.wire.codec.message import Message
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

CLIENT = ("client-id", "barnabas")  # the client id of the tests' connections
RATE = 10_000.0
WINDOW = 100_000
"""Bytes that may go at once: ten windows of a second."""


class Broker:
    """One node, its topic `t`, and requests over one connection."""

    def __init__(self, cluster: Virtual) -> None:
        self.cluster = cluster
        self.line: AsyncConnection | None = None

    def limit(self, entity: tuple[str, str | None], **quotas: float | None) -> None:
        part = AlterClientQuotasRequestEntityData(entity_type=entity[0], entity_name=entity[1])
        ops = [OpData(key=k, value=v or 0.0, remove=v is None) for k, v in quotas.items()]
        entry = AlterClientQuotasRequestEntryData(entity=[part], ops=ops)
        answer = self.cluster.ask(AlterClientQuotasRequest(entries=[entry]), controller=True)
        assert answer.entries[0].error_code == 0, answer
        self.cluster.run(0.1)

    def timed(self, request: Message) -> tuple[Any, float]:
        """The answer over the connection of `ask`, and the seconds that it took."""
        begun = self.cluster.world.time
        answer = self.cluster.ask(request, within=120)
        return answer, self.cluster.world.time - begun

    def produce(self, size: int, acks: int = -1) -> ProduceRequest:
        records = write_batch([Record(0, 1, None, b"x" * size, ())])
        topic = TopicProduceData(
            name="t",
            topic_id=self.cluster.image.topics_by_name["t"].id,
            partition_data=[PartitionProduceData(index=0, records=records)],
        )
        return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])

    def fetch(self, offset: int = 0, replica: int = -1) -> FetchRequest:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 30)
        topic_id = self.cluster.image.topics_by_name["t"].id
        topics = [FetchTopic(topic="t", topic_id=topic_id, partitions=[partition])]
        return FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=-1),
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 30,
            topics=topics,
        )

    def connect(self) -> list[Any]:
        """A new connection sends one request: its answer, or the error."""
        found: list[Any] = []

        async def once() -> None:
            try:
                async with await AsyncConnection.connect("n1", CLIENT_PORT) as line:
                    found.append(await line.request(MetadataRequest(topics=[]), timeout=20))
            except BarnabasError as error:
                found.append(error)

        self.cluster._client.spawn(once(), "connect")
        self.cluster.until(lambda: bool(found))
        return found


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Virtual((1,), (1,)) as cluster:
        cluster.create("t", [1])
        yield Broker(cluster)


def read(answer: Any) -> int:
    return sum(len(p.records or b"") for t in answer.responses for p in t.partitions)


def test_quotas_are_described_as_they_were_set(broker: Broker) -> None:
    broker.limit(CLIENT, producer_byte_rate=RATE, request_percentage=12.5)
    component = ComponentData(entity_type="client-id", match_type=0, match="barnabas")
    answer = broker.cluster.ask(DescribeClientQuotasRequest(components=[component]))
    assert [(v.key, v.value) for v in answer.entries[0].values] == [
        ("producer_byte_rate", RATE),
        ("request_percentage", 12.5),
    ]


def test_a_producer_above_its_quota_waits_as_long_as_it_is_told(broker: Broker) -> None:
    broker.limit(CLIENT, producer_byte_rate=RATE)
    first, _ = broker.timed(broker.produce(WINDOW - 1000))
    assert first.throttle_time_ms == 0
    over, took = broker.timed(broker.produce(20_000))
    assert 1500 <= over.throttle_time_ms <= 2500
    assert took < 1, "the answer itself does not wait"
    _, took = broker.timed(MetadataRequest(topics=[]))
    assert took == pytest.approx(over.throttle_time_ms / 1000, abs=0.3)


def test_a_steady_producer_gets_its_rate(broker: Broker) -> None:
    broker.limit(CLIENT, producer_byte_rate=RATE)
    broker.timed(broker.produce(WINDOW))
    begun, sent = broker.cluster.world.time, 0
    while sent < 20 * RATE:
        answer, _ = broker.timed(broker.produce(5000))
        assert answer.responses[0].partition_responses[0].error_code == 0
        sent += 5000
    assert 0.75 * RATE < sent / (broker.cluster.world.time - begun) < 1.15 * RATE


def test_a_producer_that_wants_no_answer_is_muted_too(broker: Broker) -> None:
    broker.limit(CLIENT, producer_byte_rate=RATE)
    found: list[Any] = []

    async def work() -> None:
        async with await AsyncConnection.connect("n1", CLIENT_PORT) as line:
            sent = line._core.send(broker.produce(WINDOW + 30_000, acks=0), silent=True)
            assert line._transport is not None
            line._transport.writelines(sent.parts)
            found.append(await line.request(MetadataRequest(topics=[]), timeout=60))

    begun = broker.cluster.world.time
    broker.cluster._client.spawn(work(), "work")
    broker.cluster.until(lambda: bool(found), 60)
    assert broker.cluster.world.time - begun == pytest.approx(3, abs=0.4)


def test_one_client_waits_and_another_does_not(broker: Broker) -> None:
    broker.limit(("client-id", "other"), producer_byte_rate=1.0)
    answer, _ = broker.timed(broker.produce(WINDOW * 5))
    assert answer.throttle_time_ms == 0


def test_a_consumer_gets_no_more_at_once_than_its_quota_allows(broker: Broker) -> None:
    for _ in range(40):
        broker.timed(broker.produce(10_000))
    free, _ = broker.timed(broker.fetch())
    assert read(free) > 400_000 and free.throttle_time_ms == 0
    broker.limit(CLIENT, consumer_byte_rate=RATE)
    first, _ = broker.timed(broker.fetch())
    assert 80_000 < read(first) <= WINDOW
    second, _ = broker.timed(broker.fetch())
    assert second.throttle_time_ms == pytest.approx(read(second) / RATE * 1000, rel=0.3)
    _, took = broker.timed(MetadataRequest(topics=[]))
    assert took == pytest.approx(second.throttle_time_ms / 1000, abs=0.3)


def test_brokers_that_replicate_are_not_limited() -> None:
    with Virtual((1, 2), (1,)) as cluster:
        cluster.create("t", [1, 2])
        broker = Broker(cluster)
        for kind in ("client-id", "user"):
            broker.limit((kind, None), consumer_byte_rate=1.0)
        broker.limit(("client-id", "barnabas"), consumer_byte_rate=1.0)
        leader = cluster.state("t").leader
        for _ in range(5):  # acks=all: the follower has to fetch again and again
            answer = cluster.ask(broker.produce(200_000), at=leader, within=2)
            assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request keeps the node busy for 10 ms."""
    ticks = count()
    monkeypatch.setattr(VirtualPlatform, "monotonic", lambda _: next(ticks) * 0.01)


@pytest.mark.usefixtures("busy")
def test_a_quota_of_time_mutes_for_one_window_at_most(broker: Broker) -> None:
    broker.limit(CLIENT, request_percentage=0.01)
    answer, _ = broker.timed(MetadataRequest(topics=[]))
    assert answer.throttle_time_ms == 1000
    _, took = broker.timed(MetadataRequest(topics=[]))
    assert took == pytest.approx(1, abs=0.2)


@pytest.mark.usefixtures("busy")
def test_requests_that_were_received_together_wait_one_after_the_other(broker: Broker) -> None:
    broker.limit(CLIENT, request_percentage=0.01)
    seconds: list[float] = []

    async def work() -> None:
        async with await AsyncConnection.connect("n1", CLIENT_PORT) as line:
            first, *others = [
                asyncio.ensure_future(line.request(MetadataRequest(topics=[]))) for _ in range(3)
            ]
            for one in (first, *others):
                await one
                seconds.append(broker.cluster.world.time)

    broker.cluster._client.spawn(work(), "work")
    broker.cluster.until(lambda: len(seconds) == 3)
    assert [round(later - seconds[0]) for later in seconds] == [0, 1, 2]


def test_a_producer_with_many_requests_in_flight_gets_no_more_than_its_quota(broker: Broker) -> None:
    """What it sends counts when it arrives: the answers to earlier requests may not have left yet."""
    broker.limit(CLIENT, producer_byte_rate=RATE)
    answered: list[float] = []

    async def work() -> None:
        async with await AsyncConnection.connect("n1", CLIENT_PORT) as line:
            begun = [line.request(broker.produce(WINDOW // 4), timeout=90) for _ in range(8)]
            for one in asyncio.as_completed(begun):
                await one
                answered.append(broker.cluster.world.time)

    begun = broker.cluster.world.time
    broker.cluster._client.spawn(work(), "work")
    broker.cluster.until(lambda: len(answered) == 8, 90)
    assert sum(later - begun < 0.5 for later in answered) <= 5
    assert answered[-1] - begun > WINDOW / RATE * 0.6


def test_a_removed_quota_limits_nobody(broker: Broker) -> None:
    broker.limit(CLIENT, producer_byte_rate=1.0)
    broker.limit(CLIENT, producer_byte_rate=None)
    answer, _ = broker.timed(broker.produce(WINDOW))
    assert answer.throttle_time_ms == 0


def test_a_quota_set_later_counts_for_a_producer_that_the_fast_path_knows(broker: Broker) -> None:
    """Requests of one kind skip the decoding: not when they count for a quota."""
    for _ in range(5):
        broker.timed(broker.produce(5000))
    broker.limit(CLIENT, producer_byte_rate=100.0)
    waits = [broker.timed(broker.produce(5000))[0].throttle_time_ms for _ in range(2)]
    assert waits[0] > 0 and waits[1] > 0
    broker.limit(CLIENT, producer_byte_rate=None)
    broker.cluster.run(200)
    assert broker.timed(broker.produce(5000))[0].throttle_time_ms == 0


def test_an_address_that_connects_too_often_is_closed_after_a_while(broker: Broker) -> None:
    broker.limit(("ip", None), connection_creation_rate=1.0)
    answers = [broker.connect()[0] for _ in range(9)]
    assert not [a for a in answers if isinstance(a, BarnabasError)]
    outcomes = [broker.connect()[0] for _ in range(3)]
    assert isinstance(outcomes[-1], BarnabasError)
    broker.cluster.run(12)
    assert not isinstance(broker.connect()[0], BarnabasError)


def test_a_client_that_makes_too_many_partitions_is_refused_by_the_controller_and_muted_by_its_broker() -> (
    None
):
    """Over an Envelope: the controller knows the client from it, and its broker passes the time to wait on."""
    with Virtual((1, 2), (1, 2, 3)) as cluster:
        broker = Broker(cluster)
        broker.limit(CLIENT, controller_mutation_rate=1.0)
        other = 2 if cluster.controller() == 1 else 1
        topics = [CreatableTopic(name=name, num_partitions=12, replication_factor=1) for name in ("a", "b")]
        begun = cluster.world.time
        answer = cluster.ask(CreateTopicsRequest(topics=topics), at=other)
        assert [(t.name, t.error_code) for t in answer.topics] == [
            ("a", 0),
            ("b", ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ]
        assert 900 <= answer.throttle_time_ms <= 1000
        cluster.ask(MetadataRequest(topics=[]), at=other)
        assert cluster.world.time - begun == pytest.approx(1, abs=0.4)
        answer = cluster.ask(CreateTopicsRequest(topics=topics[1:]), at=other)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
        assert cluster.image.topic("b") is not None
