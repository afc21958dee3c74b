"""A broker that neither answers nor refuses: another is asked, and what waited goes elsewhere once it is out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.fake_broker import FakeBroker

from barnabas import Consumer, Producer
from barnabas.aio import Consumer as AsyncConsumer
from barnabas.aio import Producer as AsyncProducer
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.both.awaited import at_once
from barnabas.client.cluster import Cluster
from barnabas.client.connection import RequestTimedOut
from barnabas.client.fetching import fetch_range
from barnabas.client.metadata import Metadata
from barnabas.client.waits import silence
from barnabas.errors import KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.schemas.cluster import DescribeClusterRequest, MetadataRequest
from barnabas.wire.schemas.fetch import FetchRequest
from barnabas.wire.schemas.offsets import ListOffsetsRequest
from barnabas.wire.schemas.produce import ProduceRequest

PATIENCE_S = 20.0
TOPIC_ID = Uuid.of(7, 7)
NO_ID = Uuid.of(0, 0)
SOON_S = 0.02


class Silent:
    """Two brokers; the first leads and stops answering.  `out()`: the second says that the first is gone."""

    def __init__(self) -> None:
        self.first = FakeBroker(t=1)
        self.second = FakeBroker(node=2, cluster=self.first.cluster, t=1)
        self.second.topics = self.first.topics
        self.heard = threading.Event()
        self.released = threading.Event()
        self.bootstrap = f"{self.first.address},{self.second.address}"

    def hang(self, *kinds: type) -> None:
        """From now on the first broker does not answer these requests, and hears nothing after them."""
        for kind in kinds:
            self.first.on(kind, self._wait)

    def _wait(self, request: Any) -> None:
        self.heard.set()
        self.released.wait(PATIENCE_S)

    def out(self) -> None:
        """The controller has fenced the first broker."""
        for broker in (self.first, self.second):
            broker.leaders["t", 0] = 2
        self.first.cluster.remove(self.first)

    def cut(self) -> None:
        """The first broker goes on as before; the second has become the leader, and knows of no other."""
        self.second.cluster = [self.second]
        self.second.partitions = {at: bytearray(log) for at, log in self.first.partitions.items()}
        self.second.leaders["t", 0] = 2
        self.second.epochs["t", 0] = 1

    def close(self) -> None:
        self.released.set()
        self.first.__exit__()
        self.second.__exit__()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    monkeypatch.setattr(silence, "SILENCE", SOON_S)
    monkeypatch.setattr(silence, "_AGAIN", SOON_S)
    found = Silent()
    yield found
    found.close()


def test_another_broker_is_asked_often_at_first_and_less_often_then() -> None:
    assert silence.patience(0) == silence.SILENCE == 2.0
    assert silence.patience(1) == 1.0
    assert silence.patience(100) == 4.0


def living(*nodes: int) -> Any:
    brokers = [SimpleNamespace(node_id=node, host="h", port=node, rack=None) for node in nodes]
    return SimpleNamespace(
        brokers=brokers, cluster_id="c", controller_id=nodes[0] if nodes else -1, topics=[]
    )


def test_a_broker_is_out_when_another_one_no_longer_names_it() -> None:
    view = Metadata([("alias", 9)])
    view.take(living(1, 2), [], 0.0)
    assert not view.is_out("h", 1, living(1, 2))
    assert view.is_out("h", 1, living(2))
    assert list(view.brokers) == [2]


def test_a_broker_that_names_nobody_says_nothing_about_the_others() -> None:
    view = Metadata([("alias", 9)])
    view.take(living(1, 2), [], 0.0)
    assert not view.is_out("h", 1, living())


def test_behind_an_address_that_no_broker_names_may_be_the_one_that_is_gone() -> None:
    view = Metadata([("alias", 9)])
    view.take(living(1, 2), [], 0.0)
    assert not view.is_out("alias", 9, living(1, 2))
    assert view.is_out("alias", 9, living(2))


def test_of_several_bootstrap_addresses_the_one_that_no_broker_tells_is_out() -> None:
    view = Metadata([("h", 1), ("h", 2)])
    assert view.is_out("h", 1, living(2))


def test_a_broker_that_is_learned_of_while_it_is_silent_is_known_to_be_out_later() -> None:
    view = Metadata([("h", 1), ("h", 2)])
    assert not view.is_out("h", 1, living(1, 2))
    assert view.is_out("h", 1, living(2))


def produced(silent: Silent) -> None:
    with Producer(silent.bootstrap) as producer:
        producer.send("t", b"before").result(PATIENCE_S)
        silent.hang(ProduceRequest, MetadataRequest)
        delivery = producer.send("t", b"after")
        assert silent.heard.wait(PATIENCE_S)
        silent.out()
        delivery.result(PATIENCE_S)


def test_a_producer_goes_on_at_the_new_leader_while_the_old_one_is_silent(silent: Silent) -> None:
    produced(silent)
    assert silent.second.values("t") == [b"after"]


def test_an_asyncio_producer_does_the_same(silent: Silent) -> None:
    async def story() -> None:
        async with AsyncProducer(silent.bootstrap) as producer:
            await (await producer.send("t", b"before"))
            silent.hang(ProduceRequest, MetadataRequest)
            delivery = await producer.send("t", b"after")
            await asyncio.to_thread(silent.heard.wait, PATIENCE_S)
            silent.out()
            await asyncio.wait_for(delivery, PATIENCE_S)

    asyncio.run(story())
    assert silent.second.values("t") == [b"after"]


def fill(silent: Silent) -> None:
    with Producer(silent.first.address) as producer:
        producer.send("t", b"there").result(PATIENCE_S)
    for copied in ("partitions", "ends"):
        getattr(silent.second, copied).update(getattr(silent.first, copied))


@pytest.mark.parametrize("kinds", [(FetchRequest,), (ListOffsetsRequest,)], ids=["fetch", "offsets"])
def test_a_consumer_reads_on_at_the_new_leader(silent: Silent, kinds: tuple[type, ...]) -> None:
    fill(silent)
    silent.hang(*kinds)
    threading.Thread(target=lambda: silent.heard.wait(PATIENCE_S) and silent.out(), daemon=True).start()
    with Consumer(silent.bootstrap, "t", start="earliest") as consumer:
        assert [m.value for m in consumer.poll(PATIENCE_S)] == [b"there"]


@pytest.mark.parametrize("kinds", [(FetchRequest,), (ListOffsetsRequest,)], ids=["fetch", "offsets"])
def test_an_asyncio_consumer_reads_on_at_the_new_leader(silent: Silent, kinds: tuple[type, ...]) -> None:
    fill(silent)
    silent.hang(*kinds)
    threading.Thread(target=lambda: silent.heard.wait(PATIENCE_S) and silent.out(), daemon=True).start()

    async def story() -> None:
        async with AsyncConsumer(silent.bootstrap, "t", start="earliest") as consumer:
            assert [m.value for m in await consumer.poll(PATIENCE_S)] == [b"there"]

    asyncio.run(story())


def test_a_slow_broker_that_lives_is_waited_for(silent: Silent) -> None:
    """A request that is repeated although its broker is at work would cost it the work twice."""
    asked = threading.Event()
    silent.second.on(MetadataRequest, lambda _: asked.set())
    with Producer(silent.bootstrap) as producer:
        producer.send("t", b"before").result(PATIENCE_S)
        asked.clear()
        silent.hang(ProduceRequest)
        delivery = producer.send("t", b"slow")
        assert silent.heard.wait(PATIENCE_S)
        assert asked.wait(PATIENCE_S)
        silent.released.set()
        delivery.result(PATIENCE_S)
    assert silent.first.values("t") == [b"before", b"slow"]
    assert len(silent.first.asked(ProduceRequest)) == 2


def test_a_broker_that_takes_connections_and_says_nothing_is_left_for_the_next(silent: Silent) -> None:
    with FakeBroker() as deaf:
        deaf.api_versions = {}
        hold = threading.Event()
        deaf.on(type_of_first_request(), lambda _: hold.wait(PATIENCE_S) and None)
        with Cluster(f"{deaf.address},{silent.second.address}") as view:
            assert view.cluster_id() == "fake"
        hold.set()


def test_asyncio_leaves_a_deaf_broker_for_the_next_one(silent: Silent) -> None:
    with FakeBroker() as deaf:
        hold = threading.Event()
        deaf.on(type_of_first_request(), lambda _: hold.wait(PATIENCE_S) and None)

        async def story() -> None:
            async with AsyncCluster(f"{deaf.address},{silent.second.address}") as view:
                await view.refresh([])
                assert view.metadata.cluster_id == "fake"

        asyncio.run(story())
        hold.set()


def type_of_first_request() -> type:
    from barnabas.wire.schemas.cluster import ApiVersionsRequest

    return ApiVersionsRequest


def told(leader: int, epoch: int, *nodes: int, topic_id: Uuid = TOPIC_ID) -> Any:
    part = SimpleNamespace(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1, 2],
        offline_replicas=[],
        error_code=0,
    )
    answer = living(*nodes)
    answer.topics = [
        SimpleNamespace(name="t", topic_id=topic_id, error_code=0, is_internal=False, partitions=[part])
    ]
    return answer


def led_by(view: Metadata) -> int:
    topic = view.topic("t", 1.0)
    assert topic is not None
    return topic.partitions[0].leader


def test_an_answer_with_an_earlier_leader_changes_nothing() -> None:
    view = Metadata([("h", 1)])
    view.take(told(2, 5, 1, 2), ["t"], 1.0)
    view.forget("t")
    assert view.topic("t", 1.0) is None
    view.take(told(1, 4, 1, 2), ["t"], 1.0)
    assert led_by(view) == 2
    view.take(told(1, 6, 1, 2), ["t"], 1.0)
    assert led_by(view) == 1


@pytest.mark.parametrize(
    ("epoch", "topic_id"),
    [(-1, TOPIC_ID), (0, Uuid.of(7, 8)), (0, NO_ID)],
    ids=["no epoch", "another topic", "no id"],
)
def test_an_answer_that_cannot_be_compared_counts(epoch: int, topic_id: Uuid) -> None:
    view = Metadata([("h", 1)])
    view.take(told(2, 5, 1, 2, topic_id=NO_ID if topic_id == NO_ID else TOPIC_ID), ["t"], 1.0)
    view.take(told(1, epoch, 1, 2, topic_id=topic_id), ["t"], 1.0)
    assert led_by(view) == 1


def test_a_broker_that_is_out_is_asked_after_all_others_until_one_names_it_again() -> None:
    view = Metadata([("h", 1), ("h", 2)])
    view.take(living(1, 2), [], 0.0)
    assert view.hear("h", 1, told(2, 1, 2), 1.0)
    assert view.addresses() == [("h", 2), ("h", 1)]
    assert led_by(view) == 2
    view.take(living(1, 2), [], 0.0)
    assert view.addresses() == [("h", 1), ("h", 2)]


def test_a_position_that_rests_is_looked_into_after_growing_pauses_and_anew_after_records() -> None:
    resting, target, looks = silence.Resting(300.0), TopicPartition("t", 0), []
    for tenth in range(36_000):
        if resting.due({target: 5}, tenth / 10):
            looks.append(tenth / 10)
    assert looks and 2.0 <= looks[0] < 2.5
    assert all(1.9 < later / earlier < 2.1 for earlier, later in pairwise(looks[:7]))
    assert looks[-1] - looks[-2] == pytest.approx(300.0, abs=1.0)
    assert len(looks) < 22
    assert not resting.due({target: 6}, 3600.5)
    assert not resting.due({target: 6}, 3602.0)
    assert resting.due({target: 6}, 3603.0) == [target]


def sent_after_the_cut(silent: Silent) -> None:
    silent.cut()
    with Producer(silent.second.address) as producer:
        producer.send("t", b"later").result(PATIENCE_S)


def test_a_consumer_leaves_a_leader_that_is_cut_off_and_still_answers(silent: Silent) -> None:
    fill(silent)
    with Consumer(silent.bootstrap, "t", start="earliest") as consumer:
        assert [m.value for m in consumer.poll(PATIENCE_S)] == [b"there"]
        sent_after_the_cut(silent)
        assert [m.value for m in consumer.poll(PATIENCE_S)] == [b"later"]


def test_an_asyncio_consumer_leaves_it_too(silent: Silent) -> None:
    fill(silent)

    async def story() -> None:
        async with AsyncConsumer(silent.bootstrap, "t", start="earliest") as consumer:
            assert [m.value for m in await consumer.poll(PATIENCE_S)] == [b"there"]
            await asyncio.to_thread(sent_after_the_cut, silent)
            assert [m.value for m in await consumer.poll(PATIENCE_S)] == [b"later"]

    asyncio.run(story())


def test_a_range_is_read_on_at_the_new_leader(silent: Silent) -> None:
    fill(silent)
    with Cluster(silent.bootstrap, timeout=PATIENCE_S) as view:
        found = fetch_range(view, "t", 0, 0, 2)
        assert next(found).header.last_offset == 0
        sent_after_the_cut(silent)
        assert next(found).header.last_offset == 1


def test_no_connection_to_a_broker_that_is_out_is_used_for_any_broker(silent: Silent) -> None:
    """It would name itself as the coordinator of all the groups that it had."""
    with Cluster(silent.bootstrap) as view:
        view.topic("t")
        line = at_once(view.awaited.any())
        assert line.connection.port == silent.first.port
        silent.cut()
        assert at_once(view.awaited.left(line))
        assert view.any().port == silent.second.port


def test_a_leader_that_left_the_cluster_is_an_error_that_passes(silent: Silent) -> None:
    with Cluster(silent.bootstrap) as view:
        with pytest.raises(KafkaError, match="broker 9") as leader:
            view.connection(9, leads=True)
        with pytest.raises(KafkaError, match="broker 9") as other:
            view.connection(9)
    assert leader.value.code.retriable
    assert not other.value.code.retriable


def test_a_request_to_a_broker_that_is_out_does_not_wait_for_its_whole_time(silent: Silent) -> None:
    with Cluster(silent.bootstrap, timeout=PATIENCE_S) as view:
        view.topic("t")
        line = view.connection(1)
        silent.hang(ProduceRequest, MetadataRequest, DescribeClusterRequest)
        ticket = line.post(MetadataRequest(topics=[]))
        silent.out()
        with pytest.raises(RequestTimedOut, match="count it out"):
            line.collect(ticket, PATIENCE_S)
