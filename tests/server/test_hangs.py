"""A node that stands still, or that nobody reaches, is replaced in seconds; one that is only slow is not."""

from __future__ import annotations

import pytest
from tests.server.virtual import Virtual

from barnabas.model import NodeId

DEFAULTS = {
    "controller_quorum_election_timeout_ms": "1000",
    "controller_quorum_fetch_timeout_ms": "2000",
    "broker_heartbeat_interval_ms": "2000",
}


def moved(cluster: Virtual, from_: NodeId) -> float:
    """Seconds until somebody else leads."""
    return cluster.until(lambda: cluster.state("t").leader not in (-1, from_), 30)


@pytest.mark.parametrize("how", ["stands still", "is cut off"])
def test_a_leader_that_is_silent_is_replaced_before_its_session_ends(how: str) -> None:
    with Virtual(**DEFAULTS) as cluster:
        controller = cluster.controller()
        victim = next(id_ for id_ in (1, 2, 3) if id_ != controller)
        cluster.create("t", [victim, *(id_ for id_ in (1, 2, 3) if id_ != victim)])
        cluster.run(5.0)
        if how == "stands still":
            cluster[victim].pause()
        else:
            cluster.cut(victim)
        assert moved(cluster, victim) < 4.5
        if how == "stands still":
            cluster[victim].resume()
        else:
            cluster.mend(victim)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 60)


def test_a_node_that_stands_still_for_a_moment_is_left_alone() -> None:
    with Virtual(**DEFAULTS) as cluster:
        controller = cluster.controller()
        victim = next(id_ for id_ in (1, 2, 3) if id_ != controller)
        cluster.create("t", [victim, controller])
        for _ in range(10):
            cluster.run(1.7)
            cluster[victim].pause()
            cluster.run(1.2)
            cluster[victim].resume()
            assert cluster.state("t").leader == victim and cluster.state("t").leader_epoch == 0


def test_a_controller_that_stood_still_itself_blames_nobody() -> None:
    with Virtual(**DEFAULTS) as cluster:
        controller = cluster.controller()
        victim = next(id_ for id_ in (1, 2, 3) if id_ != controller)
        cluster.create("t", [victim, controller])
        for seconds in (0.5, 1.0, 1.4):
            cluster.run(3.0)
            cluster[controller].pause()
            cluster.run(seconds)
            cluster[controller].resume()
            cluster.run(3.0)
            assert cluster.state("t").leader == victim and cluster.state("t").leader_epoch == 0
