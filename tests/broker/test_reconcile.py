"""The metadata are carried out step by step; in between, nobody is answered what he would not hear from Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import Node, batch

from barnabas.controller.image import ImageDelta, PartitionState, Topic
from barnabas.errors import ErrorCode
from barnabas.model import DIRECTORY_UNASSIGNED, NodeId, TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

MANY = 20


@pytest.fixture
def node() -> Node:
    return Node(MemoryDisk(), ("/data",))


def created(node: Node, name: str, partitions: int = MANY, leader: int = 1) -> ImageDelta:
    """The metadata name a topic; the commit that says so."""
    delta = ImageDelta(node.image)
    topic = Topic(name, node.chance.uuid())
    for index in range(partitions):
        topic.partitions[index] = PartitionState(
            index, (1, 2), (1, 2), leader, directories=(DIRECTORY_UNASSIGNED,) * 2
        )
    node.image.topics[topic.id] = node.image.topics_by_name[name] = topic
    delta.topics_created[topic.id] = topic
    delta.partitions[topic.id] = dict.fromkeys(topic.partitions)
    return delta


def deleted(node: Node, name: str) -> ImageDelta:
    topic = node.image.topics_by_name.pop(name)
    del node.image.topics[topic.id]
    delta = ImageDelta(node.image)
    delta.topics_deleted[topic.id] = topic
    delta.partitions[topic.id] = dict(topic.partitions)
    return delta


def led(node: Node, name: str, leader: int, *indexes: int) -> ImageDelta:
    """Another leader of these partitions."""
    delta = ImageDelta(node.image)
    topic = node.image.topics_by_name[name]
    before: dict[int, Any] = {index: topic.partitions[index] for index in indexes}
    for index, state in before.items():
        topic.partitions[index] = state._replace(
            leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
        )
    delta.partitions[topic.id] = before
    return delta


def steps(node: Node, count: int = 1) -> None:
    for _ in range(count):
        node.broker.reconciler.step(node.now)


def test_a_partition_that_is_still_to_be_made_is_not_led_yet_and_the_next_to_be_made(node: Node) -> None:
    node.broker.note(created(node, "t"))
    steps(node, 2)
    assert node.produce(batch("a"), index=15).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    steps(node)
    assert node.broker.partition("t", 15) is not None and node.broker.partition("t", 2) is None
    assert node.produce(batch("a"), index=15).count == 0, "it is taken, and waits for its sync"


def test_it_says_of_which_topics_something_is_left_to_do(node: Node) -> None:
    node.broker.note(created(node, "t"))
    steps(node, MANY - 1)
    assert node.broker.reconciler.awaits("t") and not node.broker.reconciler.awaits("u")
    steps(node)
    assert not node.broker.reconciler.awaits("t")


def test_one_step_makes_one_partition(node: Node) -> None:
    node.broker.note(created(node, "t"))
    for count in range(MANY):
        assert len(list(node.broker.partitions())) == count and node.broker.reconciler
        steps(node)
    assert not node.broker.reconciler


def test_other_leaders_come_before_partitions_that_are_to_be_made(node: Node) -> None:
    node.broker.apply(created(node, "old", 1), node.now)
    node.broker.note(created(node, "new"))
    node.broker.note(led(node, "old", 2, 0))
    steps(node)
    partition = node.broker.partition("old", 0)
    assert partition is not None and not partition.is_leader and "new" not in node.broker.topics


def test_what_changes_twice_is_carried_out_once_as_it_is_now(node: Node) -> None:
    node.broker.apply(created(node, "t", 1), node.now)
    node.broker.note(led(node, "t", 2, 0))
    node.broker.note(led(node, "t", 1, 0))
    steps(node)
    partition = node.broker.partition("t", 0)
    assert partition is not None and partition.is_leader and partition.leader_epoch == 2
    assert not node.broker.reconciler


def test_a_deleted_topic_takes_nothing_from_the_moment_it_is_known(node: Node) -> None:
    """Else a record for the next topic of its name would be acknowledged by the earlier one, and lost."""
    node.broker.apply(created(node, "t"), node.now)
    partition = node.broker.partition("t", 3)
    assert partition is not None
    node.broker.note(deleted(node, "t"))
    node.broker.note(created(node, "t"))
    assert node.broker.reconciler and not partition.is_leader and partition.gone
    assert node.produce(batch("a"), index=3).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    steps(node)  # the earlier log has to go first, and goes with the partition that somebody asked for
    while node.broker.reconciler:
        steps(node)
    again = node.broker.partition("t", 3)
    assert again is not None and again is not partition and again.topic_id == node.topic_id("t")
    assert again.log.log_end_offset == 0


def test_a_topic_that_is_gone_before_it_was_made_leaves_nothing(node: Node) -> None:
    node.broker.note(created(node, "t"))
    steps(node, 3)
    node.broker.note(deleted(node, "t"))
    while node.broker.reconciler:
        steps(node)
    assert not list(node.broker.partitions())
    assert all(node.logs.get(TopicPartition("t", index)) is None for index in range(MANY))


def test_who_waits_at_a_deleted_partition_is_told_at_once(node: Node) -> None:
    node.broker.apply(created(node, "t"), node.now)
    answer = node.produce(batch("a"), index=19)
    node.write()
    node.broker.note(deleted(node, "t"))
    assert answer.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_this_broker_says_that_it_is_where_it_was_until_all_is_carried_out(node: Node) -> None:
    """Another broker that leaves in order waits for that."""
    broker = node.broker
    node.image.offset = 10
    assert broker.applied_offset == 10
    delta = created(node, "t", 3)
    node.image.offset = 11
    broker.note(delta)
    steps(node, 2)
    node.image.offset = 12
    assert broker.applied_offset == 10
    steps(node)
    assert broker.applied_offset == 12


def test_a_replica_is_proven_once_it_was_in_sync_and_until_then_its_claim_is_not(node: Node) -> None:
    node.create("t")
    assert not node.broker.claims_unproven()
    node.broker.proven.clear()
    node.change("t", isr=(2,), leader=2)
    assert not node.broker.claims_unproven(), "it claims nothing"
    node.change("t", elr=(1,))
    assert node.broker.claims_unproven(), "it may be elected"
    node.change("t", isr=(), elr=(), leader=-1)
    assert node.broker.claims_unproven(), "whoever has most may be elected"
    node.change("t", isr=(1, 2), leader=2)
    node.change("t", isr=(), elr=(1, 2), leader=-1)
    assert not node.broker.claims_unproven(), "what it lacked was fetched before"


def test_settings_reach_every_partition(node: Node) -> None:
    node.broker.apply(created(node, "t"), node.now)
    node.image.configs[2, "t"] = {"max.message.bytes": "5000"}
    delta = ImageDelta(node.image)
    delta.configs.add((2, "t"))
    node.broker.note(delta)
    while node.broker.reconciler:
        steps(node)
    assert {partition.config.max_message_bytes for partition in node.broker.partitions()} == {5000}


def test_many_partitions_are_named_to_their_leader_piece_by_piece(node: Node) -> None:
    node.broker.apply(created(node, "t", 450, leader=2), node.now)
    follower = node.broker.followers.by_leader[NodeId(2)]
    named = []
    for session_id in (7, 7, 7):
        request = follower.next_request(node.now)
        assert isinstance(request, FetchRequest)
        named.append((len(request.topics[0].partitions), request.max_wait_ms > 0))
        follower.received(request, FetchResponse(session_id=session_id), node.now)
    assert named == [(200, False), (200, False), (50, True)]


def test_a_leader_without_room_for_a_session_is_named_everything(node: Node) -> None:
    node.broker.apply(created(node, "t", 450, leader=2), node.now)
    follower = node.broker.followers.by_leader[NodeId(2)]
    request = follower.next_request(node.now)
    assert isinstance(request, FetchRequest)
    follower.received(request, FetchResponse(session_id=0), node.now)
    request = follower.next_request(node.now)
    assert isinstance(request, FetchRequest)
    assert len(request.topics[0].partitions) == 450 and request.max_wait_ms > 0
