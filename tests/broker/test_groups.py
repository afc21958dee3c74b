"""Classic consumer groups: rebalances, static members, positions, loading, and what is written when."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.internal_partition import InternalPartition

from barnabas.broker.groups.coordinator import Groups
from barnabas.broker.groups.group import GroupState
from barnabas.broker.groups.placement import NO_PARTITION
from barnabas.broker.purgatory import Waiting
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, Now, Uuid
from barnabas.wire.java_hash import java_hash
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

TOPIC_ID = Uuid(b"t" * 16)


class Chance:
    """Uuids that count."""

    def __init__(self) -> None:
        self.number = 0

    def uuid(self) -> Uuid:
        self.number += 1
        return Uuid(self.number.to_bytes(16, "big"))


class OffsetsPartition(InternalPartition):
    """__consumer_offsets-0 in memory: what was appended, and when it counts as safe."""

    topic = OFFSETS_TOPIC


class OneBroker:
    """What groups need of a broker: an image with one topic, and a log whose writes the test may hold back."""

    clock_agrees = True

    def __init__(self, partition: OffsetsPartition) -> None:
        topics = {
            OFFSETS_TOPIC: SimpleNamespace(name=OFFSETS_TOPIC, id=Uuid(b"o" * 16), partitions={0: None}),
            "flights": SimpleNamespace(name="flights", id=TOPIC_ID, partitions={0: None, 1: None}),
        }
        self.authorizer = None
        self.may_see = lambda context, topic: True
        self.image = SimpleNamespace(
            group_config=lambda group: {},
            topics_by_name=topics,
            topics={topic.id: topic for topic in topics.values()},
            offset=0,
            brokers={},
        )
        self.partition = partition
        self.purgatory = None
        self.left: set[str] = set()
        """Topics of which the broker still has to carry out what the metadata say."""
        self.reconciler = SimpleNamespace(awaits=lambda topic: topic in self.left)
        self.hold = False
        self.held: list[Callable[[ErrorCode], None]] = []
        self.failure: ErrorCode | None = None

    def on_leadership(self, callback: Callable[..., None]) -> None:
        self.lead = callback

    def append_internal(
        self,
        partition: Any,
        batch: bytearray,
        now: Now,
        on_done: Any,
        *,
        timeout_s: float,
        guard: Any = None,
    ) -> int:
        if self.failure is not None:
            on_done(self.failure)
            return -1
        partition.append(batch)
        if self.hold:
            self.held.append(on_done)
        else:
            on_done(ErrorCode.NONE)
        return 0

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        for done in self.held:
            done(error)
        self.held.clear()


class World:
    """A coordinator, a clock, and short words for what clients do."""

    def __init__(self, partition: OffsetsPartition | None = None, **settings: str) -> None:
        self.partition = partition or OffsetsPartition()
        self.broker = OneBroker(self.partition)
        given = {"group.initial.rebalance.delay.ms": "0"}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        self.groups = Groups(Config.load(given), Chance(), self.broker, append=OneBroker.append_internal)
        self.now = Now(1000.0, 1_700_000_000_000)
        self.broker.lead(self.partition, True, 0)
        self.run()

    def run(self, seconds: float = 0.0) -> None:
        self.now = Now(self.now.mono + seconds, self.now.wall_ms + int(seconds * 1000))
        for _ in range(10):
            self.groups.tick(self.now)

    def context(self, version: int) -> Any:
        return SimpleNamespace(version=version, client_id="client", client_host="10.0.0.1")

    def join(
        self,
        member: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        kind: str = "consumer",
        metadata: bytes = b"topics",
        session_ms: int = 10_000,
        group: str = "g",
    ) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=30_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
        )
        return self.groups.join(self.context(version), request, self.now)

    def new_id(self, **how: Any) -> str:
        answer = self.join(**how)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id

    def sync(self, member: str, generation: int, assignments: dict[str, bytes] | None = None) -> Any:
        given = [
            SyncGroupRequestAssignment(member_id=name, assignment=value)
            for name, value in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id="g", generation_id=generation, member_id=member, assignments=given
        )
        return self.groups.sync(self.context(3), request, self.now)

    def beat(self, member: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member)
        return ErrorCode(self.groups.heartbeat(self.context(4), request, self.now).error_code)

    def commit(self, offset: int, member: str = "", generation: int = -1, **more: Any) -> Any:
        partition = OffsetCommitRequestPartition(
            partition_index=more.get("index", 0),
            committed_offset=offset,
            committed_metadata=more.get("note", ""),
        )
        request = OffsetCommitRequest(
            group_id=more.get("group", "g"),
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[OffsetCommitRequestTopic(name=more.get("topic", "flights"), partitions=[partition])],
        )
        answer = self.groups.commit(self.context(more.get("version", 8)), request, self.now)
        return answer if isinstance(answer, Waiting) else answer.topics[0].partitions[0].error_code

    def position(self, group: str = "g", index: int = 0) -> int:
        wanted = OffsetFetchRequestTopics(name="flights", partition_indexes=[index])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
        answer = self.groups.fetch_offsets(self.context(8), request, self.now)
        return answer.groups[0].topics[0].partitions[0].committed_offset

    def state(self) -> str:
        return self.groups.groups["g"].state.value

    def stable(self, count: int = 2) -> list[str]:
        """A stable group in generation 1 with this many members, the leader first."""
        ids = [self.new_id() for _ in range(count)]
        joins = [self.join(name) for name in ids]
        answers = [join.response if isinstance(join, Waiting) else join for join in joins]
        assert all(answer.error_code == 0 for answer in answers)
        assert answers[0].leader == ids[0]
        syncs = [self.sync(name, 1) for name in ids[1:]]
        led = self.sync(ids[0], 1, {name: name.encode() for name in ids})
        assert [one.response.assignment for one in syncs] == [name.encode() for name in ids[1:]]
        assert led.assignment == ids[0].encode()
        assert self.state() == "Stable"
        return ids


@pytest.fixture
def world() -> World:
    return World()


def test_groups_are_placed_by_javas_hash_of_their_name() -> None:
    assert java_hash("") == 0
    assert java_hash("group") == 98629247
    assert java_hash("polygenelubricants") == 0  # hashes to the smallest int, whose absolute value is no int
    assert java_hash("\u00fc\u20ac\U0001f600") == 17318035
    assert java_hash("consumer-groups-are-fun") == 1226693188


def test_the_topic_alone_says_how_many_partitions_there_are(world: World) -> None:
    topics = world.broker.image.topics_by_name
    for count in (1, 8, 50):
        topics[OFFSETS_TOPIC].partitions = dict.fromkeys(range(count))
        assert world.groups.partition_for("group") == 98629247 % count
    del topics[OFFSETS_TOPIC]
    assert world.groups.partition_for("group") == NO_PARTITION
    assert world.groups.coordinated("group") is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("count", [0, 50])
def test_groups_are_forgotten_with_their_topic(world: World, count: int) -> None:
    """Also where it was made anew before this node let its partitions go, with another count."""
    member = world.stable(1)[0]
    world.commit(5, member, 1)
    assert world.position() == 5
    topics = world.broker.image.topics_by_name
    topics[OFFSETS_TOPIC].partitions = dict.fromkeys(range(count))
    world.broker.lead(world.partition, False, 1)
    assert not world.groups.groups
    assert not world.groups.offsets.committed


def test_a_new_member_is_first_told_its_id(world: World) -> None:
    answer = world.join()
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")


def test_before_version_4_a_member_is_let_in_at_once(world: World) -> None:
    answer = world.join(version=3)
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == 1


def test_the_leader_hears_of_all_members_and_the_others_of_none(world: World) -> None:
    first, second = world.new_id(), world.new_id()
    led, followed = world.join(first), world.join(second)
    assert led.response.generation_id == followed.generation_id == 1
    assert [member.member_id for member in led.response.members] == [first, second]
    assert followed.members == []


def test_a_pending_member_holds_the_rebalance_up_until_it_expires(world: World) -> None:
    first = world.new_id()
    world.new_id()
    parked = world.join(first)
    world.run(9.0)
    assert not parked.done
    world.run(1.5)
    assert parked.response.generation_id == 1


def test_an_empty_group_waits_for_more_members_and_longer_while_they_come() -> None:
    world = World(group_initial_rebalance_delay_ms="3000")
    first = world.join(version=3)
    world.run(2.0)
    second = world.join(version=3)
    world.run(2.0)
    assert not first.done
    world.run(3.5)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2


def test_assignments_are_written_before_anybody_hears_of_them(world: World) -> None:
    member = world.new_id()
    world.join(member)
    world.broker.hold = True
    parked = world.sync(member, 1, {member: b"all"})
    assert not parked.done
    assert world.state() == "CompletingRebalance"
    world.broker.release()
    assert parked.response.assignment == b"all"
    assert world.state() == "Stable"


def test_a_generation_that_cannot_be_written_is_no_generation(world: World) -> None:
    member = world.new_id()
    world.join(member)
    world.broker.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = world.sync(member, 1, {member: b"all"})
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state() == "PreparingRebalance"


def test_a_newcomer_makes_the_others_join_again(world: World) -> None:
    first, second = world.stable()
    third = world.new_id()
    parked = world.join(third)
    assert not parked.done
    assert world.beat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.join(first)
    world.join(second)
    assert parked.response.generation_id == 2


def test_a_member_that_does_not_join_again_is_left_behind(world: World) -> None:
    first, second = world.stable()
    world.join(first)
    for _ in range(4):  # the other one heartbeats, but never joins
        world.run(8.0)
        world.beat(second, 1)
    assert list(world.groups.groups["g"].members) == [first]
    assert world.beat(second, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_whose_session_is_over_is_dropped_and_the_others_rebalance(world: World) -> None:
    first, second = world.stable()
    world.run(6.0)
    assert world.beat(first, 1) == ErrorCode.NONE
    world.run(6.0)
    assert world.beat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in world.groups.groups["g"].members


def test_a_member_that_hands_in_no_sync_is_dropped_after_the_rebalance_timeout(world: World) -> None:
    first, second = world.new_id(), world.new_id()
    world.join(first)
    world.join(second)
    waiting = world.sync(second, 1)
    for _ in range(4):
        world.run(8.0)
    assert first not in world.groups.groups["g"].members
    assert waiting.response.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_leader_may_start_a_rebalance_and_an_unchanged_member_may_not(world: World) -> None:
    first, second = world.stable()
    assert world.join(second).generation_id == 1
    assert world.state() == "Stable"
    world.join(first)
    assert world.state() == "PreparingRebalance"


def test_the_protocol_that_most_prefer_among_those_all_support_is_chosen(world: World) -> None:
    ids = [world.new_id() for _ in range(3)]
    wishes = [("a", "b", "c"), ("b", "c", "a"), ("b", "a", "c")]
    joins = [world.join(name, protocols=wish) for name, wish in zip(ids, wishes, strict=True)]
    assert joins[2].protocol_name == "b"


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"kind": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 5}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 10**9}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_join_that_makes_no_sense_is_refused(world: World, how: dict[str, Any], error: ErrorCode) -> None:
    assert world.join(**how).error_code == error


def test_who_shares_no_protocol_with_the_group_stays_outside(world: World) -> None:
    world.stable()
    assert world.join(protocols=("sticky",)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_nobody_in() -> None:
    world = World(group_max_size="2")
    world.stable(2)
    assert world.join(version=3).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_last_member_leaving_empties_the_group(world: World) -> None:
    (member,) = world.stable(1)
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
    answer = world.groups.leave(world.context(5), request, world.now)
    assert [one.error_code for one in answer.members] == [0]
    assert world.state() == "Empty"
    assert world.beat(member, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_restarts_takes_its_place_without_a_rebalance(world: World) -> None:
    old = world.join(instance="i1").member_id
    assert world.sync(old, 1, {old: b"mine"}).assignment == b"mine"
    answer = world.join(instance="i1")
    assert answer.error_code == 0
    assert answer.generation_id == 1
    assert answer.member_id != old
    assert answer.skip_assignment
    assert world.state() == "Stable"
    assert world.sync(answer.member_id, 1).assignment == b"mine"
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=old, group_instance_id="i1")
    refused = world.groups.heartbeat(world.context(4), request, world.now)
    assert refused.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_older_generation_hears_that_it_is_old(world: World) -> None:
    (member,) = world.stable(1)
    assert world.beat(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert world.sync(member, 0).error_code == ErrorCode.ILLEGAL_GENERATION
    assert world.commit(5, member, 0) == ErrorCode.ILLEGAL_GENERATION


def test_a_position_counts_when_it_is_written(world: World) -> None:
    (member,) = world.stable(1)
    world.broker.hold = True
    parked = world.commit(41, member, 1)
    assert world.position() == -1
    world.broker.release()
    assert parked.response.topics[0].partitions[0].error_code == 0
    assert world.position() == 41


def test_a_position_that_could_not_be_written_is_not_there(world: World) -> None:
    world.broker.failure = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.commit(41) == ErrorCode.NOT_COORDINATOR
    assert world.position() == -1


def test_who_is_in_no_group_may_commit_to_an_empty_one_only(world: World) -> None:
    assert world.commit(7, group="simple") == 0
    assert world.position("simple") == 7
    world.stable(1)
    assert world.commit(7) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"topic": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"note": "x" * 4097}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ({"generation": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 3, "version": 9}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_commit_that_makes_no_sense_is_refused(world: World, how: dict[str, Any], error: ErrorCode) -> None:
    assert world.commit(1, **how) == error


def test_a_group_nobody_knows_has_no_positions_and_that_is_no_error(world: World) -> None:
    assert world.position("unheard-of") == -1


def test_another_node_finds_groups_and_positions_where_they_were_written(world: World) -> None:
    first, second = world.stable()
    world.commit(41, first, 1)
    world.commit(12, first, 1, index=1)
    later = World(world.partition)
    group = later.groups.groups["g"]
    assert group.state is GroupState.STABLE
    assert (group.generation, group.leader_id, list(group.members)) == (1, first, [first, second])
    assert (later.position(), later.position(index=1)) == (41, 12)
    assert later.beat(second, 1) == ErrorCode.NONE
    later.run(11.0)
    assert second not in later.groups.groups["g"].members


def test_while_a_partition_is_loaded_clients_are_told_to_wait(world: World) -> None:
    later = World.__new__(World)
    later.partition, later.broker, later.now = world.partition, OneBroker(world.partition), world.now
    later.groups = Groups(Config.load({}), Chance(), later.broker, append=OneBroker.append_internal)
    assert later.commit(1) == ErrorCode.NOT_COORDINATOR
    later.broker.lead(world.partition, True, 1)
    assert later.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert later.beat("anybody", 1) == ErrorCode.NONE
    assert later.groups.next_deadline() == 0.0


def test_a_list_waits_for_groups_that_the_metadata_give_this_node_already(world: World) -> None:
    """Whoever asks all brokers for their groups would find such a group nowhere."""

    def code() -> ErrorCode:
        answer = world.groups.list(world.context(5), ListGroupsRequest(), world.now)
        return ErrorCode(answer.error_code)

    world.broker.left = {"flights"}
    assert code() == ErrorCode.NONE
    world.broker.left = {OFFSETS_TOPIC}
    assert code() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_losing_the_partition_answers_all_who_wait(world: World) -> None:
    first = world.new_id()
    world.new_id()
    parked = world.join(first)
    world.broker.lead(world.partition, False, 1)
    assert parked.response.error_code == ErrorCode.NOT_COORDINATOR
    assert world.groups.groups == {}
    assert world.commit(1) == ErrorCode.NOT_COORDINATOR


def test_a_cancelled_join_leaves_no_trace_of_waiting(world: World) -> None:
    first = world.new_id()
    world.new_id()
    world.join(first).cancel()
    world.run()
    assert world.groups.statistics().waiting == 0


def test_only_an_empty_group_is_deleted_and_with_it_its_positions(world: World) -> None:
    (member,) = world.stable(1)
    world.commit(5, member, 1)
    request = DeleteGroupsRequest(groups_names=["g", "unknown"])
    answer = world.groups.delete(world.context(2), request, world.now)
    errors = {one.group_id: one.error_code for one in answer.results}
    assert errors == {"g": ErrorCode.NON_EMPTY_GROUP, "unknown": ErrorCode.GROUP_ID_NOT_FOUND}
    world.groups.leave(
        world.context(5),
        LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)]),
        world.now,
    )
    answer = world.groups.delete(world.context(2), DeleteGroupsRequest(groups_names=["g"]), world.now)
    assert [one.error_code for one in answer.results] == [0]
    assert world.position() == -1
    assert "g" not in World(world.partition).groups.groups


def test_positions_can_be_forgotten_one_by_one(world: World) -> None:
    world.commit(5)
    topic = OffsetDeleteRequestTopic(
        name="flights", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    answer = world.groups.delete_offsets(world.context(0), request, world.now)
    assert answer.topics[0].partitions[0].error_code == 0
    assert world.position() == -1


def test_positions_of_an_empty_group_go_after_the_retention_time() -> None:
    world = World(offsets_retention_minutes="1")
    world.commit(5)
    world.run(30.0)
    assert world.position() == 5
    world.run(700.0)
    assert world.position() == -1
    assert "g" not in world.groups.groups


def test_a_clock_that_is_off_forgets_no_position() -> None:
    """A coordinator whose clock is a year ahead would delete every position that nobody commits right now."""
    world = World(offsets_retention_minutes="1")
    world.commit(5)
    world.groups.broker.clock_agrees = False
    world.run(700.0)
    assert world.position() == 5
    world.groups.broker.clock_agrees = True
    world.run(700.0)
    assert world.position() == -1


def test_positions_of_a_group_with_members_stay() -> None:
    world = World(offsets_retention_minutes="1")
    (member,) = world.stable(1)
    world.commit(5, member, 1)
    for _ in range(200):
        world.run(5.0)
        assert world.beat(member, 1) == ErrorCode.NONE
    assert world.position() == 5


def test_a_deleted_topic_takes_its_positions_along_but_not_those_of_its_namesake(world: World) -> None:
    world.commit(5)
    world.groups.topic_deleted("flights", Uuid(b"x" * 16), world.now)
    assert world.position() == 5
    world.groups.topic_deleted("flights", TOPIC_ID, world.now)
    assert world.position() == -1


def test_groups_are_listed_and_described(world: World) -> None:
    first, _ = world.stable()
    listed = world.groups.list(world.context(5), ListGroupsRequest(states_filter=["STABLE"]), world.now)
    assert [(one.group_id, one.group_state, one.group_type) for one in listed.groups] == [
        ("g", "Stable", "classic")
    ]
    assert not world.groups.list(
        world.context(5), ListGroupsRequest(states_filter=["Empty"]), world.now
    ).groups
    request = DescribeGroupsRequest(groups=["g", "unknown"])
    known, unknown = world.groups.describe(world.context(6), request, world.now).groups
    assert (known.protocol_type, known.protocol_data, len(known.members)) == ("consumer", "range", 2)
    assert known.members[0].member_id == first
    assert known.members[0].client_host == "/10.0.0.1"
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert known.authorized_operations == -(2**31), "nobody asked for them"
    assert world.groups.describe(world.context(5), request, world.now).groups[1].group_state == "Dead"


def test_a_described_group_says_what_may_be_done_to_it(world: World) -> None:
    """KIP-430; the bits are those that Apache Kafka 4.3.1 answers without an authorizer."""
    world.stable()
    request = DescribeGroupsRequest(groups=["g", "unknown"], include_authorized_operations=True)
    known, unknown = world.groups.describe(world.context(6), request, world.now).groups
    assert known.authorized_operations == 3400
    assert unknown.authorized_operations == -(2**31)
