"""A voter whose node runs without the controller role counts for nothing; the majority keeps its size."""

from __future__ import annotations

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of, voter_of
from raft_solo import Solo, journal_of, records

from barnabas.errors import ErrorCode
from barnabas.model import ZERO_UUID, ReplicaKey
from barnabas.raft.effects import Event
from barnabas.raft.entries import Batch, Opaque, VotersEntry
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    Persisted,
    Propose,
    ReassignRequest,
    RemoveVoterRequest,
    Resign,
    Supervise,
    TransferRequest,
    VoteRequest,
)
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import Voter

BROKER = RaftConfig(cluster_id=CLUSTER, can_vote=False)


def propose(solo: Solo) -> int:
    solo.step(Propose("p", solo.node.epoch, (Opaque("x", 1),)))
    return solo.node.log_view.end_offset


def events(solo: Solo, name: str) -> list[dict[str, object]]:
    return [dict(e.fields) for e in solo.effects if isinstance(e, Event) and e.name == name]


def said(answer: object) -> tuple[ErrorCode, str]:
    assert isinstance(answer, ChangeResponse), answer
    return answer.error, answer.message or ""


# ------------------------------------------------------------------ at the leader


@pytest.mark.parametrize("version", [0, 1])
def test_what_it_has_moves_no_high_watermark_until_it_has_the_role_again(version: int) -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), version=version)).lead()
    before = solo.node.high_watermark
    end = propose(solo)
    solo.fetch(3, can_vote=False)
    assert solo.node.high_watermark == before
    solo.fetch(3)
    assert solo.node.high_watermark == end


@pytest.mark.parametrize("last_epoch", [1, 0], ids=["it agrees", "it diverges"])
def test_a_late_fetch_of_its_time_with_the_role_makes_nothing_count_that_it_fetched_without(
    last_epoch: int,
) -> None:
    solo = Solo().lead()
    late = FetchRequest(solo.node.epoch, key_of(3), 2, last_epoch)
    propose(solo)
    before = solo.node.high_watermark
    solo.fetch(3, can_vote=False)
    solo.ask(late)
    assert solo.node.high_watermark == before


@pytest.mark.parametrize("version", [0, 1])
def test_the_quorum_bears_no_failure_on_its_account(version: int) -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), version=version)).lead()
    assert solo.node.describe(solo.now).survivable == 1
    solo.fetch(3, can_vote=False)
    seen = solo.node.describe(solo.now)
    assert seen.survivable == 0 and len(seen.voters) == 3
    assert "controller role" in dict(seen.errors)[3]


def test_the_leader_says_so_once_and_says_nothing_of_brokers() -> None:
    solo = Solo().lead()
    solo.fetch(4, can_vote=False)
    solo.fetch(3, can_vote=False)
    solo.fetch(3, can_vote=False)
    assert events(solo, "raft.voter.without-role") == [{"voter": key_of(3)}]


def test_a_leader_that_hears_only_such_voters_resigns() -> None:
    solo = Solo().lead()
    for _ in range(20):
        solo.fetch(3, can_vote=False)
        solo.advance(0.2)
    assert solo.role != "leader"


def test_it_is_asked_last_to_stand_for_election() -> None:
    solo = Solo((1, 2, 3)).lead()
    solo.fetch(2, can_vote=False)
    solo.step(Resign(1))
    request = solo.take(EndQuorumEpochRequest).request
    assert isinstance(request, EndQuorumEpochRequest)
    assert request.successors == (key_of(3), key_of(2))


def test_the_lead_is_not_handed_to_it_and_no_set_is_made_that_needs_it() -> None:
    solo = Solo((1, 2, 3)).lead()
    solo.advance(1.9)
    solo.fetch(2)
    solo.advance(0.2)
    solo.fetch(2)
    solo.fetch(3, can_vote=False)
    error, why = said(solo.ask(TransferRequest(3)))
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT and "voter 3 has" in why
    target = ReassignRequest((1, 2, 3), ((3, (endpoint_of(3),)),))
    error, why = said(solo.node.check(target, solo.now))
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT and "without the controller role" in why


def test_an_observer_without_the_role_is_not_added_and_could_not_vote() -> None:
    solo = Solo((1, 2, 3)).lead()
    for _ in range(4):
        solo.fetch(4, can_vote=False)
        solo.fetch(5)
        solo.fetch(2)
        solo.advance(0.01)
    assert solo.ask(AddVoterRequest(key_of(4), (endpoint_of(4),), 1.0)) is None
    token = solo.tokens
    solo.answer_probes(4)
    solo.advance(1.1)
    error, why = said(solo.reply(token))
    assert error is ErrorCode.REQUEST_TIMED_OUT and "without the controller role" in why
    assert solo.node.describe(solo.now).could_vote((1, 2, 3, 4, 5)) == (5,)


def test_the_autopilot_replaces_it_like_a_dead_one() -> None:
    solo = Solo((1, 2, 3)).lead()
    order = Supervise(3, 1.0, 3.0, 0.5, ((4, (endpoint_of(4),)),))
    for _ in range(20):
        solo.fetch(2)
        solo.fetch(3, can_vote=False)
        solo.fetch(4)
        solo.step(order)
        solo.advance(0.25)
    noted = [change.what for change in solo.noted]
    assert noted and noted[0].startswith(f"replace {key_of(3)}, which is dead, by {key_of(4)}")


# ------------------------------------------------------------------ at the node itself


def test_it_says_so_in_every_fetch_and_syncs_before_it() -> None:
    solo = Solo((1, 2, 3), config=BROKER).follow(2)
    solo.disk = False
    first = solo.take(FetchRequest)
    assert isinstance(first.request, FetchRequest) and first.request.can_vote is False
    solo.sent.append(first)
    solo.fetched(records(0, 1, 3))
    assert not solo.has_sent(FetchRequest)
    solo.step(Persisted(3, solo.node.log_view.cut))
    assert solo.has_sent(FetchRequest)


def test_an_observer_without_the_role_does_not_wait_for_its_disk() -> None:
    solo = Solo((2, 3), config=BROKER).follow(2)
    solo.disk = False
    solo.fetched(records(0, 1, 3))
    assert solo.has_sent(FetchRequest)


def test_it_reports_that_it_has_come_into_the_set() -> None:
    solo = Solo((2, 3), config=BROKER).follow(2)
    solo.fetched(Batch(0, 1, (VotersEntry(solo.node.voters.with_voter(voter_of(1))),)))
    assert events(solo, "raft.voter.without-role") == [{"voter": key_of(1)}]


def test_a_node_that_looks_for_the_leader_does_not_say_it_has_what_is_not_synced() -> None:
    """Whoever it asks may lead the epoch that it has just heard of, and would count it."""
    solo = Solo((1, 2, 3)).follow(2)
    solo.disk = False
    solo.fetched(records(0, 1, 3))
    solo.disk = True
    solo.ask(VoteRequest(2, key_of(3), 0, 0, voter=key_of(1), cluster_id=CLUSTER))
    assert solo.role == "unattached"
    solo.advance(0.1)
    assert not solo.has_sent(FetchRequest)
    solo.step(Persisted(3, solo.node.log_view.cut))
    assert solo.has_sent(FetchRequest)


# ------------------------------------------------------------------ keys, not ids


def test_a_removed_voter_is_no_longer_part_of_the_majority_that_a_leader_hears() -> None:
    solo = Solo((1, 2, 3, 4, 5)).lead()
    solo.advance(0.5)
    for node_id in (2, 3, 4):
        solo.fetch(node_id)
    role = solo.node.core.role
    role.heard.clear()  # type: ignore[union-attr]
    solo.fetch(5)
    assert solo.ask(RemoveVoterRequest(key_of(5))) is None
    assert key_of(5) not in role.heard  # type: ignore[union-attr]


def test_at_kraft_version_0_the_leader_counts_itself() -> None:
    solo = Solo(log_view=journal_of((1, 2, 3), version=0)).lead()
    assert solo.node.describe(solo.now).survivable == 1
    solo.advance(2.5)
    solo.fetch(2)
    assert solo.node.describe(solo.now).survivable == 0


def test_a_node_that_follows_on_a_new_disk_could_vote_while_its_old_disk_is_a_voter() -> None:
    solo = Solo((1, 2, 3)).lead()
    solo.fetch(3, disk=1)
    seen = solo.node.describe(solo.now)
    assert seen.could_vote((1, 2, 3)) == (3,)
    assert seen.could_vote((1, 2)) == (), "it is no controller"
    solo.advance(2.5)
    assert solo.node.describe(solo.now).could_vote((1, 2, 3)) == (), "it is gone"


def test_a_set_without_directory_ids_knows_its_voters_by_id() -> None:
    unnamed = journal_of((1, 2, 3), version=0).voters
    assert unnamed.counts(key_of(2), can_vote=True) and not unnamed.counts(key_of(2), can_vote=False)
    assert unnamed.entry(key_of(2)) == Voter(ReplicaKey(2, ZERO_UUID), (endpoint_of(2),))
    assert unnamed.syncs_first(key_of(2), can_vote=False) and not unnamed.syncs_first(
        key_of(4), can_vote=False
    )
