"""Consumer groups of KIP-848: positions that members commit, and groups of both types by one name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.consumer_world import ConsumerWorld

from barnabas.broker.groups.consumer.checks import stale_commit, txn_commit_refusal
from barnabas.errors import ErrorCode
from barnabas.wire.schemas.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

ALL = {"flights": [0, 1, 2, 3]}


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def commit(world: ConsumerWorld, member: str, epoch: int, partition: int = 0, version: int = 9) -> ErrorCode:
    topic = OffsetCommitRequestTopic(
        name="flights",
        partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=7)],
    )
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=epoch, member_id=member, topics=[topic]
    )
    return ErrorCode(world.ask(request, version).topics[0].partitions[0].error_code)


def test_a_member_commits_with_its_epoch_or_with_one_since_it_has_the_partition(world: ConsumerWorld) -> None:
    world.join("a")
    world.join("b")
    world.follow("a", "b")
    kept = world.owned["a"]["flights"][0]
    got = world.owned["b"]["flights"][0]
    assert world.epochs["a"] == 3
    assert commit(world, "a", 3, kept) == ErrorCode.NONE
    assert commit(world, "a", 2, kept) == ErrorCode.NONE, "it has had this one since epoch 2"
    assert commit(world, "a", 1, kept) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "a", 2, got) == ErrorCode.STALE_MEMBER_EPOCH, "it is not its any more"
    assert commit(world, "b", 2, got) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "a", 4, kept) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "c", 3, kept) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, "", -1, kept) == ErrorCode.UNKNOWN_MEMBER_ID, "no tool, while members read"
    assert commit(world, "a", 3, kept, version=8) == ErrorCode.UNSUPPORTED_VERSION


def test_a_commit_in_a_transaction_names_a_member_of_the_group_or_none(world: ConsumerWorld) -> None:
    world.join("a")
    group = world.group()
    assert txn_commit_refusal(group, "", -1, None) is None, "a producer of an older release"
    assert txn_commit_refusal(group, "a", 2, None) is None
    assert txn_commit_refusal(group, "a", 3, None) == ErrorCode.STALE_MEMBER_EPOCH
    assert txn_commit_refusal(group, "b", 2, None) == ErrorCode.UNKNOWN_MEMBER_ID
    assert stale_commit(group, "a", 1, world.topics["flights"].id, 0), "older than its assignment"


def test_positions_of_topics_that_members_read_are_not_deleted(world: ConsumerWorld) -> None:
    world.join("a")
    assert commit(world, "a", 2) == ErrorCode.NONE
    topic = OffsetDeleteRequestTopic(
        name="flights", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )

    def delete() -> int:
        request = OffsetDeleteRequest(group_id="g", topics=[topic])
        answer: Any = world.groups.delete_offsets(world.context(0), request, world.now)
        return int(answer.topics[0].partitions[0].error_code)

    assert delete() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    world.beat("a", epoch=-1)
    assert delete() == ErrorCode.NONE
    assert world.position() == -1


def test_positions_of_an_empty_group_expire_and_the_group_with_them() -> None:
    world = ConsumerWorld(offsets_retention_minutes="10", offsets_retention_check_interval_ms="60000")
    world.join("a")
    assert commit(world, "a", 2) == ErrorCode.NONE
    for _ in range(40):
        world.run(30)
        world.beat("a", owns=ALL)
    assert world.position() == 7, "somebody reads the topic"
    world.beat("a", epoch=-1)
    for _ in range(4):
        world.run(60)
    assert world.position() == -1
    assert not world.groups.consumer_groups
    assert not world.reloaded().groups.consumer_groups


def classic_join(world: ConsumerWorld) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"topics")],
    )
    return world.groups.join(world.context(3), request, world.now)


def test_a_name_is_one_kind_of_group_at_a_time() -> None:
    world = ConsumerWorld(group_consumer_migration_policy="disabled")
    assert commit(world, "", -1) == ErrorCode.NONE  # a classic group that only has positions
    assert world.join("a") == ALL
    assert not world.groups.groups
    assert classic_join(world).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    world.beat("a", epoch=-1)
    assert classic_join(world).error_code == ErrorCode.NONE
    assert not world.groups.consumer_groups
    assert world.beat("a", "flights").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.position() == 7
    assert not world.reloaded().groups.consumer_groups


def test_groups_are_listed_by_type(world: ConsumerWorld) -> None:
    def listed(*types: str) -> list[tuple[str, str, str, str]]:
        request = ListGroupsRequest(types_filter=list(types))
        found = world.groups.list(world.context(5), request, world.now).groups
        return [(one.group_id, one.group_type, one.protocol_type, one.group_state) for one in found]

    world.join("a")
    assert listed() == listed("Consumer") == [("g", "consumer", "consumer", "Stable")]
    assert listed("classic") == []
