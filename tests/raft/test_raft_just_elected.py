"""A leader that has just been elected calls nobody dead who had no time yet to fetch from it."""

from __future__ import annotations

import pytest
from raft_cluster import CLUSTER, endpoint_of, key_of
from raft_solo import Solo

from barnabas.errors import ErrorCode
from barnabas.raft.entries import Note
from barnabas.raft.membership import target
from barnabas.raft.messages import (
    ChangeResponse,
    Propose,
    ReassignRequest,
    RemoveVoterRequest,
    TransferRequest,
)
from barnabas.raft.settings import RaftConfig

ADDRESSES = tuple((node, (endpoint_of(node),)) for node in range(1, 8))
TO_FOUR = ReassignRequest((1, 2, 4), ADDRESSES)


def elected(*voters: int) -> Solo:
    """Leader of this moment; what it has written is committed by voter 2, and nobody else has fetched."""
    solo = Solo(voters or (1, 2, 3), config=RaftConfig(cluster_id=CLUSTER, fetch_timeout=2.0))
    if solo.role != "leader":
        solo.stand()
        solo.win(pre_vote=True)
        solo.win(pre_vote=False)
        solo.fetch(2)
    assert solo.role == "leader"
    return solo


def said(answer: object) -> tuple[ErrorCode, str]:
    assert isinstance(answer, ChangeResponse)
    return answer.error, answer.message or ""


def test_a_target_with_a_node_that_has_not_fetched_yet_waits_for_it() -> None:
    solo = elected()
    assert solo.ask(TO_FOUR) is None
    token = solo.tokens
    error, reason = said(solo.node.check(TO_FOUR, solo.now))
    assert error is ErrorCode.REQUEST_TIMED_OUT and "node 4 has not fetched from this leader yet" in reason
    solo.fetch(4)
    solo.fetch(2)
    assert said(solo.reply(token)) == (ErrorCode.NONE, "")


@pytest.mark.parametrize("voters", [(1, 2, 3), (1,)])
def test_it_is_refused_as_soon_as_who_lives_had_the_time_to_fetch(voters: tuple[int, ...]) -> None:
    """Also where nothing comes in that would wake the leader."""
    solo = elected(*voters)
    assert solo.ask(ReassignRequest((1, 4), ADDRESSES)) is None
    token = solo.tokens
    solo.advance(1.9)
    assert solo.reply(token) is None
    solo.advance(0.2)
    error, reason = said(solo.reply(token))
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT and "id 4 must be one living replica" in reason
    assert said(solo.node.check(TO_FOUR, solo.now))[0] is not ErrorCode.REQUEST_TIMED_OUT


def test_a_voter_that_has_not_fetched_yet_is_no_reason_to_take_its_id_on_another_disk() -> None:
    solo = elected()
    solo.fetch(3, disk=1)
    wanted = ReassignRequest((1, 2, 3), ADDRESSES)
    assert said(solo.node.check(wanted, solo.now))[0] is ErrorCode.REQUEST_TIMED_OUT
    solo.fetch(3)
    error, reason = said(solo.node.check(wanted, solo.now))
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT and " and " in reason, "two replicas, both alive"


@pytest.mark.parametrize("to", [3, None])
def test_the_lead_waits_for_a_successor_that_has_not_fetched_yet(to: int | None) -> None:
    solo = Solo((1, 2, 3), config=RaftConfig(cluster_id=CLUSTER, fetch_timeout=2.0))
    solo.stand()
    solo.win(pre_vote=True)
    solo.win(pre_vote=False)
    assert solo.ask(TransferRequest(to)) is None
    token = solo.tokens
    error, reason = said(solo.node.check(TransferRequest(to), solo.now))
    assert error is ErrorCode.REQUEST_TIMED_OUT and "just been elected" in reason
    solo.fetch(3)
    solo.fetch(3)
    assert said(solo.reply(token)) == (ErrorCode.NONE, "")
    assert solo.role == "resigned"


def test_the_lead_is_refused_to_a_voter_that_had_the_time() -> None:
    solo = elected()
    assert solo.ask(TransferRequest(3)) is None
    token = solo.tokens
    for _ in range(22):
        solo.fetch(2)
        solo.advance(0.1)
    assert said(solo.reply(token))[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_on_the_way_to_a_target_a_living_voter_is_not_removed_first_as_if_it_were_dead() -> None:
    """Voter 3 goes and 4 comes: 4 comes first, also where 3 is the last to fetch from the new leader."""
    solo = elected()
    members = tuple(target.TargetReplica(key_of(node), (endpoint_of(node),)) for node in (1, 2, 4))
    solo.step(Propose("target", solo.node.epoch, (Note(target.TARGET, target.write_target(members)),)))
    solo.observe(4)
    solo.fetch(2)
    waiting = " ".join(solo.node.describe(solo.now).waiting)
    assert "has not fetched from this leader yet" in waiting and "3-" in waiting
    assert solo.node.voters.ids == (1, 2, 3)
    solo.fetch(3)
    solo.observe(4)
    solo.answer_probes(4)
    assert solo.node.voters.ids == (1, 2, 3, 4)


def test_on_the_way_to_a_target_a_voter_that_had_the_time_is_dead_and_goes_first() -> None:
    solo = elected()
    members = tuple(target.TargetReplica(key_of(node), (endpoint_of(node),)) for node in (1, 2, 4))
    solo.step(Propose("target", solo.node.epoch, (Note(target.TARGET, target.write_target(members)),)))
    for _ in range(22):
        solo.fetch(2)
        solo.advance(0.1)
    assert solo.node.voters.ids == (1, 2)


def test_a_removal_waits_for_voters_that_have_not_fetched_yet() -> None:
    solo = elected()
    assert solo.ask(RemoveVoterRequest(key_of(2))) is None
    token = solo.tokens
    solo.fetch(3)
    assert solo.node.voters.ids == (1, 3)
    solo.fetch(3)
    assert said(solo.reply(token)) == (ErrorCode.NONE, "")
