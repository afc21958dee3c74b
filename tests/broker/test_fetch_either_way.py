"""What a client is told when more happens than that records come: the same from its bytes or decoded."""

from __future__ import annotations

import pytest
from tests.broker.harness import Answer, Node, batch
from tests.broker.plain_nodes import FOLLOWER, KINDS, WAYS, PlainNode, Reading, node_for
from tests.broker.transactions import ask_to_end, write

from barnabas.broker.replicas.partition import Partition
from barnabas.errors import ErrorCode

SIZE = len(batch("x" * 40))
"""Of a batch here."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def put(node: Node, *partitions: int) -> None:
    """One batch more in each of these."""
    for index in partitions:
        node.append(batch("x" * 40), index=index, acks=1)


def partition_of(node: Node, index: int = 0) -> Partition:
    partition = node.broker.partition("t", index)
    assert partition is not None
    return partition


def at_rest(node: Node, reading: Reading) -> bool:
    """Whether its session has nothing to look at."""
    session = node.broker.sessions.get(reading.session)
    assert session is not None
    return not session.marked


# ---- rest ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["session", "follower"])
def test_who_has_read_everything_comes_to_rest(kind: str, way: str) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, waits=False)
    put(node, 0, 1, 0)
    assert len(reading.batches()) == 3
    assert not at_rest(node, reading)
    for _ in range(3):
        assert reading.batches() == []
    assert at_rest(node, reading)
    put(node, 1)
    assert reading.batches() == [(1, 1)]


def test_a_follower_at_rest_stays_in_sync(way: str) -> None:
    node = node_for("follower", way, 2)
    reading = Reading(node, "follower", partitions=2, waits=False)
    put(node, 0, 1)
    for _ in range(4):
        reading.batches()
    assert at_rest(node, reading)
    for _ in range(100):
        node.after(1.0)
        reading.batches()
        node.broker.maintain(node.now)
    put(node, 1)
    node.after(29.0)
    assert partition_of(node, 1).laggards(node.now) == ()
    node.after(2.0)
    assert partition_of(node, 1).laggards(node.now) == (FOLLOWER,)
    assert partition_of(node, 0).laggards(node.now) == ()
    assert node.outside.altering == []


def test_what_a_follower_has_is_safe(way: str) -> None:
    node = node_for("follower", way)
    reading = Reading(node, "follower")
    produced = node.produce(batch("x" * 40))
    node.turn()
    assert reading.batches() == [(0, 0)]
    assert not produced.here
    waiting = reading.fetch()
    node.turn()
    assert produced.here and not waiting.here
    assert partition_of(node).high_watermark == 1


@pytest.mark.parametrize("kind", ["session", "follower"])
def test_a_moved_log_start_ends_a_wait(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    put(node, 0, 0)
    reading.batches()
    waiting = reading.fetch()
    node.turn()
    assert not waiting.here
    partition_of(node).delete_records(1)
    node.turn()
    if kind == "follower":
        assert waiting.fetched.log_start_offset == 1
    else:
        assert not waiting.here
        node.after(10.1)
        assert waiting.fetched.log_start_offset == 1


def test_what_a_consumer_gets_is_counted_once(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, min_bytes=2 * SIZE)
    waiting = reading.fetch()
    put(node, 0, 0)
    reading.batches(waiting)
    put(node, 0, 0)
    reading.batches()
    assert partition_of(node).leading.traffic.bytes_out == (0 if kind == "follower" else 4 * SIZE)


# ---- transactions ----------------------------------------------------------------------------------------


def gone(answer: Answer) -> list[tuple[int, int]] | None:
    """The aborted transactions that an answer names: producer and first offset."""
    named = answer.fetched.aborted_transactions
    return None if named is None else [(one.producer_id, one.first_offset) for one in named]


def test_an_open_transaction_is_waited_for_and_its_abort_told(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, isolation=1)
    put(node, 0)
    write(node, "of a transaction", producer=7)
    put(node, 0)
    answer = reading.fetch()
    if kind == "follower":
        assert reading.batches(answer) == [(0, 0), (0, 1), (0, 2)]
        reading.fetch()
        node.turn()
        assert partition_of(node).last_stable_offset == 1
    else:
        assert reading.batches(answer) == [(0, 0)]
        assert gone(answer) == []
        assert answer.fetched.last_stable_offset == 1
        waiting = reading.fetch()
        put(node, 0)
        assert not waiting.here
        ask_to_end(node, commit=False, producer=7)
        node.turn()
        assert gone(waiting) == [(7, 1)]
        assert reading.batches(waiting) == [(0, 1), (0, 2), (0, 3), (0, 4)]
        put(node, 0)
        answer = reading.fetch()
        assert gone(answer) == []
        assert reading.batches(answer) == [(0, 5)]


def test_who_reads_everything_reads_open_transactions_too(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    write(node, "of a transaction", producer=7)
    put(node, 0)
    answer = reading.fetch()
    assert reading.batches(answer) == [(0, 0), (0, 1)]
    assert gone(answer) is None
    assert answer.fetched.last_stable_offset == 0


def test_a_partition_with_an_open_transaction_does_not_keep_back_the_others(kind: str, way: str) -> None:
    node = node_for(kind, way, 3)
    reading = Reading(node, kind, partitions=3, max_bytes=SIZE, isolation=1)
    put(node, 0)
    write(node, "x" * 40, producer=7)
    put(node, *[0, 1, 2] * 4)
    for _ in range(9 if kind != "follower" else 14):
        assert len(reading.batches()) == 1
    if kind != "follower":
        waiting = reading.fetch()
        put(node, 0)
        assert not waiting.here
        ask_to_end(node, commit=True, producer=7)
        node.turn()
        assert reading.batches(waiting) == [(0, 1)]
        for _ in range(6):
            assert len(reading.batches()) == 1
    taken = {index: [offset for where, offset in reading.taken if where == index] for index in range(3)}
    assert taken == {0: list(range(6 if kind == "follower" else 8)), 1: [0, 1, 2, 3], 2: [0, 1, 2, 3]}


@pytest.mark.parametrize("kind", ["alone", "session"])
def test_an_answer_is_not_due_for_bytes_of_an_open_transaction(kind: str, way: str) -> None:
    node = node_for(kind, way, 2)
    reading = Reading(node, kind, partitions=2, min_bytes=2 * SIZE, isolation=1)
    write(node, "x" * 40, producer=7)
    put(node, 0, 0, 1)
    waiting = reading.fetch()
    assert not waiting.here
    put(node, 1)
    assert reading.batches(waiting) == [(1, 0), (1, 1)]


# ---- sessions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [-1, 1])
def test_another_epoch_of_the_session_is_refused(kind: str, way: str, other: int) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    right = reading.epoch
    reading.epoch += other
    if kind == "alone":
        reading.epoch = 3  # there is no session 0
        assert reading.fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    else:
        assert reading.fetch().message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    reading.epoch = right
    assert reading.batches() == [(0, 0)]


@pytest.mark.parametrize("kind", ["session", "follower"])
def test_an_evicted_session_is_unknown(kind: str, way: str) -> None:
    node = node_for(kind, way, max_incremental_fetch_session_cache_slots="1")
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    node.after(121.0)
    assert reading.batches() == [(0, 0)]
    assert node.fetch(session=(0, 0), version=13).message.session_id == 0
    node.after(121.0)
    assert node.fetch(session=(0, 0), version=13).message.session_id
    assert reading.fetch().message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("kind", ["session", "follower"])
def test_a_fetch_that_its_session_left_behind_is_told_so(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    left = reading.fetch()
    assert not left.here
    waiting = reading.fetch()
    assert left.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert not waiting.here
    put(node, 0)
    assert reading.batches(waiting) == [(0, 0)]


@pytest.mark.parametrize("kind", ["session", "follower"])
def test_a_session_that_is_evicted_while_its_fetch_waits_answers_that_it_is_over(kind: str, way: str) -> None:
    node = node_for(kind, way, max_incremental_fetch_session_cache_slots="1")
    reading = Reading(node, kind)
    waiting = reading.fetch()
    node.broker.sessions._remove(reading.session)
    put(node, 0)
    node.after(10.1)
    assert waiting.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_full_waiting_room_answers_at_once(kind: str, way: str) -> None:
    node = node_for(kind, way, barnabas_max_waiters="1")
    reading = Reading(node, kind, min_bytes=5 * SIZE)
    node.create("u")
    put(node, 0)
    first = node.fetch({("u", 0): 0}, max_wait_ms=60_000)
    assert not first.here
    assert reading.batches() == [(0, 0)]
    assert reading.batches() == []
    assert not first.here


# ---- leaders and logs ------------------------------------------------------------------------------------


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    reading.leader_epoch = partition_of(node).leader_epoch
    assert reading.batches() == [(0, 0)]
    node.change("t", leader=1)
    node.turn()
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.FENCED_LEADER_EPOCH
    reading.leader_epoch += 2
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    reading.leader_epoch -= 1
    put(node, 0)
    assert reading.batches(reading.fetch(all_of_it=True)) == [(0, 1)]


def test_a_waiting_fetch_hears_that_its_leader_epoch_is_over(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    reading.leader_epoch = partition_of(node).leader_epoch
    waiting = reading.fetch(all_of_it=True)
    assert not waiting.here
    node.change("t", leader=1)
    node.turn()
    assert reading.error(waiting) == ErrorCode.FENCED_LEADER_EPOCH


def test_a_log_that_left_the_leaders_is_told_where(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0, 0, 0)
    assert len(reading.batches()) == 3
    node.change("t", leader=1, leader_epoch=4)
    node.turn()
    put(node, 0, 0)
    reading.last_epoch = 0
    reading.offsets[0] = 4
    answer = reading.fetch(all_of_it=True)
    assert (answer.fetched.diverging_epoch.epoch, answer.fetched.diverging_epoch.end_offset) == (0, 3)
    assert len(answer.fetched.records) == 0
    reading.offsets[0] = 3
    assert reading.batches(reading.fetch(all_of_it=True)) == [(0, 3), (0, 4)]
    reading.last_epoch = 4
    put(node, 0)
    assert reading.batches() == [(0, 5)]


@pytest.mark.parametrize("offset", [0, 3])
def test_an_offset_outside_the_log_is_out_of_range(kind: str, way: str, offset: int) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0, 0)
    for _ in range(3):
        reading.batches()
        node.turn()
    partition_of(node).delete_records(1)
    reading.offsets[0] = offset
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("kind", ["alone", "session"])
def test_a_consumer_of_a_topic_that_is_made_again_hears_of_its_next_record(
    kind: str, way: str, version: int
) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, version=version)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    node.delete("t")
    node.turn()
    node.create("t")
    reading.offsets[0] = 0
    waiting = reading.fetch(all_of_it=True)
    if waiting.here:  # the session still has the topic of the old id
        errors = {data.error_code for data in waiting.partitions.values()}
        assert errors == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID}
        reading.session, reading.epoch = 0, 0
        waiting = reading.fetch(all_of_it=True)
    assert not waiting.here
    put(node, 0)
    assert reading.batches(waiting) == [(0, 0)]
    for number in range(1, 5):
        put(node, 0)
        assert reading.batches() == [(0, number)]


# ---- throttles -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_follower_in_sync_reads_counts_for_the_throttle_of_all(way: str, waits: bool) -> None:
    node = node_for("follower", way, 2, leader_replication_throttled_rate="100")
    node.configure("t", leader_replication_throttled_replicas="*")
    quota = node.broker.leader_quota
    reading = Reading(node, "follower", partitions=2, waits=waits)
    for number in range(1, 5):
        waiting = reading.fetch() if waits else None
        put(node, number % 2)
        assert len(reading.batches(waiting)) == 1
        assert quota.bytes == number * SIZE
    assert quota.exceeded(node.now)
    node.after(60.0)
    assert not quota.exceeded(node.now)


def test_what_is_not_throttled_does_not_count(way: str) -> None:
    node = node_for("follower", way, leader_replication_throttled_rate="100")
    reading = Reading(node, "follower", waits=False)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    assert node.broker.leader_quota.bytes == 0


def test_a_follower_that_left_the_in_sync_set_waits_for_the_throttle(way: str) -> None:
    node = node_for("follower", way, leader_replication_throttled_rate="100")
    reading = Reading(node, "follower", waits=False)
    node.configure("t", leader_replication_throttled_replicas="*")
    put(node, *[0] * 3)
    assert len(reading.batches()) == 3
    put(node, 0)
    node.change("t", isr=(1,))
    node.turn()
    assert reading.batches() == []
    node.change("t", isr=(1, FOLLOWER))
    node.turn()
    assert reading.batches() == [(0, 3)]


def test_these_nodes_do_take_fetches_from_their_bytes(kind: str) -> None:
    node = node_for(kind, "from bytes")
    reading = Reading(node, kind)
    assert isinstance(node, PlainNode)
    before = node.recognized
    for _ in range(10):
        put(node, 0)
        reading.batches()
    assert node.recognized == before + 10
