"""Markers of ended transactions: who is asked, how often, and when it is over."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.transacting import Image, written

from barnabas.broker.transactions.markers import MARKERS_PER_REQUEST, Ending, TransactionMarkers
from barnabas.errors import ErrorCode
from barnabas.model import Now, TopicPartition

E = ErrorCode


class Sending:
    """Markers over an image that the test changes."""

    def __init__(self) -> None:
        self.image = Image(2)
        self.markers = TransactionMarkers(lambda: self.image)  # type: ignore[arg-type, return-value]
        self.woken: list[int] = []
        self.markers.wake = self.woken.append
        self.now = Now(0.0, 0)
        self.done: list[int] = []

    def begin(self, producer_id: int, *partitions: int, topic: str = "t") -> Ending:
        ending = Ending(
            producer_id,
            0,
            commit=True,
            coordinator_epoch=1,
            transaction_version=2,
            partitions=[TopicPartition(topic, index) for index in partitions],
            on_done=lambda now: self.done.append(producer_id),
        )
        self.markers.begin(ending, self.now)
        return ending

    def take(self, broker: int) -> Any:
        return self.markers.next_request(broker)

    def wait(self, seconds: float) -> None:
        self.now = Now(self.now.mono + seconds, 0)
        self.markers.tick(self.now)


@pytest.fixture
def sending() -> Sending:
    return Sending()


def asked(request: Any) -> list[tuple[int, int]]:
    return [
        (marker.producer_id, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]


def test_a_transaction_without_partitions_is_over_at_once(sending: Sending) -> None:
    sending.begin(7)
    assert sending.done == [7]


def test_what_waits_for_a_broker_shares_one_request(sending: Sending) -> None:
    sending.begin(7, 0, 1)
    sending.begin(8, 2)
    assert sending.woken == [1, 2, 1]
    request = sending.take(1)
    assert asked(request) == [(7, 0), (8, 2)]
    sending.begin(9, 0)
    assert sending.take(1) is None  # one at a time
    sending.markers.answered(1, written(request), sending.now)
    assert sending.done == [8]
    assert asked(sending.take(1)) == [(9, 0)]


def test_a_leader_that_cannot_write_is_asked_again(sending: Sending) -> None:
    sending.begin(7, 0)
    for error in (
        E.NOT_ENOUGH_REPLICAS,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.REQUEST_TIMED_OUT,
        E.UNKNOWN_SERVER_ERROR,
        E.KAFKA_STORAGE_ERROR,
    ):
        sending.markers.answered(1, written(sending.take(1), error), sending.now)
        assert sending.take(1) is None
        sending.wait(0.2)
    sending.markers.answered(1, written(sending.take(1)), sending.now)
    assert sending.done == [7]


def test_a_new_leader_is_asked_instead(sending: Sending) -> None:
    sending.begin(7, 0)
    request = sending.take(1)
    sending.image.leaders[TopicPartition("t", 0)] = 2
    sending.markers.answered(1, written(request, E.NOT_LEADER_OR_FOLLOWER), sending.now)
    sending.wait(0.2)
    assert sending.take(1) is None
    assert asked(sending.take(2)) == [(7, 0)]


def test_a_broker_that_does_not_answer_keeps_nothing(sending: Sending) -> None:
    sending.begin(7, 0)
    sending.take(1)
    sending.begin(8, 2)
    sending.image.leaders = dict.fromkeys(sending.image.leaders, 2)
    sending.markers.failed(1, sending.now)
    sending.wait(0.2)
    assert sending.take(1) is None
    assert asked(sending.take(2)) == [(7, 0), (8, 2)]


def test_a_partition_without_a_leader_waits_for_one(sending: Sending) -> None:
    sending.image.leaders[TopicPartition("t", 0)] = -1
    sending.begin(7, 0)
    sending.wait(0.2)
    assert sending.markers.next_deadline() == pytest.approx(0.3)
    sending.image.leaders[TopicPartition("t", 0)] = 2
    sending.wait(0.2)
    assert asked(sending.take(2)) == [(7, 0)]


def test_a_deleted_topic_needs_no_marker(sending: Sending) -> None:
    sending.begin(7, 0, topic="gone")
    assert sending.done == [7]
    sending.begin(8, 0)
    request = sending.take(1)
    sending.image.leaders.clear()
    sending.markers.answered(1, written(request, E.UNKNOWN_TOPIC_OR_PARTITION), sending.now)
    sending.wait(0.2)
    assert sending.done == [7, 8]


def test_a_newer_coordinator_takes_what_is_left_over(sending: Sending) -> None:
    for error in (E.TRANSACTION_COORDINATOR_FENCED, E.INVALID_PRODUCER_EPOCH):
        ending = sending.begin(7, 0, 1)
        sending.markers.answered(1, written(sending.take(1), error), sending.now)
        assert ending.superseded
        assert sending.take(2) is None
    sending.wait(1.0)
    assert sending.done == []
    assert sending.markers.statistics().partitions == 0


def test_an_answer_that_leaves_a_partition_out_says_nothing_of_it(sending: Sending) -> None:
    sending.begin(7, 0)
    request = sending.take(1)
    answer = written(request)
    answer.markers.clear()
    sending.markers.answered(1, answer, sending.now)
    assert sending.done == []
    sending.wait(0.2)
    assert asked(sending.take(1)) == [(7, 0)]


def test_a_request_has_a_bound(sending: Sending) -> None:
    sending.image.leaders = {TopicPartition("t", index): 1 for index in range(MARKERS_PER_REQUEST + 1)}
    sending.begin(7, *range(MARKERS_PER_REQUEST + 1))
    first = sending.take(1)
    assert len(asked(first)) == MARKERS_PER_REQUEST
    sending.markers.answered(1, written(first), sending.now)
    sending.markers.answered(1, written(sending.take(1)), sending.now)
    assert sending.done == [7]
