"""`controller_mutation_rate`: Apache Kafka 4.3.1 answered the same requests with the same codes and times."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.quotas.mutations import Mutations
from barnabas.controller.image import MetadataImage, PartitionState, Topic
from barnabas.model import Uuid
from barnabas.wire.schemas.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

CREATE, DELETE, GROW = 19, 20, 37


class Client:
    """One client with a quota of a partition a second, at a controller that knows topic `old` of 4 partitions."""

    def __init__(self) -> None:
        self.time = 100.0
        self.mutations = Mutations(11, 1)
        self.mutations.follow({frozenset({("client-id", None)}): {"controller_mutation_rate": 1.0}})
        self.image = MetadataImage("c")
        topic = Topic("old", Uuid.of(1, 2), {n: PartitionState(n, (1,), (1,)) for n in range(4)})
        self.image.topics[topic.id] = self.image.topics_by_name["old"] = topic

    def ask(self, key: int, version: int, request: Any, client: str = "c") -> tuple[int, int, float]:
        """How many topics are decided, how many refused, and the seconds to wait."""
        charge = self.mutations.charge(key, version, request, "u", client, self.image, 2, self.time)
        return count(charge.decided), count(charge.refused), charge.wait_s

    def create(self, version: int, *partitions: int, client: str = "c") -> tuple[int, int, float]:
        topics = [CreatableTopic(name=f"t{n}", num_partitions=p) for n, p in enumerate(partitions)]
        return self.ask(CREATE, version, CreateTopicsRequest(topics=topics), client)


def count(request: Any) -> int:
    return 0 if request is None else len(request.topics or getattr(request, "topic_names", ()))


def test_a_topic_may_take_more_than_is_left_and_the_next_one_waits_until_that_is_filled() -> None:
    client = Client()
    assert client.create(7, 12, 1, 1) == (1, 2, 1.0)
    client.time += 1
    assert client.create(7, 1) == (1, 0, 0.0)
    assert client.create(7, 1) == (0, 1, 1.0)


def test_an_older_version_is_carried_out_and_told_to_wait() -> None:
    client = Client()
    assert client.create(5, 11, 3) == (2, 0, 3.0)
    assert client.create(6, 1) == (0, 1, 3.0)


def test_what_is_charged_is_the_partitions_that_are_made_or_deleted() -> None:
    client = Client()
    spread = [CreatableReplicaAssignment(partition_index=n, broker_ids=[1]) for n in range(3)]
    requests: list[tuple[int, Any, float]] = [
        (CREATE, CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=-1)]), 2),
        (CREATE, CreateTopicsRequest(topics=[CreatableTopic(name="new", assignments=spread)]), 3),
        (CREATE, CreateTopicsRequest(topics=[CreatableTopic(name="old", num_partitions=9)]), 0),
        (GROW, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="old", count=9)]), 5),
        (GROW, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="none", count=9)]), 0),
        (DELETE, DeleteTopicsRequest(topics=[DeleteTopicState(name="old")]), 4),
        (DELETE, DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=Uuid.of(1, 2))]), 4),
        (DELETE, DeleteTopicsRequest(topics=[DeleteTopicState(name="none")]), 0),
    ]
    for number, (key, request, charged) in enumerate(requests):
        name = f"client {number}"
        assert client.ask(key, {CREATE: 7, GROW: 3, DELETE: 6}[key], request, name)[1] == 0
        client.create(7, 11, client=name)
        assert client.create(7, 1, client=name)[2] == pytest.approx(charged), request
    older = DeleteTopicsRequest(topic_names=["old"])
    assert client.ask(DELETE, 4, older, "older") == (1, 0, 0.0)
    client.create(7, 11, client="older")
    assert client.create(7, 1, client="older")[2] == pytest.approx(4)


def test_who_has_no_quota_is_not_charged() -> None:
    client = Client()
    client.mutations.follow({frozenset({("client-id", None)}): {"producer_byte_rate": 1.0}})
    assert not client.mutations.active
    assert client.create(7, 1000, 1) == (2, 0, 0.0)
