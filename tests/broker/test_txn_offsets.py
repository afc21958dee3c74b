"""TxnOffsetCommit: positions that count when their transaction does, through restarts and new coordinators."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import Answer, Node
from tests.broker.transactions import ask_to_end, ended, verify

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.broker.groups.coordinator import Groups
from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.txn_markers import write_txn_markers
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, Now, Uuid
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.codec.declaration import ZERO_UUID
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.schemas.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

UNSTABLE = int(ErrorCode.UNSTABLE_OFFSET_COMMIT)


class World(Node):
    """A broker with a group coordinator, and a topic `t` of two partitions."""

    def __init__(self, disk: MemoryDisk, **settings: Any) -> None:
        super().__init__(disk, **settings)
        self.groups = Groups(self.config, self.chance, self.broker)
        for partition in self.broker.partitions():
            if partition.topic == OFFSETS_TOPIC:
                self.groups._leadership(partition, True, 0)
        if OFFSETS_TOPIC not in self.image.topics_by_name:
            self.create("t", 2)
            self.create(OFFSETS_TOPIC, cleanup_policy="compact")
        self.settle()

    def settle(self) -> None:
        for _ in range(5):
            self.groups.tick(self.now)
            self.turn()

    def reload(self) -> None:
        """Another node leads the offsets for a while."""
        self.change(OFFSETS_TOPIC, leader=2)
        self.change(OFFSETS_TOPIC, leader=1)
        self.settle()

    def _write_markers(self, broker: Any, context: Any, request: Any, version: int, now: Now) -> Any:
        return write_txn_markers(broker, context, request, now, self.groups.transactions.complete)

    def call(self, method: Any, request: Any, version: int) -> Answer:
        answer = Answer(version)
        given = method(self.context(version=version), request, self.now)
        if isinstance(given, Waiting):
            given.on_done = answer.take
        else:
            answer.take(given)
        return answer

    def commit(self, positions: dict[int, int], group: str = "g") -> None:
        """A commit outside of transactions."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for index, offset in positions.items()
                    ],
                )
            ],
        )
        answer = self.call(self.groups.commit, request, 8)
        self.settle()
        assert {one.error_code for one in answer.message.topics[0].partitions} == {0}

    def send(
        self,
        positions: dict[int, int],
        group: str = "g",
        *,
        producer: int = 7,
        epoch: int = 0,
        version: int = 5,
        topic_id: Uuid = ZERO_UUID,
        **who: Any,
    ) -> Answer:
        request = TxnOffsetCommitRequest(
            transactional_id="payments",
            group_id=group,
            producer_id=producer,
            producer_epoch=epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t" if topic_id == ZERO_UUID else "",
                    topic_id=topic_id,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata="m"
                        )
                        for index, offset in positions.items()
                    ],
                )
            ],
            **who,
        )
        return self.call(self.groups.transactions.commit, request, version)

    def keep(self, positions: dict[int, int], group: str = "g", **who: Any) -> list[int]:
        """TxnOffsetCommit, verified and safe; the error of each partition."""
        answer = self.send(positions, group, **who)
        verify(self)
        self.settle()
        return [one.error_code for one in answer.message.topics[0].partitions]

    def end(self, commit: bool = True, **who: Any) -> ErrorCode:
        answer = ask_to_end(self, (OFFSETS_TOPIC, 0), commit=commit, **who)
        self.turn()
        (error,) = ended(answer).values()
        return error

    def fetch_offsets(self, group: str = "g", stable: bool = True, version: int = 8) -> dict[int, Any]:
        """Offset, or the error, by partition of `t`."""
        wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])], require_stable=stable
        )
        answer = self.call(self.groups.fetch_offsets, request, version).message.groups[0]
        return {
            one.partition_index: ErrorCode(one.error_code).name if one.error_code else one.committed_offset
            for one in answer.topics[0].partitions
        }


@pytest.fixture
def world(disk: MemoryDisk) -> World:
    return World(disk)


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize(("commit", "after"), [(True, {0: 50, 1: 60}), (False, {0: 5, 1: -1})])
def test_positions_of_a_transaction_count_when_it_commits(
    world: World, commit: bool, after: dict[int, int], reloaded: bool
) -> None:
    world.commit({0: 5})
    assert world.keep({0: 50, 1: 60}) == [0, 0]
    if reloaded:
        world.reload()
    assert world.fetch_offsets(stable=False) == {0: 5, 1: -1}
    assert world.fetch_offsets() == {0: "UNSTABLE_OFFSET_COMMIT", 1: "UNSTABLE_OFFSET_COMMIT"}
    assert world.end(commit) is ErrorCode.NONE
    assert world.fetch_offsets() == after
    world.reload()
    assert world.fetch_offsets() == after


@pytest.mark.parametrize(("version", "add"), [(0, False), (3, False), (4, False), (5, True)])
def test_the_coordinator_of_the_transaction_is_asked_first(world: World, version: int, add: bool) -> None:
    answer = world.send({0: 1}, version=version)
    (question,) = world.outside.questions
    assert question[:5] == ("payments", 7, 0, OFFSETS_TOPIC, 0) and question.add is add
    assert not answer.here
    verify(world)
    world.settle()
    assert answer.message.topics[0].partitions[0].error_code == 0
    assert world.keep({1: 1}, version=version) == [0] and world.outside.questions == []


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_it_says_reaches_the_producer(world: World, said: ErrorCode, heard: ErrorCode) -> None:
    answer = world.send({0: 1, 1: 1})
    verify(world, said)
    assert {one.error_code for one in answer.message.topics[0].partitions} == {heard}
    assert world.fetch_offsets() == {0: -1, 1: -1}


def test_a_commit_outside_of_the_transaction_is_newer_than_what_was_pending_then(world: World) -> None:
    world.keep({0: 50, 1: 60})
    world.commit({0: 70})
    assert world.fetch_offsets()[0] == "UNSTABLE_OFFSET_COMMIT", "the transaction is open still"
    world.end()
    assert world.fetch_offsets() == {0: 70, 1: 60}
    world.reload()
    assert world.fetch_offsets() == {0: 70, 1: 60}


def test_two_producers_in_one_group_are_told_apart(world: World) -> None:
    world.keep({0: 10}, producer=7)
    world.keep({0: 20, 1: 20}, producer=8)
    world.end(producer=8)
    assert world.fetch_offsets() == {0: "UNSTABLE_OFFSET_COMMIT", 1: 20}
    world.end(producer=7, commit=False)
    assert world.fetch_offsets() == {0: 20, 1: 20}


def test_a_group_is_not_forgotten_while_a_transaction_may_give_it_positions(world: World) -> None:
    world.commit({1: 5})
    world.keep({0: 10, 1: 10})
    world.mono += 8 * 86400
    world.wall += 8 * 86_400_000
    for _ in range(3):
        world.mono += 700
        world.settle()
    assert "g" in world.groups.groups
    world.end()
    assert world.fetch_offsets() == {0: 10, 1: 10}


def test_a_group_that_is_deleted_gets_nothing_from_open_transactions(world: World) -> None:
    world.commit({1: 5})
    world.keep({0: 10, 1: 10})
    answer = world.call(world.groups.delete, DeleteGroupsRequest(groups_names=["g"]), 2)
    world.settle()
    assert answer.message.results[0].error_code == 0
    for _ in range(2):
        world.end()
        assert world.fetch_offsets() == {0: -1, 1: -1}
        world.reload()


def test_only_who_belongs_to_the_group_commits_for_it(world: World) -> None:
    assert world.keep({0: 1}, version=3, generation_id_or_member_epoch=4) == [ErrorCode.ILLEGAL_GENERATION]
    assert world.keep({0: 1}, version=2) == [0], "older producers name no generation"
    assert world.keep({0: 1}, "h", version=3, generation_id_or_member_epoch=-1) == [0]
    assert world.keep({0: 1}, version=3, generation_id_or_member_epoch=1, member_id="x") == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ]
    assert world.keep({0: 1, 5: 1}) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.keep({0: 1}, "") == [ErrorCode.INVALID_GROUP_ID]
    assert world.keep({5: 1}, "new") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "new" not in world.groups.groups


def test_positions_of_no_producer_are_refused(disk: MemoryDisk) -> None:
    """They would wait for a marker that nobody writes."""
    world = World(disk, transaction_partition_verification_enable="false")
    assert world.keep({0: 1}, producer=-1, version=3) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert world.end(producer=-1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.fetch_offsets() == {0: -1, 1: -1}


def test_who_does_not_coordinate_the_group_says_so(world: World) -> None:
    world.keep({0: 10})
    world.change(OFFSETS_TOPIC, leader=2)
    assert world.keep({0: 1}) == [ErrorCode.NOT_COORDINATOR]
    assert world.end() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.change(OFFSETS_TOPIC, leader=1)
    assert world.end() is ErrorCode.NOT_LEADER_OR_FOLLOWER, "its groups are being loaded"
    world.settle()
    assert world.end() is ErrorCode.NONE
    assert world.fetch_offsets() == {0: 10, 1: -1}


def test_a_marker_of_an_older_coordinator_decides_nothing(world: World) -> None:
    world.keep({0: 10}, epoch=3)
    assert world.end(epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.fetch_offsets()[0] == "UNSTABLE_OFFSET_COMMIT"
    assert world.end(epoch=3, coordinator=5) is ErrorCode.NONE
    world.keep({0: 20}, epoch=3)
    assert world.end(epoch=3, coordinator=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert world.fetch_offsets()[0] == "UNSTABLE_OFFSET_COMMIT"


def test_nothing_counts_before_every_replica_in_sync_holds_it(world: World) -> None:
    verifying = world.send({0: 10})
    verify_only = world.outside.questions.pop()
    world.broker.verifications.answered(verify_only, ErrorCode.NONE, world.now)
    world.write()
    assert not verifying.here and world.fetch_offsets() == {0: -1, 1: -1}
    world.sync()
    assert verifying.here and world.fetch_offsets()[0] == "UNSTABLE_OFFSET_COMMIT"


def test_positions_for_a_group_of_kip_848_make_no_classic_group_of_its_name(world: World) -> None:
    world.groups.consumer_groups["g"] = ConsumerGroup("g")
    assert world.keep({0: 10}) == [0]
    assert world.keep({0: 10}, version=3, generation_id_or_member_epoch=1, member_id="x") == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ]
    assert "g" not in world.groups.groups
    world.end()
    assert world.fetch_offsets()[0] == 10


def test_topics_are_named_by_their_ids_from_version_6_on(world: World) -> None:
    id = world.image.topics_by_name["t"].id
    answer = world.send({0: 10, 5: 1}, version=6, topic_id=id)
    verify(world)
    world.settle()
    (topic,) = answer.message.topics
    assert topic.topic_id == id
    assert [one.error_code for one in topic.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    world.end()
    assert world.fetch_offsets() == {0: 10, 1: -1}
    assert world.keep({0: 11}, version=6, topic_id=Uuid(bytes([9]) * 16)) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_name_counts_for_nothing_from_version_6_on(world: World) -> None:
    assert world.keep({0: 11}, version=6) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_the_errors_of_version_6_tell_a_group_that_is_gone_and_an_epoch_that_is_old(world: World) -> None:
    id = world.image.topics_by_name["t"].id
    one = {"generation_id_or_member_epoch": 4, "member_id": "m"}
    for version, gone, old in (
        (5, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        (6, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        named = {"topic_id": id} if version == 6 else {}
        world.groups.consumer_groups.clear()
        assert world.keep({0: 1}, "gone", version=version, **one, **named) == [gone]
        group = world.groups.consumer_groups["g"] = ConsumerGroup("g")
        group.members["m"] = ConsumerMember("m", epoch=3)
        assert world.keep({0: 1}, version=version, **one, **named) == [old], "a later epoch than the member's"
        group.members["m"] = ConsumerMember("m", epoch=5)
        assert world.keep({0: 1}, version=version, **one, **named) == [old], (
            "the partition is not the member's"
        )
