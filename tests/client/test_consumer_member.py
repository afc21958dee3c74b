"""A member of a KIP-848 group without sockets: what it says, and what an answer means."""

from __future__ import annotations

import pytest

from barnabas.client.consumer_member import ConsumerGroupMember, Subscription
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

TOPIC = Uuid.of(1, 1)


def member(**options: str) -> ConsumerGroupMember:
    """A member that has said nothing yet."""
    pattern = options.pop("pattern", None)
    return ConsumerGroupMember("g", Subscription(("t",), pattern), member_id="m", **options)  # type: ignore[arg-type]


def answer(epoch: int, *partitions: int, topic: Uuid = TOPIC) -> ConsumerGroupHeartbeatResponse:
    """The coordinator's answer with an assignment."""
    told = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=list(partitions))]
    return ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=3000,
        assignment=ConsumerGroupHeartbeatResponseAssignment(topic_partitions=told),
    )


def quiet(epoch: int) -> ConsumerGroupHeartbeatResponse:
    """An answer that changes no assignment."""
    return ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch, heartbeat_interval_ms=3000)


def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """An answer that refuses."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message="no")


def settled(*partitions: int, epoch: int = 1, **options: str) -> ConsumerGroupMember:
    """A member that owns these partitions and has acknowledged them."""
    subject = member(**options)
    subject.join_request(1)
    subject.heard(answer(epoch, *partitions))
    subject.learn_names({TOPIC: "t"})
    subject.acquired(subject.change())
    beat(subject)
    subject.heard(quiet(epoch))
    return subject


def beat(subject: ConsumerGroupMember) -> ConsumerGroupHeartbeatRequest:
    """Its next heartbeat; it has one."""
    request = subject.heartbeat_request()
    assert request is not None
    return request


def owned(request: ConsumerGroupHeartbeatRequest) -> list[int] | None:
    """The partitions that a request names; None where it names none."""
    if request.topic_partitions is None:
        return None
    return [number for topic in request.topic_partitions for number in topic.partitions]


def test_the_first_request_says_everything_and_owns_nothing() -> None:
    request = member(assignor="range").join_request(1)
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["t"])
    assert (request.rebalance_timeout_ms, request.server_assignor) == (300_000, "range")
    assert owned(request) == []


def test_a_member_with_nothing_new_says_only_that_it_is_alive() -> None:
    request = beat(settled(0, 1))
    assert (request.member_epoch, request.subscribed_topic_names, owned(request)) == (1, None, None)
    assert (request.rebalance_timeout_ms, request.server_assignor) == (-1, None)


def test_after_a_request_without_an_answer_all_is_said_again() -> None:
    subject = settled(0, 1)
    beat(subject)
    again = beat(subject)
    assert (again.subscribed_topic_names, owned(again)) == (["t"], [0, 1])


def test_partitions_that_move_are_released_then_acknowledged() -> None:
    subject = settled(0, 1, 2)
    beat(subject)
    subject.heard(answer(1, 0))
    assert subject.must_join
    change = subject.change()
    assert subject.partitions(change.release) == [TopicPartition("t", 1), TopicPartition("t", 2)]
    assert not change.acquire and not change.lost
    subject.released(change)
    assert subject.acknowledges and not subject.must_join
    assert owned(beat(subject)) == [0]
    subject.heard(quiet(2))
    assert not subject.acknowledges and subject.generation == 2


def test_a_release_during_a_heartbeat_is_acknowledged_by_the_next_one() -> None:
    subject = settled(0, 1)
    beat(subject)
    subject.heard(answer(1, 0))
    assert owned(beat(subject)) == [0, 1]  # on its way while the reader gives up
    subject.released(subject.change())
    subject.heard(quiet(1))
    assert subject.acknowledges
    assert owned(beat(subject)) == [0]


def test_an_assignment_that_changes_nothing_is_acknowledged_once() -> None:
    subject = settled(0)
    beat(subject)
    subject.heard(answer(2, 0))
    assert subject.acknowledges and not subject.must_join
    assert owned(beat(subject)) == [0]
    subject.heard(quiet(2))
    assert owned(beat(subject)) is None


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_before_it_joins_again(code: ErrorCode) -> None:
    subject = settled(0, 1, epoch=7)
    beat(subject)
    subject.heard(refused(code))
    assert subject.must_join and subject.heartbeat_request() is None
    change = subject.change()
    assert change.lost and len(change.release) == 2
    subject.released(change)
    assert not subject.lost and subject.must_join
    request = subject.join_request(1)
    assert (request.member_epoch, request.member_id, owned(request)) == (0, "m", [])


def test_a_member_fenced_while_it_gives_up_still_loses_the_rest() -> None:
    subject = settled(0, 1)
    beat(subject)
    subject.heard(answer(1, 0))
    change = subject.change()
    beat(subject)
    subject.heard(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    subject.released(change)
    assert subject.change().lost and len(subject.change().release) == 1
    subject.released(subject.change())
    assert not subject.lost


def test_a_member_fenced_while_it_takes_over_loses_that_too() -> None:
    subject = member()
    subject.join_request(1)
    subject.heard(answer(1, 0))
    subject.learn_names({TOPIC: "t"})
    change = subject.change()
    beat(subject)
    subject.heard(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    subject.acquired(change)
    assert subject.change().lost and len(subject.change().release) == 1


def test_a_topic_that_the_metadata_do_not_know_waits_for_the_next_heartbeat() -> None:
    subject = member()
    subject.join_request(1)
    subject.heard(answer(1, 0))
    assert subject.names_missing
    subject.learn_names({})
    assert not subject.must_join and not subject.change().acquire
    beat(subject)
    subject.heard(quiet(1))
    assert subject.names_missing
    subject.learn_names({TOPIC: "t"})
    assert subject.partitions(subject.change().acquire) == [TopicPartition("t", 0)]


def test_a_topic_made_anew_is_released_and_taken_over_although_its_name_is_the_same() -> None:
    subject, anew = settled(0), Uuid.of(2, 2)
    beat(subject)
    subject.heard(answer(2, 0, topic=anew))
    subject.learn_names({anew: "t"})
    change = subject.change()
    assert subject.partitions(change.release) == subject.partitions(change.acquire) == [("t", 0)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.NOT_COORDINATOR,
    ],
)
def test_what_is_no_fencing_is_raised_and_the_member_stays(code: ErrorCode) -> None:
    subject = settled(0)
    beat(subject)
    with pytest.raises(KafkaError) as raised:
        subject.heard(refused(code))
    assert (raised.value.code, subject.generation, subject.lost) == (code, 1, False)


def test_who_leaves_says_so_and_a_static_member_comes_back() -> None:
    leaves, for_now = settled(0).leave_request(1), settled(0, instance_id="i").leave_request(1)
    assert leaves is not None and for_now is not None
    assert (leaves.member_epoch, for_now.member_epoch, for_now.instance_id) == (-1, -2, "i")
    assert member().leave_request(1) is None


def test_a_pattern_needs_a_broker_that_reads_patterns() -> None:
    assert member(pattern="t.*").join_request(1).subscribed_topic_regex == "t.*"
    with pytest.raises(KafkaError, match="reads no patterns"):
        member(pattern="t.*").join_request(0)


def test_a_member_with_a_pattern_asks_soon_until_the_pattern_was_looked_up() -> None:
    subject = member(pattern="t.*")
    subject.join_request(1)
    subject.heard(answer(1))
    assert subject.heartbeat_interval == 0.1
    beat(subject)
    subject.heard(quiet(1))
    assert subject.heartbeat_interval == 0.2
    subject.heard(answer(2, 0))
    assert subject.heartbeat_interval == 3.0


def test_a_member_whose_pattern_matches_nothing_asks_less_and_less_often() -> None:
    subject = member(pattern="t.*")
    subject.join_request(1)
    subject.heard(answer(1))
    intervals = []
    for _ in range(8):
        subject.heard(quiet(1))
        intervals.append(subject.heartbeat_interval)
    assert intervals == sorted(intervals) and intervals[-1] == 3.0
