"""Two quorums under one cluster id: who is of another one is not believed, and ends nobody."""

from __future__ import annotations

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of, voter_set
from raft_solo import Solo, journal_of, records

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Uuid
from barnabas.raft.effects import Event, SaveElection
from barnabas.raft.entries import Batch, ElectionState, EpochEnd, KraftVersionEntry, SnapshotId, VotersEntry
from barnabas.raft.identity.origin import origin_of
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import Voter, VoterSet

OURS = origin_of(voter_set(1, 2, 3))
THEIRS = origin_of(VoterSet.of([Voter(key_of(2, 1), (endpoint_of(2),))]))
"""Node 2, formatted with --standalone on an emptied directory."""


def begun(*more: Batch) -> tuple[Batch, ...]:
    """The log of the quorum of 1, 2 and 3."""
    return (Batch(0, 1, (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3))), raw=b""), *more)


def member(**fields: object) -> Solo:
    """Node 1, which has learnt which quorum it is of, and knows that everything below 5 is committed."""
    solo = Solo(**fields).follow(3)  # type: ignore[arg-type]
    solo.fetched(*begun(records(2, 1, 3)), high_watermark=5)
    assert solo.node.core.origin == OURS
    return solo


def strangers(solo: Solo) -> list[dict[str, object]]:
    return [dict(e.fields) for e in solo.effects if isinstance(e, Event) and e.name == "raft.stranger"]


def claims(epoch: int) -> tuple[Request, ...]:
    """What the other quorum's node 2 can say to node 1."""
    two = key_of(2, 1)
    return (
        VoteRequest(epoch, two, 1, 99, False, key_of(1), CLUSTER, origin=THEIRS),
        VoteRequest(epoch, two, 1, 99, True, key_of(1), CLUSTER, origin=THEIRS),
        BeginQuorumEpochRequest(epoch, 2, (endpoint_of(2),), key_of(1), CLUSTER, origin=THEIRS),
        EndQuorumEpochRequest(epoch, 2, (key_of(1),), (endpoint_of(2),), CLUSTER, origin=THEIRS),
        FetchRequest(epoch, two, 99, 1, cluster_id=CLUSTER, origin=THEIRS),
        FetchSnapshotRequest(epoch, two, SnapshotId(9, 1), 0, cluster_id=CLUSTER, origin=THEIRS),
    )


# ------------------------------------------------------------------ knowing it


def test_a_quorum_is_known_by_the_replicas_it_began_with() -> None:
    moved = VoterSet.of(Voter(key_of(i), (endpoint_of(i + 5),)) for i in (1, 2, 3))
    assert origin_of(moved) == OURS
    assert len({OURS, THEIRS, origin_of(voter_set(1, 2)), origin_of(voter_set(1))}) == 4
    assert origin_of(VoterSet.EMPTY) == origin_of(voter_set(1, 2).without_directories()) == ZERO_UUID


def test_a_voter_learns_it_when_the_first_set_is_committed_and_remembers_it() -> None:
    solo = Solo().follow(3)
    solo.fetched(*begun(), high_watermark=1)
    assert solo.node.core.origin == ZERO_UUID
    solo.fetched(high_watermark=2)
    assert solo.node.core.origin == OURS
    (*_, saved) = (effect.state for effect in solo.effects if isinstance(effect, SaveElection))
    assert saved == ElectionState(1, 3, None, origin=OURS)


def test_it_is_remembered_when_the_beginning_of_the_log_is_gone() -> None:
    log_view = journal_of((1, 2, 3))
    log_view.install(SnapshotId(50, 2), 100, (KraftVersionEntry(1), VotersEntry(voter_set(3, 4))))
    solo = Solo(log_view=log_view, saved=ElectionState(2, origin=OURS))
    assert solo.node.core.origin == OURS
    assert Solo(log_view=log_view).node.core.origin == ZERO_UUID


def test_a_quorum_whose_voters_were_fixed_begins_with_its_upgrade_also_where_its_log_was_cut() -> None:
    upgrade = Batch(60, 2, (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3))), raw=b"")
    log_view = journal_of((1, 2, 3), version=0)
    log_view.install(SnapshotId(50, 2), 100, ())
    for batch in (records(50, 2, 10), upgrade):
        log_view.restore_batch(batch)
    log_view.restore_end(50, 62)
    solo = Solo(log_view=log_view, saved=ElectionState(2)).follow(3, 2)
    solo.fetched(high_watermark=60)
    assert solo.node.core.origin == ZERO_UUID
    solo.fetched(high_watermark=62)
    assert solo.node.core.origin == OURS


def test_a_newcomer_hears_it_from_the_leader_once_something_is_committed() -> None:
    solo = Solo(()).follow(3)
    solo.fetched(records(0, 1, 3), origin=OURS)
    assert solo.node.core.origin == ZERO_UUID
    solo.fetched(high_watermark=3, origin=OURS)
    assert solo.node.core.origin == OURS
    solo.fetched(records(3, 1), high_watermark=4, origin=OURS)
    assert solo.take(FetchRequest).request.origin == OURS  # type: ignore[union-attr]


def test_a_node_that_votes_alone_knows_it_from_the_start() -> None:
    solo = Solo((1,))
    assert solo.node.core.origin == origin_of(voter_set(1))


def test_who_has_shrunk_to_one_voter_does_not_take_that_for_the_first_set() -> None:
    shrunk = Batch(5, 2, (VotersEntry(voter_set(1)),), raw=b"")
    solo = Solo(log_view=journal_of((1, 2, 3), begun(records(2, 1, 3), shrunk)))
    assert solo.node.core.origin in (ZERO_UUID, OURS)


# ------------------------------------------------------------------ who is of another


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("ahead", [0, 7])
def test_nothing_that_a_stranger_says_is_believed(number: int, ahead: int) -> None:
    solo = member()
    request = claims(solo.node.epoch + ahead)[number]
    before = solo.node.epoch, solo.role, solo.node.leader_id, solo.node.log_view.end_offset
    response = solo.ask(request)
    assert response is not None and response.error is ErrorCode.INCONSISTENT_VOTER_SET
    assert response.origin == OURS  # type: ignore[union-attr]
    assert (solo.node.epoch, solo.role, solo.node.leader_id, solo.node.log_view.end_offset) == before
    assert [said["who"] for said in strangers(solo)] == ["node 2"]


def test_a_stranger_is_said_once_and_counted_each_time() -> None:
    solo = member()
    for _ in range(5):
        for request in claims(9):
            solo.ask(request)
    assert len(strangers(solo)) == 1
    assert solo.node.statistics().strangers == 30


def test_the_answer_of_a_stranger_is_not_followed_and_the_voter_is_looked_for_elsewhere() -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), begun()), saved=ElectionState(1, origin=OURS))
    solo.stand()
    vote = solo.take(VoteRequest, 2)
    place = solo.node.core.peers.place(2)
    solo.answer(vote, VoteResponse(ErrorCode.NONE, 8, 2, True, (endpoint_of(2),), origin=THEIRS))
    assert solo.role == "prospective" and solo.node.epoch == 1
    assert solo.node.core.peers.place(2) == place + 1
    place = endpoint_of(2)
    assert [said["who"] for said in strangers(solo)] == [f"{place.host}:{place.port}"]


def test_a_fetch_that_a_stranger_answers_brings_nothing() -> None:
    solo = member()
    send = solo.take(FetchRequest)
    for error in (ErrorCode.NONE, ErrorCode.INCONSISTENT_VOTER_SET):
        solo.answer(
            send,
            FetchResponse(
                error,
                solo.node.epoch,
                3,
                high_watermark=99,
                batches=(records(5, 1, 94),),
                origin=THEIRS,
            ),
        )
        assert solo.node.log_view.end_offset == solo.node.high_watermark == 5
        solo.advance(0.5)
        send = solo.take(FetchRequest)


@pytest.mark.parametrize("origin", [ZERO_UUID, OURS])
def test_who_names_the_same_origin_or_none_is_heard(origin: Uuid) -> None:
    solo = member()
    solo.ask(BeginQuorumEpochRequest(7, 2, (endpoint_of(2),), None, CLUSTER, origin=origin))
    assert (solo.node.epoch, solo.node.leader_id) == (7, 2)


def test_a_request_of_another_cluster_is_no_stranger_and_its_generation_is_not_heard() -> None:
    solo = member()
    for request in claims(9):
        other = type(request)(
            **{
                name: getattr(request, name)
                for name in request.__slots__
                if name not in ("cluster_id", "generation")
            },
            cluster_id="another",
            generation=7,
        )
        assert solo.error(other) is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert not strangers(solo) and solo.node.core.known_generation == 0


def test_a_generation_that_cannot_be_is_not_believed() -> None:
    solo = member()
    solo.vote(VoteRequest(2, key_of(2), 1, 5, True, key_of(1), CLUSTER, generation=2**31 - 1))
    assert solo.node.core.known_generation == 0 and not solo.node.core.outdated
    solo.vote(VoteRequest(2, key_of(2), 1, 5, True, key_of(1), CLUSTER, generation=100))
    assert solo.node.core.known_generation == 100


# ------------------------------------------------------------------ by what it leads


def test_a_leader_that_lacks_what_is_committed_here_is_not_followed_and_ends_nobody() -> None:
    """K114."""
    solo = Solo().follow()
    solo.fetched(records(0, 1, 5), high_watermark=5)
    solo.fetched(diverging=EpochEnd(0, 0))
    assert solo.role == "unattached" and solo.node.leader_id is None
    assert solo.node.log_view.end_offset == 5
    assert [said["who"] for said in strangers(solo)] == ["node 2"]
    solo.ask(BeginQuorumEpochRequest(1, 2, (endpoint_of(2),)))
    assert solo.node.leader_id is None, "in this epoch it is followed no more"
    solo.ask(BeginQuorumEpochRequest(2, 3, (endpoint_of(3),)))
    assert solo.node.leader_id == 3


def test_what_was_committed_in_an_earlier_life_is_not_cut_either() -> None:
    log_view = journal_of((1, 2, 3), (records(0, 1, 9),))
    log_view.known_committed = 7
    solo = Solo(log_view=log_view).follow(2, 3)
    solo.fetched(diverging=EpochEnd(1, 6))
    assert solo.role == "unattached" and solo.node.log_view.end_offset == 9
    solo = Solo(log_view=log_view).follow(2, 3)
    solo.fetched(diverging=EpochEnd(1, 7))
    assert solo.role == "follower" and solo.node.log_view.end_offset == 7


def test_a_snapshot_behind_what_is_committed_is_not_loaded() -> None:
    solo = Solo().follow()
    solo.fetched(records(0, 1, 60), high_watermark=60)
    solo.fetched(snapshot=SnapshotId(50, 1))
    assert solo.role == "unattached" and solo.node.log_view.end_offset == 60
    assert len(strangers(solo)) == 1


def test_a_second_leader_of_an_epoch_is_not_followed() -> None:
    solo = Solo().follow(2)
    assert solo.error(BeginQuorumEpochRequest(1, 3, (endpoint_of(3),))) is ErrorCode.INVALID_REQUEST
    fetch = solo.take(FetchRequest)
    solo.answer(
        fetch, FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, 3, (endpoint_of(3), endpoint_of(3)))
    )
    assert solo.node.leader_id == 2
    assert [said["who"] for said in strangers(solo)] == ["node 3"]


def test_a_leader_that_restarted_does_not_end_because_another_leads_its_epoch() -> None:
    solo = Solo(saved=ElectionState(4, 1))
    assert solo.role == "resigned"
    fetch = VoteResponse(ErrorCode.NONE, 4, 2, False, (endpoint_of(2),))
    solo.ask(BeginQuorumEpochRequest(4, 2, (endpoint_of(2),)))
    solo.advance(5.0)
    vote = solo.take(VoteRequest, 2)
    solo.answer(vote, fetch)
    assert solo.node.leader_id is None


# ------------------------------------------------------------------ the first look


def looking(**fields: object) -> Solo:
    """Node 2, formatted with --standalone, its first start."""
    config = RaftConfig(cluster_id=CLUSTER, bootstrap=(endpoint_of(1), endpoint_of(3)))
    return Solo((2,), node_id=2, config=config, **fields)  # type: ignore[arg-type]


def test_a_node_formatted_alone_asks_every_bootstrap_server_before_it_leads() -> None:
    solo = looking()
    assert solo.role == "unattached"
    for place in (-2, -3):
        nobody = FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
        assert solo.role == "unattached"
        solo.answer(solo.take(FetchRequest, place), nobody)
    assert solo.role == "leader"


def test_servers_that_do_not_answer_delay_it_for_two_seconds_at_most() -> None:
    solo = looking()
    solo.advance(1.9)
    assert solo.role == "unattached"
    solo.advance(0.2)
    assert solo.role == "leader"


@pytest.mark.parametrize(
    "answer",
    [
        FetchResponse(ErrorCode.FENCED_LEADER_EPOCH, 5, 1, (endpoint_of(1),), origin=OURS),
        FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5),
        FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0, origin=OURS),
    ],
)
def test_it_stops_with_the_way_to_join_where_a_quorum_answers(answer: FetchResponse) -> None:
    solo = looking()
    with pytest.raises(KafkaError) as stopped:
        solo.answer(solo.take(FetchRequest, -3), answer)
    assert "has a quorum already" in stopped.value.message
    assert "--no-initial-controllers" in str(stopped.value.next_step)


@pytest.mark.parametrize("number", range(5))
def test_it_stops_when_somebody_of_a_quorum_asks_it_meanwhile(number: int) -> None:
    solo = looking()
    with pytest.raises(KafkaError):
        solo.ask(claims(3)[number])


def test_other_newcomers_and_other_clusters_do_not_stop_it() -> None:
    solo = looking()
    solo.ask(FetchRequest(0, key_of(3), 0, 0, cluster_id=CLUSTER))
    solo.answer(solo.take(FetchRequest, -2), FetchResponse(ErrorCode.INCONSISTENT_CLUSTER_ID, 9, 1))
    solo.answer(solo.take(FetchRequest, -3), FetchResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, 0))
    assert solo.role == "leader" and solo.node.epoch == 1


def test_it_looks_once_not_when_it_has_led() -> None:
    solo = looking(saved=ElectionState(1, 2))
    solo.advance(0.0)
    assert solo.role == "leader" or not solo.has_sent(FetchRequest)
    assert Solo((2,), node_id=2).role == "leader", "nobody to ask"
