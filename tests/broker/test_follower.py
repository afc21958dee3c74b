"""Replication between brokers: what source document 001, KIP-101, KIP-279, KIP-392 and KIP-497 promise."""

from __future__ import annotations

import random
from math import inf

import pytest
from tests.broker.harness import PAGE_CACHE, batch
from tests.broker.replication import ALL, Replicas

from barnabas.broker.watching import STATE
from barnabas.errors import ErrorCode
from barnabas.wire.schemas.brokers import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from barnabas.wire.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.wire.schemas.offsets import ListOffsetsRequest

NUMBERED = {"producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def three() -> Replicas:
    return Replicas()


# ---- replicating ---------------------------------------------------------------------------------------------


def test_acks_all_is_answered_once_every_in_sync_replica_holds_the_record(three: Replicas) -> None:
    answer = three.produce("a")
    three.turn(1)
    three.fetch(2)
    three.turn(2)
    three.fetch(2)
    three.turn(1)
    assert not answer.here  # 3 has not got it yet
    three.settle()
    assert answer.error == ErrorCode.NONE
    assert [three.values(id_) for id_ in ALL] == [["a"]] * 3
    assert [three[id_].high_watermark for id_ in ALL] == [1, 1, 1]


def test_acks_1_is_answered_when_the_leader_alone_holds_the_record(three: Replicas) -> None:
    answer = three.produce("a", acks=1)
    assert not answer.here
    three.turn(1)
    assert answer.error == ErrorCode.NONE
    assert [three.values(id_) for id_ in ALL] == [["a"], [], []] and three[1].high_watermark == 0


def test_a_fetch_promises_only_what_is_synced(three: Replicas) -> None:
    answer = three.produce("a")
    three.turn(1)
    three.fetch(3)
    three.turn(3)
    three.fetch(3)
    three.fetch(2)
    node = three.nodes[2]
    node.write()  # appended and written; the sync is held back
    assert three[2].log.written_end_offset == 1
    assert three.fetch(2) is False
    three.turn(1)
    assert not answer.here and three[1].high_watermark == 0
    node.sync()
    assert three.fetch(2) is True
    three.turn(1)
    assert answer.error == ErrorCode.NONE


def test_from_the_page_cache_a_fetch_promises_what_is_written() -> None:
    three = Replicas(log_flush_interval_messages=PAGE_CACHE)
    answer = three.produce("a")
    three.nodes[1].write()
    for id_ in (2, 3):
        three.fetch(id_)
        three.nodes[id_].write()
        assert three.fetch(id_) is True
    three.nodes[1].write()
    assert answer.error == ErrorCode.NONE


def test_a_session_names_only_partitions_that_moved(three: Replicas) -> None:
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    quiet = follower.next_request(node.now)
    assert isinstance(quiet, FetchRequest)
    assert quiet.session_id > 0 and quiet.session_epoch > 0 and quiet.topics == []
    follower.failed(node.now)
    whole = follower.next_request(node.now)
    assert isinstance(whole, FetchRequest)
    assert whole.session_epoch == 0 and len(whole.topics) == 1
    assert whole.replica_state.replica_epoch == 12


def test_a_lost_session_is_opened_anew(three: Replicas) -> None:
    three.nodes[1].broker.sessions._sessions.clear()
    three.produce("a")
    three.settle()
    assert three.values(2) == three.values(3) == ["a"]


def test_numbering_of_producers_is_replicated(three: Replicas) -> None:
    three.produce("a", base_sequence=0, **NUMBERED)
    three.settle()
    three.put(leader=2, isr=(2, 3))
    again = three.produce("a", base_sequence=0, **NUMBERED)
    three.settle()
    assert again.produced.base_offset == 0
    assert three.values(2) == ["a"]


# ---- the leader fails (source document 001: three cases) -----------------------------------------------------


def failover(three: Replicas, dead: int = 1) -> None:
    three.crash(dead)
    three.fence(dead)
    three.settle()
    assert three.state.leader != dead


def test_leader_fails_before_it_wrote_the_message(three: Replicas) -> None:
    """The client hears nothing, sends again to the new leader, and the message is there once."""
    lost = three.produce("a", base_sequence=0, **NUMBERED)
    failover(three)
    assert not lost.here
    again = three.produce("a", base_sequence=0, **NUMBERED)
    three.settle()
    assert again.error == ErrorCode.NONE
    three.restart(1)
    three.settle()
    assert [three.values(id_) for id_ in ALL] == [["a"]] * 3


def test_leader_fails_after_it_wrote_and_before_any_follower_fetched(three: Replicas) -> None:
    lost = three.produce("a", base_sequence=0, **NUMBERED)
    three.turn(1)
    assert not lost.here and three.values(1) == ["a"]
    failover(three)
    three.produce("b", base_sequence=0, **{**NUMBERED, "producer_id": 8})
    again = three.produce("a", base_sequence=0, **NUMBERED)
    three.settle()
    assert again.error == ErrorCode.NONE
    three.restart(1)
    three.settle()
    assert [three.values(id_) for id_ in ALL] == [["b", "a"]] * 3
    assert three.nodes[1].outside.cut == [("t", 0, 1, 0)]


def test_leader_fails_after_followers_fetched_and_before_the_answer(three: Replicas) -> None:
    """Which is why producers number their batches: sent again it is answered, not appended."""
    lost = three.produce("a", base_sequence=0, **NUMBERED)
    three.turn(1)
    for id_ in (2, 3):
        three.fetch(id_)
        three.turn(id_)
    assert not lost.here
    failover(three)
    again = three.produce("a", base_sequence=0, **NUMBERED)
    three.settle()
    assert again.error == ErrorCode.NONE and again.produced.base_offset == 0
    three.restart(1)
    three.settle()
    assert [three.values(id_) for id_ in ALL] == [["a"]] * 3


def test_leader_fails_after_the_answer(three: Replicas) -> None:
    kept = three.produce("a")
    while not kept.here:
        three.turn()
        three.fetch(2)
        three.fetch(3)
    failover(three)
    assert three.values(2) == three.values(3) == ["a"]
    three.restart(1)
    three.settle()
    assert three.values(1) == ["a"]
    assert set(three.state.isr) == {1, 2, 3}


# ---- a follower fails ----------------------------------------------------------------------------------------


def test_a_dead_follower_leaves_and_comes_back_when_it_caught_up(three: Replicas) -> None:
    three.crash(3)
    waits = three.produce("a")
    three.settle(4)
    assert not waits.here
    three.fence(3)
    three.settle()
    assert waits.error == ErrorCode.NONE and three.state.isr == (1, 2)
    three.restart(3)
    assert three.state.isr == (1, 2)
    three.settle()
    assert three.values(3) == ["a"] and three.state.isr == (1, 2, 3)
    assert three[1].leading.isr == (1, 2, 3)


def test_a_fenced_replica_that_kept_up_until_it_died_holds_the_high_watermark_no_longer(
    three: Replicas,
) -> None:
    three.produce("a")
    three.settle()
    three.crash(3)
    three.fence(3)
    answer = three.produce("b")
    three.turn(1)
    three.fetch(2)
    three.turn(2)
    three.fetch(2)
    three.turn(1)
    assert answer.error == ErrorCode.NONE


def test_a_follower_that_stays_behind_leaves_the_in_sync_set_and_returns(three: Replicas) -> None:
    three.cut.add(3)
    answer = three.produce("a")
    three.settle(4)
    assert not answer.here
    for _ in range(6):
        three.after(4.0)
        three.fetch(2)
        three.turn()
    assert three.state.isr == (1, 2)
    assert answer.error == ErrorCode.NONE
    three.cut.clear()
    three.settle()
    assert three.state.isr == (1, 2, 3)
    assert three.values(3) == ["a"]


def test_an_idle_partition_keeps_its_in_sync_set(three: Replicas) -> None:
    three.cut.update((2, 3))
    three.after(60.0)
    three.turn()
    assert three.state.isr == ALL  # nothing was written that they could lack


def test_a_replica_joins_only_from_the_life_that_the_controller_knows(three: Replicas) -> None:
    three.crash(3)
    three.fence(3)
    three.restart(3)
    three.fetch(3)
    three.image.brokers[3] = three.image.brokers[3]._replace(epoch=99)  # yet another life, unknown to 1
    three.turn()
    assert three.state.isr == (1, 2)


def test_a_fetch_from_an_earlier_life_counts_for_nothing(three: Replicas) -> None:
    partition, now = three[1], three.nodes[1].now
    assert partition.fetched_by(2, 0, 0, now, 50) is True
    assert partition.fetched_by(2, 0, 0, now, 12) is False


def a_new_leader_that_knows_less_than_it_has(three: Replicas) -> None:
    """2 has two records that 1 committed, does not know that they are, and leads now; 3 has none of them."""
    three.crash(3)
    three.fence(3)
    three.produce("a", "b")
    three.turn(1)
    three.fetch(2)
    three.turn(2)
    three.fetch(2)
    three.turn(1)
    assert three[1].high_watermark == 2 and three.state.isr == (1, 2)
    three.crash(1)
    three.put(leader=2, isr=(1, 2))
    three.turn(2)
    assert three[2].high_watermark == 0 and three[2].log.log_end_offset == 2


def test_a_follower_does_not_join_before_it_has_reached_the_leaders_epoch(three: Replicas) -> None:
    a_new_leader_that_knows_less_than_it_has(three)
    three.restart(3)
    three.fetch(3)  # from offset 0: all that 2 knows to be committed
    three.turn(2)
    assert three.state.isr == (1, 2)
    three.turn(3)
    three.fetch(3)  # from offset 2
    three.turn(2)
    assert set(three.state.isr) == {1, 2, 3}


def test_a_new_leader_lists_no_end_before_the_one_that_was_known(three: Replicas) -> None:
    """KIP-207."""
    a_new_leader_that_knows_less_than_it_has(three)
    assert not three[2].offsets_available()
    three.fence(1)
    three.turn(2)
    assert three[2].high_watermark == 2 and three[2].offsets_available()


# ---- logs that part ------------------------------------------------------------------------------------------


def test_a_follower_does_not_cut_to_its_high_watermark(three: Replicas) -> None:
    """KIP-101, first scenario: the high watermark comes a fetch late; cutting there lost what was acked."""
    answer = three.produce("a")
    three.turn(1)
    for id_ in (2, 3):
        three.fetch(id_)
        three.turn(id_)
        three.fetch(id_)
    three.turn(1)
    assert answer.error == ErrorCode.NONE and three[2].high_watermark == 0
    three.crash(2)
    three.fence(2)
    three.restart(2)
    assert three.values(2) == ["a"]
    three.settle()
    failover(three)
    assert three.values(2) == three.values(3) == ["a"]


def test_logs_that_parted_are_made_the_same_by_epoch() -> None:
    """KIP-101, second scenario: two logs of one length and different records."""
    two = Replicas((1, 2))
    two.cut.add(2)
    two.produce("lost")
    two.turn(1)
    two.crash(1)
    two.put(leader=2, isr=(2,))
    two.cut.clear()
    two.produce("kept")
    two.settle()
    two.restart(1)
    two.settle()
    assert two.values(1) == two.values(2) == ["kept"]
    assert two.nodes[1].outside.cut == [("t", 0, 1, 0)]


def test_fast_changes_of_leaders_leave_no_divergence() -> None:
    """KIP-279: the follower's epoch is unknown to the leader; both go back to the last one they share."""
    two = Replicas((1, 2))
    two.produce("a")
    two.settle()
    two.cut.add(2)
    two.produce("x")  # epoch 0, offset 1, on 1 only
    two.turn(1)
    two.put(leader=2, isr=(2,))
    two.produce("y", "y2", "y3")  # epoch 1, offsets 1 to 3, on 2 only
    two.turn(2)
    two.put(leader=1, isr=(1,))
    two.produce("z")  # epoch 2, offset 2
    two.turn(1)
    two.cut.clear()
    two.settle(40)
    assert two.values(1) == two.values(2) == ["a", "x", "z"]
    assert two[2].log.epochs.entries() == [(0, 0), (2, 2)]
    assert set(two.state.isr) == {1, 2}


def test_a_tail_no_longer_than_the_leaders_log_is_cut_by_its_epoch() -> None:
    """KIP-279, the short tail: by its offset it could be a prefix of the leader's log, by its epoch it is none."""
    two = Replicas((1, 2))
    two.produce("a")
    two.settle()
    two.cut.add(2)
    two.produce("x")  # epoch 0, offset 1, on 1 only
    two.turn(1)
    two.put(leader=2, isr=(2,))
    two.produce("y")  # epoch 1, offset 1, on 2 only
    two.turn(2)
    two.put(leader=1, isr=(1,))
    two.produce("z")  # epoch 2, offset 2
    two.turn(1)
    two.cut.clear()
    two.settle(40)
    assert two.values(1) == two.values(2) == ["a", "x", "z"]
    assert two.nodes[2].outside.cut == [("t", 0, 2, 1)]


def test_an_epoch_without_records_is_forgotten_by_a_follower(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    three.put(leader=2)
    assert three[2].log.latest_epoch == 1  # and no record was written in it
    three.put(leader=3)
    three.settle()
    three.produce("b")
    three.settle()
    assert [three.values(id_) for id_ in ALL] == [["a", "b"]] * 3
    assert three[2].log.epochs.entries() == [(0, 0), (2, 1)]


def test_a_follower_beyond_the_leaders_end_is_cut(three: Replicas) -> None:
    """After an unclean election: the leader's log is shorter, and no epoch tells."""
    three.produce("a", "b", "c")
    three.settle()
    log = three[1].log
    three.put(isr=(1,))
    log.truncate_fully_and_start_at(0, three.nodes[1].now)
    three[1].moves(STATE)
    three.settle(40)
    assert three.values(2) == three.values(3) == []


def test_a_follower_below_the_leaders_start_begins_there(three: Replicas) -> None:
    three.crash(3)
    three.fence(3)
    three.produce("a")
    three.produce("b")
    three.settle()
    assert three[1].delete_records(2) == 2
    three.restart(3)
    three.settle()
    assert three[3].log.log_start_offset == three[3].log.log_end_offset == 2
    three.produce("c")
    three.settle()
    assert three.values(3) == ["c"]


def test_a_log_that_starts_inside_a_batch_is_replicated(three: Replicas) -> None:
    three.crash(3)
    three.fence(3)
    three.produce("a", "b", "c")
    three.settle()
    three[1].delete_records(2)
    three.restart(3)
    three.settle()
    assert (three[3].log.log_start_offset, three[3].log.log_end_offset) == (2, 3)
    assert set(three.state.isr) == {1, 2, 3}


def test_a_replica_whose_records_parted_below_the_leaders_start_inside_a_batch_begins_there() -> None:
    """The leader knows no end of the old epoch above its start, and has a batch around that."""
    two = Replicas((1, 2))
    two.cut.add(2)
    for value in "xyz":
        two.produce(value)  # epoch 0, offsets 0 to 2, on 1 only
    two.turn(1)
    two.put(leader=2, isr=(2,))
    two.produce("a", "b", "c")  # epoch 1, one batch, on 2 only
    two.turn(2)
    two[2].delete_records(2)
    two.cut.clear()
    two.settle(40)
    assert (two[1].log.log_start_offset, two[1].log.log_end_offset) == (2, 3)
    assert two.values(1) == two.values(2)
    assert set(two.state.isr) == {1, 2}


def test_deleted_records_are_deleted_at_followers(three: Replicas) -> None:
    three.produce("a", "b")
    three.settle()
    three[1].delete_records(1)
    three.settle()
    assert [three[id_].log_start_offset for id_ in ALL] == [1, 1, 1]
    assert three[1].low_watermark == 1


# ---- answers that are no records -----------------------------------------------------------------------------


def answered(three: Replicas, error: ErrorCode = ErrorCode.NONE, records: bytes = b"") -> None:
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    request = follower.next_request(node.now)
    assert request is not None
    data = PartitionData(partition_index=0, error_code=error, high_watermark=0, records=records)
    topic = FetchableTopicResponse(topic_id=three.topic.id, partitions=[data])
    follower.received(request, FetchResponse(session_id=5, responses=[topic]), node.now)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_a_leader_that_does_not_lead_yet_is_asked_again_soon_then_seldom(
    three: Replicas, error: ErrorCode
) -> None:
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    pauses = []
    for _ in range(9):
        answered(three, error)
        pauses.append(follower.next_time() - node.mono)
        assert follower.next_request(node.now) is None
        node.after(pauses[-1])
    assert pauses[0] == pytest.approx(0.02) and pauses[1] == pytest.approx(0.04)
    assert max(pauses) == pytest.approx(1.0)


def test_a_follower_with_a_sync_under_way_does_not_ask_for_the_time_of_its_rests(three: Replicas) -> None:
    """Found by the simulated cluster: the fetcher went round in circles until a slow disk was done."""
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    answered(three, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    followed = next(iter(follower.partitions.values()))
    follower._unsafe[followed] = None
    node.after(60.0)
    assert follower.next_request(node.now) is None
    assert follower.next_time() == inf
    follower.safe(followed)
    assert follower.next_time() <= node.mono
    assert follower.next_request(node.now) is not None


def test_a_fenced_epoch_waits_for_the_metadata(three: Replicas) -> None:
    node = three.nodes[2]
    answered(three, ErrorCode.FENCED_LEADER_EPOCH)
    node.after(3600.0)
    assert three.fetch(2) is False
    three.put(leader=1)
    assert three.fetch(2) is True


def test_corrupt_records_are_refused_told_and_fetched_again(three: Replicas) -> None:
    answer = three.produce("a")
    three.turn(1)
    good = three[1].log.read(0, 1000, 1).read()
    answered(three, records=good[:-1] + bytes([good[-1] ^ 1]))
    assert three[2].log.log_end_offset == 0
    assert "wrong CRC" in three.nodes[2].outside.corrupt[0][2]
    three.settle()
    assert three.values(2) == ["a"] and answer.here


def test_an_answer_from_before_a_change_is_not_used(three: Replicas) -> None:
    three.produce("a")
    three.turn(1)
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    request = follower.next_request(node.now)
    assert isinstance(request, FetchRequest)
    request.max_wait_ms = 0
    answer = three.nodes[1].ask(request, 17).message
    three.put(leader=3)
    follower.received(request, answer, node.now)
    assert three[2].log.log_end_offset == 0


def test_a_follower_whose_end_is_unknown_asks_for_the_ends(three: Replicas) -> None:
    answered(three, ErrorCode.OFFSET_OUT_OF_RANGE)
    node = three.nodes[2]
    request = node.broker.followers.by_leader[1].next_request(node.now)
    assert isinstance(request, ListOffsetsRequest)
    assert request.topics[0].partitions[0].timestamp == -1


# ---- the controller's answers --------------------------------------------------------------------------------


def wants_to_join(three: Replicas) -> None:
    """Broker 3 is back and has caught up; the controller has been asked and has not answered."""
    three.crash(3)
    three.fence(3)
    three.settle()
    three.restart(3)
    three.fetch(3)
    assert three[1].leading.proposed == (1, 2, 3)
    assert len(three.nodes[1].outside.altering) == 1


def refuse(three: Replicas, error: ErrorCode) -> None:
    node = three.nodes[1]
    node.outside.altering.clear()
    row = AlterPartitionResponsePartitionData(partition_index=0, error_code=error)
    topic = AlterPartitionResponseTopicData(topic_id=three.topic.id, partitions=[row])
    node.broker.in_sync.answered(AlterPartitionResponse(topics=[topic]), node.now)


def test_a_replica_counts_for_the_high_watermark_before_the_controller_agreed(three: Replicas) -> None:
    wants_to_join(three)
    answer = three.produce("a")
    three.nodes[1].turn()
    three.fetch(2)
    three.nodes[2].turn()
    three.fetch(2)
    three.nodes[1].turn()
    assert not answer.here  # 3 may be in sync by now, for all we know
    three.settle()
    assert answer.error == ErrorCode.NONE


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_replica_is_not_in_sync(three: Replicas, error: ErrorCode) -> None:
    wants_to_join(three)
    refuse(three, error)
    assert three[1].leading.proposed is None and three[1].leading.isr == (1, 2)


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_an_old_view_waits_for_the_metadata(three: Replicas, error: ErrorCode) -> None:
    wants_to_join(three)
    refuse(three, error)
    three.nodes[1].after(60.0)
    assert three[1].leading.proposed == (1, 2, 3) and not three.nodes[1].outside.altering
    three.put(isr=(1, 2))
    assert three[1].leading.proposed is None


def test_an_unanswered_change_is_asked_again(three: Replicas) -> None:
    wants_to_join(three)
    node = three.nodes[1]
    node.outside.altering.clear()
    node.broker.in_sync.answered(None, node.now)
    assert not node.outside.altering
    deadline = node.broker.next_deadline()
    assert deadline is not None and deadline > node.mono
    node.after(0.1)
    assert len(node.outside.altering) == 1
    three.settle()
    assert three.state.isr == (1, 2, 3)


# ---- by chance -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_nothing_acknowledged_is_lost_whatever_fails_in_whatever_order(seed: int) -> None:
    """Produces, single steps of replication, power cuts, elections; at the end all logs are the same."""
    dice = random.Random(seed)
    three = Replicas(seed=seed, min_insync_replicas=dice.choice("12"))
    answers = []
    acknowledged: dict[str, int] = {}
    down: list[int] = []

    def check() -> None:
        for value, answer in answers:
            if answer.here and answer.error == ErrorCode.NONE:
                acknowledged.setdefault(value, answer.produced.base_offset)
        if three.state.leader in three.nodes:
            leader = three[three.state.leader]
            for id_ in set(leader.leading.isr) & set(three.nodes):
                assert leader.high_watermark <= three[id_].log.acknowledged_end_offset, id_

    for number in range(250):
        act = dice.random()
        living = list(three.nodes)
        if act < 0.25 and three.state.leader in three.nodes:
            everywhere = dice.random() < 0.7
            answer = three.produce(f"v{number}", acks=-1 if everywhere else 1)
            if everywhere:
                answers.append((f"v{number}", answer))
        elif act < 0.60:
            three.fetch(dice.choice(living))
        elif act < 0.80:
            node = three.nodes[dice.choice(living)]
            node.write()
            if dice.random() < 0.8:
                node.sync()
        elif act < 0.90:
            three.turn(dice.choice(living))
        elif act < 0.93:
            three.after(dice.choice((0.05, 1.0, 6.0)))
        elif act < 0.95 and len(down) < 1:
            victim = dice.choice(living)
            check()
            three.crash(victim)
            three.fence(victim)
            down.append(victim)
        elif act < 0.98 and down:
            three.restart(down.pop())
        check()
    while down:
        three.restart(down.pop())
    three.settle(30)
    answers.append(("last", three.produce("last")))
    three.settle()
    check()
    logs = [three.values(id_) for id_ in ALL]
    assert logs[0] == logs[1] == logs[2]
    assert set(three.state.isr) == set(ALL)
    assert "last" in acknowledged
    assert not [value for value in acknowledged if value not in logs[0]]
    assert len(set(logs[0])) == len(logs[0])


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_a_full_disk_rests_whatever_answer_was_on_its_way(three: Replicas, error: ErrorCode) -> None:
    """Else it would be asked for more at once, and again and again until nothing is free at all."""
    three.leader.produce(batch("a"))
    three.turn(1)
    records = three[1].log.read(0, 1 << 20, 1).read()
    node = three.nodes[2]
    follower = node.broker.followers.by_leader[1]
    (followed,) = follower.partitions.values()
    request = follower.next_request(node.now)
    assert request is not None
    three[2].no_room = True
    follower.pause(followed, True)
    data = PartitionData(partition_index=0, error_code=error, high_watermark=0, records=records)
    topic = FetchableTopicResponse(topic_id=three.topic.id, partitions=[data])
    follower.received(request, FetchResponse(session_id=5, responses=[topic]), node.now)
    node.turn()
    for _ in range(3):
        asked = follower.next_request(node.now)
        assert asked is None or not asked.topics
        node.after(2)
    three[2].no_room = False
    follower.pause(followed, False)
    asked = follower.next_request(node.now)
    assert isinstance(asked, FetchRequest)
    assert [topic.topic_id for topic in asked.topics] == [three.topic.id]
