"""What the KIPs ask of the quorum, clause by clause, in our words (853, and what 856 and 642 add to it).

Each test names the document and the passage it holds to; where we do otherwise on purpose it says so.
"""

from __future__ import annotations

from raft_cluster import CLUSTER, Cluster, endpoint_of, key_of, voter_set
from raft_solo import Solo, journal_of

from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE
from barnabas.raft.entries import ElectionState, KraftVersionEntry, LeaderChange, VotersEntry
from barnabas.raft.membership.pending_change import NotYet
from barnabas.raft.membership.target import Step, TargetReplica, next_step, parse_target, write_target
from barnabas.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    ReassignRequest,
    RemoveVoterRequest,
    UpgradeRequest,
    VoteRequest,
)
from barnabas.raft.settings import RaftConfig

ADDRESSES = tuple((i, (endpoint_of(i),)) for i in range(1, 10))


# ------------------------------------------------------------------ KIP-853


def test_key_terms_a_voter_is_an_id_together_with_its_directory() -> None:
    """853, key terms: a replica votes when its id *and* its directory id stand in its own set."""
    same_id = Solo(log_view=journal_of((1, 2, 3)), node_id=1)
    assert same_id.node.is_voter
    same_id.node.core.key = key_of(1, disk=1)
    assert not same_id.node.is_voter


def test_key_terms_a_candidate_needs_the_majority_of_its_own_set() -> None:
    """853, key terms."""
    solo = Solo((1, 2, 3, 4, 5))
    solo.stand()
    asked = [send.to for send in solo.sent if isinstance(send.request, VoteRequest)]
    assert asked == [2, 3, 4, 5] and solo.role == "prospective"


def test_bootstrapping_with_one_voter_starts_a_quorum_that_can_grow() -> None:
    """853, bootstrapping with one voter; 642, start with one and grow."""
    cluster = Cluster(1)
    for node_id in (2, 3):
        cluster.start(node_id)
        cluster.run(3.0)
        answer = cluster.change(AddVoterRequest(key_of(node_id), (endpoint_of(node_id),)))
        assert answer.error is ErrorCode.NONE
    cluster.crash(1)
    cluster.write("survives its founder", 20.0)


def test_bootstrapping_with_several_voters_gives_all_of_them_the_same_set() -> None:
    """853, bootstrapping with multiple voters: the leader writes the set of the snapshot into the log."""
    cluster = Cluster(1, 2, 3)
    leader = cluster.elect()
    first = leader.log[0].entries
    assert isinstance(first[0], LeaderChange)
    assert first[1:] == (KraftVersionEntry(1), VotersEntry(voter_set(1, 2, 3)))


def test_the_feature_gates_every_change_and_needs_all_voters() -> None:
    """853, upgrade: kraft.version 1 is written when every voter supports it, with the voters beside it."""
    cluster = Cluster(1, 2, 3, kraft_version=0)
    cluster.elect()
    assert cluster.change(RemoveVoterRequest(key_of(1))).error is ErrorCode.UNSUPPORTED_VERSION
    cluster.run(3.0)
    assert cluster.change(UpgradeRequest(1)).error is ErrorCode.NONE
    assert all(key.directory_id == key_of(key.id).directory_id for key in cluster.elect().node.voters.keys)
    assert cluster.change(RemoveVoterRequest(key_of(cluster.elect().id))).error is ErrorCode.NONE


def test_disk_failure_recovery() -> None:
    """853, common scenarios: (3, old) fails, (3, new) takes its place.

    The KIP adds the new one before it removes the old one; like what shipped, an id votes once, so the
    old one goes first.
    """
    cluster = Cluster(1, 2, 3, seed=2)
    leader = cluster.elect()
    broken = next(i for i in (1, 2, 3) if i != leader.id)
    cluster.crash(broken)
    cluster.format(broken, disk=1, bootstrap=False)
    cluster.restart(broken)
    cluster.run(4.0)
    endpoints = (endpoint_of(broken),)
    assert cluster.change(AddVoterRequest(key_of(broken, 1), endpoints)).error is ErrorCode.DUPLICATE_VOTER
    assert cluster.change(RemoveVoterRequest(key_of(broken))).error is ErrorCode.NONE
    assert cluster.change(AddVoterRequest(key_of(broken, 1), endpoints)).error is ErrorCode.NONE


def test_node_failure_recovery() -> None:
    """853, common scenarios: 4 takes the place of 3, found through the bootstrap servers."""
    cluster = Cluster(1, 2, 3, seed=2)
    leader = cluster.elect()
    dead = next(i for i in (1, 2, 3) if i != leader.id)
    cluster.crash(dead)
    cluster.start(4)
    cluster.run(4.0)
    assert cluster.change(AddVoterRequest(key_of(4), (endpoint_of(4),))).error is ErrorCode.NONE
    assert cluster.change(RemoveVoterRequest(key_of(dead))).error is ErrorCode.NONE
    assert leader.node.voters.ids == tuple(sorted({1, 2, 3, 4} - {dead}))


def test_a_reformatted_voter_answers_invalid_voter_key_and_yet_follows() -> None:
    """853, BeginQuorumEpoch: the addressee checks its key, but has learned who leads all the same."""
    solo = Solo(log_view=journal_of(()), node_id=3, config=RaftConfig(cluster_id=CLUSTER))
    request = BeginQuorumEpochRequest(4, 1, (endpoint_of(1),), key_of(3, disk=9), CLUSTER)
    assert solo.error(request) is ErrorCode.INVALID_VOTER_KEY
    assert (solo.role, solo.node.leader_id, solo.node.epoch) == ("follower", 1, 4)


def test_votes_are_given_by_log_and_epoch_not_by_membership() -> None:
    """853, Vote: both sides may have an old set, so neither side's membership is asked."""
    observer = Solo((2, 3))
    assert not observer.node.is_voter
    answer = observer.vote(VoteRequest(1, key_of(9), 0, 0, voter=key_of(1)))
    assert answer.granted


def test_an_update_follows_an_address_change_of_every_node_at_once() -> None:
    """853, UpdateVoter: controllers that all move come together again through the bootstrap servers."""
    cluster = Cluster(1, 2, 3, seed=6)
    cluster.write("before")
    cluster.run(1.0)
    for node_id in (1, 2, 3):
        cluster.crash(node_id)
        moved = endpoint_of(node_id)._replace(host=f"new{node_id}")
        cluster.endpoints[node_id] = (moved,)
    for node_id in (1, 2, 3):
        cluster.restart(node_id)
    cluster.write("after", 20.0)

    def known() -> bool:
        leader = cluster.leader
        return leader is not None and all(
            voter.endpoints[0].host == f"new{voter.key.id}" for voter in leader.node.voters
        )

    assert cluster.run(15.0, known)


# ------------------------------------------------------------------ KIP-856


def test_one_change_at_a_time_and_the_next_one_waits() -> None:
    """856, adding voters: pending changes are waited for (what shipped refuses instead)."""
    cluster = Cluster(1, 2, 3, seed=2)
    for node_id in (4, 5):
        cluster.start(node_id)
    cluster.elect()
    cluster.run(3.0)
    first = cluster.ask(AddVoterRequest(key_of(4), (endpoint_of(4),)))
    second = cluster.ask(AddVoterRequest(key_of(5), (endpoint_of(5),)))
    assert cluster.run(5.0, lambda: bool(first and second))
    assert first[0].error is second[0].error is ErrorCode.NONE


def test_voters_count_from_the_moment_they_are_read_not_committed() -> None:
    """856, adding voters."""
    solo = Solo().lead()
    solo.observe(4)
    solo.ask(AddVoterRequest(key_of(4), (endpoint_of(4),)))
    solo.answer_probes(4)
    assert solo.node.voters == voter_set(1, 2, 3, 4)
    assert solo.node.high_watermark == 3, "and the high watermark stays where it was (K109)"


def test_the_high_watermark_does_not_fall_when_a_voter_without_records_comes() -> None:
    """856, high watermark; K109."""
    cluster = Cluster(1, seed=2)
    cluster.write("a")
    cluster.start(2)
    cluster.run(3.0)
    before = cluster.elect().node.high_watermark
    cluster.change(AddVoterRequest(key_of(2), (endpoint_of(2),)))
    after = cluster.elect().node.high_watermark
    assert before is not None and after is not None and after >= before


def test_a_leader_outside_the_set_is_not_counted_and_goes_when_its_removal_is_committed() -> None:
    """856, removing voters and high watermark."""
    cluster = Cluster(1, 2, 3, seed=2)
    leader = cluster.elect()
    assert cluster.change(RemoveVoterRequest(key_of(leader.id))).error is ErrorCode.NONE
    assert not leader.node.is_leader
    assert cluster.run(3.0, lambda: cluster.leader is not None and cluster.leader is not leader)


def test_the_vote_is_remembered_with_the_directory() -> None:
    """856, quorum state: who got the vote is an id and a directory."""
    solo = Solo()
    solo.vote(VoteRequest(1, key_of(2, disk=4), 0, 0))
    assert solo.node.core.election_state() == ElectionState(1, NO_NODE, key_of(2, disk=4))


def test_the_successors_of_a_leader_are_replicas_not_ids() -> None:
    """856, EndQuorumEpoch: another disk under the same id is not meant."""
    waits = []
    for disk in (0, 1):
        solo = Solo().follow()
        solo.ask(EndQuorumEpochRequest(1, 2, (key_of(1, disk),), (endpoint_of(2),)))
        waits.append(solo.role)
    assert waits == ["prospective", "follower"]


# ------------------------------------------------------------------ KIP-642


def way(current: tuple[int, ...], target: tuple[int, ...], leader: int) -> list[tuple[int, ...]]:
    """The sets on the way, everybody alive and keeping up; a hand-over goes to the first of the target."""
    now, goal = tuple(key_of(i) for i in current), tuple(key_of(i) for i in target)
    chief, sets = key_of(leader), []
    while now != goal:
        step = next_step(now, goal, chief, (*now, *goal), goal)
        assert isinstance(step, Step), step
        if step.kind == "hand over":
            chief = goal[0]
            continue
        rest = tuple(key for key in now if key != step.replica)
        now = tuple(sorted((*now, step.replica))) if step.kind == "add" else rest
        sets.append(tuple(key.id for key in now))
    return sets


def test_the_way_from_123_to_456_is_the_one_of_the_document() -> None:
    """642, the example: add while at least as many come as go; the leader last."""
    assert way((1, 2, 3), (4, 5, 6), leader=3) == [
        (1, 2, 3, 4),
        (2, 3, 4),
        (2, 3, 4, 5),
        (3, 4, 5),
        (3, 4, 5, 6),
        (4, 5, 6),
    ]


def test_growing_and_shrinking_are_the_same_way_with_one_side_empty() -> None:
    """642: 1-3-5-3-1."""
    assert way((1,), (1, 2, 3), 1) == [(1, 2), (1, 2, 3)]
    assert way((1, 2, 3, 4, 5), (2, 3, 4), 1)[-1] == (2, 3, 4)
    assert way((1, 2, 3), (2,), 1) == [(1, 2), (2,)]


def test_a_dead_voter_that_goes_goes_first_and_never_a_living_majority_with_it() -> None:
    now, goal = (key_of(1), key_of(2), key_of(3)), (key_of(1), key_of(4), key_of(5))
    step = next_step(now, goal, key_of(1), (key_of(1), key_of(3)), ())
    assert step == Step("remove", key_of(2))
    stuck = next_step(now, (key_of(1), key_of(2)), key_of(1), (key_of(1), key_of(3)), ())
    assert isinstance(stuck, NotYet) and "no living majority" in stuck.reason


def test_a_new_disk_waits_until_the_old_one_is_gone() -> None:
    now = (key_of(1), key_of(2), key_of(3))
    goal = (key_of(1), key_of(2), key_of(3, 1))
    living = (*now[:2], key_of(3, 1))
    assert next_step(now, goal, key_of(1), living, (key_of(3, 1),)) == Step("remove", key_of(3))
    assert next_step(now[:2], goal, key_of(1), living, (key_of(3, 1),)) == Step("add", key_of(3, 1))


def test_who_does_not_keep_up_is_waited_for() -> None:
    """642: observers are promoted only when they have caught up."""
    waits = next_step((key_of(1),), (key_of(1), key_of(2)), key_of(1), (key_of(1),), ())
    assert isinstance(waits, NotYet) and "to keep up" in waits.reason


def test_the_target_reads_as_it_was_written() -> None:
    members = (
        TargetReplica(key_of(4), (endpoint_of(4),)),
        TargetReplica(key_of(5), (endpoint_of(5)._replace(host="::1"),)),
    )
    assert parse_target(write_target(members)) == members


def test_the_same_target_appends_nothing_and_a_retry_is_safe() -> None:
    """642: AlterPartitionReassignments is idempotent and answered when the target is committed."""
    cluster = Cluster(1, 2, 3, seed=2)
    for node_id in (4, 5):
        cluster.start(node_id)
    leader = cluster.elect()
    cluster.run(3.0)
    cluster.crash(5)
    answers = [cluster.ask(ReassignRequest((1, 2, 5), ADDRESSES)) for _ in range(2)]
    assert cluster.run(5.0, lambda: all(answers))
    targets = [str(e) for b in leader.log for e in b.entries if str(e).startswith("barnabas.quorum.target")]
    assert len(targets) == 1
    assert cluster.change(ReassignRequest((1, 2, 3), ADDRESSES)).error is ErrorCode.NONE, (
        "another replaces it"
    )


def test_manual_changes_wait_for_the_target_unless_forced() -> None:
    cluster = Cluster(1, 2, 3, seed=2)
    cluster.start(4)
    leader = cluster.elect()
    cluster.run(3.0)
    cluster.crash(4)
    cluster.ask(ReassignRequest((1, 2, 3, 4), ADDRESSES))
    cluster.run(0.5)
    other = next(i for i in (1, 2, 3) if i != leader.id)
    refused = cluster.change(RemoveVoterRequest(key_of(other)))
    assert refused.error is ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert cluster.change(RemoveVoterRequest(key_of(other), force=True)).error is ErrorCode.NONE


def test_a_zombie_leader_is_none_for_long() -> None:
    """642, zombie leaders: what shipped goes further, a leader without a majority resigns."""
    solo = Solo().lead()
    solo.advance(3.1)
    assert solo.role == "resigned"


def test_who_is_removed_hears_it_from_the_log_and_harms_nobody() -> None:
    """642 wanted an error NOT_FOLLOWER; the record itself says it, and pre-votes keep it harmless."""
    cluster = Cluster(1, 2, 3, seed=2)
    leader = cluster.elect()
    other = next(i for i in (1, 2, 3) if i != leader.id)
    cluster.partition(tuple(i for i in (1, 2, 3) if i != other))
    cluster.run(2.2)
    assert cluster.change(RemoveVoterRequest(key_of(other))).error is ErrorCode.NONE
    epoch = leader.node.epoch
    cluster.run(10.0)
    cluster.heal()
    cluster.run(10.0)
    assert leader.node.is_leader and leader.node.epoch == epoch
    assert not cluster.servers[other].node.is_voter
