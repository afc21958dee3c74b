"""Reading from a replica in one's own rack (KIP-392)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import Answer
from tests.broker.replication import Replicas

from barnabas.broker.replicas.broker import RACK_AWARE
from barnabas.errors import ErrorCode
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic

SELECTOR: dict[str, Any] = {"replica_selector_class": RACK_AWARE}


@pytest.fixture
def three() -> Replicas:
    return Replicas(**SELECTOR)


def read(
    three: Replicas,
    at: int,
    offset: int,
    rack: str = "rack3",
    *,
    version: int = 17,
    wait_ms: int = 0,
    epoch: int | None = None,
    max_bytes: int = 1 << 20,
) -> Answer:
    """A consumer's fetch; broker N stands in rackN."""
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        rack_id=rack,
        topics=[
            FetchTopic(
                topic="t",
                topic_id=three.topic.id,
                partitions=[
                    FetchPartition(
                        partition=0,
                        fetch_offset=offset,
                        partition_max_bytes=max_bytes,
                        current_leader_epoch=three.state.leader_epoch if epoch is None else epoch,
                    )
                ],
            )
        ],
    )
    return three.nodes[at].ask(request, version)


def open_session(three: Replicas, at: int, offset: int, rack: str) -> Answer:
    """The first fetch of a consumer's session."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=three.topic.id, partitions=[asked])
    return three.nodes[at].ask(
        FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=0, rack_id=rack, topics=[topic]), 17
    )


def read_on(three: Replicas, at: int, opened: Answer, epoch: int, *, wait_ms: int = 0) -> Answer:
    """The next fetch of that session, of a reader in rack3; it names nothing anew."""
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=opened.message.session_id,
        session_epoch=epoch,
        rack_id="rack3",
    )
    return three.nodes[at].ask(request, 17)


def test_the_leader_names_the_replica_in_the_readers_rack_and_sends_no_records(three: Replicas) -> None:
    three.produce("a", "b")
    three.settle()
    answer = read(three, 1, 0).fetched
    assert answer.preferred_read_replica == 3
    assert not answer.records
    assert answer.high_watermark == 2
    assert answer.error_code == 0


@pytest.mark.parametrize("rack", ["rack1", "rack9", ""])
def test_in_the_leaders_rack_or_in_nobodys_the_leader_answers(three: Replicas, rack: str) -> None:
    three.produce("a")
    three.settle()
    answer = read(three, 1, 0, rack).fetched
    assert answer.preferred_read_replica == -1
    assert answer.records


def test_without_the_selector_the_leader_answers() -> None:
    three = Replicas()
    three.produce("a")
    three.settle()
    assert read(three, 1, 0).fetched.records


def test_versions_that_cannot_say_it_are_answered_by_the_leader(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    assert read(three, 1, 0, version=10, epoch=-1).fetched.records


def test_a_replica_that_is_not_in_sync_is_not_named(three: Replicas) -> None:
    three.cut.add(3)
    three.produce("a")
    three.settle()
    three.after(11)
    three.settle()
    assert three.state.isr == (1, 2)
    assert read(three, 1, 0).fetched.preferred_read_replica == -1


def test_a_replica_that_is_fenced_is_not_named(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    three.image.brokers[3] = three.image.brokers[3]._replace(fenced=True)
    assert read(three, 1, 0).fetched.preferred_read_replica == -1


def test_a_replica_that_the_readers_listener_does_not_reach_is_not_named(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    three.image.brokers[3] = three.image.brokers[3]._replace(endpoints=())
    assert read(three, 1, 0).fetched.preferred_read_replica == -1


def test_a_leader_in_the_readers_rack_answers_though_a_follower_is_there_too(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    three.image.brokers[2] = three.image.brokers[2]._replace(rack="rack1")
    answer = read(three, 1, 0, "rack1").fetched
    assert answer.preferred_read_replica == -1
    assert answer.records


def test_of_two_in_the_readers_rack_the_one_that_is_further_is_named_then_the_one_heard_of_last(
    three: Replicas,
) -> None:
    three.produce("a")
    three.settle()
    three.image.brokers[2] = three.image.brokers[2]._replace(rack="rack3")
    three.after(1)
    three.fetch(2)
    assert read(three, 1, 0).fetched.preferred_read_replica == 2
    three.after(1)
    three.fetch(3)
    assert read(three, 1, 0).fetched.preferred_read_replica == 3
    three.cut.add(3)
    three.produce("b")
    three.turn()
    for _ in range(2):
        three.fetch(2)
        three.turn()
    assert read(three, 1, 0).fetched.preferred_read_replica == 2


def test_a_replica_whose_log_begins_later_is_not_named(three: Replicas) -> None:
    three.produce("a", "b")
    three.settle()
    three[1].leading.progress[3].log_start = 1
    assert read(three, 1, 0).fetched.preferred_read_replica == -1
    assert read(three, 1, 1).fetched.preferred_read_replica == 3


def test_a_replica_that_does_not_hold_the_offset_is_not_named(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    three.cut.add(3)
    three.produce("b")
    three.turn()
    three.fetch(2)
    three.turn()
    assert three[1].log.log_end_offset == 2
    assert read(three, 1, 2).fetched.preferred_read_replica == -1
    assert read(three, 1, 1).fetched.preferred_read_replica == 3


def test_a_follower_answers_up_to_the_high_watermark_that_it_knows(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    answer = read(three, 3, 0).fetched
    assert answer.records
    assert (answer.high_watermark, answer.log_start_offset) == (1, 0)
    assert answer.preferred_read_replica == -1
    three.produce("b")
    three.turn()
    three.fetch(3)
    three.turn()
    assert three[3].log.log_end_offset == 2
    late = read(three, 3, 1).fetched
    assert not late.records
    assert late.error_code == 0
    assert late.high_watermark == 1


def test_a_reader_at_the_followers_end_waits_there_and_is_woken(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    parked = read(three, 3, 1, wait_ms=5000)
    assert not parked.here
    three.produce("b")
    three.settle()
    assert parked.fetched.records


@pytest.mark.parametrize("settings", [SELECTOR, {}], ids=["rack-aware", "plain"])
def test_followers_hear_of_a_new_high_watermark_at_once_where_consumers_may_read_from_them(
    settings: dict[str, Any],
) -> None:
    """Who reads there would else wait until the follower's own fetch times out; where nobody does, a follower is
    not answered for that alone."""
    three = Replicas(**settings)
    three.produce("a")
    three.settle()
    follower = three.nodes[3].broker.followers.by_leader[1]
    request = follower.next_request(three.nodes[3].now)
    assert isinstance(request, FetchRequest)
    parked = three.nodes[1].ask(request, 17)
    three.produce("b")
    three.turn(1)
    assert parked.here  # the record
    follower.received(request, parked.message, three.nodes[3].now)
    three.turn(3)
    request = follower.next_request(three.nodes[3].now)
    assert request is not None
    parked = three.nodes[1].ask(request, 17)
    assert not parked.here
    three.fetch(2)
    three.turn(1, 2)
    three.fetch(2)
    three.turn(1)
    assert three[1].high_watermark == 2
    assert parked.here == bool(settings)  # only the high watermark


@pytest.mark.parametrize("offset", [7, -3])
def test_an_offset_that_the_follower_does_not_have_is_out_of_range(three: Replicas, offset: int) -> None:
    three.produce("a")
    three.settle()
    assert read(three, 3, offset).fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_holds_readers_to_the_leader_epoch(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    three.put(leader=2)
    three.settle()
    now = three.state.leader_epoch
    assert read(three, 3, 0, epoch=now - 1).fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert read(three, 3, 0, epoch=now + 1).fetched.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert read(three, 3, 0, epoch=-1).fetched.records


def test_a_reader_that_is_parked_at_a_follower_learns_of_another_leader(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    parked = read(three, 3, 1, wait_ms=5000)
    three.put(leader=2)
    three.turn()
    assert parked.fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_reader_that_does_not_say_where_it_stands_is_sent_to_the_leader(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    answer = read(three, 3, 0, "").fetched
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 1


def test_an_incremental_fetch_is_told_the_replica_though_nothing_else_is_new(three: Replicas) -> None:
    three.produce("a")
    three.settle()
    opened = open_session(three, 1, 0, "rack3")
    answer = read_on(three, 1, opened, 1, wait_ms=500)
    assert answer.here
    assert answer.message.responses[0].partitions[0].preferred_read_replica == 3


@pytest.mark.parametrize("rack", ["rack3", ""], ids=["stated from the first fetch", "stated later"])
def test_a_session_hears_that_the_replica_in_its_rack_has_reported(three: Replicas, rack: str) -> None:
    """A new leader does not know where its followers' logs begin; their first fetch to it moves nothing else."""
    three.produce("a")
    three.settle()
    three.put(leader=2)
    three.turn()
    opened = open_session(three, 2, 1, rack)
    assert (opened.fetched.error_code, opened.fetched.preferred_read_replica) == (0, -1)
    for epoch in (1, 2):
        assert read_on(three, 2, opened, epoch).message.responses == []
    three.fetch(3)
    three.turn(2)
    assert read_on(three, 2, opened, 3).fetched.preferred_read_replica == 3
