"""Groups under bad luck: races of deletion and expiry, clients that vanish, records nobody can read."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.hostile_batches import lying
from tests.broker.test_batch_checks import bomb
from tests.broker.test_groups import OffsetsPartition, World

from barnabas.broker.groups.loading import LOAD_BYTES, LOAD_RECORDS
from barnabas.broker.purgatory import Waiting
from barnabas.errors import CorruptRecordError, ErrorCode, StorageError
from barnabas.wire.codec.message import encode
from barnabas.wire.compression import Codec
from barnabas.wire.records import Record, batches, read_records, write_batch
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.fixture
def world() -> World:
    return World()


def leave(world: World, member: str) -> None:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member)])
    world.groups.leave(world.context(5), request, world.now)


def delete(world: World) -> Any:
    return world.groups.delete(world.context(2), DeleteGroupsRequest(groups_names=["g"]), world.now)


def test_who_joins_while_the_group_is_being_deleted_is_answered(world: World) -> None:
    world.commit(5)
    world.broker.hold = True
    deleting = delete(world)
    newcomer = world.join(version=3)
    world.broker.hold = False
    world.broker.release()
    assert deleting.response.results[0].error_code == ErrorCode.NONE
    world.run(5.0)
    answer = newcomer.response if hasattr(newcomer, "response") else newcomer
    assert answer is not None and answer.error_code == ErrorCode.NONE
    assert world.beat(answer.member_id, answer.generation_id) == ErrorCode.NONE


def test_a_commit_in_flight_goes_with_the_group_that_is_deleted(world: World) -> None:
    world.commit(5)
    world.broker.hold = True
    world.commit(6, index=1)
    delete(world)
    world.broker.release()
    assert world.position() == world.position(index=1) == -1
    again = World(world.partition)
    assert again.position() == again.position(index=1) == -1
    assert "g" not in again.groups.groups


def test_a_commit_after_the_deletion_begins_the_group_anew(world: World) -> None:
    world.commit(5)
    world.broker.hold = True
    delete(world)
    world.commit(7)
    world.broker.release()
    assert world.position() == 7 and "g" in world.groups.groups
    assert World(world.partition).position() == 7


def test_a_position_that_is_being_committed_does_not_expire() -> None:
    world = World(offsets_retention_minutes="1")
    world.commit(5)
    world.run(590.0)
    world.broker.hold = True
    world.commit(6)
    world.run(20.0)
    world.broker.hold = False
    world.broker.release()
    assert world.position() == 6


def test_groups_of_which_nothing_is_left_are_forgotten_here_and_in_the_log(world: World) -> None:
    (member,) = world.stable(1)
    leave(world, member)
    world.join(group="refused", protocols=())
    world.new_id(group="came-once")
    world.commit(1, group="nonsense", topic="unknown")
    assert "nonsense" not in world.groups.groups and len(world.groups.groups) == 3
    world.run(700.0)
    world.run(700.0)
    assert world.groups.groups == {}
    assert World(world.partition).groups.groups == {}


def test_a_newcomer_that_hangs_up_does_not_hold_up_the_others(world: World) -> None:
    first, second = world.stable()
    third = world.join(world.new_id())
    joins = [world.join(first)]
    third.cancel()
    fourth = world.join(world.new_id())
    fourth.cancel()
    world.run()
    joins.append(world.join(second))
    answers = [join.response if isinstance(join, Waiting) else join for join in joins]
    assert [answer.generation_id for answer in answers] == [2, 2]
    assert world.state() == "CompletingRebalance"
    assert list(world.groups.groups["g"].members) == [first, second]
    assert world.groups.statistics().waiting == 0


def test_a_member_that_hangs_up_while_it_joins_counts_as_joined_until_its_session_is_over(
    world: World,
) -> None:
    first, second = world.stable()
    world.join(world.new_id())
    world.join(first).cancel()
    world.join(second)
    assert world.state() == "CompletingRebalance"
    assert first in world.groups.groups["g"].members
    world.run(11.0)
    assert first not in world.groups.groups["g"].members


def test_records_that_nobody_can_have_written_are_left_out(world: World) -> None:
    for record in (
        Record(0, 0, b"\0", b"", ()),
        Record(0, 0, b"\0\1\0\x7fg", b"\0\3", ()),
        Record(0, 0, None, None, ()),
        Record(0, 0, b"\0\2\0\1g", b"\0\x63junk", ()),
    ):
        world.partition.append(write_batch([record]))
    world.commit(5)
    again = World(world.partition)
    assert again.position() == 5
    assert again.groups.statistics().unreadable >= 3


@pytest.mark.parametrize("error", [StorageError("input/output error"), CorruptRecordError("no batch")])
def test_a_partition_that_cannot_be_read_is_not_coordinated(error: Exception) -> None:
    class Broken(OffsetsPartition):
        def read(self, offset: int, max_bytes: int) -> Any:
            raise error

    world = World()
    failed = []
    world.broker.storage_failed = lambda partition, why, now: failed.append(why)  # type: ignore[attr-defined]
    partition = Broken()
    partition.log = SimpleNamespace(log_end_offset=3)
    world.broker.lead(world.partition, False, 1)
    world.broker.lead(partition, True, 2)
    world.run()
    assert world.commit(1) == ErrorCode.NOT_COORDINATOR
    assert failed == ([error] if isinstance(error, StorageError) else [])


def test_loading_goes_on_where_the_log_begins_by_now() -> None:
    world = World()
    for offset in range(3):
        world.commit(offset)
    asked: list[int] = []
    inner = world.partition.read

    def read(offset: int, max_bytes: int) -> Any:
        asked.append(offset)
        return inner(offset, max_bytes)

    world.broker.lead(world.partition, False, 1)
    world.broker.lead(world.partition, True, 2)
    world.partition.log_start_offset = 2
    world.partition.read = read  # type: ignore[method-assign]
    world.run()
    assert asked == [2] and world.position() == 2


def test_what_is_not_written_yet_is_waited_for(world: World) -> None:
    world.commit(5)
    inner, empty = world.partition.read, SimpleNamespace(read=lambda: b"")
    world.broker.lead(world.partition, False, 1)
    world.broker.lead(world.partition, True, 2)
    world.partition.read = lambda offset, most: empty  # type: ignore[method-assign]
    world.run()
    assert world.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.partition.read = inner  # type: ignore[method-assign]
    world.run()
    assert world.position() == 5


def test_a_log_whose_end_is_a_gap_is_loaded(world: World) -> None:
    """Compaction and a truncation left nothing between the last record and the end."""
    world.commit(5)
    world.broker.lead(world.partition, False, 1)
    world.partition.log.log_end_offset = world.partition.log.written_end_offset = 9
    inner = world.partition.read
    world.partition.read = lambda offset, most: (  # type: ignore[method-assign]
        inner(offset, most) if offset == 0 else SimpleNamespace(read=lambda: b"")
    )
    world.broker.lead(world.partition, True, 2)
    world.run()
    assert world.position() == 5


@pytest.mark.parametrize("where", ["client", "protocol", "instance", "kind"])
def test_names_that_no_record_can_hold_are_refused_and_harm_nobody(world: World, where: str) -> None:
    name = "é" * 0x4000
    if where == "client":
        inner = world.context
        world.context = lambda version: SimpleNamespace(  # type: ignore[method-assign]
            **{**vars(inner(version)), "client_id": name}
        )
    how: dict[str, Any] = {
        "client": {},
        "protocol": {"protocols": (name,)},
        "instance": {"instance": name},
        "kind": {"kind": name},
    }[where]
    assert world.join(**how).error_code == ErrorCode.INVALID_REQUEST
    assert world.join(group=name).error_code == ErrorCode.INVALID_GROUP_ID


def test_loading_is_done_in_steps_that_the_loop_can_bear() -> None:
    assert LOAD_BYTES <= 64 * 1024


def subscription(*topics: str) -> bytes:
    return b"\0\1" + encode(ConsumerProtocolSubscription(topics=list(topics)), 1)


def member_of(world: World, metadata: bytes) -> str:
    """The only member of a stable group; reads what `metadata` says."""
    member = world.new_id(metadata=metadata)
    world.join(member, metadata=metadata)
    world.sync(member, 1, {member: b"all"})
    assert world.state() == "Stable"
    return member


def forget(world: World, topic: str) -> int:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )
    answer = world.groups.delete_offsets(world.context(0), request, world.now)
    return answer.topics[0].partitions[0].error_code


def test_positions_in_topics_that_no_member_reads_may_go(world: World) -> None:
    world.commit(5)
    member = member_of(world, subscription("trains"))
    assert forget(world, "trains") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert forget(world, "flights") == ErrorCode.NONE
    assert world.position() == -1
    leave(world, member)
    world.join(world.new_id(metadata=subscription("flights")), metadata=subscription("flights"))
    assert forget(world, "flights") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_positions_of_members_whose_metadata_is_a_riddle_stay(world: World) -> None:
    world.commit(5)
    member_of(world, b"\0")
    assert forget(world, "flights") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.parametrize(("topic", "kept"), [("flights", 5), ("trains", -1)])
def test_positions_expire_under_members_that_read_other_topics(topic: str, kept: int) -> None:
    world = World(offsets_retention_minutes="1")
    world.commit(5)
    member = member_of(world, subscription(topic))
    for _ in range(130):
        world.run(5.0)
        assert world.beat(member, 1) == ErrorCode.NONE
    assert world.position() == kept


def loaded_again(world: World) -> tuple[World, int]:
    """Another node that loads what this one wrote, and in how many steps."""
    again, steps = World(), 0
    again.broker.lead(again.partition, False, 1)
    again.broker.lead(world.partition, True, 2)
    while again.groups.statistics().loading:
        again.groups.tick(again.now)
        steps += 1
    return again, steps


def test_many_small_commits_are_loaded_some_dozen_at_a_time(world: World) -> None:
    for offset in range(1_000):
        world.commit(offset)
    again, steps = loaded_again(world)
    assert again.position() == 999
    assert steps < 1_000 / 24


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_record_that_unpacks_to_very_much_is_left_out_without_being_held(
    world: World, codec: Codec
) -> None:
    world.commit(5)
    world.partition.append(bomb(codec, 90 << 20))
    world.commit(6, index=1)
    tracemalloc.start()
    again, steps = loaded_again(world)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (again.position(), again.position(index=1)) == (5, 6)
    assert again.groups.statistics().unreadable == 1
    assert steps > 90 << 20 >> 18
    assert peak < 4 << 20


@pytest.mark.parametrize("codec", Codec)
def test_very_many_records_of_one_batch_are_loaded_some_hundred_at_a_time(codec: Codec) -> None:
    world = World()
    world.commit(7)
    (_, header), *_ = batches(bytes(world.partition.raw))
    (record,) = read_records(world.partition.raw, 0, header)
    many = [record._replace(offset=n) for n in range(5_000)]
    world.partition.append(write_batch(many, codec=codec))
    again, steps = loaded_again(world)
    assert again.position() == 7
    assert again.groups.statistics().unreadable == 0
    assert steps >= 5_000 // LOAD_RECORDS


def test_records_whose_lengths_lie_are_left_out_and_those_behind_are_loaded(world: World) -> None:
    world.commit(5)
    world.partition.append(bytearray(lying(b"1", b"2", at=1)))
    world.commit(6, index=1)
    again, _ = loaded_again(world)
    assert (again.position(), again.position(index=1)) == (5, 6)
    assert again.groups.statistics().unreadable == 2
