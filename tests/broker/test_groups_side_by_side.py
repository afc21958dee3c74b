"""What sequences side by side with Apache Kafka found, in the corners of groups; `make answers` finds the rest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.consumer_world import ConsumerWorld
from tests.broker.test_groups import World

from barnabas.broker.groups.consumer.patterns import check_pattern
from barnabas.errors import ErrorCode as E
from barnabas.errors import KafkaError
from barnabas.model import Uuid
from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatRequest
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(("version", "name"), [(4, ""), (6, ""), (7, None), (9, None)])
def test_who_cannot_join_hears_of_no_protocol(world: World, version: int, name: str | None) -> None:
    refused = [
        world.join(session_ms=1, version=version),
        world.join(version=version),
        world.join("nobody", version=version),
        world.join(protocols=(), version=version),
    ]
    assert [E(one.error_code) for one in refused] == [
        E.INVALID_SESSION_TIMEOUT,
        E.MEMBER_ID_REQUIRED,
        E.UNKNOWN_MEMBER_ID,
        E.INCONSISTENT_GROUP_PROTOCOL,
    ]
    assert [one.protocol_name for one in refused] == [name] * 4


def test_an_id_that_was_given_to_a_dynamic_member_is_for_no_static_one(world: World) -> None:
    answer = world.join(world.new_id(), instance="i")
    assert (answer.error_code, answer.member_id) == (E.UNKNOWN_SERVER_ERROR, "")


def test_a_group_with_nobody_but_given_ids_can_be_deleted(world: World) -> None:
    given = world.new_id()
    answer: Any = world.groups.delete(world.context(2), DeleteGroupsRequest(groups_names=["g"]), world.now)
    assert answer.results[0].error_code == E.NONE
    assert "g" not in world.groups.groups
    assert world.join(given).error_code == E.UNKNOWN_MEMBER_ID


def test_a_group_that_rebalances_is_described_with_the_assignments_that_it_had(world: World) -> None:
    leader, _ = world.stable()
    world.join(leader)
    answer: Any = world.groups.describe(world.context(5), DescribeGroupsRequest(groups=["g"]), world.now)
    described = answer.groups[0]
    assert described.group_state == "PreparingRebalance"
    assert leader.encode() in [one.member_assignment for one in described.members]


def committed(world: World, positions: dict[str, list[int]], member: str, version: int = 9) -> list[E]:
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes
            ],
        )
        for name, indexes in positions.items()
    ]
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=1, member_id=member, topics=topics
    )
    answer: Any = world.groups.commit(world.context(version), request, world.now)
    return [E(one.error_code) for topic in answer.topics for one in topic.partitions]


def test_partitions_that_are_not_there_are_refused_before_the_member_is_looked_at(world: World) -> None:
    world.stable(1)
    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    asked = {"flights": [0, 99], "nowhere": [0]}
    assert committed(world, asked, "nobody") == [E.UNKNOWN_MEMBER_ID, missing, missing]
    assert committed(world, {"nowhere": [0, 1]}, "nobody") == [missing, missing]


def test_positions_in_partitions_that_are_not_there_cannot_be_deleted(world: World) -> None:
    world.commit(5)

    def of(name: str, *indexes: int) -> OffsetDeleteRequestTopic:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        return OffsetDeleteRequestTopic(name=name, partitions=partitions)

    request = OffsetDeleteRequest(group_id="g", topics=[of("flights", 0, 99), of("nowhere", 0)])
    answer: Any = world.groups.delete_offsets(world.context(0), request, world.now)
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    assert codes == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION]


def fetched(world: World, version: int, member: str, topic: dict[str, Any]) -> E:
    wanted = OffsetFetchRequestTopics(partition_indexes=[0], **topic)
    group = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=7, topics=[wanted])
    answer = world.groups.fetch_offsets(world.context(version), OffsetFetchRequest(groups=[group]), world.now)
    return E(answer.groups[0].error_code)


def test_positions_of_a_classic_group_are_for_everybody(world: World) -> None:
    world.stable(1)
    assert fetched(world, 9, "nobody", {"name": "flights"}) is E.NONE


def joined(**how: Any) -> ConsumerGroupHeartbeatRequest:
    fields = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": ["flights"]}
    return ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", **fields, **how})


def test_nobody_asks_who_wants_positions_in_topics_that_are_not_there() -> None:
    world = ConsumerWorld({"flights": 1})
    assert world.ask(joined(), 1).error_code == 0
    assert fetched(world, 9, "nobody", {"name": "flights"}) is E.UNKNOWN_MEMBER_ID
    assert fetched(world, 10, "nobody", {"topic_id": Uuid(b"\x11" * 16)}) is E.NONE


@pytest.mark.parametrize("blank", ["", " ", "\0", "\t\x1f"])
def test_names_of_blanks_as_java_has_them_are_no_names(blank: str) -> None:
    world = ConsumerWorld({"flights": 1})
    assert world.ask(joined(group_id=blank), 1).error_code == E.INVALID_REQUEST
    assert world.ask(joined(member_id="\u2003"), 1).error_code == E.NONE


def test_a_single_byte_is_no_pattern() -> None:
    check_pattern(r"\\C")
    for regex in (r"\C", r"\\\C+"):
        with pytest.raises(KafkaError):
            check_pattern(regex)
