"""Topics that nobody created by name: how many replicas they get, and what the log says where they get none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.config import Config
from barnabas.controller.image import BrokerState, MetadataImage
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, DirectoryId, Uuid
from barnabas.server.api.auto_topics import AutoTopics
from barnabas.server.observe import events
from barnabas.wire.schemas.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

BROKER = BrokerState(
    id=0,
    epoch=1,
    incarnation=Uuid(b"i" * 16),
    endpoints=(),
    features={},
    rack=None,
    fenced=False,
    in_controlled_shutdown=False,
    directories=(DirectoryId(Uuid(b"d" * 16)),),
    cordoned=(),
)
"""One that runs and takes replicas."""


class World:
    """A node of a cluster with these brokers, and a controller that answers as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, brokers: int = 3, **settings: str) -> None:
        config = Config.load({name.replace("_", "."): value for name, value in settings.items()})
        image = MetadataImage()
        self.brokers = image.brokers
        self.brokers.update({id_: BROKER._replace(id=id_) for id_ in range(brokers)})
        runtime: Any = SimpleNamespace(config=config)
        quorum: Any = SimpleNamespace(image=image, request=self.request)
        self.topics = AutoTopics(runtime, quorum)
        self.asked: list[CreateTopicsRequest] = []
        self.answer: ErrorCode | KafkaError = ErrorCode.NONE
        self.told: list[dict[str, Any]] = []
        monkeypatch.setattr(events, "emit", lambda event, **fields: self.told.append(fields))

    async def request(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        self.asked.append(request)
        if isinstance(self.answer, KafkaError):
            raise self.answer
        results = [
            CreatableTopicResult(name=topic.name, error_code=self.answer, error_message="why")
            for topic in reversed(request.topics)
        ]
        return CreateTopicsResponse(topics=results)

    def create(self, *names: str) -> list[Any]:
        asyncio.run(self.topics.try_to_create(names))
        return list(self.asked[-1].topics)


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (3, 3), (7, 3)])
def test_coordinators_topics_get_as_many_replicas_as_there_are_brokers_up_to_three(
    monkeypatch: pytest.MonkeyPatch, brokers: int, replicas: int
) -> None:
    made = World(monkeypatch, brokers).create(OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
    assert [topic.replication_factor for topic in made] == [replicas, replicas]
    in_sync = {one.name: one.value for one in made[1].configs}["min.insync.replicas"]
    assert in_sync == str(min(2, replicas))


@pytest.mark.parametrize(
    "how",
    [{"fenced": True}, {"in_controlled_shutdown": True}, {"fenced": True, "in_controlled_shutdown": True}],
    ids=["dead", "leaving", "stopped"],
)
def test_a_broker_that_is_down_just_now_counts(monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]) -> None:
    """Its replica comes back with it; a topic with fewer stays so."""
    world = World(monkeypatch)
    world.brokers[2] = BROKER._replace(id=2, **how)
    assert world.create(OFFSETS_TOPIC)[0].replication_factor == 3


def test_a_broker_that_gets_no_new_replicas_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.brokers[2] = BROKER._replace(id=2, cordoned=BROKER.directories)
    assert world.create(OFFSETS_TOPIC)[0].replication_factor == 2


def test_a_number_that_is_set_is_asked_for_whatever_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 1, offsets_topic_replication_factor="3")
    assert world.create(OFFSETS_TOPIC)[0].replication_factor == 3


def test_the_log_says_why_a_coordinators_topic_was_not_made_and_what_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.answer = ErrorCode.INVALID_REPLICATION_FACTOR
    world.create(OFFSETS_TOPIC, "orders")
    told = {fields["topic"]: fields for fields in world.told}
    assert told[OFFSETS_TOPIC]["code"] == "INVALID_REPLICATION_FACTOR" and told[OFFSETS_TOPIC]["why"] == "why"
    assert told[OFFSETS_TOPIC]["next"] == (
        "start 3 brokers, `barnabas brokers unregister` those that are gone, or set "
        "offsets.topic.replication.factor"
    )
    assert "next" not in told["orders"]


def test_a_controller_that_does_not_answer_is_told_for_each_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.answer = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no active controller")
    world.create("orders", "bills")
    assert [fields["topic"] for fields in world.told] == ["orders", "bills"]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_a_topic_that_is_there_afterwards_is_nothing_to_tell(
    monkeypatch: pytest.MonkeyPatch, error: ErrorCode
) -> None:
    world = World(monkeypatch)
    world.answer = error
    world.create(OFFSETS_TOPIC)
    assert world.told == []
