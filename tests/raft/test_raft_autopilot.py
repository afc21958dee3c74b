"""The autopilot: what it decides, and what becomes of it in a cluster that nobody else touches."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, Server, endpoint_of, key_of
from test_raft_target import ADDRESSES

from barnabas.errors import ErrorCode
from barnabas.model import ReplicaKey
from barnabas.raft.membership.autopilot import NAME, Act, Standing, decide
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.raft.messages import ReassignRequest, RemoveVoterRequest, Supervise
from barnabas.raft.value import altered

ORDER = Supervise(3, 5.0, 10.0, 1.0, tuple((i, (endpoint_of(i),)) for i in range(1, 10)))


def keys(*ids: int) -> tuple[ReplicaKey, ...]:
    return tuple(key_of(i) for i in ids)


def decided(voters: str, *, dead: str = "", steady: str = "", size: int = 3) -> str:
    """`decided("123", dead="3", steady="4")` -> "124", the ids of the set it goes to; "" for nothing."""
    all_, gone, free = ([int(i) for i in text] for text in (voters, dead, steady))
    living = keys(*(i for i in [*all_, *free] if i not in gone))
    act = decide(Standing(keys(*all_), living, keys(*gone), keys(*free), size))
    return "" if act is None else "".join(str(key.id) for key in act.voters)


@pytest.mark.parametrize(
    ("voters", "dead", "steady", "size", "to"),
    [
        ("123", "3", "4", 3, "124"),
        ("123", "3", "", 3, ""),  # nobody is there to replace it
        ("123", "23", "45", 3, ""),  # the living are no majority
        ("12345", "45", "67", 5, "12356"),  # one at a time
        ("1", "", "2", 3, ""),  # two voters survive no failure, one neither
        ("1", "", "23", 3, "123"),
        ("12", "", "34", 3, "123"),
        ("123", "", "4", 3, ""),
        ("123", "", "4", 5, ""),
        ("123", "", "45", 5, "12345"),
        ("1234", "", "5", 5, "12345"),
        ("12", "", "3", 2, ""),
        ("123", "3", "45", 5, "124"),  # the dead first
    ],
)
def test_it_replaces_the_dead_and_promotes_to_odd_sets(
    voters: str, dead: str, steady: str, size: int, to: str
) -> None:
    assert decided(voters, dead=dead, steady=steady, size=size) == to


def test_the_own_node_on_a_new_disk_replaces_a_dead_voter_first() -> None:
    new = key_of(3, disk=1)
    act = decide(Standing(keys(1, 2, 3), (*keys(1, 2, 4), new), keys(3), (key_of(4), new), 3))
    assert isinstance(act, Act) and act.voters == (*keys(1, 2), new)


def test_a_standby_with_the_id_of_a_living_voter_is_never_chosen() -> None:
    twin = key_of(2, disk=1)
    assert decide(Standing(keys(1, 2, 3), (*keys(1, 2), twin), keys(3), (twin,), 3)) is None


# ------------------------------------------------------------------ in a cluster


def watched(cluster: Cluster, seconds: float, order: Supervise = ORDER) -> None:
    """Let time pass; every running controller's autopilot looks each second."""
    for _ in range(round(seconds)):
        cluster.run(1.0)
        for server in list(cluster.servers.values()):
            server.receive(order)


def listen(monkeypatch: pytest.MonkeyPatch) -> list[ChangeNoted]:
    """What is noted for the history from now on, by the autopilot."""
    noted: list[ChangeNoted] = []
    apply = Server.apply

    def hear(server: Server, effect: object) -> None:
        if isinstance(effect, ChangeNoted) and effect.by == NAME:
            noted.append(effect)
        apply(server, effect)

    monkeypatch.setattr(Server, "apply", hear)
    return noted


def trio(*observers: int, seed: int = 1, first: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    cluster = Cluster(*first, seed=seed, bootstrap=(1, 2, 3, 4, 5, 6))
    for node_id in observers:
        cluster.start(node_id)
    cluster.elect()
    return cluster


def voters(cluster: Cluster) -> tuple[int, ...]:
    return cluster.elect().node.voters.ids


def follower(cluster: Cluster) -> int:
    leader = cluster.elect().id
    return next(i for i in voters(cluster) if i != leader)


def test_a_voter_that_is_dead_for_long_is_replaced_by_a_standby() -> None:
    cluster = trio(4)
    watched(cluster, 8)
    assert voters(cluster) == (1, 2, 3)
    dead = follower(cluster)
    cluster.crash(dead)
    watched(cluster, 8)
    assert voters(cluster) == (1, 2, 3), "it is dead for less than the bound"
    watched(cluster, 10)
    assert voters(cluster) == tuple(sorted({1, 2, 3, 4} - {dead}))
    cluster.write("after")


def test_who_was_replaced_comes_back_as_an_observer() -> None:
    cluster = trio(4)
    dead = follower(cluster)
    cluster.crash(dead)
    watched(cluster, 20)
    cluster.restart(dead)
    watched(cluster, 20, altered(ORDER, size=5))
    assert voters(cluster) == tuple(sorted({1, 2, 3, 4} - {dead}))


def test_standbys_are_promoted_two_by_two_after_the_window() -> None:
    cluster = trio(2, first=(1,))
    watched(cluster, 20)
    assert voters(cluster) == (1,)
    cluster.start(3)
    watched(cluster, 4)
    assert voters(cluster) == (1,), "the window has not passed"
    watched(cluster, 8)
    assert voters(cluster) == (1, 2, 3)


def test_a_dry_run_changes_nothing_and_says_once_what_would_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = trio(4)
    noted = listen(monkeypatch)
    dead = follower(cluster)
    cluster.crash(dead)
    watched(cluster, 20, altered(ORDER, dry_run=True))
    assert voters(cluster) == (1, 2, 3)
    assert [(one.by, one.what) for one in noted] == [
        (NAME, f"dry run, would replace {key_of(dead)}, which is dead, by {key_of(4)}")
    ]


def test_a_target_of_an_operator_is_left_alone() -> None:
    cluster = trio(4, 5)
    cluster.run(3.0)
    dead = follower(cluster)
    leader = cluster.elect().id
    assert cluster.change(ReassignRequest((leader, 4, 5), ADDRESSES)).error is ErrorCode.NONE
    cluster.crash(5)
    cluster.crash(dead)
    watched(cluster, 25)
    description = cluster.elect().node.describe(cluster.now)
    assert description.target is not None and key_of(5) in description.target


def test_a_target_whose_newcomer_died_is_withdrawn_and_another_standby_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = trio(4, 5)
    noted = listen(monkeypatch)
    dead = follower(cluster)
    cluster.crash(dead)
    target = None
    while target is None:
        watched(cluster, 1)
        target = cluster.elect().node.describe(cluster.now).target
    newcomer = next(key.id for key in target if key.id not in (1, 2, 3))
    cluster.crash(newcomer)
    watched(cluster, 30)
    assert voters(cluster) == tuple(sorted({1, 2, 3, 9 - newcomer} - {dead}))
    assert f"withdraw the target: {key_of(newcomer)} is dead" in [one.what for one in noted]


def test_an_operators_removal_is_not_undone() -> None:
    cluster = trio(4)
    cluster.run(3.0)
    gone = follower(cluster)
    assert cluster.change(RemoveVoterRequest(key_of(gone))).error is ErrorCode.NONE
    watched(cluster, 20)
    assert voters(cluster) == tuple(sorted({1, 2, 3, 4} - {gone})), "4 takes its place, not itself again"
