"""Incremental fetch sessions, clause by clause of KIP-227."""

from __future__ import annotations

import pytest
from tests.broker.harness import Chance, Node, batch

from barnabas.broker.sessions import Asker, FetchPosition, FetchSession, SessionCache, next_epoch
from barnabas.broker.watching import END, HIGH_WATERMARK
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.plane.fetch_asked import Asked, Terms

BOTH = {("a", 0): 0, ("b", 0): 0}
TERMS = Terms(17, -1, -1, 0, 1, 1 << 20, 0, 0, "")


def opened(disk: MemoryDisk) -> tuple[Node, int]:
    """A node with topics a and b, and the id of a session over both."""
    node = Node(disk)
    node.create("a")
    node.create("b")
    return node, node.fetch(BOTH, session=(0, 0)).message.session_id


def test_a_sessionless_fetch_gets_no_session(node: Node) -> None:
    answer = node.fetch(session=(0, -1))
    assert answer.message.session_id == 0
    assert len(node.broker.sessions) == 0


def test_a_full_fetch_with_epoch_0_opens_a_session_and_tells_everything(disk: MemoryDisk) -> None:
    node = Node(disk)
    node.create("a")
    node.create("b")
    answer = node.fetch(BOTH, session=(0, 0))
    assert answer.message.session_id > 0
    assert list(answer.partitions) == list(BOTH)


def test_an_incremental_answer_tells_only_what_changed(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    quiet = node.fetch({}, session=(session, 1))
    assert (quiet.message.session_id, quiet.message.responses) == (session, [])
    node.append(batch("x"), "b")
    news = node.fetch({}, session=(session, 2))
    assert list(news.partitions) == [("b", 0)]


def test_a_moved_high_watermark_is_told_without_records(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    node.fetch({("b", 0): 1}, session=(session, 1))
    node.append(batch("x"), "b")
    news = node.fetch({}, session=(session, 2))
    assert news.partitions["b", 0].high_watermark == 1
    assert len(news.partitions["b", 0].records) == 0
    assert node.fetch({}, session=(session, 3)).message.responses == []


def test_a_moved_log_start_is_told(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    node.append(batch("x"), "b")
    node.fetch({("b", 0): 1}, session=(session, 1))
    node.broker.partition("b", 0).delete_records(1)  # type: ignore[union-attr]
    news = node.fetch({}, session=(session, 2))
    assert news.partitions["b", 0].log_start_offset == 1


def test_an_error_is_told_and_so_is_its_end(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    node.change("b", replicas=(1, 2), isr=(1, 2), leader=2)
    lost = node.fetch({}, session=(session, 1))
    assert lost.partitions["b", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.change("b", replicas=(1,), isr=(1,), leader=1)
    back = node.fetch({}, session=(session, 2))
    assert back.partitions["b", 0].error_code == ErrorCode.NONE


def test_partitions_are_added_changed_and_forgotten(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    node.create("c")
    node.append(batch("x"), "a")
    node.append(batch("x"), "c")
    added = node.fetch({("c", 0): 0, ("a", 0): 1}, session=(session, 1))
    assert list(added.partitions) == [("a", 0), ("c", 0)]
    assert len(added.partitions["a", 0].records) == 0
    node.append(batch("y"), "a")
    forgotten = node.fetch({}, session=(session, 2), forget=(("a", 0), ("nowhere", 3)))
    assert list(forgotten.partitions) == [("c", 0)]


def test_forgetting_everything_closes_the_session(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    answer = node.fetch({}, session=(session, 1), forget=(("a", 0), ("b", 0)), max_wait_ms=1000)
    assert (answer.message.session_id, answer.message.error_code) == (0, 0)
    assert len(node.broker.sessions) == 0


def test_an_unknown_session_is_an_error_of_the_whole_answer(node: Node) -> None:
    answer = node.fetch(session=(12345, 1))
    assert answer.message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (answer.message.session_id, answer.message.responses) == (0, [])


def test_another_epoch_than_expected_is_an_error(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    node.fetch({}, session=(session, 1))
    for epoch in (1, 3):
        answer = node.fetch({}, session=(session, epoch))
        assert answer.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert node.fetch({}, session=(session, 2)).message.error_code == ErrorCode.NONE


def test_a_session_does_not_cross_version_13(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    answer = node.fetch({}, session=(session, 1), version=13)
    assert answer.message.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    by_id = node.fetch(BOTH, session=(0, 0), version=13).message.session_id
    answer = node.fetch({}, session=(by_id, 1), version=12)
    assert answer.message.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_epoch_minus_one_closes_and_epoch_zero_replaces(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    replaced = node.fetch(BOTH, session=(session, 0)).message.session_id
    assert replaced not in (0, session)
    assert len(node.broker.sessions) == 1
    kept = node.broker.sessions.get(replaced)
    closed = node.fetch(BOTH, session=(replaced, -1))
    assert (closed.message.session_id, list(closed.partitions)) == (0, list(BOTH))
    assert len(node.broker.sessions) == 0
    assert kept is not None
    assert (kept.positions, kept.marked) == ({}, []), "positions and session would keep each other in memory"


def test_a_new_session_expects_1_and_after_the_last_epoch_comes_1() -> None:
    assert next_epoch(1) == 2
    assert next_epoch(2147483647) == 1


def test_partitions_that_gave_records_go_to_the_end_of_the_line(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    size = len(batch("x"))
    for _ in range(3):
        node.append(batch("x"), "a")
        node.append(batch("x"), "b")
    first = node.fetch({}, session=(session, 1), max_bytes=size, partition_max_bytes=size)
    assert len(first.partitions["a", 0].records) == size
    assert len(first.partitions["b", 0].records) == 0
    second = node.fetch({("a", 0): 1}, session=(session, 2), max_bytes=size, partition_max_bytes=size)
    assert list(second.partitions) == [("b", 0)]
    assert len(second.partitions["b", 0].records) == size


def test_an_unknown_topic_id_stays_in_the_session_and_is_resolved_anew(disk: MemoryDisk) -> None:
    node, _ = opened(disk)
    session = node.fetch(BOTH, session=(0, 0), version=13).message.session_id
    topic = node.image.topics_by_name["b"]
    node.delete("b")
    answer = node.fetch({}, session=(session, 1), version=13)
    assert answer.partitions[topic.id, 0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    node.image.topics[topic.id] = node.image.topics_by_name["b"] = topic
    node.broker.start(node.now)
    node.turn()
    answer = node.fetch({}, session=(session, 2), version=13)
    assert answer.partitions[topic.id, 0].error_code == ErrorCode.NONE


def test_a_parked_fetch_that_its_session_left_behind_is_an_epoch_error(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    parked = node.fetch({}, session=(session, 1), max_wait_ms=60_000)
    assert not parked.here
    node.fetch({}, session=(session, 2))
    node.append(batch("x"), "a")
    assert parked.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert parked.message.session_id == session


def test_a_quiet_session_parks(disk: MemoryDisk) -> None:
    node, session = opened(disk)
    parked = node.fetch({}, session=(session, 1), max_wait_ms=500)
    assert not parked.here
    node.append(batch("x"), "b")
    assert list(parked.partitions) == [("b", 0)]


# ---- the slots -------------------------------------------------------------------------------------------


def at(seconds: float) -> Now:
    return Now(seconds, 0)


def create(sessions: SessionCache, count: int, *, follower: bool, seconds: float) -> int:
    """A session of so many positions, made at this time; its id, 0 where it gets no slot."""
    session = FetchSession(True, at(seconds))
    session.follower = follower
    for index in range(count):
        session.positions[b"t", index] = FetchPosition(session, b"t", index)
    return sessions.create(session, at(seconds))


def cache(slots: int = 2) -> SessionCache:
    return SessionCache(slots, Chance())


def test_a_full_cache_gives_no_session_to_one_who_is_not_worth_more() -> None:
    sessions = cache()
    for _ in range(2):
        assert create(sessions, 1, follower=False, seconds=0)
    assert create(sessions, 1, follower=False, seconds=10) == 0
    assert create(sessions, 5, follower=False, seconds=10) == 0, "a young one is not evicted by a consumer"


def test_an_idle_session_goes_first_whatever_it_is_worth() -> None:
    sessions = cache()
    idle = create(sessions, 100, follower=True, seconds=0)
    busy = create(sessions, 1, follower=False, seconds=115)
    assert create(sessions, 1, follower=False, seconds=120) == 0
    assert create(sessions, 1, follower=False, seconds=121)
    assert sessions.get(idle) is None
    assert sessions.get(busy) is not None
    assert sessions.statistics().evictions == 1


def test_the_session_that_idled_longest_is_the_one_whose_fetches_stopped() -> None:
    sessions = cache()
    first = create(sessions, 1, follower=False, seconds=0)
    silent = create(sessions, 1, follower=False, seconds=1)
    fetching = sessions.get(first)
    assert fetching is not None
    again = Asked(1, fetching.epoch, [], [])
    assert sessions.take(TERMS._replace(session_id=first), again, at(100)) is fetching
    assert create(sessions, 1, follower=False, seconds=130)
    assert sessions.get(silent) is None
    assert sessions.get(first) is fetching


def test_an_old_session_goes_for_one_with_more_partitions() -> None:
    sessions = cache()
    small = create(sessions, 2, follower=False, seconds=0)
    large = create(sessions, 9, follower=False, seconds=0)
    for session in (small, large):
        sessions.get(session).used = 130  # type: ignore[union-attr]
    assert create(sessions, 2, follower=False, seconds=130) == 0
    assert create(sessions, 3, follower=False, seconds=130)
    assert sessions.get(small) is None
    assert sessions.get(large) is not None


def test_a_follower_evicts_any_consumer_but_no_young_follower() -> None:
    sessions = cache()
    consumer = create(sessions, 50, follower=False, seconds=0)
    assert create(sessions, 1, follower=True, seconds=0)
    assert create(sessions, 1, follower=True, seconds=1)
    assert sessions.get(consumer) is None
    assert create(sessions, 9, follower=True, seconds=2) == 0


def test_no_slots_means_no_sessions() -> None:
    assert create(cache(0), 1, follower=False, seconds=0) == 0


def test_the_cache_is_bounded(disk: MemoryDisk) -> None:
    node = Node(disk, max_incremental_fetch_session_cache_slots="3")
    node.create("t")
    given = [node.fetch(session=(0, 0)).message.session_id for _ in range(5)]
    assert [session > 0 for session in given] == [True, True, True, False, False]
    assert len(node.broker.sessions) == 3


def test_a_session_does_not_grow_for_ever(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.sessions.MOST_POSITIONS", 3)
    node, session = opened(disk)
    assert node.fetch({("no", 1): 0}, session=(session, 1)).message.session_id == session
    answer = node.fetch({("no", 2): 0}, session=(session, 2))
    assert answer.message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(node.broker.sessions) == 0
    many = {("no", index): 0 for index in range(4)}
    assert node.fetch(many, session=(0, 0)).message.session_id == 0


class Waits:
    """A fetch that is parked."""

    def wake(self, now: Now) -> None:
        raise AssertionError("only the end of a loop step wakes it")

    def expired(self, now: Now) -> None:
        raise AssertionError("its time is not over")


def test_a_follower_is_not_woken_for_what_its_next_fetch_tells_it() -> None:
    session = FetchSession(True, at(0))
    session.asked_by(Asker(2, -1, False, "", -1), rack_aware=False)
    session.update(Asked(1, -1, [(b"t", 0, -1, 0, -1, -1, 100)], []))
    [position] = session.positions.values()
    session.rest(position)
    session.parked = parked = Waits()
    assert position.moved(HIGH_WATERMARK) is None
    assert session.marked == [position]
    assert position.moved(END) is parked
