"""Consumer groups of KIP-848: what is written before anybody hears, and what another coordinator reads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.consumer_world import ConsumerWorld

from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
)

ALL = {"flights": [0, 1, 2, 3]}


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def test_nobody_hears_of_what_is_not_committed(world: ConsumerWorld) -> None:
    world.broker.hold = True
    first: Any = world.beat("a", "flights")
    second: Any = world.beat("a", "flights")  # asked again, nothing new is written
    assert isinstance(first, Waiting) and isinstance(second, Waiting)
    assert not first.done and not second.done
    world.broker.release()
    assert first.response.member_epoch == second.response.member_epoch == 2


def test_a_write_that_fails_later_is_told_and_one_that_is_refused_changes_nothing(
    world: ConsumerWorld,
) -> None:
    world.join("a")
    world.broker.failure = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.beat("b", "flights").error_code == ErrorCode.NOT_COORDINATOR
    assert list(world.group().members) == ["a"]
    assert world.beat("a", epoch=-1).error_code == ErrorCode.NOT_COORDINATOR
    world.broker.failure = None
    assert world.beat("a", epoch=2, owns=ALL).error_code == ErrorCode.NONE
    world.broker.hold = True
    waiting: Any = world.beat("b", "flights")
    world.broker.release(ErrorCode.REQUEST_TIMED_OUT)
    assert waiting.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_takes_too_long_is_not_told_before_it_is_committed(world: ConsumerWorld) -> None:
    world.broker.hold = True
    first: Any = world.beat("a", "flights")
    world.partition.uncommitted = 1
    world.broker.release(ErrorCode.REQUEST_TIMED_OUT)
    assert first.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting: list[Any] = []
    world.partition.await_acknowledgement = waiting.append
    second: Any = world.beat("a", "flights")
    assert isinstance(second, Waiting) and not second.done and len(waiting) == 1
    waiting[0].settle(ErrorCode.NONE)
    assert second.response.member_epoch == 2
    assert world.beat("a", "flights").member_epoch == 2, "it is committed, and that is remembered"


def test_a_new_coordinator_tells_nothing_that_is_not_committed_yet(world: ConsumerWorld) -> None:
    world.join("a")
    world.partition.uncommitted = 1
    waiting: list[Any] = []
    world.partition.await_acknowledgement = waiting.append
    world.groups._leadership(world.partition, False, 1)
    world.groups._leadership(world.partition, True, 2)
    world.run()
    answer: Any = world.beat("a", owns=ALL, epoch=2)
    assert isinstance(answer, Waiting) and not answer.done
    waiting[0].settle(ErrorCode.NONE)
    assert answer.response.member_epoch == 2


def test_what_found_no_room_on_the_disk_did_not_happen(world: ConsumerWorld) -> None:
    world.join("a")
    before, end = bytes(world.partition.raw), world.partition.log.log_end_offset
    world.broker.hold = True
    waiting: Any = world.beat("b", "flights")
    world.partition.raw[:], world.partition.log.log_end_offset = before, end
    world.broker.release(ErrorCode.KAFKA_STORAGE_ERROR)
    assert waiting.response.error_code == ErrorCode.NOT_COORDINATOR
    world.broker.hold = False
    world.run()
    assert list(world.group().members) == ["a"]
    assert world.beat("b", owns={}, epoch=3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_whose_end_cannot_be_written_ends_a_moment_later(world: ConsumerWorld) -> None:
    world.join("a")
    world.broker.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    world.run(46)
    assert list(world.group().members) == ["a"]
    world.broker.failure = None
    world.run(2)
    assert not world.group().members


def test_another_coordinator_goes_on_from_what_was_written() -> None:
    world = ConsumerWorld({"flights": 4, "planes": 2})
    world.join("a", "flights", instance="north", server_assignor="range")
    world.join("b", "flights", "planes")
    world.beat("a", owns=ALL, instance="north")
    other = world.reloaded()
    before, after = world.group(), other.group()
    for name in ("epoch", "assignment_epoch", "members", "target", "owners", "static", "metadata_hash"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.partition_epochs == before.partition_epochs
    for _ in range(3):
        other.beat("a", owns=other.owned["a"], instance="north")
        other.beat("b", owns=other.owned["b"])
    assert other.group().epoch == before.epoch, "it did not rebalance"
    assert all(len(who) == 1 for who in other.owners().values())
    other.run(46)
    assert not other.group().members, "their sessions began when the group was loaded"


def test_a_deleted_group_stays_deleted(world: ConsumerWorld) -> None:
    def delete() -> int:
        answer: Any = world.groups.delete(
            world.context(2), DeleteGroupsRequest(groups_names=["g"]), world.now
        )
        return int(answer.results[0].error_code)

    world.join("a")
    assert delete() == ErrorCode.NON_EMPTY_GROUP
    world.beat("a", epoch=-1)
    assert delete() == ErrorCode.NONE
    assert not world.groups.consumer_groups
    assert not world.reloaded().groups.consumer_groups
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
