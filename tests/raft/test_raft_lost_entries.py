"""A voter whose disk lost what it had synced votes by what its log was, and leads when it has it again."""

from __future__ import annotations

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of
from raft_solo import Solo, journal_of, records

from barnabas.model import Offset
from barnabas.raft.effects import Event
from barnabas.raft.entries import ElectionState, EpochEnd, SnapshotId, SyncedEnd
from barnabas.raft.log_view import LogView
from barnabas.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Persisted,
    SnapshotInstalled,
    VoteRequest,
)

WAS = SyncedEnd(epoch=2, end_offset=10, voters=3)
"""Where the log ended when it was synced."""


def what_is_left(was: SyncedEnd = WAS, voters: tuple[int, ...] = (1, 2, 3)) -> LogView:
    """A log that ends at offset 6 of epoch 1, and ended elsewhere once."""
    log_view = journal_of(voters, [records(0, 1, 6)])
    log_view.restore_synced_end(was)
    return log_view


def lossy(was: SyncedEnd = WAS, *, voters: tuple[int, ...] = (1, 2, 3), epoch: int = 2) -> Solo:
    return Solo(log_view=what_is_left(was, voters), saved=ElectionState(epoch))


def grants(
    solo: Solo, last_epoch: int, last_offset: Offset, *, pre_vote: bool = False, epoch: int = 3
) -> bool:
    asked = VoteRequest(epoch, key_of(2), last_epoch, last_offset, pre_vote, key_of(1), CLUSTER)
    return solo.vote(asked).granted


def events(solo: Solo, name: str) -> list[dict[str, object]]:
    return [dict(e.fields) for e in solo.effects if isinstance(e, Event) and e.name == name]


def stood(solo: Solo) -> bool:
    return any(isinstance(send.request, VoteRequest) for send in solo.sent)


# ------------------------------------------------------------------ votes


@pytest.mark.parametrize("pre_vote", [False, True])
def test_it_votes_by_what_its_log_was(pre_vote: bool) -> None:
    assert not grants(lossy(), 1, 6, pre_vote=pre_vote), "as long as what is left, and lacks what was there"
    assert not grants(lossy(), 2, 9, pre_vote=pre_vote)
    assert grants(lossy(), 2, 10, pre_vote=pre_vote)
    assert grants(lossy(), 3, 7, pre_vote=pre_vote, epoch=4), "a leader of a later epoch had all of it"


def test_a_log_that_lost_nothing_counts_as_it_is() -> None:
    solo = lossy(SyncedEnd(1, 4, 3))
    assert not events(solo, "raft.log.lacks")
    assert not grants(solo, 1, 5)
    assert grants(lossy(SyncedEnd(1, 4, 3)), 1, 6)


# ------------------------------------------------------------------ standing


def test_it_does_not_stand_before_a_leader_gave_it_what_it_lost() -> None:
    solo = lossy()
    assert events(solo, "raft.log.lacks") == [{"end_offset": 6, "was": 10, "alone": False}]
    solo.advance(60.0)
    assert solo.role == "unattached" and not stood(solo)
    solo.follow(leader=2, epoch=3)
    solo.fetched(records(6, 2, 3))
    solo.advance(60.0)
    assert solo.role == "follower", "three of four are not enough"
    solo.ask(EndQuorumEpochRequest(3, 2, (key_of(1),), (), CLUSTER))
    assert solo.role == "follower", "nor does it when the leader names it first"
    assert not events(solo, "raft.log.whole-again")
    solo.fetched(records(9, 2))
    assert events(solo, "raft.log.whole-again") == [{"end_offset": 10, "leader": 2}]
    assert not stood(solo)
    solo.advance(60.0)
    assert stood(solo)


def test_entries_of_a_later_epoch_make_it_whole_wherever_they_stand() -> None:
    solo = lossy().follow(leader=2, epoch=3)
    solo.fetched(diverging=EpochEnd(1, 4))
    assert solo.node.log_view.end_offset == 4
    assert solo.node.log_view.lacks, "a cut gives nothing back"
    assert not grants(solo, 1, 6, epoch=4)
    solo = lossy().follow(leader=2, epoch=3)
    solo.fetched(diverging=EpochEnd(1, 4))
    solo.fetched(records(4, 3))
    assert not solo.node.log_view.lacks


def test_a_snapshot_makes_it_whole_if_it_reaches_as_far() -> None:
    for at, whole in ((SnapshotId(9, 2), False), (SnapshotId(10, 2), True), (SnapshotId(7, 3), True)):
        solo = lossy().follow(leader=2, epoch=3)
        solo.step(SnapshotInstalled(at, 100, ()))
        assert solo.node.log_view.lacks is not whole, at
        assert bool(events(solo, "raft.log.whole-again")) is whole


def test_a_leader_that_lost_entries_leaves_its_epoch_and_follows() -> None:
    solo = Solo(log_view=what_is_left(), saved=ElectionState(2, 1))
    assert solo.role == "resigned"
    solo.advance(60.0)
    assert solo.role == "unattached" and solo.node.epoch == 3


def test_a_candidate_that_lost_entries_is_none_any_more_and_votes_for_nobody_else() -> None:
    solo = Solo(log_view=what_is_left(), saved=ElectionState(3, voted=key_of(1)))
    assert solo.role == "unattached"
    assert not grants(solo, 2, 10, epoch=3)
    assert grants(solo, 2, 10, epoch=4)


# ------------------------------------------------------------------ alone


def test_the_only_voter_leads_without_what_it_lost_and_says_so() -> None:
    solo = lossy(SyncedEnd(2, 10, 1), voters=(1,))
    assert solo.role == "leader"
    assert events(solo, "raft.log.lacks") == [{"end_offset": 6, "was": 10, "alone": True}]
    assert solo.node.high_watermark == solo.node.log_view.end_offset == 9
    assert not solo.node.log_view.lacks, "its own epoch is later than all that it lost"
    assert solo.node.log_view.synced_end == SyncedEnd(3, 9, 1)


def test_it_is_not_the_only_voter_if_there_were_others_where_its_log_ended() -> None:
    solo = lossy(SyncedEnd(2, 10, 2), voters=(1,))
    solo.advance(60.0)
    assert solo.role == "unattached"
    assert events(solo, "raft.log.lacks")[0]["alone"] is False


# ------------------------------------------------------------------ cuts and syncs


def test_what_a_leader_has_it_cut_is_not_lost() -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), [records(0, 1, 6), records(6, 2, 4)]), saved=ElectionState(2))
    log_view = solo.node.log_view
    log_view.restore_synced_end(WAS)
    solo.follow(leader=2, epoch=3)
    solo.fetched(diverging=EpochEnd(1, 6))
    assert log_view.synced_end == SyncedEnd(1, 6, 3) and not log_view.lacks
    assert grants(solo, 1, 6, epoch=4), "the others need this vote should the leader die now"


def test_a_sync_from_before_a_cut_and_entries_that_are_not_synced_say_nothing() -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), [records(0, 1, 6)]), saved=ElectionState(1), disk=False)
    log_view = solo.node.log_view
    log_view.append(records(6, 1, 4))
    assert log_view.synced_end.end_offset == 0
    cut = log_view.cut
    log_view.truncate(8)
    solo.step(Persisted(10, cut))
    assert log_view.synced_end.end_offset == 0
    solo.step(Persisted(8, log_view.cut))
    assert log_view.synced_end == SyncedEnd(1, 8, 3)


def test_syncs_of_a_log_that_lacks_entries_keep_where_it_was() -> None:
    log_view = what_is_left()
    log_view.append(records(6, 2, 2))
    log_view.persisted_to(8, log_view.cut)
    assert log_view.synced_end == WAS and log_view.lacks


# ------------------------------------------------------------------ an older election state


def forgetful(saved: ElectionState | None, *, abstains_to: int) -> Solo:
    log_view = journal_of((1, 2, 3), [records(0, 1, 6)])
    log_view.abstains_to = abstains_to
    return Solo(log_view=log_view, saved=saved)


@pytest.mark.parametrize("saved", [None, ElectionState(1, 2), ElectionState(5)])
def test_no_vote_in_an_epoch_in_which_one_was_perhaps_given(saved: ElectionState | None) -> None:
    solo = forgetful(saved, abstains_to=5)
    assert solo.node.epoch == 5
    assert len(events(solo, "raft.election-state.old")) == 1
    assert not grants(solo, 1, 6, epoch=5), "it may have voted for another one"
    assert grants(solo, 1, 6, epoch=6)


def test_it_follows_the_leader_of_that_epoch() -> None:
    solo = forgetful(None, abstains_to=5)
    solo.ask(BeginQuorumEpochRequest(5, 2, (endpoint_of(2),)))
    assert solo.role == "follower" and solo.has_sent(FetchRequest, 2), "nobody has to elect anew"


def test_which_election_state_is_older_than_a_vote() -> None:
    assert ElectionState(4, 2).forgets(5) and ElectionState(5).forgets(5)
    assert not ElectionState(5, voted=key_of(2)).forgets(5)
    assert not ElectionState(5, 2).forgets(5), "where there is a leader no vote is given"
    assert not ElectionState(6).forgets(5)
