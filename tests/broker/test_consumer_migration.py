"""A group with members changes its protocol, from classic to KIP-848 and back, as Apache Kafka 4.4.0 does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.broker.consumer_mixed_walk import MixedWalk, subscription
from tests.broker.consumer_walk import TOPICS
from tests.broker.consumer_world import ConsumerWorld

from barnabas.broker.groups.consumer.migration import assignment_bytes
from barnabas.broker.groups.group import GroupState
from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.model import Uuid
from barnabas.wire.codec.message import decode
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolAssignment
from barnabas.wire.schemas.group_records import ClassicMemberMetadata, ClassicProtocol
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

ALL = {"flights": [0, 1, 2, 3]}


def test_seven_hundred_requests_to_groups_of_both_protocols_are_answered_as_by_apache_kafka() -> None:
    recorded = json.loads((Path(__file__).parent / "consumer_mixed_walk_answers.json").read_text())
    ids = {name: Uuid.parse(text) for name, text in recorded["topics"].items()}
    ours = MixedWalk(ids).run(ConsumerWorld(TOPICS, ids=ids).ask)
    for step, (theirs, given) in enumerate(zip(recorded["answers"], ours, strict=True)):
        assert given == theirs, f"step {step}"


class MixedWorld(ConsumerWorld):
    """Classic members by name; their assignor is eager: they own nothing when they join."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.classic: dict[str, tuple[str, int]] = {}

    def classic_join(
        self, name: str, *, version: int = 1, group: str = "g", instance: str | None = None
    ) -> Any:
        """JoinGroup, with the id that the member has, or with the one that it is given first."""
        id_, _ = self.classic.get(name, ("", -1))
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(["flights"], {}, version))
        request = JoinGroupRequest(
            group_id=group,
            member_id=id_,
            group_instance_id=instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = self.ask(request, 9)
        if not isinstance(answer, Waiting):
            self.classic[name] = (answer.member_id, answer.generation_id)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                return self.classic_join(name, version=version)
        return answer

    def classic_sync(self, name: str, **assignments: dict[str, list[int]]) -> Any:
        """SyncGroup; a leader gives everybody's assignments."""
        given = [
            SyncGroupRequestAssignment(member_id=self.classic[member][0], assignment=self.assignment(owned))
            for member, owned in assignments.items()
        ]
        id_, generation = self.classic[name]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=id_,
            protocol_type="consumer",
            protocol_name="range",
            assignments=given,
        )
        answer = self.ask(request, 5)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        told = decode(ConsumerProtocolAssignment, bytes(answer.assignment), 1, 2)[0]
        return {one.topic: sorted(one.partitions) for one in told.assigned_partitions}

    def classic_beat(self, name: str) -> ErrorCode:
        id_, generation = self.classic[name]
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=id_)
        return ErrorCode(self.ask(request, 4).error_code)

    def assignment(self, owned: dict[str, list[int]]) -> bytes:
        metadata = ClassicMemberMetadata(
            supported_protocols=[ClassicProtocol(name="range", metadata=subscription([], {}, 1))]
        )
        partitions = {self.topics[name].id: indexes for name, indexes in owned.items()}
        return assignment_bytes(partitions, metadata, self.broker.image)


@pytest.fixture
def world() -> MixedWorld:
    """A classic group, `old` reads everything."""
    world = MixedWorld()
    world.classic_join("old")
    assert world.classic_sync("old", old=ALL) == ALL
    return world


def test_a_classic_group_goes_on_with_a_member_of_the_new_protocol(world: MixedWorld) -> None:
    assert world.join("new") == {}
    assert world.groups.groups == {}
    assert world.epochs["new"] == 2, "the generation was 1"
    old = world.group().members[world.classic["old"][0]]
    assert old.classic is not None
    assert world.told_partitions(old.assigned) == ALL, "it keeps what it reads until it joins again"
    assert world.classic_beat("old") == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.classic_join("old").generation_id == 2
    kept = world.classic_sync("old")
    assert len(kept["flights"]) == 2
    world.follow("new")
    assert sorted(kept["flights"] + world.owned["new"]["flights"]) == [0, 1, 2, 3]
    assert world.classic_beat("old") == ErrorCode.NONE


def test_a_classic_member_that_joins_has_a_new_pattern_looked_up() -> None:
    """As every heartbeat would, but the group's last look-up is not ten seconds old when the pattern changes."""
    world = MixedWorld()
    for regex in ("fl.*", "pl.*"):
        world.beat("new", "", subscribed_topic_names=None, subscribed_topic_regex=regex)
        world.run(0.1)
    assert not world.group().patterns
    world.classic_join("old")
    world.run(0.1)
    assert list(world.group().patterns) == ["pl.*"]


def test_it_is_a_classic_group_again_when_the_last_new_member_leaves(world: MixedWorld) -> None:
    world.join("new")
    world.classic_join("old")
    world.classic_sync("old")
    world.follow("new")
    world.beat("new", epoch=-1)
    assert not world.groups.consumer_groups
    classic = world.groups.groups["g"]
    assert (classic.state, classic.generation) == (GroupState.PREPARING, 2)
    assert world.classic_beat("old") == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.classic_join("old").generation_id == 3
    assert world.classic_sync("old", old=ALL) == ALL
    other = world.reloaded()
    assert not other.groups.consumer_groups
    assert other.groups.groups["g"].generation == 3


def test_another_coordinator_goes_on_with_the_rebalance_of_a_group_that_is_classic_again(
    world: MixedWorld,
) -> None:
    """Else no member knew that it leads, and nobody looked for new partitions."""
    world.join("new")
    world.classic_join("old")
    world.classic_sync("old")
    world.follow("new")
    world.beat("new", epoch=-1)
    other = world.reloaded()
    assert other.groups.groups["g"].state is GroupState.PREPARING
    other.run(61)
    assert not other.groups.groups["g"].members, "who does not join again is out"


def test_a_classic_member_in_the_place_of_the_last_new_one_leaves_the_generation_as_it_was() -> None:
    """The others know no other (recorded from Apache Kafka 4.3.1)."""
    world = MixedWorld()
    world.beat("new", "planes", instance="i0")
    world.classic_join("old")
    generation = world.classic["old"][1]
    request = JoinGroupRequest(
        group_id="g",
        group_instance_id="i0",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["flights"], {}, 1))],
    )
    world.ask(request, 9)
    assert not world.groups.consumer_groups
    assert world.groups.groups["g"].generation == generation
    assert world.classic_sync("old") == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_wait_in_a_rebalance_are_sent_back_to_join(world: MixedWorld) -> None:
    waiting = world.classic_join("second")
    assert isinstance(waiting, Waiting) and not waiting.done
    world.join("new")
    assert waiting.response is not None
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(world.group().members) == 3


def test_a_new_member_in_the_place_of_a_classic_one_before_the_first_rebalance_ended_is_in_epoch_1() -> None:
    """Epoch 0 is what a member says that joins, and owns nothing: it could never say what it owns."""
    world = MixedWorld(group_initial_rebalance_delay_ms="3000")
    assert isinstance(world.classic_join("old", instance="static"), Waiting)
    joined = world.beat("new", "flights", instance="static")
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 1)
    assert world.beat("new", owns=world.owned["new"]).error_code == ErrorCode.NONE


def test_a_classic_member_that_is_silent_or_does_not_come_again_is_out(world: MixedWorld) -> None:
    world.join("new")
    for _ in range(3):
        world.run(5)
        world.beat("new", owns=world.owned["new"])
    assert list(world.group().members) == ["new"], "its session of 10 s is over"
    world = MixedWorld()
    world.classic_join("old")
    world.classic_sync("old", old=ALL)
    world.join("new")
    for _ in range(12):
        assert world.classic_beat("old") == ErrorCode.REBALANCE_IN_PROGRESS
        world.run(5)
        world.beat("new", owns=world.owned["new"])
    assert list(world.group().members) == ["new"], "it did not join again within its rebalance timeout"
    world.follow("new")
    assert world.owned["new"] == ALL


def test_at_a_new_coordinator_a_classic_member_has_the_session_of_the_group_until_it_is_heard(
    world: MixedWorld,
) -> None:
    """As Apache Kafka 4.3.1 does, which was seen to: only the member itself says how long its own session is."""

    def left_after(other: MixedWorld, seconds: int) -> bool:
        for _ in range(seconds):
            other.run(1)
            other.beat("new", owns=other.owned["new"])
        return list(other.group().members) == ["new"]

    world.join("new")
    other = world.reloaded()
    assert not left_after(other, 44)
    assert left_after(other, 2), "45 s are over, the default of a group"


def test_an_upgrade_that_cannot_be_written_changes_nothing(world: MixedWorld) -> None:
    world.broker.failure = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.beat("new", "flights").error_code == ErrorCode.NOT_COORDINATOR
    world.broker.failure = None
    assert world.groups.groups["g"].state is GroupState.STABLE
    assert world.classic_beat("old") == ErrorCode.NONE


def test_another_coordinator_reads_an_upgraded_group(world: MixedWorld) -> None:
    world.join("new")
    other = world.reloaded()
    assert other.group().members == world.group().members
    assert not other.groups.groups


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_where_the_policy_keeps_it_a_classic_group_with_members_stays_one(policy: str) -> None:
    world = MixedWorld(group_consumer_migration_policy=policy)
    world.classic_join("old")
    assert world.beat("new", "flights").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert list(world.groups.groups) == ["g"]


def test_where_migration_is_disabled_no_classic_member_comes_into_a_new_group() -> None:
    world = MixedWorld(group_consumer_migration_policy="disabled")
    world.join("new")
    assert world.classic_join("old").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    only_up = MixedWorld(group_consumer_migration_policy="upgrade")
    only_up.join("new")
    assert only_up.classic_join("old").error_code == ErrorCode.NONE
    only_up.beat("new", epoch=-1)
    assert list(only_up.groups.consumer_groups) == ["g"], "it does not go back"


def test_a_group_of_another_kind_of_members_stays_classic() -> None:
    world = MixedWorld()
    world.classic_join("old")
    world.groups.groups["g"].protocol_type = "connect"
    assert world.beat("new", "flights").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_leaves_a_group_of_both(world: MixedWorld) -> None:
    world.join("new")
    identity = MemberIdentity(member_id=world.classic["old"][0])
    left = world.ask(LeaveGroupRequest(group_id="g", members=[identity]), 5)
    assert [left.error_code, left.members[0].error_code] == [0, 0]
    world.follow("new")
    assert world.owned["new"] == ALL
