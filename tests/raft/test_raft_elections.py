"""Elections, pre-votes and resignation (scenarios K063 to K106)."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, endpoint_of, key_of
from raft_solo import Solo, journal_of, records

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, ReplicaKey
from barnabas.raft.core import LONGEST_JUMP, IllegalTransition
from barnabas.raft.effects import SaveElection, Stopped
from barnabas.raft.entries import ElectionState, SnapshotId
from barnabas.raft.messages import (
    Answered,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Disconnected,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Failed,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Persisted,
    ReadSnapshot,
    Received,
    Resign,
    Shutdown,
    SnapshotTaken,
    VoteRequest,
    VoteResponse,
)
from barnabas.raft.roles import TRANSITIONS, Cause, Follower, Transition
from barnabas.raft.settings import RaftConfig


def ask_for(
    candidate: int = 2, epoch: int = 1, last: tuple[int, int] = (0, 0), pre_vote: bool = False, **more: object
) -> VoteRequest:
    return VoteRequest(epoch, key_of(candidate), last[0], last[1], pre_vote, **more)  # type: ignore[arg-type]


# ------------------------------------------------------------------ pre-vote


def test_a_follower_that_has_fetched_from_its_leader_refuses_a_pre_vote() -> None:
    """K063."""
    solo = Solo().follow()
    assert not solo.vote(ask_for(3, pre_vote=True)).granted
    assert solo.node.epoch == 1


def test_a_follower_that_has_not_fetched_yet_gives_a_pre_vote_to_who_is_up_to_date() -> None:
    """K064."""
    solo = Solo(log_view=journal_of((1, 2, 3), [records(0, 1, 5)]))
    solo.ask(BeginQuorumEpochRequest(2, 2, (endpoint_of(2),)))
    assert solo.vote(ask_for(3, 2, (1, 5), pre_vote=True)).granted
    assert not solo.vote(ask_for(3, 2, (1, 4), pre_vote=True)).granted


@pytest.mark.parametrize("state", ["candidate", "resigned", "unattached", "voted", "observer"])
def test_who_follows_nobody_gives_pre_votes_by_the_log_alone_and_saves_nothing(state: str) -> None:
    """K065."""
    log = [records(0, 1, 5)]
    log_view = journal_of((1, 2, 3) if state != "observer" else (2, 3), log)
    saved = {
        "candidate": ElectionState(2, NO_NODE, key_of(1)),
        "resigned": ElectionState(2, 1),
        "voted": ElectionState(2, NO_NODE, key_of(3)),
    }.get(state, ElectionState(2))
    solo = Solo(log_view=log_view, saved=saved)
    solo.effects.clear()
    assert solo.vote(ask_for(2, 2, (1, 5), pre_vote=True)).granted
    assert solo.vote(ask_for(2, 2, (2, 1), pre_vote=True)).granted
    assert not solo.vote(ask_for(2, 2, (1, 4), pre_vote=True)).granted
    assert not [effect for effect in solo.effects if isinstance(effect, SaveElection)]


def test_a_leader_refuses_pre_votes_of_its_epoch() -> None:
    """K066."""
    solo = Solo().lead()
    assert not solo.vote(ask_for(2, 1, (1, 99), pre_vote=True)).granted
    assert solo.role == "leader"


def test_votes_of_an_older_epoch_are_fenced() -> None:
    """K067."""
    solo = Solo(saved=ElectionState(5))
    assert solo.vote(ask_for(2, 4, pre_vote=True)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert solo.vote(ask_for(2, 4)).error is ErrorCode.FENCED_LEADER_EPOCH


def test_votes_that_cannot_be_are_invalid() -> None:
    """K068."""
    solo = Solo()
    for request in (
        ask_for(2, 1, (2, 0), pre_vote=True),
        ask_for(2, 1, (1, 0)),
        ask_for(2, 1, (0, -1)),
        ask_for(2, 1, (-1, 0)),
        VoteRequest(1, ReplicaKey(-1, key_of(2).directory_id), 0, 0),
    ):
        assert solo.vote(request).error is ErrorCode.INVALID_REQUEST


ABSURD = (1 << 31) - 1


@pytest.mark.parametrize("epoch", [ABSURD, ABSURD - 1, 1 + LONGEST_JUMP + 1])
def test_nobody_is_believed_who_speaks_of_an_absurd_epoch(epoch: int) -> None:
    """Behind the last epoch nobody could ever be elected, and an epoch never goes back."""
    solo = Solo().follow()
    said = [
        solo.ask(ask_for(3, epoch)),
        solo.ask(ask_for(3, epoch, pre_vote=True)),
        solo.ask(BeginQuorumEpochRequest(epoch, 3, (endpoint_of(3),))),
        solo.ask(EndQuorumEpochRequest(epoch, 3, (), (endpoint_of(3),))),
    ]
    for answer in said:
        assert isinstance(answer, (VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse))
        assert (answer.error, answer.epoch) == (ErrorCode.INVALID_REQUEST, 1)
    assert (solo.node.epoch, solo.node.leader_id) == (1, 2)
    assert solo.ask(BeginQuorumEpochRequest(1 + LONGEST_JUMP, 3, (endpoint_of(3),)))
    assert (solo.node.epoch, solo.node.leader_id) == (1 + LONGEST_JUMP, 3)


@pytest.mark.parametrize("kind", ["fetch", "vote"])
def test_an_answer_of_an_absurd_epoch_is_no_answer(kind: str) -> None:
    solo = Solo()
    if kind == "fetch":
        solo.follow()
    else:
        solo.stand()
    before = solo.node.epoch
    sent = [s for s in solo.sent if isinstance(s.request, FetchRequest if kind == "fetch" else VoteRequest)]
    answers = {"fetch": FetchResponse, "vote": VoteResponse}
    solo.step(Answered(sent[-1].correlation, answers[kind](ErrorCode.FENCED_LEADER_EPOCH, ABSURD, 3)))
    assert solo.node.epoch == before
    assert not any(isinstance(e, SaveElection) and e.state.epoch > before for e in solo.effects)


@pytest.mark.parametrize("state", ["follower", "no address", "leader", "resigned"])
@pytest.mark.parametrize("kind", [BeginQuorumEpochRequest, EndQuorumEpochRequest])
def test_nobody_can_claim_an_epoch_that_has_another_leader(state: str, kind: type) -> None:
    """What a request says must not end this node: two leaders in an epoch are the sender's defect."""
    if state == "no address":
        solo = Solo(saved=ElectionState(1, 7, None))
    else:
        solo = Solo().follow() if state == "follower" else Solo().lead()
    if state == "resigned":
        solo.step(Resign(solo.node.epoch))
        assert solo.role == "resigned"
    before = (solo.role, solo.node.epoch, solo.node.leader_id)
    more = (endpoint_of(3), endpoint_of(2))
    fields = {"epoch": solo.node.epoch, "leader_id": 3, "endpoints": more}
    assert solo.error(kind(**fields)) is ErrorCode.INVALID_REQUEST
    assert (solo.role, solo.node.epoch, solo.node.leader_id) == before


def test_behind_the_last_epoch_a_node_stops_before_it_writes_another() -> None:
    solo = Solo((1,), saved=ElectionState(ABSURD - 1, NO_NODE, None))
    assert solo.role == "leader"
    assert solo.node.epoch == ABSURD
    with pytest.raises(IllegalTransition, match="no other"):
        Solo((1,), saved=ElectionState(ABSURD, NO_NODE, None))


def test_a_vote_meant_for_another_disk_is_refused() -> None:
    """K069."""
    solo = Solo()
    for pre_vote in (True, False):
        response = solo.vote(ask_for(2, 1, pre_vote=pre_vote, voter=key_of(1, disk=1)))
        assert response.error is ErrorCode.INVALID_VOTER_KEY and not response.granted
        assert (
            solo.vote(ask_for(2, 1, pre_vote=pre_vote, voter=key_of(2))).error is ErrorCode.INVALID_VOTER_KEY
        )


@pytest.mark.parametrize("cluster_id", [None, "another"])
def test_every_peer_request_checks_the_cluster_id_if_it_has_one(cluster_id: str | None) -> None:
    """K070, K103."""
    for request in (
        ask_for(2, 1, cluster_id=cluster_id),
        ask_for(2, 1, pre_vote=True, cluster_id=cluster_id),
        BeginQuorumEpochRequest(1, 2, (endpoint_of(2),), cluster_id=cluster_id),
        EndQuorumEpochRequest(1, 2, (), (endpoint_of(2),), cluster_id=cluster_id),
        FetchRequest(0, key_of(2), 0, 0, cluster_id=cluster_id),
        FetchSnapshotRequest(0, key_of(2), SnapshotId(1, 1), 0, cluster_id=cluster_id),
    ):
        refused = Solo().error(request) is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert refused == (cluster_id is not None)


def test_a_voter_that_knows_no_pre_votes_makes_us_stand_at_once() -> None:
    """K072."""
    solo = Solo()
    solo.stand()
    send = solo.take(VoteRequest, 2)
    solo.step(Failed(send.correlation, "unsupported version", unsupported=True))
    assert solo.role == "candidate" and solo.node.epoch == 1


def test_who_is_about_to_stand_follows_when_a_leader_speaks() -> None:
    """K076, K077: and a pre-vote that comes back later says nothing."""
    solo = Solo()
    solo.stand()
    late = solo.take(VoteRequest, 3)
    solo.ask(BeginQuorumEpochRequest(1, 2, (endpoint_of(2),)))
    assert solo.role == "follower"
    solo.answer(late, VoteResponse(ErrorCode.NONE, 0, granted=True))
    assert solo.role == "follower" and solo.node.epoch == 1


def test_a_silent_leader_makes_a_voter_prospective_in_the_same_epoch() -> None:
    """K078, K079: everybody else is asked, and asked again when no answer comes."""
    solo = Solo().follow()
    solo.sent.clear()
    solo.advance(2.0)
    assert solo.role == "prospective" and solo.node.epoch == 1
    asked = [send.request for send in solo.sent if isinstance(send.request, VoteRequest)]
    assert [(r.pre_vote, r.epoch, r.voter) for r in asked] == [(True, 1, key_of(2)), (True, 1, key_of(3))]
    solo.sent.clear()
    solo.step(Failed(solo.node.core.peers.waiting_on(2)[0], "timed out"))
    solo.advance(0.1)
    assert solo.has_sent(VoteRequest, 2)


def test_an_observer_whose_leader_is_silent_never_stands() -> None:
    """K122, K171."""
    solo = Solo((2, 3), config=RaftConfig(bootstrap=(endpoint_of(2),)))
    solo.follow()
    solo.advance(30.0)
    assert solo.role == "follower" and solo.has_sent(FetchRequest)


# ------------------------------------------------------------------ votes


def test_a_vote_is_saved_before_it_is_given() -> None:
    solo = Solo(disk=False)
    solo.step(Received("x", ask_for(2, 1)))
    assert "x" not in solo.replies
    saves = [effect for effect in solo.effects if isinstance(effect, SaveElection)]
    assert saves[-1].state == ElectionState(1, NO_NODE, key_of(2))
    from barnabas.raft.messages import ElectionSaved

    solo.step(ElectionSaved(saves[-1].serial - 1))
    assert "x" not in solo.replies
    solo.step(ElectionSaved(saves[-1].serial))
    assert solo.replies["x"] == VoteResponse(ErrorCode.NONE, 1, NO_NODE, True)


def test_one_vote_per_epoch_also_after_a_restart() -> None:
    """K086."""
    solo = Solo()
    assert solo.vote(ask_for(2, 1)).granted
    assert solo.vote(ask_for(2, 1)).granted
    assert not solo.vote(ask_for(3, 1)).granted
    again = Solo(saved=ElectionState(1, NO_NODE, key_of(2)))
    assert again.vote(ask_for(2, 1)).granted
    assert not again.vote(ask_for(3, 1)).granted
    other_disk = VoteRequest(1, key_of(2, disk=1), 0, 0)
    assert not again.vote(other_disk).granted


def test_a_candidate_restarts_as_candidate_of_its_epoch() -> None:
    """K081."""
    solo = Solo(saved=ElectionState(4, NO_NODE, key_of(1)))
    assert solo.role == "candidate" and solo.node.epoch == 4
    request = solo.take(VoteRequest, 2).request
    assert isinstance(request, VoteRequest) and not request.pre_vote and request.epoch == 4


def test_a_follower_restarts_as_follower_and_fetches() -> None:
    """K082."""
    solo = Solo(saved=ElectionState(4, 2))
    assert solo.role == "follower" and solo.take(FetchRequest).to == 2


def test_a_leader_that_is_not_in_the_set_is_remembered_without_an_address() -> None:
    """K083."""
    solo = Solo(saved=ElectionState(4, 9, key_of(3)))
    assert (solo.role, solo.node.leader_id) == ("unattached", 9)
    assert not solo.vote(ask_for(2, 4)).granted, "the vote is kept too"


def test_an_election_state_older_than_the_log_is_brought_up_to_it() -> None:
    """K084."""
    solo = Solo(log_view=journal_of((1, 2, 3), [records(0, 7)]), saved=ElectionState(3, 2))
    assert (solo.role, solo.node.epoch, solo.node.leader_id) == ("unattached", 7, None)


def test_votes_are_counted_among_the_voters_of_our_own_log() -> None:
    solo = Solo()
    solo.stand()
    solo.win(pre_vote=True)
    assert solo.role == "candidate"
    send = solo.take(VoteRequest, 2)
    solo.answer(send, VoteResponse(ErrorCode.NONE, 1, granted=False))
    assert solo.role == "candidate"
    solo.answer(solo.take(VoteRequest, 3), VoteResponse(ErrorCode.NONE, 1, granted=True))
    assert solo.role == "leader"


def test_a_reset_connection_to_the_leader_need_not_wait_for_the_fetch_timeout() -> None:
    solo = Solo().follow()
    solo.step(Disconnected(2))
    assert solo.vote(ask_for(3, 1, pre_vote=True)).granted, "the leader is in doubt now"
    solo.advance(0.7)
    assert solo.role == "prospective"


def test_a_reset_that_a_good_fetch_follows_changes_nothing() -> None:
    solo = Solo().follow()
    solo.sent.clear()
    solo.step(Disconnected(2))
    solo.advance(0.05)
    solo.fetched()
    solo.advance(1.0)
    assert solo.role == "follower"
    assert not solo.vote(ask_for(3, 1, pre_vote=True)).granted


# ------------------------------------------------------------------ leaders come and go


def test_a_leader_without_a_fetching_majority_resigns() -> None:
    """K093."""
    solo = Solo().lead()
    solo.advance(2.9)
    assert solo.role == "leader"
    solo.advance(0.2)
    assert solo.role == "resigned"


def test_fetching_a_snapshot_shows_that_a_voter_lives() -> None:
    """K094."""
    solo = Solo().lead()
    solo.step(SnapshotTaken(SnapshotId(3, 1), 10))
    for _ in range(5):
        solo.advance(2.0)
        answer = solo.ask(FetchSnapshotRequest(1, key_of(2), SnapshotId(3, 1), 0))
        assert getattr(answer, "read", None) == ReadSnapshot(SnapshotId(3, 1), 0, 1 << 20)
    assert solo.role == "leader"


def test_a_voter_id_on_another_disk_does_not_count_as_following() -> None:
    """K095."""
    solo = Solo().lead()
    for _ in range(4):
        solo.advance(1.0)
        solo.fetch(2, disk=1)
    assert solo.role == "resigned"


def test_the_first_successor_stands_at_once_and_the_others_wait_in_turn() -> None:
    """K097."""
    waits = []
    for place in range(4):
        keys = [key_of(i) for i in (7, 8, 9)]
        successors = (*keys[:place], key_of(1), *keys[place:]) if place < 3 else tuple(keys)
        solo = Solo().follow()
        solo.ask(EndQuorumEpochRequest(1, 2, successors, (endpoint_of(2),)))
        role = solo.node.role
        waits.append(round(role.deadline - solo.mono, 3) if isinstance(role, Follower) else 0.0)
    assert waits == [0.0, 0.125, 0.25, 1.0]


def test_the_end_of_an_older_epoch_is_fenced() -> None:
    """K098."""
    for solo in (Solo().lead(), Solo(saved=ElectionState(1, NO_NODE, key_of(1)))):
        role = solo.role
        assert solo.error(EndQuorumEpochRequest(0, 2)) is ErrorCode.FENCED_LEADER_EPOCH
        assert solo.role == role


def test_a_resigned_leader_tells_the_others_until_they_know() -> None:
    """K099: who is furthest stands first."""
    solo = Solo().lead()
    solo.fetch(2, offset=0)
    solo.step(Resign(1))
    send = solo.take(EndQuorumEpochRequest, 2)
    assert isinstance(send.request, EndQuorumEpochRequest)
    assert send.request.successors == (key_of(3), key_of(2))
    solo.step(Failed(send.correlation, "lost"))
    solo.answer(solo.take(EndQuorumEpochRequest, 3), EndQuorumEpochResponse(ErrorCode.NONE, 1, 1))
    solo.advance(0.1)
    assert solo.has_sent(EndQuorumEpochRequest, 2) and not solo.has_sent(EndQuorumEpochRequest, 3)


def test_resigning_from_another_epoch_or_as_no_leader_is_a_defect() -> None:
    """K100."""
    with pytest.raises(IllegalTransition):
        Solo().lead().step(Resign(9))
    with pytest.raises(IllegalTransition):
        Solo(saved=ElectionState(1)).step(Resign(1))
    assert Solo(saved=ElectionState(1)).step(Resign(0)) == []


def test_shutting_down_a_leader_waits_for_another_and_gives_up_in_time() -> None:
    """K101."""
    solo = Solo().lead()
    assert not [e for e in solo.step(Shutdown(5.0)) if isinstance(e, Stopped)]
    assert solo.role == "resigned"
    solo.ask(BeginQuorumEpochRequest(2, 3, (endpoint_of(3),)))
    assert [e for e in solo.effects if isinstance(e, Stopped)] == [Stopped(True)]
    lonely = Solo().lead()
    lonely.step(Shutdown(5.0))
    lonely.advance(5.0)
    assert [e for e in lonely.effects if isinstance(e, Stopped)] == [Stopped(False)]
    assert Stopped(True) in Solo().follow().step(Shutdown(5.0))
    assert Stopped(True) in Solo((2, 3)).step(Shutdown(5.0))


def test_a_leader_reminds_only_voters_that_do_not_fetch() -> None:
    """K102."""
    solo = Solo().lead()
    while solo.has_sent(BeginQuorumEpochRequest):
        send = solo.take(BeginQuorumEpochRequest)
        solo.answer(send, BeginQuorumEpochResponse(ErrorCode.NONE, 1, 1))
    for _ in range(4):
        solo.advance(0.5)
        solo.fetch(2)
    reminded = {send.to for send in solo.sent if isinstance(send.request, BeginQuorumEpochRequest)}
    assert reminded == {3}


def test_what_is_not_in_the_table_cannot_happen() -> None:
    """K105: every pair of roles and cause that the table leaves out is refused."""
    for source in ("leader", "prospective", "resigned", "candidate", "unattached", "follower"):
        assert Transition(source, "leader", Cause.VOTE_WON) in TRANSITIONS or source != "candidate"
        assert Transition(source, "candidate", Cause.ELECTION_TIMEOUT) not in TRANSITIONS
        if source != "prospective":
            assert not any(t.source == source and t.target == "candidate" for t in TRANSITIONS)
        if source != "candidate":
            assert not any(t.source == source and t.target == "leader" for t in TRANSITIONS)
    assert not any(t.source in ("leader", "resigned") and t.target == "prospective" for t in TRANSITIONS)


@pytest.mark.parametrize("what", ["lower epoch", "self", "no address", "two leaders", "no majority"])
def test_a_role_that_breaks_the_rules_stops_the_node(what: str) -> None:
    """K105."""
    solo = Solo().follow()
    core, now = solo.node.core, solo.now
    follower = Follower(3, (endpoint_of(3),), 0.0)
    with pytest.raises(IllegalTransition):
        if what == "lower epoch":
            core.become(follower, 0, Cause.LEADER_FOUND, now)
        elif what == "self":
            core.become(Follower(1, (endpoint_of(1),), 0.0), 2, Cause.LEADER_FOUND, now)
        elif what == "no address":
            core.become(Follower(3, (), 0.0), 2, Cause.LEADER_FOUND, now)
        elif what == "two leaders":
            core.become(follower, 1, Cause.LEADER_FOUND, now)
        else:
            other = Solo()
            other.stand()
            other.win(pre_vote=True)
            from barnabas.raft import leadership
            from barnabas.raft.roles import Candidate

            assert isinstance(other.node.role, Candidate)
            leadership.begin(other.node.core, other.node.role, now)


def test_an_answer_of_a_leader_waits_until_its_own_election_is_saved() -> None:
    """A follower must not hold records of an epoch whose leader might forget that it led it."""
    solo = Solo((1,), disk=False)
    assert solo.role == "leader"
    solo.step(Received("f", FetchRequest(1, key_of(2), 0, 0)))
    assert "f" not in solo.replies
    solo.step(Persisted(3, 0))
    assert "f" not in solo.replies and solo.node.high_watermark is None


# ------------------------------------------------------------------ whole quorums


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("observers", [0, 3])
def test_every_size_elects_a_first_leader_and_everybody_hears_what_it_writes(
    voters: int, observers: int
) -> None:
    """K142."""
    cluster = Cluster(*range(1, voters + 1), seed=voters)
    for node_id in range(voters + 1, voters + observers + 1):
        cluster.start(node_id)
    offset = max(cluster.write(f"v{i}") for i in range(5))

    def heard() -> bool:
        return all((server.node.high_watermark or 0) > offset for server in cluster.servers.values())

    assert cluster.run(5.0, heard)


def test_a_majority_of_a_killed_quorum_goes_on() -> None:
    """K144."""
    cluster = Cluster(1, 2, 3, 4, 5, seed=4)
    cluster.write("before")
    for node_id in (1, 2, 3, 4, 5):
        cluster.crash(node_id)
    for node_id in (1, 3, 5):
        cluster.restart(node_id)
    cluster.write("after")


def test_a_leader_cut_off_is_replaced_and_the_minority_writes_nothing() -> None:
    """K145, K146."""
    cluster = Cluster(1, 2, 3, 4, 5, seed=6)
    leader = cluster.elect()
    others = [i for i in (1, 2, 3, 4, 5) if i != leader.id]
    cluster.partition((leader.id, others[0]), tuple(others[1:]))
    cluster.propose("never", leader)
    assert cluster.run(10.0, lambda: cluster.leader is not None and cluster.leader.id in others[1:])
    cluster.write("on the larger side")
    cluster.run(4.0)
    assert not leader.node.is_leader
    cluster.heal()
    offset = cluster.write("healed")
    assert cluster.run(
        8.0, lambda: all((s.node.high_watermark or 0) > offset for s in cluster.servers.values())
    )
    assert "never" not in [text for _, text in cluster.invariants.by_offset.values()]


def test_a_voter_that_can_only_send_does_not_depose_the_leader() -> None:
    """K147, L5."""
    cluster = Cluster(1, 2, 3, seed=9)
    leader = cluster.elect()
    other = next(i for i in (1, 2, 3) if i != leader.id)
    cluster.cut = {(leader.id, other)}
    cluster.run(30.0)
    assert cluster.leader is leader and leader.node.epoch == 1
    cluster.write("still here")


def test_a_quiet_quorum_talks_little() -> None:
    """L4."""
    cluster = Cluster(1, 2, 3, seed=2)
    cluster.elect()
    cluster.run(5.0)
    before = cluster.events
    cluster.run(60.0)
    assert cluster.events - before < 60 * 20


def test_an_observer_whose_leader_is_silent_gives_its_pre_vote() -> None:
    """It may be a voter that has not heard of it yet, and be needed (seed 6334)."""
    solo = Solo((2, 3)).follow()
    assert not solo.vote(ask_for(3, 1, pre_vote=True)).granted
    solo.advance(2.1)
    assert solo.role == "follower" and solo.vote(ask_for(3, 1, pre_vote=True)).granted


def test_the_leader_itself_knows_best_where_it_is() -> None:
    """An address from the voter set may be old (seed 6503)."""
    solo = Solo(saved=ElectionState(1, 2))
    assert solo.node.leader_endpoints == (endpoint_of(2),)
    solo.fetched(endpoints=(endpoint_of(8),))
    assert solo.take(FetchRequest, 2).endpoint == endpoint_of(8)
