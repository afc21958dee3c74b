"""A quorum that was put together by force, and the lost majority that comes back."""

from __future__ import annotations

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of, voter_set
from raft_solo import Solo, journal_of, records

from barnabas.errors import ErrorCode, KafkaError
from barnabas.raft.effects import Event, SaveElection
from barnabas.raft.entries import Batch, ElectionState, KraftVersionEntry, Note, VotersEntry
from barnabas.raft.log_view import LogView
from barnabas.raft.membership.generation import EPOCH_GAP, GENERATION_NOTE, UNKNOWN, QuorumGeneration
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)

FIRST_EPOCH = 3 + EPOCH_GAP
OLD = (records(0, 1, 5), records(5, 3, 5))


def recovered_log_view() -> LogView:
    """1 of 1, 2, 3 went on with 4, whose log it had not seen: both vote now."""
    note = Note(GENERATION_NOTE, str(QuorumGeneration(1, FIRST_EPOCH, 10)))
    return journal_of(
        (1, 2, 3),
        (
            *OLD,
            Batch(10, FIRST_EPOCH, (note,), raw=b""),
            Batch(11, FIRST_EPOCH, (KraftVersionEntry(1), VotersEntry(voter_set(1, 4))), raw=b""),
        ),
    )


def recovered() -> Solo:
    return Solo(log_view=recovered_log_view(), saved=ElectionState(FIRST_EPOCH, generation=1))


def old(node_id: int = 3) -> Solo:
    return Solo(log_view=journal_of((1, 2, 3), OLD), saved=ElectionState(3), node_id=node_id)


def leading() -> Solo:
    """The recovered node 1, elected by itself and 4."""
    solo = recovered()
    solo.advance(4.0)
    for _ in range(2):
        ask = solo.take(VoteRequest, 4)
        assert ask.request.generation == 1  # type: ignore[union-attr]
        solo.answer(ask, VoteResponse(ErrorCode.NONE, solo.node.epoch, granted=True, generation=1))
    assert solo.role == "leader"
    return solo


def test_a_note_says_number_epoch_and_offset_and_senseless_ones_say_nothing() -> None:
    assert QuorumGeneration.of("2:4194310:77") == (2, 4194310, 77)
    for senseless in (None, "", "1", "a:b:c", "1:2:3:4", "-1:2:3"):
        assert QuorumGeneration.of(senseless).number == 0


def test_whoever_speaks_for_a_generation_that_is_over_changes_nothing() -> None:
    solo = leading()
    epoch = solo.node.epoch
    for request in (
        VoteRequest(epoch + 5, key_of(3), 3, 99, False, key_of(1), CLUSTER),
        VoteRequest(epoch + 5, key_of(3), 3, 99, True, key_of(1), CLUSTER),
        BeginQuorumEpochRequest(epoch + 5, 3, (endpoint_of(3),), key_of(1), CLUSTER),
        EndQuorumEpochRequest(epoch + 5, 3, (key_of(1),), (endpoint_of(3),), CLUSTER),
    ):
        response = solo.ask(request)
        assert response is not None and response.error is ErrorCode.FENCED_LEADER_EPOCH
        assert response.generation == 1  # type: ignore[union-attr]
    assert (solo.role, solo.node.epoch) == ("leader", epoch)
    refused = [e for e in solo.effects if isinstance(e, Event) and e.name == "raft.incarnation.refused"]
    assert len(refused) == 4


def test_a_candidate_that_says_no_number_is_judged_by_its_log() -> None:
    solo = leading()
    vote = VoteRequest(solo.node.epoch + 5, key_of(3), 3, 99, False, key_of(1), CLUSTER, generation=-1)
    assert solo.error(vote) is ErrorCode.FENCED_LEADER_EPOCH
    assert solo.role == "leader"


@pytest.mark.parametrize(
    ("offset", "last_epoch", "error"),
    [
        (10, 3, ErrorCode.NONE),  # it has what the chosen had
        (7, 3, ErrorCode.NONE),  # it is only behind
        (0, 0, ErrorCode.NONE),
        (12, 3, ErrorCode.INCONSISTENT_VOTER_SET),  # it has more
        (9, 2, ErrorCode.INCONSISTENT_VOTER_SET),  # it has something else
    ],
)
def test_a_lost_node_may_follow_only_when_it_has_nothing_that_is_missing(
    offset: int, last_epoch: int, error: ErrorCode
) -> None:
    solo = leading()
    fetch = FetchRequest(solo.node.epoch, key_of(3), offset, last_epoch, cluster_id=CLUSTER)
    response = solo.ask(fetch)
    assert (ErrorCode.NONE if response is None else response.error) is error
    again = solo.ask(FetchRequest(solo.node.epoch, key_of(4), offset, last_epoch, cluster_id=CLUSTER))
    assert again is None or again.error is ErrorCode.NONE, "a voter of the new set is cut, as ever"


@pytest.mark.parametrize(("heard_of", "granted"), [(0, True), (1, False)])
def test_a_candidate_of_apache_kafka_gets_a_vote_where_no_generation_was_superseded(
    heard_of: int, granted: bool
) -> None:
    """It names no generation, which counts as the first one."""
    voter = Solo(log_view=journal_of((1, 2, 3), OLD), saved=ElectionState(3, generation=heard_of), node_id=2)
    vote = VoteRequest(4, key_of(1), 3, 10, False, key_of(2), CLUSTER, generation=UNKNOWN)
    response = voter.ask(vote)
    assert isinstance(response, VoteResponse) and response.granted is granted


def test_who_hears_of_a_newer_generation_leads_no_more_stands_no_more_and_remembers_it() -> None:
    solo = old(2)
    solo.advance(4.0)
    for _ in range(2):
        solo.answer(solo.take(VoteRequest, 3), VoteResponse(ErrorCode.NONE, solo.node.epoch, granted=True))
    assert solo.role == "leader"
    solo.ask(FetchRequest(FIRST_EPOCH, key_of(4), 0, 0, cluster_id=CLUSTER, generation=1))
    assert solo.role != "leader"
    saved = [e.state for e in solo.effects if isinstance(e, SaveElection)]
    assert saved[-1].generation == 1
    solo.sent.clear()
    solo.advance(60.0)
    assert not solo.has_sent(VoteRequest) and solo.role == "unattached"
    again = Solo(log_view=journal_of((1, 2, 3), OLD), saved=saved[-1], node_id=2)
    again.advance(60.0)
    assert not again.has_sent(VoteRequest), "not in its next life either"
    mate = VoteRequest(9, key_of(3), 3, 10, False, key_of(2), CLUSTER)
    assert again.error(mate) is ErrorCode.FENCED_LEADER_EPOCH, "nor does it help another one"


def test_a_survivor_that_has_not_got_the_note_yet_votes_for_who_has_it() -> None:
    survivor = old(2)
    vote = VoteRequest(FIRST_EPOCH + 1, key_of(1), FIRST_EPOCH, 13, False, key_of(2), CLUSTER, generation=1)
    response = survivor.ask(vote)
    assert isinstance(response, VoteResponse) and response.granted and response.generation == 1


def test_a_node_that_is_refused_stops_and_says_what_to_do() -> None:
    lost = old(3)
    lost.ask(BeginQuorumEpochRequest(FIRST_EPOCH + 1, 1, (endpoint_of(1),), None, CLUSTER, generation=1))
    assert lost.role == "follower" and not lost.node.core.may_stand
    refusal = FetchResponse(ErrorCode.INCONSISTENT_VOTER_SET, FIRST_EPOCH + 1, 1, generation=1)
    with pytest.raises(KafkaError, match="incarnation 0 of the quorum") as stopped:
        lost.answer(lost.take(FetchRequest, 1), refusal)
    assert "--no-initial-controllers" in (stopped.value.next_step or "")


def test_a_node_that_was_only_behind_stands_again_once_it_has_the_note() -> None:
    lost = old(3)
    begin = BeginQuorumEpochRequest(FIRST_EPOCH + 1, 1, (endpoint_of(1),), None, CLUSTER, generation=1)
    lost.ask(begin)
    log_view = recovered_log_view()
    assert log_view.voters == voter_set(1, 4)
    note = Batch(
        10, FIRST_EPOCH, (Note(GENERATION_NOTE, str(QuorumGeneration(1, FIRST_EPOCH, 10))),), raw=b""
    )
    sets = Batch(11, FIRST_EPOCH, (VotersEntry(voter_set(1, 3)),), raw=b"")
    response = FetchResponse(
        ErrorCode.NONE, FIRST_EPOCH + 1, 1, high_watermark=10, batches=(note, sets), generation=1
    )
    lost.answer(lost.take(FetchRequest, 1), response)
    assert lost.node.core.generation.number == 1 and lost.node.core.may_stand
