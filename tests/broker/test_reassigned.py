"""Partitions move between brokers: whoever is added catches up, whoever leaves deletes, clients go on (K197)."""

from __future__ import annotations

from tests.broker.wired import Wired

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, TopicPartition
from barnabas.wire.schemas.topics import DeleteTopicsRequest, DeleteTopicState


def settled(wired: Wired, *replicas: int) -> None:
    """The move is over, and these replicas hold the same."""
    wired.settle()
    state = wired.state()
    assert (state.replicas, set(state.isr)) == (replicas, set(replicas))
    assert (state.adding, state.removing) == ((), ())
    first = wired.values(replicas[0])
    assert all(wired.values(replica) == first for replica in replicas)


def test_added_replicas_catch_up_and_those_that_leave_delete_their_log() -> None:
    wired = Wired(1, 2, 3, 4, 5)
    wired.create([1, 2, 3])
    for number in range(20):
        wired.produce(f"a{number}")
    wired.settle(2)
    assert wired.move([4, 5, 2]) is ErrorCode.NONE
    wired.produce("between")
    settled(wired, 4, 5, 2)
    assert wired.values(4) == [*(f"a{number}" for number in range(20)), "between"]
    assert wired.state().leader == 4
    for gone in (1, 3):
        assert wired.partition(gone) is None
        assert wired.nodes[gone].logs.get(TopicPartition("t", 0)) is None


def test_a_move_to_all_other_brokers_under_load_loses_nothing() -> None:
    wired = Wired(1, 2, 3, 4)
    wired.create([1, 2])
    answers = []
    for number in range(60):
        if number == 20:
            wired.move([3, 4])
        answers.append((str(number), wired.produce(str(number))))
        wired.settle(1)
    settled(wired, 3, 4)
    acknowledged = [value for value, answer in answers if answer.here and answer.produced.error_code == 0]
    assert len(acknowledged) > 50
    kept = wired.values(3)
    assert [value for value in kept if value in acknowledged] == acknowledged


def test_who_waits_at_a_leader_that_leaves_is_told_to_look_elsewhere() -> None:
    wired = Wired(1, 2)
    wired.create([1])
    wired.move([2])
    wired.settle(1)
    answer = wired.produce("late", at=1)
    wired.settle()
    assert answer.here
    code = ErrorCode(answer.produced.error_code)
    kept = wired.values(2) == ["late"]
    assert (code, kept) in ((ErrorCode.NONE, True), (ErrorCode.NOT_LEADER_OR_FOLLOWER, False))
    refused = wired.produce("later", at=1)
    assert refused.produced.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_move_waits_for_a_broker_that_is_down_and_ends_when_it_is_back() -> None:
    wired = Wired(1, 2, 3)
    wired.create([1, 2])
    wired.produce("a")
    wired.settle(2)
    wired.crash(3)
    wired.settle(40)
    assert wired.move([3, 2]) is ErrorCode.NONE
    wired.settle(20)
    assert wired.state().adding == (3,)
    wired.produce("b")
    wired.start(3)
    settled(wired, 3, 2)
    assert wired.values(3) == ["a", "b"]


def test_a_leader_that_dies_in_the_middle_is_replaced_and_the_move_ends() -> None:
    wired = Wired(1, 2, 3, 4)
    wired.create([1, 2])
    for number in range(5):
        wired.produce(str(number))
    wired.settle(2)
    wired.move([3, 4])
    wired.turn()
    wired.crash(1)
    wired.settle(40)  # its session ends
    settled(wired, 3, 4)
    assert wired.values(4) == ["0", "1", "2", "3", "4"]
    wired.start(1)
    wired.settle()
    assert wired.partition(1) is None  # what it has is put aside: it is no replica any more


def test_turning_back_deletes_what_the_added_ones_had_copied() -> None:
    wired = Wired(1, 2, 3)
    wired.create([1, 2])
    wired.produce("a")
    wired.settle(2)
    wired.cut.add(3)
    wired.move([3, 2])
    wired.settle(2)
    assert wired.partition(3) is not None
    assert wired.move(None) is ErrorCode.NONE
    settled(wired, 2, 1)  # as Kafka: those that would have stayed come first
    assert wired.partition(3) is None
    assert wired.move(None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_broker_that_comes_back_while_it_is_added_again_begins_from_what_it_has() -> None:
    """1 leaves and is wanted again before it is gone."""
    wired = Wired(1, 2, 3)
    wired.create([1, 2])
    wired.produce("a")
    wired.settle(2)
    wired.cut.add(3)
    wired.move([3, 2])
    wired.settle(2)
    wired.move([1, 2])
    settled(wired, 1, 2)
    assert wired.values(1) == ["a"]
    assert wired.state().leader == 1


def test_a_topic_deleted_while_it_moves_leaves_nothing_behind() -> None:
    wired = Wired(1, 2, 3)
    wired.create([1, 2])
    wired.produce("a")
    wired.cut.add(3)
    wired.move([3, 2])
    wired.settle(2)
    wired.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
    wired.settle(2)
    assert all(wired.partition(id_) is None for id_ in (1, 2, 3))
    wired.cut.clear()
    wired.create([1, 2, 3])
    settled(wired, 1, 2, 3)
    assert wired.values(3) == []


def test_with_one_replica_in_sync_a_move_needs_only_the_new_one() -> None:
    """RF 1 to RF 1: both hold everything before the old one may go."""
    wired = Wired(1, 2)
    wired.create([1], min_insync_replicas="2")
    wired.move([2])
    settled(wired, 2)
    assert wired.state().elr == ()
    wired.crash(2)
    wired.settle(40)
    assert wired.state().leader == NO_NODE
    wired.start(2)
    wired.settle()
    assert wired.state().leader == 2


def test_more_and_fewer_replicas() -> None:
    wired = Wired(1, 2, 3, 4)
    wired.create([1])
    wired.produce("a")
    wired.move([1, 2, 3, 4])
    settled(wired, 1, 2, 3, 4)
    assert wired.move([3, 4], other_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    wired.move([3, 4])
    settled(wired, 3, 4)
    assert wired.state().leader == 3
    assert wired.values(4) == ["a"]


def test_an_added_replica_lies_in_a_directory_that_its_broker_chose() -> None:
    wired = Wired(1, 2, directories=2)
    wired.create([1])
    wired.move([1, 2])
    settled(wired, 1, 2)
    known = {directory.directory_id for directory in wired.nodes[2].logs.online()}
    assert wired.state().directory_of(2) in known
