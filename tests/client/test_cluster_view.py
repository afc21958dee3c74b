"""What a client knows of a cluster, and how it asks again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.fake_broker import CLOSE, FakeBroker

from barnabas.client.aio import AsyncConnection
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.blocking import ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.metadata import parse_bootstrap
from barnabas.client.offsets import list_offsets
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.wire.schemas.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from barnabas.wire.schemas.offsets import ListOffsetsRequest


class Watch:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds


def cluster(*brokers: FakeBroker, **options: Any) -> tuple[Cluster, Watch]:
    watch = Watch()
    addresses = [broker.address for broker in brokers]
    return Cluster(addresses, clock=watch.now, sleep=watch.sleep, **options), watch


def test_addresses_are_read_as_people_write_them() -> None:
    assert parse_bootstrap("a:1, [::1]:2") == [("a", 1), ("::1", 2)]
    assert parse_bootstrap(":9092") == [("127.0.0.1", 9092)], "as Kafka's tools take it"
    for wrong in ("a", "a:", ":", "a:x", "a:70000", ""):
        with pytest.raises(ConfigError, match="no address of a broker"):
            parse_bootstrap(wrong)


def test_metadata_are_asked_for_once_and_kept() -> None:
    with FakeBroker(t=2) as broker:
        view, _ = cluster(broker)
        assert view.cluster_id() == "fake"
        assert list(view.topic("t").partitions) == [0, 1]
        view.topic("t")
        assert len(broker.asked(MetadataRequest)) == 2
        view.forget("t")
        view.topic("t")
        assert len(broker.asked(MetadataRequest)) == 3


def test_old_metadata_are_asked_for_anew() -> None:
    with FakeBroker(t=1) as broker:
        view, watch = cluster(broker)
        view.topic("t")
        watch.time += 1000
        view.topic("t")
        assert len(broker.asked(MetadataRequest)) == 2


def test_an_unknown_topic_says_how_to_make_it() -> None:
    with FakeBroker() as broker:
        view, _ = cluster(broker)
        with pytest.raises(KafkaError, match="there is no topic nope") as caught:
            view.topic("nope")
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "barnabas topics create nope" in str(caught.value.next_step)


def test_a_partition_that_is_not_there_is_named() -> None:
    with FakeBroker(t=1) as broker:
        view, _ = cluster(broker)
        with pytest.raises(KafkaError, match="topic t has no partition 5"):
            view.leader("t", 5)


def test_the_second_address_is_tried_when_the_first_is_dead() -> None:
    with FakeBroker(t=1) as broker:
        watch = Watch()
        view = Cluster(f"127.0.0.1:1,{broker.address}", clock=watch.now, sleep=watch.sleep)
        assert view.cluster_id() == "fake"


def test_with_nobody_there_it_is_said_at_once_and_not_after_the_timeout() -> None:
    watch = Watch()
    view = Cluster("127.0.0.1:1,127.0.0.1:2", clock=watch.now, sleep=watch.sleep)
    with pytest.raises(ConnectionFailed, match=r"no broker can be reached: .*:1.*:2"):
        view.cluster_id()
    assert watch.sleeps == []


def test_a_leader_that_moved_is_found_again() -> None:
    with FakeBroker(t=1) as first, FakeBroker(node=2, cluster=first.cluster, t=1) as second:
        second.topics = first.topics
        view, watch = cluster(first)
        view.topic("t")
        for broker in (first, second):
            broker.leaders["t", 0] = 2
        assert list_offsets(view, "t")[0].offset == 0
        assert len(first.asked(ListOffsetsRequest)) == 1
        assert len(second.asked(ListOffsetsRequest)) == 1
        assert watch.sleeps == [0.05]


def test_pauses_grow_and_end_with_the_error_itself() -> None:
    with FakeBroker(t=1) as broker:
        view, watch = cluster(broker, timeout=3.0)
        view.topic("t")
        broker.leaders["t", 0] = -1
        view.forget("t")
        with pytest.raises(KafkaError) as caught:
            list_offsets(view, "t")
        assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE
        assert watch.sleeps[:5] == [0.05, 0.1, 0.2, 0.4, 0.8]
        assert sum(watch.sleeps) <= 3.0


def test_a_broken_connection_is_made_anew() -> None:
    with FakeBroker(t=1) as broker:
        view, _ = cluster(broker)
        view.topic("t")
        answers = iter([CLOSE])
        broker.on(ListOffsetsRequest, lambda _: next(answers, None))
        assert list_offsets(view, "t")[0].offset == 0


def test_what_no_repetition_mends_is_raised_at_once() -> None:
    with FakeBroker(t=1) as broker:
        view, watch = cluster(broker)
        view.topic("t")

        def refuse() -> None:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")

        with pytest.raises(KafkaError):
            view.retrying(refuse)
        assert watch.sleeps == []


def exchanged(other: FakeBroker) -> None:
    """Have the cluster tell of broker 2 where broker 3 listens, until a client that means 2 is refused."""
    other.node = 2

    def versions(request: ApiVersionsRequest) -> ApiVersionsResponse | None:
        meant = (request.cluster_id, request.node_id)
        if meant in ((None, -1), ("fake", 3)):
            return None
        assert meant == ("fake", 2)
        other.node = 3
        return ApiVersionsResponse(error_code=int(ErrorCode.REBOOTSTRAP_REQUIRED))

    other.on(ApiVersionsRequest, versions)


def test_an_address_that_was_given_to_another_broker_makes_the_client_bootstrap_again() -> None:
    """KIP-1242: what it knows of the brokers is forgotten, and the bootstrap addresses are asked."""
    brokers: list[FakeBroker] = []
    with FakeBroker(cluster=brokers, t=1) as entry, FakeBroker(node=2, cluster=brokers) as other:
        exchanged(other)
        view, watch = cluster(entry)
        assert [broker.id for broker in view.brokers()] == [1, 2]
        found = view.retrying(lambda: view.connection(max(broker.id for broker in view.brokers())))
        assert found.address == other.address and watch.sleeps
        assert [broker.id for broker in view.brokers()] == [1, 3]
        view.close()


def test_the_asyncio_client_bootstraps_again_too() -> None:
    brokers: list[FakeBroker] = []

    async def talk(bootstrap: str) -> tuple[str, list[int]]:
        async with AsyncCluster(bootstrap) as view:

            async def attempt() -> AsyncConnection:
                if not view.metadata.brokers:
                    await view.refresh([])
                return await view.connection(max(view.metadata.brokers))

            found = await view.retrying(attempt)
            return found.address, sorted(view.metadata.brokers)

    with FakeBroker(cluster=brokers, t=1) as entry, FakeBroker(node=2, cluster=brokers) as other:
        exchanged(other)
        assert asyncio.run(talk(entry.address)) == (other.address, [1, 3])
