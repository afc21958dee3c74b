"""Scenarios that need a whole quorum for a while (K126, K147 to K173), beside the stories of the same numbers."""

from __future__ import annotations

import itertools

import pytest
from raft_cluster import CLUSTER, Cluster, endpoint_of, key_of
from raft_solo import Solo

from barnabas.errors import ErrorCode
from barnabas.raft.core import IllegalTransition
from barnabas.raft.effects import Accepted, Append, Refused
from barnabas.raft.entries import LeaderChange, Note, Opaque
from barnabas.raft.messages import AddVoterRequest, Propose, RemoveVoterRequest, UpgradeRequest
from barnabas.raft.settings import RaftConfig


def add(node_id: int, disk: int = 0) -> AddVoterRequest:
    return AddVoterRequest(key_of(node_id, disk), (endpoint_of(node_id),), 10.0, cluster_id=CLUSTER)


def remove(node_id: int, disk: int = 0) -> RemoveVoterRequest:
    return RemoveVoterRequest(key_of(node_id, disk), cluster_id=CLUSTER)


def all_have(cluster: Cluster, offset: int, seconds: float = 8.0) -> bool:
    living = [server for server in cluster.servers.values() if server.alive]
    return cluster.run(seconds, lambda: all((s.node.high_watermark or 0) > offset for s in living))


# ------------------------------------------------------------------ appending


def test_a_proposal_is_one_batch_at_once_and_in_order() -> None:
    """K126: nothing lingers here; what shares a batch and a sync is the driver's matter."""
    solo = Solo().lead()
    end = solo.node.log_view.end_offset
    effects = solo.step(Propose("a", 1, (Opaque("x", 3),))) + solo.step(Propose("b", 1, (Note("n", "1"),)))
    appended = [effect.batch for effect in effects if isinstance(effect, Append)]
    assert [(batch.base_offset, batch.count, batch.epoch) for batch in appended] == [
        (end, 3, 1),
        (end + 3, 1, 1),
    ]
    accepted = [effect for effect in effects if isinstance(effect, Accepted)]
    assert accepted == [Accepted("a", end, end + 2, 1), Accepted("b", end + 3, end + 3, 1)]


def test_a_proposal_of_an_older_epoch_or_to_a_follower_is_refused_and_writes_nothing() -> None:
    """K126."""
    for solo in (Solo().lead(), Solo().follow()):
        end = solo.node.log_view.end_offset
        [effect] = solo.step(Propose("late", 0, (Opaque("x"),)))
        assert isinstance(effect, Refused) and effect.error is ErrorCode.NOT_CONTROLLER
        assert solo.node.log_view.end_offset == end


def test_a_proposal_of_an_epoch_to_come_or_of_a_control_entry_is_a_defect() -> None:
    """K126."""
    for proposal in (Propose("x", 2, (Opaque("x"),)), Propose("x", 1, (LeaderChange(1, (1,), (1,)),))):
        with pytest.raises(IllegalTransition):
            Solo().lead().step(proposal)


# ------------------------------------------------------------------ partial partitions


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_voters_that_never_hear_each_other_still_get_one_lasting_leader(voters: int, seed: int) -> None:
    """K147, from the start on: the leader that is found stays, if one of the two does not lead."""
    cluster = Cluster(*range(1, voters + 1), seed=seed)
    cluster.cut = {(1, 2), (2, 1)}
    leader = cluster.elect()
    cluster.run(10.0)
    settled = cluster.elect()
    epoch = settled.node.epoch
    cluster.run(40.0)
    now = cluster.leader
    assert now is settled and now.node.epoch == epoch, f"first led by {leader.id}"
    cluster.write("still here")


# ------------------------------------------------------------------ lost disks


def test_a_voter_that_lost_everything_loses_nothing_for_the_others() -> None:
    """K149, M5: it comes back as another replica, which neither votes nor counts until it is added."""
    cluster = Cluster(1, 2, 3, seed=11)
    cluster.write("before")
    first = cluster.elect()
    cluster.crash(first.id, reset=True)
    offset = cluster.write("under the next leader")
    cluster.format(first.id, disk=1, bootstrap=False)
    cluster.restart(first.id)
    assert all_have(cluster, offset)
    assert not cluster.servers[first.id].node.is_voter
    assert cluster.change(remove(first.id)).error is ErrorCode.NONE
    assert cluster.change(add(first.id, disk=1)).error is ErrorCode.NONE
    assert all_have(cluster, cluster.write("after"))
    assert cluster.elect().node.voters.has(key_of(first.id, 1))


def test_a_failed_disk_is_seen_under_two_ids_until_the_old_one_is_removed() -> None:
    """K168: one more voter may fail, except between the two changes."""
    cluster = Cluster(1, 2, 3, seed=12)
    leader = cluster.elect()
    victim, other = (i for i in (1, 2, 3) if i != leader.id)
    cluster.crash(victim)
    cluster.format(victim, disk=1, bootstrap=False)
    cluster.restart(victim)
    cluster.run(3.0)
    told = leader.node.describe(cluster.now)
    assert key_of(victim) in [row.key for row in told.replicas]
    assert key_of(victim, 1) in [row.key for row in told.observers]
    assert cluster.change(add(victim, disk=1)).error is ErrorCode.DUPLICATE_VOTER, "the old one first"
    assert cluster.change(remove(victim)).error is ErrorCode.NONE
    assert cluster.change(add(victim, disk=1)).error is ErrorCode.NONE
    assert len(cluster.elect().node.voters) == 3
    cluster.crash(other)
    cluster.write("with one follower down")


# ------------------------------------------------------------------ members come and go


def test_two_controllers_join_a_standalone_one_by_themselves() -> None:
    """K158: with the directory ids of their disks."""
    config = RaftConfig(cluster_id=CLUSTER, auto_join=True)
    cluster = Cluster(1, seed=13, config=config, bootstrap=(1,))
    cluster.write("alone")
    for node_id in (2, 3):
        cluster.start(node_id)
    assert cluster.run(20.0, lambda: len(cluster.servers[1].node.voters) == 3)
    cluster.write("three voters")
    assert cluster.elect().node.voters.keys == (key_of(1), key_of(2), key_of(3))
    cluster.crash(1, reset=True)
    cluster.write("without the first")


def test_a_second_controller_takes_over_from_the_first_while_writes_go_on() -> None:
    """K162 and K163 in part: the quorum's side of them."""
    cluster = Cluster(1, seed=14, bootstrap=(1, 2))
    cluster.start(2)
    cluster.write("one voter")
    cluster.run(2.0)
    assert cluster.change(add(2)).error is ErrorCode.NONE
    cluster.write("two voters")
    assert cluster.change(remove(1)).error is ErrorCode.NONE
    assert cluster.run(10.0, lambda: cluster.leader is not None and cluster.leader.id == 2)
    offset = cluster.write("the second alone")
    assert all_have(cluster, offset), "the first goes on as observer"
    assert cluster.elect().node.voters.keys == (key_of(2),)


def test_a_removed_controller_that_goes_on_running_never_disturbs() -> None:
    """K171: not even when it hears nothing for a while, or starts again."""
    cluster = Cluster(1, 2, 3, 4, seed=15)
    leader = cluster.elect()
    gone = next(i for i in (1, 2, 3, 4) if i != leader.id)
    assert cluster.change(remove(gone)).error is ErrorCode.NONE
    cluster.run(2.0)
    rest = tuple(i for i in (1, 2, 3, 4) if i != gone)
    for _ in range(3):
        cluster.partition(rest)
        cluster.run(6.0)
        cluster.heal()
        cluster.run(3.0)
        cluster.crash(gone)
        cluster.restart(gone)
        cluster.run(3.0)
    assert cluster.leader is leader and leader.node.epoch == 1
    assert not cluster.servers[gone].node.is_voter


def test_static_voters_become_voters_that_change_without_a_restart() -> None:
    """K173: the upgrade writes their directory ids; then one comes and one goes."""
    cluster = Cluster(1, 2, 3, seed=16, kraft_version=0)
    cluster.start(4)
    cluster.write("static")
    assert not cluster.elect().node.voters.keys[0].directory_id.strip(b"\0")
    cluster.run(3.0)
    assert cluster.change(UpgradeRequest(1)).error is ErrorCode.NONE
    leader = cluster.elect()
    assert leader.node.voters.keys == (key_of(1), key_of(2), key_of(3))
    assert cluster.change(add(4)).error is ErrorCode.NONE
    victim = next(i for i in (1, 2, 3) if i != leader.id)
    assert cluster.change(remove(victim)).error is ErrorCode.NONE
    assert all_have(cluster, cluster.write("dynamic"))
    sets = [
        voters for _, voters in cluster.invariants.committed_sets if voters.keys[0].directory_id.strip(b"\0")
    ]
    assert all(len(a.keys_changed(b)) <= 1 for a, b in itertools.pairwise(sets))


def test_a_controller_that_was_away_for_every_change_finds_the_present_voters() -> None:
    """K041 and K161 in part: its own log still names voters that are all gone."""
    cluster = Cluster(1, 2, 3, seed=17, bootstrap=(1, 2, 3, 4, 5, 6))
    for node_id in (4, 5, 6):
        cluster.start(node_id)
    cluster.write("before")
    cluster.run(2.0)
    away = next(i for i in (1, 2, 3) if i != cluster.elect().id)
    cluster.crash(away)
    for node_id in (4, 5, 6):
        assert cluster.change(add(node_id)).error is ErrorCode.NONE
    for node_id in [away, *(i for i in (1, 2, 3) if i not in (away, cluster.elect().id))]:
        assert cluster.change(remove(node_id)).error is ErrorCode.NONE
    last = next(i for i in cluster.elect().node.voters.ids if i in (1, 2, 3))
    assert cluster.change(remove(last)).error is ErrorCode.NONE
    cluster.run(5.0)
    cluster.restart(away)
    offset = cluster.write("after")
    assert all_have(cluster, offset, 20.0)
    assert cluster.servers[away].node.voters.ids == (4, 5, 6)
