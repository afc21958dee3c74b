"""A change can be checked without being made: the leader's own guards, and nothing appended."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, key_of, voter_of

from barnabas.errors import ErrorCode
from barnabas.model import ReplicaKey
from barnabas.raft.membership.check import way
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
)


def ids(*nodes: int) -> tuple[ReplicaKey, ...]:
    return tuple(key_of(node) for node in nodes)


@pytest.mark.parametrize(
    ("current", "target", "leader", "said"),
    [
        (
            (1, 2, 3),
            (4, 5, 6),
            1,
            "1, 2, 3 -> 1, 2, 3, 4 -> 1, 3, 4 -> 1, 3, 4, 5 -> 1, 4, 5 -> 1, 4, 5, 6 -> 4, 5, 6",
        ),
        ((1, 2, 3), (4, 7), 1, "1, 2, 3 -> 1, 3 -> 1, 3, 4 -> 1, 4 -> 1, 4, 7 -> 4, 7"),
        ((1,), (2,), 1, "1 -> 1, 2 -> 2"),
        ((1, 2, 3), (1, 2, 3), 2, "1, 2, 3"),
    ],
)
def test_the_way_to_a_target_names_every_set(
    current: tuple[int, ...], target: tuple[int, ...], leader: int, said: str
) -> None:
    assert way(ids(*current), ids(*target), key_of(leader)) == said


CHANGES: list[tuple[Request, ErrorCode, str]] = [
    (RemoveVoterRequest(key_of(2)), ErrorCode.NONE, "the voters would be 1, 3"),
    (RemoveVoterRequest(key_of(9)), ErrorCode.VOTER_NOT_FOUND, "is no voter"),
    (RemoveVoterRequest(key_of(2, disk=1)), ErrorCode.VOTER_NOT_FOUND, "is no voter"),
    (AddVoterRequest(key_of(2), ()), ErrorCode.DUPLICATE_VOTER, "is a voter already"),
    (AddVoterRequest(key_of(9), ()), ErrorCode.REQUEST_TIMED_OUT, "has not fetched from this leader"),
    (ReassignRequest((1, 2)), ErrorCode.NONE, " -> 1, 2"),
    (ReassignRequest((1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "found none"),
    (ReassignRequest((1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "once"),
    (ReassignRequest(None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no target"),
]


@pytest.mark.parametrize(("change", "error", "reason"), CHANGES)
def test_the_leader_says_what_would_become_of_a_change_and_appends_nothing(
    change: Request, error: ErrorCode, reason: str
) -> None:
    cluster = Cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.write("first")
    cluster.run(cluster.config.fetch_timeout)  # who has not fetched by now is not there
    before = leader.node.log_view.end_offset, leader.node.voters
    answer = leader.node.check(change, cluster.now)
    assert answer.error is error and reason in (answer.message or "")
    assert (leader.node.log_view.end_offset, leader.node.voters) == before


def test_a_removal_that_would_leave_no_living_majority_would_wait_as_it_does_when_asked_for() -> None:
    cluster = Cluster(1, 2, 3)
    leader = cluster.elect()
    cluster.write("first")
    dead, other = (i for i in (1, 2, 3) if i != leader.id)
    cluster.crash(dead)
    cluster.run(leader.node.core.config.fetch_timeout + 1)
    answer = leader.node.check(RemoveVoterRequest(key_of(other)), cluster.now)
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT and "only 1 would be alive" in (answer.message or "")
    real = cluster.change(RemoveVoterRequest(key_of(other)))
    assert isinstance(real, ChangeResponse) and real.error is ErrorCode.REQUEST_TIMED_OUT
    assert "only 1 would be alive" in (real.message or "")


def test_a_follower_refuses_to_check() -> None:
    cluster = Cluster(1, 2, 3)
    leader = cluster.elect()
    follower = next(s for s in cluster.servers.values() if s is not leader)
    answer = follower.node.check(RemoveVoterRequest(key_of(2)), cluster.now)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_voters_that_refuse_connections_are_named_with_the_reason_where_nobody_leads() -> None:
    cluster = Cluster(1, 2, 3)
    leader = cluster.elect()
    for other in {1, 2, 3} - {leader.id}:
        cluster.crash(other, reset=True)
    cluster.run(30)
    seen = leader.node.describe(cluster.now)
    assert not seen.is_leader and seen.leader_id is None and seen.survivable == -1
    assert {node for node, _ in seen.errors} >= {1, 2, 3} - {leader.id}


def test_a_voter_that_comes_back_has_no_error_any_more() -> None:
    cluster = Cluster(1, 2, 3)
    leader = cluster.elect()
    other = next(i for i in (1, 2, 3) if i != leader.id)
    cluster.crash(other, reset=True)
    cluster.run(10)
    assert other in dict(leader.node.describe(cluster.now).errors)
    assert leader.node.describe(cluster.now).survivable == 0
    cluster.restart(other)
    cluster.run(10)
    seen = cluster.elect().node.describe(cluster.now)
    assert other not in dict(seen.errors) and seen.survivable == 1


def test_every_node_knows_the_target_and_the_steps_left() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.elect()
    cluster.write("first")
    cluster.format(4)
    cluster.start(4)
    cluster.run(3)
    cluster.ask(ReassignRequest((1, 2, 4), ((4, voter_of(4).endpoints),)))
    seen = {}
    cluster.run(
        10,
        lambda: (
            seen.update({s.id: s.node.describe(cluster.now) for s in cluster.servers.values()}) is None
            and all(view.target == ids(1, 2, 4) and view.steps_left > 0 for view in seen.values())
        ),
    )
    assert len(seen) == 4 and {view.target for view in seen.values()} == {ids(1, 2, 4)}
