"""A follower that holds acknowledgements back leaves the in-sync set soon, and returns when it keeps up."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.broker.harness import Answer
from tests.broker.replication import ALL, Replicas

from barnabas.broker.replicas.held_back import HeldBack
from barnabas.broker.replicas.leader_state import LeaderState
from barnabas.controller.image import PartitionState
from barnabas.errors import ErrorCode
from barnabas.model import DIRECTORY_UNASSIGNED, Now

STEP_S = 0.25


@pytest.fixture
def three() -> Replicas:
    return Replicas(min_insync_replicas="2")


def passes(three: Replicas, seconds: float, fetching: Iterable[int] = (2, 3)) -> None:
    """Let time pass in steps, in each of which these followers fetch."""
    for _ in range(round(seconds / STEP_S)):
        three.mono += STEP_S
        for node in three.nodes.values():
            node.after(STEP_S)
        three.turn()
        for _ in range(2):
            for id_ in fetching:
                three.fetch(id_)
            three.turn()


def produced(three: Replicas, value: str) -> Answer:
    answer = three.produce(value)
    three.turn()
    return answer


def test_acknowledgements_wait_for_a_stuck_follower_for_two_seconds_at_most(three: Replicas) -> None:
    answer = produced(three, "a")
    passes(three, 1.0, fetching=[2])
    assert not answer.here, "a short pause costs nobody its place"
    passes(three, 1.0, fetching=[2])
    assert answer.error == ErrorCode.NONE
    assert three.state.isr == (1, 2)
    later = produced(three, "b")
    passes(three, STEP_S, fetching=[2])
    assert later.error == ErrorCode.NONE, "it does not count as one that will soon be in sync either"


def test_a_follower_that_crawls_is_stuck_too(three: Replicas) -> None:
    """Its copy is throttled, or its disk takes seconds for each sync: it moves, but never to the end."""
    passes(three, 1.0)
    answers = []
    for round_ in range(20):
        answers.append(produced(three, f"v{round_}"))
        passes(three, STEP_S, fetching=[2])
        if round_ % 8 == 7:
            three.fetch(3)
            three.turn()
    assert three.state.isr == (1, 2)
    assert all(answer.error == ErrorCode.NONE for answer in answers[:-1])


def test_nobody_is_taken_out_when_all_followers_are_slow(three: Replicas) -> None:
    answer = produced(three, "a")
    passes(three, 8.0, fetching=[])
    assert three.state.isr == ALL and not answer.here


def test_min_insync_replicas_are_never_gone_below() -> None:
    three = Replicas(min_insync_replicas="3")
    answer = produced(three, "a")
    passes(three, 8.0, fetching=[2])
    assert three.state.isr == ALL and not answer.here


def test_the_leader_alone_is_not_enough_whatever_min_insync_replicas_is() -> None:
    two = Replicas((1, 2), min_insync_replicas="1")
    answer = produced(two, "a")
    passes(two, 8.0, fetching=[])
    assert two.state.isr == (1, 2) and not answer.here


def test_a_pause_of_the_leader_takes_nobody_out(three: Replicas) -> None:
    """After it one follower may well be the first to fetch."""
    produced(three, "a")
    passes(three, STEP_S, fetching=[])
    three.mono += 20.0
    for node in three.nodes.values():
        node.after(20.0)
    three.fetch(2)
    three.turn()
    three.fetch(2)
    three.turn()
    assert three.state.isr == ALL


def test_a_follower_returns_after_it_kept_up_and_longer_after_each_stall(three: Replicas) -> None:
    """Where a disk hangs now and then, each return could cost the producers a pause."""
    took = []
    for round_ in range(3):
        produced(three, f"v{round_}")
        passes(three, 2.0, fetching=[2])
        assert three.state.isr == (1, 2)
        passes(three, STEP_S)
        assert three.state.isr == (1, 2), "that it has everything now is not enough"
        waited = 0.0
        while set(three.state.isr) != set(ALL):
            passes(three, STEP_S)
            waited += STEP_S
        took.append(waited)
    assert took[0] <= 3.0
    assert took[1] > took[0] + 1.0 and took[2] > took[1] + 2.0


def test_a_new_leader_holds_nothing_against_a_follower(three: Replicas) -> None:
    produced(three, "a")
    passes(three, 2.0, fetching=[2])
    assert three.state.isr == (1, 2)
    three.put(leader=2)
    passes(three, 1.0, fetching=[1, 3])
    assert set(three.state.isr) == set(ALL)


def test_a_replica_that_lost_its_records_counts_no_longer_as_one_that_keeps_up() -> None:
    """Its disk is new: it kept up a moment ago, and now has everything to copy."""
    leading = LeaderState(30.0, lambda node, epoch: True, HeldBack(1.25))
    state = PartitionState(0, (1, 2, 3), (1, 2), 1, directories=(DIRECTORY_UNASSIGNED,) * 3)
    leading.lead(state, 1, Now(0.0, 0), fresh=True)
    for node in (2, 3):
        leading.progress[node].fetched(100, 0, 100, Now(1.0, 0), 7)
    leading.progress[3].fetched(0, 0, 100, Now(1.1, 0), 8)
    leading.progress[2].fetched(101, 0, 101, Now(1.2, 0), 7)
    assert leading.least_end(101, Now(1.2, 0)) == 101


def test_a_replica_outside_the_set_holds_acknowledgements_back_no_longer_than_a_stall() -> None:
    leading = LeaderState(30.0, lambda node, epoch: True, HeldBack(1.25))
    state = PartitionState(0, (1, 2, 3), (1, 2), 1, directories=(DIRECTORY_UNASSIGNED,) * 3)
    leading.lead(state, 1, Now(0.0, 0), fresh=True)
    for node in (2, 3):
        leading.progress[node].fetched(100, 0, 100, Now(1.0, 0), 7)
    leading.progress[2].fetched(101, 0, 101, Now(1.1, 0), 7)
    assert leading.least_end(101, Now(2.0, 0)) == 100, "it keeps up, and will be in sync soon"
    assert leading.least_end(101, Now(2.5, 0)) == 101


def test_a_thousand_idle_partitions_are_not_looked_at(three: Replicas) -> None:
    held = three.nodes[1].broker.held_back
    passes(three, 1.0)
    assert held.next_deadline() is None
    produced(three, "a")
    assert held.next_deadline() is not None
    passes(three, 1.0)
    assert held.next_deadline() is None
