"""Consumer groups of KIP-848: who owns what when, who is fenced, and what is written before anybody hears."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.consumer_world import ConsumerWorld

from barnabas.broker.groups.consumer.checks import stale_commit, txn_commit_refusal
from barnabas.broker.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from barnabas.broker.groups.consumer.member import MemberState
from barnabas.broker.groups.consumer.patterns import compiled_pattern
from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
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


def owners(world: ConsumerWorld) -> dict[int, list[str]]:
    """Which members own each partition of flights, by what they were told."""
    found: dict[int, list[str]] = {}
    for member, owned in world.owned.items():
        for index in owned.get("flights", []):
            found.setdefault(index, []).append(member)
    return found


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
    assert sorted(owners(world)) == [0, 1, 2, 3]
    assert all(len(who) == 1 for who in owners(world).values())
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
    assert all(len(who) == 1 for who in owners(world).values())
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


def test_an_instance_id_that_a_member_gave_up_is_free_when_it_leaves(world: ConsumerWorld) -> None:
    """Apache Kafka 4.3.1 answers UNKNOWN_MEMBER_ID to all who come with it."""
    world.join("a", instance="north")
    world.join("a", instance="south")
    world.beat("a", epoch=-1, instance="south")
    assert world.join("b", instance="north") == ALL


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


# -- what is written ----------------------------------------------------------------------------------


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
    assert all(len(who) == 1 for who in owners(other).values())
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


# -- patterns -----------------------------------------------------------------------------------------


def test_a_pattern_matches_whole_names_and_is_looked_up_beside_the_heartbeat() -> None:
    world = ConsumerWorld({"flights": 2, "flights-old": 1, "planes": 1})
    assert world.join("a", "", subscribed_topic_names=None, subscribed_topic_regex="fli.+s|planes") == {}
    world.run(0.1)
    world.beat("a", owns={})
    assert world.owned["a"] == {"flights": [0, 1], "planes": [0]}
    assert world.reloaded().group().patterns == world.group().patterns


def test_a_pattern_that_is_hard_to_match_is_compared_in_slices() -> None:
    """The broker does other things between them: such a pattern takes milliseconds for each name of a topic."""
    world = ConsumerWorld({f"t{number}": 1 for number in range(200)})
    world.beat("a", "", subscribed_topic_names=None, subscribed_topic_regex="(.{0,30}){0,30}1")
    steps = 0
    while not world.group().patterns:
        world.now = world.now._replace(mono=world.now.mono + 0.01)
        world.groups.tick(world.now)
        steps += 1
    assert steps >= 3


def test_groups_in_a_pattern_are_not_remembered() -> None:
    """A pattern of 1,500 groups took 30 ms for a name, and a few hundred names the broker's session."""
    assert compiled_pattern("(" * 1500 + "f" + ")" * 1500).groups == 0


def test_what_is_no_pattern_is_refused(world: ConsumerWorld) -> None:
    for regex in ("(", "[a", "(?<x", "\\", "a{2,1}", "(?=a)", "x" * 5000):
        answer = world.beat("a", "", subscribed_topic_names=None, subscribed_topic_regex=regex)
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION, regex
    assert not world.groups.consumer_groups


def test_a_pattern_goes_with_its_last_subscriber() -> None:
    world = ConsumerWorld()
    for member in ("a", "b"):
        world.beat(member, "", subscribed_topic_names=None, subscribed_topic_regex="fl.*")
    world.run(0.1)
    assert list(world.group().patterns) == ["fl.*"]
    world.beat("a", epoch=-1)
    assert list(world.group().patterns) == ["fl.*"]
    world.beat("b", epoch=-1)
    assert not world.group().patterns


def test_a_clock_that_is_set_back_keeps_no_group_from_its_topics_and_assignments() -> None:
    world = ConsumerWorld({"flights": 2}, group_consumer_assignment_interval_ms="1000")
    world.join("a", "", subscribed_topic_names=None, subscribed_topic_regex="flights|planes")
    world.run(2)
    world.beat("a", owns={})
    world.run(2)
    world.now = world.now._replace(wall_ms=world.now.wall_ms - 3_600_000)
    world.beat("b", "", subscribed_topic_names=None, subscribed_topic_regex="planes|flights")
    world.run(2)
    world.follow("a", "b")
    assert sorted(len(owned["flights"]) for owned in world.owned.values()) == [1, 1]


# -- offsets and classic members ----------------------------------------------------------------------


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
    assert txn_commit_refusal(group, "a", 3, None) == ErrorCode.ILLEGAL_GENERATION
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
