"""A lost majority: the plan, and the quorum that comes of it."""

from __future__ import annotations

import pytest
from raft_cluster import Cluster, key_of, voter_of, voter_set

from barnabas.errors import ErrorCode, KafkaError
from barnabas.raft.entries import ElectionState
from barnabas.raft.membership.generation import GENERATION_NOTE, QuorumGeneration
from barnabas.raft.membership.recovery import Survivor, plan_recovery
from barnabas.raft.value import altered


def survivor(
    node_id: int, epoch: int = 3, end: int = 10, voters: tuple[int, ...] = (1, 2, 3), committed: int = 0
) -> Survivor:
    return Survivor(voter_of(node_id), epoch, end, committed, voter_set(*voters), ElectionState(epoch))


def test_the_longest_log_of_the_newest_epoch_is_chosen() -> None:
    plan = plan_recovery((survivor(3, 2, 99, (1, 2, 3, 4, 5)), survivor(1, 3, 5, (1, 2, 3, 4, 5))))
    assert plan.chosen == key_of(1)
    assert plan.voters == voter_set(1, 3)
    assert plan.epoch > 3 and plan.batches[0].base_offset == 5


def test_what_a_survivor_knows_to_be_committed_outweighs_a_newer_epoch() -> None:
    five = (1, 2, 3, 4, 5)
    plan = plan_recovery((survivor(1, 4, 8, five), survivor(2, 3, 12, five, committed=11)))
    assert plan.chosen == key_of(2)


def test_the_generation_is_above_all_that_the_survivors_have_heard_of() -> None:
    heard = altered(survivor(1), saved=ElectionState(3, generation=4), generation=2)
    plan = plan_recovery((heard,))
    assert plan.generation == 5 and plan.saved.generation == 5


def test_an_observer_counts_as_a_log_but_not_as_a_voter_of_old() -> None:
    plan = plan_recovery((survivor(7, 3, 12), survivor(1, 3, 10)))
    assert plan.chosen == key_of(7) and plan.voters == voter_set(1, 7)
    assert any("from offset 12" in sentence for sentence in plan.lost)


def test_a_brokers_log_goes_on_at_a_controller_and_the_broker_does_not_vote() -> None:
    broker = altered(survivor(9, 3, 12), can_vote=False)
    plan = plan_recovery((broker, survivor(1, 3, 10)))
    assert (plan.chosen, plan.host) == (key_of(9), key_of(1))
    assert plan.voters == voter_set(1) and plan.batches[0].base_offset == 12
    same = plan_recovery((altered(survivor(9, 3, 10), can_vote=False), survivor(1, 3, 10)))
    assert same.chosen == same.host == key_of(1), "of two equal logs the controller's"
    with pytest.raises(KafkaError) as refused:
        plan_recovery((broker,))
    assert "format a new controller" in str(refused.value)


def test_half_of_an_even_set_has_everything_that_was_committed() -> None:
    four = (1, 2, 3, 4)
    assert plan_recovery((survivor(1, voters=four), survivor(2, voters=four))).lost == ()
    assert plan_recovery((survivor(1, voters=four),)).lost


def test_where_a_majority_survives_force_is_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        plan_recovery((survivor(1), survivor(2)))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("members", [(key_of(9),), (key_of(1),)])
def test_the_new_voters_must_survive_and_hold_the_longest_log(members: tuple[object, ...]) -> None:
    five = (1, 2, 3, 4, 5)
    with pytest.raises(KafkaError) as refused:
        plan_recovery((survivor(1, end=5, voters=five), survivor(2, voters=five)), members)  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_no_log_no_plan() -> None:
    with pytest.raises(KafkaError):
        plan_recovery(())


def test_two_of_five_go_on_with_everything_they_had() -> None:
    cluster = Cluster(1, 2, 3, 4, 5, seed=3)
    cluster.start(6)
    cluster.write("kept")
    cluster.run(2.0)
    for node_id in (1, 2, 3, 4, 5, 6):
        cluster.crash(node_id)
    survivors = []
    for node_id in (2, 5, 6):
        disk = cluster.disks[node_id]
        log_view = disk.log_view(cluster.static_voters)
        assert disk.election is not None
        survivors.append(
            Survivor(
                voter_of(node_id), log_view.last_epoch, log_view.end_offset, 0, log_view.voters, disk.election
            )
        )
    plan = plan_recovery(tuple(survivors))
    chosen = cluster.disks[plan.chosen.id]
    chosen.durable = [*chosen.durable, *(altered(batch, raw="bytes") for batch in plan.batches)]
    chosen.election = plan.saved
    cluster.invariants.single_steps = False
    for node_id in (2, 5, 6):
        cluster.restart(node_id)
    cluster.write("after")
    leader = cluster.leader
    assert leader is not None and leader.node.voters == voter_set(2, 5, 6)
    begun = QuorumGeneration.of(leader.node.log_view.notes[GENERATION_NOTE])
    assert begun == (1, plan.epoch, plan.batches[0].base_offset)
    assert "kept" in [text for _, text in cluster.invariants.by_offset.values()]
