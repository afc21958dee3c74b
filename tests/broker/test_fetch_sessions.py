"""What sessions remember of their clients: the same whether a fetch is taken from its bytes or decoded."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.plain_nodes import FOLLOWER, SIZE, Reading, node_for, partition_of, put
from tests.broker.transactions import ask_to_end, write

from barnabas.errors import ErrorCode


def at_rest(node: Node, reading: Reading) -> bool:
    """Whether its session has nothing to look at."""
    session = node.broker.sessions.get(reading.session)
    assert session is not None
    return not session.marked


# ---- rest ----------------------------------------------------------------------------------------------


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
    for _ in range(6):
        reading.batches()
        node.turn()
    assert at_rest(node, reading)
    for _ in range(100):
        node.after(1.0)
        reading.batches()
        node.turn()
        node.broker.maintain(node.now)
        assert at_rest(node, reading)
    put(node, 1)
    node.after(29.0)
    assert partition_of(node, 1).laggards(node.now) == ()
    node.after(2.0)
    assert partition_of(node, 1).laggards(node.now) == (FOLLOWER,)
    assert partition_of(node, 0).laggards(node.now) == ()
    assert node.outside.altering == []


def test_a_follower_that_rested_is_behind_since_its_last_fetch_before_the_record(way: str) -> None:
    node = node_for("follower", way)
    reading = Reading(node, "follower", waits=False)
    for _ in range(3):
        reading.batches()
    assert at_rest(node, reading)
    put(node, 0)
    node.after(20.0)
    assert len(reading.fetch().fetched.records) == SIZE
    node.after(9.0)
    assert partition_of(node).laggards(node.now) == ()
    node.after(2.0)
    assert partition_of(node).laggards(node.now) == (FOLLOWER,)


def test_a_partition_that_a_follower_forgets_is_behind_from_then_on(way: str) -> None:
    node = node_for("follower", way, 2)
    reading = Reading(node, "follower", partitions=2, waits=False)
    for _ in range(3):
        reading.batches()
    assert at_rest(node, reading)
    place = reading.session, reading.epoch
    node.fetch({}, version=17, session=place, forget=(("t", 1),), replica=FOLLOWER, log_start=0)
    reading.epoch += 1
    for _ in range(40):
        node.after(1.0)
        reading.batches()
    put(node, 0, 1)
    assert partition_of(node, 0).laggards(node.now) == ()
    assert partition_of(node, 1).laggards(node.now) == (FOLLOWER,)


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


# ---- epochs and ends -----------------------------------------------------------------------------------


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
@pytest.mark.parametrize("fetches", [1, 3])
def test_an_evicted_session_is_unknown(kind: str, way: str, fetches: int) -> None:
    """After so many fetches it names its partition, or nothing."""
    node = node_for(kind, way, max_incremental_fetch_session_cache_slots="1")
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    node.after(121.0)
    assert reading.batches() == [(0, 0)]
    for _ in range(1, fetches):
        assert reading.batches() == []
    assert node.fetch(session=(0, 0), isolation=1).message.session_id == 0
    node.after(121.0)
    assert node.fetch(session=(0, 0), isolation=1).message.session_id
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


def test_a_session_that_two_take_turns_in_tells_each_what_it_may_read(way: str) -> None:
    """One of them reads only what is committed."""
    node = node_for("session", way, 2)
    reading = Reading(node, "session", partitions=2, waits=False)
    put(node, 0)
    write(node, "of a transaction")
    for isolation, found in ((1, [(0, 0)]), (1, []), (1, []), (1, []), (0, [(0, 1)]), (1, []), (0, [])):
        reading.limits["isolation"] = isolation
        assert reading.batches() == found
    put(node, 0, 1)
    for isolation, found in ((1, [(1, 0)]), (1, []), (0, [(0, 2)]), (0, []), (1, []), (0, [])):
        reading.limits["isolation"] = isolation
        assert reading.batches() == found
    ask_to_end(node)
    node.turn()
    reading.limits["isolation"] = 1
    assert reading.batches() == [(0, 3)]
