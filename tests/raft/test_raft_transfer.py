"""The lead of the quorum is handed to another voter on request, and to nobody who could not take it."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, Server, endpoint_of, key_of

from barnabas.errors import ErrorCode
from barnabas.model import NodeId
from barnabas.raft.messages import AddVoterRequest, ChangeResponse, ReassignRequest, TransferRequest

ADDRESSES = tuple((node, (endpoint_of(node),)) for node in range(1, 8))


def led(*ids: int, seed: int = 1) -> tuple[Cluster, Server]:
    cluster = Cluster(*ids, seed=seed)
    leader = cluster.elect()
    cluster.write("first")
    return cluster, leader


def asked(
    cluster: Cluster, to: NodeId | None, *, force: bool = False, timeout: float = 5.0
) -> ChangeResponse:
    answer = cluster.change(TransferRequest(to, timeout, force=force))
    assert isinstance(answer, ChangeResponse)
    return answer


def leads(cluster: Cluster, node: int) -> bool:
    leader = cluster.leader
    return leader is not None and leader.id == node


@pytest.mark.parametrize("seed", range(1, 9))
def test_the_voter_that_is_named_leads_next_and_within_a_fraction_of_a_timeout(seed: int) -> None:
    cluster, leader = led(1, 2, 3, 4, 5, seed=seed)
    wanted = max(i for i in (1, 2, 3, 4, 5) if i != leader.id)
    assert asked(cluster, wanted).error is ErrorCode.NONE
    assert cluster.run(cluster.config.fetch_timeout / 4, lambda: leads(cluster, wanted))
    cluster.write("second")


def test_without_a_name_some_other_voter_leads() -> None:
    cluster, leader = led(1, 2, 3)
    assert asked(cluster, None).error is ErrorCode.NONE
    assert cluster.run(1.0, lambda: cluster.leader is not None and cluster.leader.id != leader.id)


def test_a_leader_that_is_asked_to_hand_over_to_itself_goes_on_in_its_epoch() -> None:
    cluster, leader = led(1, 2, 3)
    epoch = leader.node.epoch
    assert asked(cluster, leader.id).error is ErrorCode.NONE
    cluster.run(5.0)
    assert leads(cluster, leader.id) and leader.node.epoch == epoch


def test_an_observer_a_stranger_and_nobody_else_are_refused_and_the_leader_stays() -> None:
    cluster, leader = led(1, 2, 3)
    cluster.start(4)
    cluster.run(5.0)
    for node in (4, 9):
        answer = asked(cluster, node)
        assert answer.error is ErrorCode.VOTER_NOT_FOUND and "the voters are 1, 2, 3" in (
            answer.message or ""
        )
    assert leads(cluster, leader.id)
    alone, _ = led(1)
    answer = asked(alone, None)
    assert answer.error is ErrorCode.VOTER_NOT_FOUND and "no other voter" in (answer.message or "")


@pytest.mark.parametrize("force", [False, True])
def test_a_dead_voter_does_not_get_the_lead_even_by_force(force: bool) -> None:
    cluster, leader = led(1, 2, 3)
    dead = next(i for i in (1, 2, 3) if i != leader.id)
    cluster.crash(dead)
    cluster.run(cluster.config.fetch_timeout + 1)
    epoch = leader.node.epoch
    answer = asked(cluster, dead, force=force)
    assert answer.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT and "nobody would lead" in (
        answer.message or ""
    )
    assert leads(cluster, leader.id) and leader.node.epoch == epoch


def test_a_transfer_waits_for_the_change_that_somebody_else_waits_for_unless_forced() -> None:
    cluster, leader = led(1, 2, 3)
    other = next(i for i in (1, 2, 3) if i != leader.id)
    waiting = cluster.ask(AddVoterRequest(key_of(4), (endpoint_of(4),), 30.0))
    cluster.run(0.5)
    answer = asked(cluster, other, timeout=2.0)
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT and "another change waits: add 4-" in (
        answer.message or ""
    )
    assert leads(cluster, leader.id) and not waiting
    assert asked(cluster, other, force=True).error is ErrorCode.NONE
    assert cluster.run(3.0, lambda: leads(cluster, other))
    assert isinstance(waiting[0], ChangeResponse)
    assert waiting[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_two_transfers_at_once_end_in_one_leader_and_two_answers() -> None:
    cluster, leader = led(1, 2, 3)
    one, two = (i for i in (1, 2, 3) if i != leader.id)
    answers = [cluster.ask(TransferRequest(to), leader) for to in (one, two)]
    assert cluster.run(
        3.0, lambda: all(answers) and cluster.leader is not None and cluster.leader is not leader
    )
    cluster.write("after")


@pytest.mark.parametrize("seed", range(1, 13))
def test_in_the_middle_of_a_move_the_lead_changes_and_the_target_is_reached(seed: int) -> None:
    cluster, _ = led(1, 2, 3, seed=seed)
    for node in (4, 5, 6):
        cluster.start(node)
    cluster.run(5.0)
    answer = cluster.change(ReassignRequest((4, 5, 6), ADDRESSES))
    assert isinstance(answer, ChangeResponse) and answer.error is ErrorCode.NONE
    for number in range(3):
        cluster.run(0.05 * (1 + (seed + number) % 5))
        if cluster.leader is not None:
            cluster.ask(TransferRequest(None, 2.0))
    assert cluster.run(
        60.0, lambda: cluster.leader is not None and cluster.leader.node.voters.ids == (4, 5, 6)
    )
    assert cluster.run(30.0, lambda: cluster.leader is not None and cluster.leader.id in (4, 5, 6))
    cluster.write("in the end")
