"""Consumer groups of KIP-848: who owns what when, static members, and who is fenced."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.consumer_world import ConsumerWorld

from barnabas.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from barnabas.broker.groups.consumer.member import MemberState
from barnabas.errors import ErrorCode
from barnabas.model import Uuid

ALL = {"flights": [0, 1, 2, 3]}


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


# -- who owns what ------------------------------------------------------------------------------------


def test_who_is_alone_gets_everything_at_once(world: ConsumerWorld) -> None:
    assert world.join("a") == ALL
    assert world.epochs["a"] == 2
    assert world.group().state is ConsumerGroupState.STABLE


def test_a_newcomer_gets_a_partition_only_when_its_owner_says_that_it_gave_it_up(
    world: ConsumerWorld,
) -> None:
    world.join("a")
    assert world.join("b") == {}
    assert world.group().members["b"].state is MemberState.UNRELEASED_PARTITIONS
    told = world.beat("a", owns=ALL)  # it hears that two are to go, and still owns them
    assert len(world.told(told)["flights"]) == 2
    assert world.epochs["a"] == 2, "who has to give up something stays in its epoch"
    assert world.beat("b", owns={}).assignment is None
    world.beat("a", owns=world.owned["a"])
    assert world.epochs["a"] == 3
    assert len(world.told(world.beat("b", owns={}))["flights"]) == 2
    assert sorted(world.owners()) == [0, 1, 2, 3]
    assert all(len(who) == 1 for who in world.owners().values())
    assert world.group().state is ConsumerGroupState.STABLE


def test_a_member_that_does_not_say_what_it_owns_may_own_everything(world: ConsumerWorld) -> None:
    world.join("a")
    world.join("b")
    world.beat("a", owns=ALL)
    world.beat("a")
    assert world.group().members["a"].state is MemberState.UNREVOKED_PARTITIONS


def test_who_leaves_makes_room_at_once(world: ConsumerWorld) -> None:
    world.join("a")
    world.join("b")
    world.follow("a", "b")
    answer = world.beat("a", epoch=-1)
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, -1, None)
    world.follow("b")
    assert world.owned["b"] == ALL


def test_who_is_silent_for_the_session_timeout_is_out(world: ConsumerWorld) -> None:
    world.join("a")
    world.join("b")
    world.follow("a", "b")
    for _ in range(5):
        world.run(10)
        world.beat("b", owns=world.owned["b"])
    world.follow("b")
    assert world.owned["b"] == ALL
    assert world.beat("a", owns=ALL).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_keeps_what_it_shall_give_up_for_its_rebalance_timeout_is_out() -> None:
    world = ConsumerWorld()
    world.join("a", rebalance_timeout_ms=20_000)
    world.join("b")
    for _ in range(3):
        world.beat("a", owns=ALL)
        world.run(9)
    assert world.beat("a", owns=ALL).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.follow("b")
    assert world.owned["b"] == ALL


def test_a_topic_that_grows_is_shared_out_anew(world: ConsumerWorld) -> None:
    world.join("a")
    flights = world.topics["flights"]
    flights.partitions[4] = None  # type: ignore[assignment]
    delta: Any = type("Delta", (), {})()
    delta.image, delta.topics_created, delta.topics_deleted = world.broker.image, {}, {}
    delta.partitions = {flights.id: {4: None}}
    assert world.beat("a", owns=ALL).assignment is None, "nobody has told the group yet"
    world.groups.metadata_changed(delta, world.now)
    assert world.told(world.beat("a", owns=ALL)) == {"flights": [0, 1, 2, 3, 4]}


def test_a_topic_that_is_deleted_is_given_up(world: ConsumerWorld) -> None:
    world.join("a")
    gone = world.topics.pop("flights")
    del world.broker.image.topics[gone.id]
    delta: Any = type("Delta", (), {})()
    delta.image, delta.topics_created, delta.partitions = world.broker.image, {}, {}
    delta.topics_deleted = {gone.id: gone}
    world.groups.metadata_changed(delta, world.now)
    answer = world.beat("a", owns=ALL)
    assert answer.assignment is not None and answer.assignment.topic_partitions == []


def test_a_topic_may_come_after_those_who_subscribe_to_it() -> None:
    world = ConsumerWorld({})
    assert world.join("a") == {}
    flights = ConsumerWorld().topics["flights"]
    world.topics["flights"] = world.broker.image.topics_by_name["flights"] = flights
    world.broker.image.topics[flights.id] = flights
    delta: Any = type("Delta", (), {})()
    delta.image, delta.topics_deleted, delta.partitions = world.broker.image, {}, {}
    delta.topics_created = {flights.id: flights}
    world.groups.metadata_changed(delta, world.now)
    world.beat("a", owns={})
    assert world.owned["a"] == ALL


def test_assignments_are_at_least_an_interval_apart() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms="1000")
    world.join("a")
    assert world.join("b") == {}
    world.beat("a", owns=ALL)
    assert world.owned["a"] == ALL
    world.run(1)
    world.follow("a", "b")
    assert all(len(who) == 1 for who in world.owners().values())
    assert world.owned["b"]


# -- static members -----------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_finds_its_partitions(world: ConsumerWorld) -> None:
    world.join("a", instance="north")
    world.join("b")
    for _ in range(3):
        world.beat("a", owns=world.owned["a"], instance="north")
        world.beat("b", owns=world.owned["b"])
    had = world.owned.pop("a")
    epoch = world.group().epoch
    assert world.beat("a", epoch=-2, instance="north").member_epoch == -2
    assert world.beat("b", owns=world.owned["b"]).assignment is None, "nobody else gets them meanwhile"
    assert world.join("a2", instance="north") == had
    assert world.group().epoch == epoch, "the group did not rebalance"
    assert world.beat("a", epoch=2, instance="north").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_the_session_of_the_name_that_a_static_member_had_before_ends_in_silence(
    world: ConsumerWorld,
) -> None:
    """It ended again and again in one turn: the broker never answered anybody again."""
    world.join("a", instance="north")
    world.beat("a", epoch=-2, instance="north")
    world.join("a2", instance="north")
    world.run(44)
    world.beat("a2", instance="north")
    world.run(2)
    assert list(world.group().members) == ["a2"]


def test_nobody_takes_the_name_of_a_static_member_that_has_not_left(world: ConsumerWorld) -> None:
    world.join("a", instance="north")
    assert world.beat("b", "flights", instance="north").error_code == ErrorCode.UNRELEASED_INSTANCE_ID


@pytest.mark.parametrize("leaves", [True, False])
def test_an_instance_id_that_a_member_gave_up_is_free(world: ConsumerWorld, leaves: bool) -> None:
    """As at Apache Kafka 4.4; the releases before kept it for the member."""
    world.join("a", instance="north")
    world.join("a", instance="south")
    if leaves:
        world.beat("a", epoch=-1, instance="south")
    answer = world.beat("b", "flights", instance="north")
    assert (answer.error_code, list(world.group().members)) == (0, ["b"] if leaves else ["a", "b"])


def test_a_group_whose_last_member_left_has_the_target_of_its_epoch(world: ConsumerWorld) -> None:
    """As at Apache Kafka 4.4: there is nothing to compute."""
    world.join("a")
    world.beat("a", epoch=-1)
    group = world.group()
    assert not group.members and group.assignment_epoch == group.epoch


def test_the_group_assigns_anew_when_most_members_name_another_assignor(world: ConsumerWorld) -> None:
    """As at Apache Kafka 4.4: no member has to change what it subscribes to."""
    world.join("a")
    epoch = world.group().epoch
    world.beat("a", server_assignor="uniform")
    assert world.group().epoch == epoch, "that one it was by default"
    world.beat("a", server_assignor="range")
    assert world.group().epoch == epoch + 1


def test_in_a_tie_the_group_assigns_by_the_assignor_of_the_member_that_asks(world: ConsumerWorld) -> None:
    """As at Apache Kafka 4.4: `uniform` comes before `range`, but for a member that alone names `range`."""
    world.join("a", server_assignor="range")
    world.join("b", server_assignor="uniform")
    epoch = world.group().epoch
    world.beat("b")
    assert world.group().epoch == epoch
    world.beat("a")
    assert world.group().epoch == epoch + 1


def test_an_assignor_counts_no_more_once_its_member_has_left(world: ConsumerWorld) -> None:
    world.join("a", server_assignor="range")
    world.join("b")
    assert world.group().assignors == {"range": 1}
    world.beat("a", epoch=-1)
    assert not world.group().assignors


def test_a_group_may_have_a_session_and_an_interval_of_its_own(world: ConsumerWorld) -> None:
    world.set_on["g"] = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": " 7000 "}
    assert world.beat("a", "flights").heartbeat_interval_ms == 7000
    assert world.beat("b", "flights", group="other").heartbeat_interval_ms == 5000
    world.run(50)
    assert list(world.group().members) == ["a"]
    assert not world.group("other").members
    world.run(11)
    assert not world.group().members


def test_an_interval_of_assignments_of_a_group_counts_for_that_group_only(world: ConsumerWorld) -> None:
    world.set_on["g"] = {"consumer.assignment.interval.ms": "2000"}
    assert world.join("a") == ALL
    assert world.join("b") == {}
    world.follow("a", "b")
    assert world.owned["b"] == {}, "it has not been computed anew"
    world.run(2)
    world.follow("a", "b")
    assert len(world.owned["b"]["flights"]) == 2


def test_a_static_member_that_stays_away_is_out_after_its_session(world: ConsumerWorld) -> None:
    world.join("a", instance="north")
    world.beat("a", epoch=-2, instance="north")
    world.run(46)
    assert world.join("b") == ALL


# -- fencing ------------------------------------------------------------------------------------------


def test_a_lost_answer_costs_nothing(world: ConsumerWorld) -> None:
    world.join("a")
    world.join("b")
    world.beat("a", owns=ALL)
    world.beat("a", owns=world.owned["a"])
    assert world.epochs["a"] == 3
    again = world.beat("a", epoch=2, owns=world.owned["a"])  # the answer with epoch 3 did not arrive
    assert (again.error_code, again.member_epoch) == (0, 3)
    assert world.beat("a", epoch=2, owns=ALL).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "more than it has"


@pytest.mark.parametrize("epoch", [1, 3, 99])
def test_who_comes_with_another_epoch_gives_up_everything_and_joins_anew(epoch: int) -> None:
    world = ConsumerWorld()
    world.join("a")
    assert world.beat("a", epoch=epoch, owns=ALL).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.join("a") == ALL


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    world = ConsumerWorld(group_consumer_max_size="1")
    world.join("a")
    assert world.beat("b", "flights").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("a") == ALL


def test_where_group_version_is_0_the_protocol_is_refused(world: ConsumerWorld) -> None:
    world.broker.image.feature = lambda name: 0
    assert world.beat("a", "flights").error_code == ErrorCode.UNSUPPORTED_VERSION
    refusing = ConsumerWorld(group_coordinator_rebalance_protocols="classic")
    assert refusing.beat("a", "flights").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_names_that_no_record_can_hold_are_refused(world: ConsumerWorld) -> None:
    assert world.beat("a" * 40_000, "flights").error_code == ErrorCode.INVALID_REQUEST


def test_a_member_whose_client_makes_no_id_is_given_one(world: ConsumerWorld) -> None:
    from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatRequest

    request = ConsumerGroupHeartbeatRequest(
        group_id="g", rebalance_timeout_ms=1, subscribed_topic_names=["flights"], topic_partitions=[]
    )
    answer = world.ask(request, 0)
    assert Uuid.parse(answer.member_id)
    assert world.ask(request, 1).error_code == ErrorCode.INVALID_REQUEST


def test_a_heartbeat_that_changes_nothing_looks_at_no_other_member(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.join("a")
    monkeypatch.setattr(ConsumerGroup, "members_with", None)
    assert world.beat("a", owns=ALL).error_code == ErrorCode.NONE
