"""Brokers of Apache Kafka that count a coordinators' topic otherwise are told of in the log, once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.connection import ConnectionFailed
from barnabas.config import Config
from barnabas.controller.image import ImageDelta
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.server.observe import events
from barnabas.server.replication import coordinator_counts
from barnabas.server.replication.broker_connections import PeerListener
from barnabas.server.replication.coordinator_counts import CoordinatorCounts

ME, KAFKAS, OURS = 1, 4, 2
FIFTY = {"offsets.topic.num.partitions": "50", "transaction.state.log.num.partitions": "50"}


class World:
    """Broker 1 of a cluster with one of Apache Kafka (4) and another of ours (2)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        self.told: list[dict[str, Any]] = []
        self.asked: list[int] = []
        self.away = 0
        """So many attempts to reach a broker fail."""
        self.image: Any = SimpleNamespace(
            brokers={id_: SimpleNamespace(epoch=id_, fenced=False) for id_ in (ME, OURS, KAFKAS)},
            topics_by_name={},
        )
        config = Config.load({name.replace("_", "."): value for name, value in settings.items()})
        runtime: Any = SimpleNamespace(node_id=ME, config=config, tasks=SimpleNamespace(start=self.start))
        self.counts = CoordinatorCounts(runtime, self.image, PeerListener("PLAINTEXT"))
        monkeypatch.setattr(events, "emit", lambda event, **fields: self.told.append(fields))
        monkeypatch.setattr(coordinator_counts, "dial_broker", self.dial)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        asyncio.run(work)

    async def dial(self, image: Any, node: int, peers: Any, client_id: str) -> Any:
        self.asked.append(node)
        if self.away:
            self.away -= 1
            raise ConnectionFailed("it does not serve yet")
        told = FIFTY | ({} if node == KAFKAS else {"barnabas.fast.fencing": "true"})

        async def request(message: Any) -> Any:
            configs = [SimpleNamespace(name=name, value=value) for name, value in told.items()]
            return SimpleNamespace(results=[SimpleNamespace(configs=configs)])

        return SimpleNamespace(request=request, abort=lambda: None)

    def changed(self, *brokers: int, made: Any = None) -> None:
        delta = ImageDelta(self.image)
        delta.brokers.update(brokers)
        if made is not None:
            delta.topics_created[made.id] = made
        self.counts.changed(delta)

    def grow(self, name: str, count: int) -> None:
        """The topic that exists gets more partitions."""
        topic = self.image.topics_by_name[name]
        new = range(len(topic.partitions), count)
        topic.partitions.update({index: SimpleNamespace(index=index, leader=ME) for index in new})
        delta = ImageDelta(self.image)
        delta.partitions[topic.id] = dict.fromkeys(new)
        self.counts.changed(delta)

    def topic(self, name: str, count: int, leader: int = ME) -> Any:
        partitions = {index: SimpleNamespace(index=index, leader=leader) for index in range(count)}
        self.image.topics_by_name[name] = made = SimpleNamespace(name=name, id=name, partitions=partitions)
        return made


def test_a_broker_of_apache_kafka_that_registers_is_told_with_the_two_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        world.topic(name, 8)
    world.changed(ME, OURS, KAFKAS)
    world.changed(KAFKAS)
    assert world.asked.count(KAFKAS) == 1
    [told] = world.told
    assert told["broker"] == KAFKAS
    assert told["next"] == (
        "set offsets.topic.num.partitions=8 and transaction.state.log.num.partitions=8 in the file of broker 4, "
        "and start it again"
    )


def test_it_is_told_before_this_node_makes_the_topics_with_a_count_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, offsets_topic_num_partitions="8")
    world.changed(KAFKAS)
    assert [told["broker"] for told in world.told] == [KAFKAS]


def test_where_every_count_is_kafkas_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.changed(OURS, KAFKAS)
    world.topic(OFFSETS_TOPIC, 50)
    world.changed(OURS, KAFKAS)
    assert world.asked == []


@pytest.mark.parametrize(("leader", "tells"), [(ME, [KAFKAS]), (OURS, [])])
def test_when_such_a_topic_is_made_one_broker_asks_all_that_run(
    monkeypatch: pytest.MonkeyPatch, leader: int, tells: list[int]
) -> None:
    world = World(monkeypatch)
    world.changed(made=world.topic(OFFSETS_TOPIC, 8, leader))
    assert [told["broker"] for told in world.told] == tells


@pytest.mark.parametrize(("leader", "tells"), [(ME, True), (OURS, False)])
def test_one_broker_tells_that_a_topic_grew_and_asks_all_that_run(
    monkeypatch: pytest.MonkeyPatch, leader: int, tells: bool
) -> None:
    world = World(monkeypatch)
    world.topic(OFFSETS_TOPIC, 50, leader)
    world.topic(TRANSACTIONS_TOPIC, 50, OURS)
    world.grow(OFFSETS_TOPIC, 60)
    world.grow(TRANSACTIONS_TOPIC, 60)
    if not tells:
        assert world.told == []
        return
    grew, differs, *_ = world.told
    assert (grew["topic"], grew["partitions"]) == (OFFSETS_TOPIC, 60)
    assert grew["next"] == (
        "start each broker of Apache Kafka again, which counts as before until then; "
        "set the positions of your groups with `barnabas groups reset`"
    )
    assert differs["broker"] == KAFKAS


def test_a_broker_that_registers_again_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, offsets_topic_num_partitions="8")
    world.changed(KAFKAS)
    world.image.brokers[KAFKAS] = SimpleNamespace(epoch=99, fenced=True)
    world.changed(KAFKAS)
    assert world.asked == [KAFKAS]
    world.image.brokers[KAFKAS] = SimpleNamespace(epoch=99, fenced=False)
    world.changed(KAFKAS)
    assert world.asked == [KAFKAS, KAFKAS]


def test_a_broker_that_does_not_serve_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, offsets_topic_num_partitions="8")
    monkeypatch.setattr(coordinator_counts, "PAUSES_S", (0.0, 0.0, 0.0))
    world.away = 2
    world.changed(KAFKAS)
    assert world.asked == [KAFKAS] * 3
    assert len(world.told) == 1
