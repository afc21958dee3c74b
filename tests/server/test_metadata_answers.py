"""Metadata answers from bytes that are kept: always what somebody says who keeps nothing."""

from __future__ import annotations

import random

import pytest

from barnabas.controller.image import (
    BrokerEndpoint,
    BrokerState,
    ImageDelta,
    MetadataImage,
    PartitionState,
    Topic,
)
from barnabas.model import Uuid
from barnabas.server.api.metadata import AnswerForm, TopicAnswers
from barnabas.wire.codec.declaration import Encoded
from barnabas.wire.codec.message import decode, encode, encode_item
from barnabas.wire.schemas.cluster import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSIONS = range(MetadataResponse.VERSIONS[0], MetadataResponse.VERSIONS[1] + 1)


def topics() -> list[MetadataResponseTopic]:
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=7, replica_nodes=[1, 2], isr_nodes=[1]
        )
        for index in range(130)
    ]
    return [
        MetadataResponseTopic(name=f"topic-{count}", partitions=partitions[:count])
        for count in (0, 1, 5, 130)
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 4, 200])
def test_encoded_structs_are_the_bytes_of_structs(version: int, count: int) -> None:
    given = (topics() * 50)[:count]
    plain = MetadataResponse(topics=given, controller_id=3)
    items = [encode_item(topic, MetadataResponse, version) for topic in given]
    kept = MetadataResponse(topics=Encoded(count, b"".join(items)), controller_id=3)  # type: ignore[arg-type]
    assert encode(kept, version) == encode(plain, version)
    assert decode(MetadataResponse, encode(kept, version), version)[0].controller_id == (3 if version else -1)


class Cluster:
    """An image that changes by chance, and tells what changed as `replay` does."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.image = MetadataImage("c")
        for node in (1, 2, 3):
            self.image.brokers[node] = self.broker(node, fenced=False)
        self.made = 0

    def broker(self, node: int, *, fenced: bool) -> BrokerState:
        endpoints = [BrokerEndpoint("INSIDE", "h", 1, 0)]
        if self.rng.random() < 0.7:
            endpoints.append(BrokerEndpoint("OUTSIDE", "h", 2, 0))
        directory = Uuid.of(9, node)
        return BrokerState(
            node, 1, Uuid.of(8, node), tuple(endpoints), {}, None, fenced, False, (directory,), ()
        )

    def state(self, index: int) -> PartitionState:
        replicas = tuple(self.rng.sample((1, 2, 3, 4), self.rng.randint(1, 3)))
        return PartitionState(
            index,
            replicas,
            replicas[:1],
            leader=self.rng.choice((-1, *replicas)),
            leader_epoch=self.rng.randint(0, 9),
            directories=tuple(Uuid.of(9, self.rng.choice((node, 77))) for node in replicas),
        )

    def step(self) -> ImageDelta:
        image, rng = self.image, self.rng
        delta = ImageDelta(image)
        do = rng.random()
        if do < 0.35 or not image.topics:
            self.made += 1
            name = rng.choice((f"t-{self.made}", "__consumer_offsets", "again"))
            if name in image.topics_by_name:
                return delta
            topic = Topic(name, Uuid.of(7, self.made))
            for index in range(rng.randint(0, 5)):
                topic.partitions[index] = self.state(index)
            image.topics[topic.id] = image.topics_by_name[name] = topic
            delta.topics_created[topic.id] = topic
            if topic.partitions:
                delta.partitions[topic.id] = dict.fromkeys(topic.partitions)
        elif do < 0.7:
            topic = rng.choice(list(image.topics.values()))
            index = rng.randint(0, len(topic.partitions))
            before = topic.partitions.get(index)
            topic.partitions[index] = self.state(index)
            delta.partitions[topic.id] = {index: before}
        elif do < 0.85:
            topic = rng.choice(list(image.topics.values()))
            del image.topics[topic.id], image.topics_by_name[topic.name]
            delta.topics_deleted[topic.id] = topic
        else:
            node = rng.choice((1, 2, 3, 4))
            image.brokers[node] = self.broker(node, fenced=rng.random() < 0.4)
            delta.brokers.add(node)
        return delta


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_is_what_would_be_made_now(seed: int) -> None:
    cluster = Cluster(seed)
    kept = TopicAnswers(cluster.image)
    forms = [
        AnswerForm(version, listener, operations)
        for version in (0, 1, 4, 5, 6, 8, 9, 10, 12, 13)
        for listener in ("INSIDE", "OUTSIDE")
        for operations in (None, 0, 0b1111)
        if version >= 8 or operations is None
    ]
    for _ in range(80):
        kept.changed(cluster.step())
        for form in cluster.rng.sample(forms, 4):
            fresh = TopicAnswers(cluster.image)
            every = kept.every_topic(form)
            assert (every.count, every.data) == (len(cluster.image.topics), fresh.every_topic(form).data)
            for topic in cluster.image.topics.values():
                assert kept.topic(topic, form) == fresh.topic(topic, form)


def test_the_second_answer_makes_nothing_and_a_change_makes_one_topic_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(3)
    image = cluster.image
    for number in range(5):
        topic = Topic(f"t-{number}", Uuid.of(7, number), {0: cluster.state(0)})
        image.topics[topic.id] = image.topics_by_name[topic.name] = topic
    answers, form = TopicAnswers(image), AnswerForm(12, "INSIDE", None)
    made: list[str] = []
    make = TopicAnswers._make

    def counted(self: TopicAnswers, topic: Topic, form: AnswerForm) -> MetadataResponseTopic:
        made.append(topic.name)
        return make(self, topic, form)

    monkeypatch.setattr(TopicAnswers, "_make", counted)
    first = answers.every_topic(form)
    assert len(made) == 5 and answers.every_topic(form) is first
    delta = ImageDelta(image)
    topic = image.topics_by_name["t-2"]
    delta.partitions[topic.id] = {0: topic.partitions[0]}
    topic.partitions[0] = cluster.state(0)
    answers.changed(delta)
    answers.every_topic(form)
    assert made[5:] == ["t-2"]
    answers.changed(ImageDelta(image))
    answers.every_topic(form)
    assert len(made) == 6
