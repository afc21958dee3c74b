"""The way to a target set, disturbed at every step (scenarios K164 to K168)."""

from __future__ import annotations

import itertools

import pytest
from raft_cluster import Cluster, Server, endpoint_of, key_of

from barnabas.errors import ErrorCode
from barnabas.raft.membership.pending_change import NotYet
from barnabas.raft.membership.target import next_step
from barnabas.raft.messages import ReassignRequest

ADDRESSES = tuple((i, (endpoint_of(i),)) for i in range(1, 10))
STEPS = range(7)


def on_the_way(seed: int) -> Cluster:
    """Voters 1, 2, 3, observers 4, 5, 6 that keep up, and the target 4, 5, 6 accepted."""
    cluster = Cluster(1, 2, 3, seed=seed, bootstrap=(1, 2, 3, 4, 5, 6))
    for node_id in (4, 5, 6):
        cluster.start(node_id)
    cluster.elect()
    cluster.run(3.0)
    answer = cluster.change(ReassignRequest((4, 5, 6), ADDRESSES))
    assert answer.error is ErrorCode.NONE
    return cluster


def after_steps(cluster: Cluster, steps: int) -> None:
    """Go on until so many sets are committed on the way (the first one is where it began)."""
    assert cluster.run(30.0, lambda: len(cluster.invariants.committed_sets) > steps)


def insist(cluster: Cluster, request: ReassignRequest, *also: ErrorCode) -> None:
    """Ask as a client does: again when the lead is just changing hands, or a replica has not fetched yet."""
    for _ in range(10):
        cluster.elect()
        if cluster.change(request).error in (ErrorCode.NONE, *also):
            return
        cluster.run(1.0)
    raise AssertionError(f"{request} is refused for ever")


def settled(cluster: Cluster, ids: tuple[int, ...]) -> bool:
    def done() -> bool:
        leader = cluster.leader
        return leader is not None and leader.node.voters.ids == ids and not _waits(cluster, leader)

    return cluster.run(60.0, done)


def _waits(cluster: Cluster, leader: Server) -> bool:
    return bool(leader.node.describe(cluster.now).waiting)


@pytest.mark.parametrize("steps", STEPS)
def test_a_target_is_cancelled_at_any_step_and_the_voters_stay_as_they_are(steps: int) -> None:
    """K165."""
    cluster = on_the_way(seed=steps + 1)
    after_steps(cluster, steps)
    insist(cluster, ReassignRequest(None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    cluster.run(3.0)
    leader = cluster.elect()
    voters = leader.node.voters
    cluster.run(5.0)
    assert cluster.elect().node.voters == voters and not _waits(cluster, leader)
    cluster.write("after")


@pytest.mark.parametrize("steps", STEPS)
def test_a_target_is_taken_back_at_any_step(steps: int) -> None:
    """K165: by naming the old set."""
    cluster = on_the_way(seed=steps + 11)
    after_steps(cluster, steps)
    insist(cluster, ReassignRequest((1, 2, 3), ADDRESSES))
    assert settled(cluster, (1, 2, 3))
    cluster.write("after")


@pytest.mark.parametrize("steps", STEPS)
def test_the_leader_dies_at_any_step_and_the_next_one_goes_on(steps: int) -> None:
    """K166: to the same final set."""
    cluster = on_the_way(seed=steps + 21)
    after_steps(cluster, steps)
    leader = cluster.elect()
    cluster.crash(leader.id, reset=True)
    assert cluster.run(20.0, lambda: cluster.leader is not None and cluster.leader is not leader)
    cluster.run(2.0)
    cluster.restart(leader.id)
    assert settled(cluster, (4, 5, 6))
    cluster.write("after")


def test_every_set_on_the_way_differs_from_the_last_in_one_member() -> None:
    """K164, M2."""
    cluster = on_the_way(seed=3)
    assert settled(cluster, (4, 5, 6))
    sets = [voters for _, voters in cluster.invariants.committed_sets]
    assert len(sets) == 7
    assert all(len(a.keys_changed(b)) == 1 for a, b in itertools.pairwise(sets))
    assert all(3 <= len(voters) <= 4 for voters in sets)


def test_writes_go_on_all_the_way() -> None:
    """K164."""
    cluster = on_the_way(seed=4)
    for i in range(20):
        cluster.write(f"w{i}")
    assert settled(cluster, (4, 5, 6))


def test_a_way_that_needs_a_dead_node_waits_and_says_for_whom() -> None:
    cluster = Cluster(1, 2, 3, seed=5, bootstrap=(1, 2, 3, 4))
    cluster.start(4)
    leader = cluster.elect()
    cluster.run(3.0)
    others = [i for i in (1, 2, 3) if i != leader.id]
    assert cluster.change(ReassignRequest((leader.id, others[0]), ADDRESSES)).error is ErrorCode.NONE
    assert settled(cluster, tuple(sorted((leader.id, others[0]))))
    cluster.crash(4)
    refused = cluster.change(ReassignRequest((leader.id, 4), ADDRESSES, 1.0))
    if refused.error is ErrorCode.NONE:
        cluster.run(4.0)
        waiting = " ".join(leader.node.describe(cluster.now).waiting)
        assert "waiting for 4" in waiting
        assert cluster.change(ReassignRequest(None)).error is ErrorCode.NONE
    cluster.write("after")


def test_who_does_not_keep_up_is_named_with_the_reason() -> None:
    waits = next_step(
        (key_of(1),), (key_of(1), key_of(6)), key_of(1), (key_of(1),), (), {key_of(6): NotYet("it lags")}
    )
    assert waits == NotYet(f"waiting for {key_of(6)} to keep up: it lags")
