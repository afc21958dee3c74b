"""An image that a snapshot replaces: what changed is told as one delta."""

from __future__ import annotations

from barnabas.controller.image import MetadataImage, PartitionState, Topic
from barnabas.model import Uuid
from barnabas.server.kraft.committed import replace_image


def topic(name: str, number: int, **partitions: PartitionState) -> Topic:
    return Topic(name, Uuid.of(1, number), {state.index: state for state in partitions.values()})


def image(*topics: Topic) -> MetadataImage:
    made = MetadataImage("cluster")
    made.topics = {t.id: t for t in topics}
    made.topics_by_name = {t.name: t for t in topics}
    return made


def test_topics_that_came_went_and_changed_are_told_and_the_image_stays_the_same_object() -> None:
    first, second = PartitionState(0, (1,), (1,), 1), PartitionState(0, (1,), (1,), 2, 1)
    old = image(topic("gone", 1, a=first), topic("same", 2, a=first), topic("moved", 3, a=first))
    new = image(topic("same", 2, a=first), topic("moved", 3, a=second), topic("came", 4, a=first))
    new.features = {"metadata.version": 30}
    new.configs = {(2, "came"): {"retention.ms": "1"}}
    new.offset = 99
    delta = replace_image(old, new)
    assert delta.image is old and old.offset == 99 and sorted(old.topics_by_name) == ["came", "moved", "same"]
    assert [t.name for t in delta.topics_deleted.values()] == ["gone"]
    assert [t.name for t in delta.topics_created.values()] == ["came"]
    assert delta.partitions == {Uuid.of(1, 3): {0: first}, Uuid.of(1, 4): {0: None}}
    assert delta.features == {"metadata.version"} and delta.configs == {(2, "came")}
    assert [(t.name, now.leader) for t, now, _ in delta.changed_partitions()] == [("moved", 2), ("came", 1)]


def test_an_equal_image_changes_nothing() -> None:
    old, new = image(topic("same", 2)), image(topic("same", 2))
    assert replace_image(old, new).empty
