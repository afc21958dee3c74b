"""Partitions move: begun, finished by the in-sync set, replaced, turned back, refused (K197)."""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster, directory

from barnabas.errors import ErrorCode
from barnabas.model import DIRECTORY_UNASSIGNED, NO_NODE, Uuid
from barnabas.wire.metadata import PartitionChangeRecord
from barnabas.wire.schemas.brokers import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
    UnregisterBrokerRequest,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.schemas.topics import DeleteTopicsRequest, DeleteTopicState

Wishes = dict[int, list[int] | None]


@pytest.fixture
def cluster() -> Cluster:
    """`flights` on 1, 2, 3, led by 1; brokers 4, 5, 6 have nothing."""
    cluster = Cluster(1, 2, 3, 4, 5, 6)
    cluster.assign([1, 2, 3])
    return cluster


def move(
    cluster: Cluster, wishes: Wishes, *, other_factor: bool = True, name: str = "flights"
) -> list[ErrorCode]:
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=other_factor,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(partition_index=index, replicas=replicas)
                    for index, replicas in wishes.items()
                ],
            )
        ],
    )
    answer = cluster.answer(AlterPartitionReassignmentsResponse, request)
    assert answer.error_code == 0
    return [ErrorCode(row.error_code) for topic in answer.responses for row in topic.partitions]


def in_sync(cluster: Cluster, *isr: int, index: int = 0) -> ErrorCode:
    """The leader asks for this in-sync set."""
    state = cluster.state(index=index)
    data = AlterPartitionRequestPartitionData(
        partition_index=index,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=cluster.epochs[b]) for b in isr],
    )
    topic = AlterPartitionRequestTopicData(
        topic_id=cluster.image.topics_by_name["flights"].id, partitions=[data]
    )
    leader = state.leader
    request = AlterPartitionRequest(broker_id=leader, broker_epoch=cluster.epochs[leader], topics=[topic])
    answer = cluster.answer(AlterPartitionResponse, request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_a_move_names_the_wanted_replicas_then_those_that_leave(cluster: Cluster) -> None:
    assert move(cluster, {0: [4, 5, 2]}) == [ErrorCode.NONE]
    state = cluster.state()
    assert state.replicas == (4, 5, 2, 1, 3)
    assert (state.adding, state.removing) == ((4, 5), (1, 3))
    assert state.directories == tuple(directory(broker) for broker in (4, 5, 2, 1, 3))
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1, 2, 3), 0)


def test_a_move_is_finished_when_all_that_were_added_are_in_sync(cluster: Cluster) -> None:
    move(cluster, {0: [4, 5, 2]})
    assert in_sync(cluster, 1, 2, 3, 4) is ErrorCode.NONE
    assert cluster.state().adding == (4, 5)
    assert in_sync(cluster, 1, 2, 3, 4, 5) is ErrorCode.NEW_LEADER_ELECTED  # the sender is out
    state = cluster.state()
    assert (state.replicas, state.adding, state.removing) == ((4, 5, 2), (), ())
    assert (state.isr, state.leader, state.leader_epoch) == ((2, 4, 5), 4, 1)
    assert state.directories == tuple(directory(broker) for broker in (4, 5, 2))


def test_a_leader_that_stays_leads_on_in_a_new_epoch(cluster: Cluster) -> None:
    move(cluster, {0: [1, 4, 5]})
    assert in_sync(cluster, 1, 2, 4, 5) is ErrorCode.NONE
    state = cluster.state()
    assert (state.replicas, state.isr) == ((1, 4, 5), (1, 4, 5))
    assert (state.leader, state.leader_epoch) == (1, 1)  # who was taken out must not count any more


def test_fewer_replicas_need_all_that_stay_in_sync(cluster: Cluster) -> None:
    in_sync(cluster, 1, 3)
    move(cluster, {0: [2, 1]})
    assert cluster.state().removing == (3,)  # 2 is behind
    in_sync(cluster, 1, 3, 2)
    assert (cluster.state().replicas, cluster.state().isr) == ((2, 1), (1, 2))


def test_fewer_replicas_that_are_in_sync_already_are_one_step(cluster: Cluster) -> None:
    move(cluster, {0: [3]})
    state = cluster.state()
    assert (state.replicas, state.isr, state.leader, state.removing) == ((3,), (3,), 3, ())


def test_another_order_is_one_step_and_no_epoch(cluster: Cluster) -> None:
    move(cluster, {0: [3, 2, 1]})
    state = cluster.state()
    assert (state.replicas, state.leader, state.leader_epoch, state.adding) == ((3, 2, 1), 1, 0, ())
    offset = cluster.offset
    assert move(cluster, {0: [3, 2, 1]}) == [ErrorCode.NONE]
    assert cluster.offset == offset


def test_turning_back_takes_the_added_ones_out(cluster: Cluster) -> None:
    move(cluster, {0: [4, 5, 2]})
    in_sync(cluster, 1, 2, 3, 4)
    assert move(cluster, {0: None}) == [ErrorCode.NONE]
    state = cluster.state()
    assert (state.replicas, state.isr) == ((2, 1, 3), (1, 2, 3))
    assert (state.adding, state.removing, state.leader) == ((), (), 1)
    assert move(cluster, {0: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_turning_back_to_nobody_in_sync_is_an_unclean_election(cluster: Cluster, unclean: str) -> None:
    cluster.assign([1], name="alone", unclean_leader_election_enable=unclean)
    topic = cluster.image.topics_by_name["alone"].id
    move(cluster, {0: [4, 5]}, name="alone")
    cluster.append([PartitionChangeRecord(topic_id=topic, partition_id=0, isr=[4], leader=4)])
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT if unclean == "false" else ErrorCode.NONE
    assert move(cluster, {0: None}, name="alone") == [refused]
    state = cluster.state("alone")
    assert (state.leader, state.isr) == ((4, (4,)) if unclean == "false" else (1, (1,)))


def test_a_second_wish_replaces_the_first(cluster: Cluster) -> None:
    move(cluster, {0: [4, 5, 6]})
    in_sync(cluster, 1, 2, 3, 4)
    move(cluster, {0: [1, 2, 5]})
    state = cluster.state()
    assert state.replicas == (1, 2, 5, 3, 4, 6)
    assert (state.adding, state.removing) == ((), (3, 4, 6))
    in_sync(cluster, 1, 2, 5)
    assert (cluster.state().replicas, cluster.state().isr) == ((1, 2, 5), (1, 2, 5))


def test_a_wish_for_the_replicas_of_before_ends_the_move(cluster: Cluster) -> None:
    move(cluster, {0: [4, 2, 3]})
    move(cluster, {0: [1, 2, 3]})
    state = cluster.state()
    assert (state.replicas, state.adding, state.removing, state.leader) == ((1, 2, 3), (), (), 1)


@pytest.mark.parametrize("target", [[], [1, 1], [1, 9], [-1, 2]])
def test_what_cannot_be_is_refused(cluster: Cluster, target: list[int]) -> None:
    assert move(cluster, {0: target}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert cluster.state().replicas == (1, 2, 3)


def test_unknown_partitions_and_one_named_twice_are_refused_by_themselves(cluster: Cluster) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(cluster, {7: [1], 0: [4, 2, 3], 8: None}) == [unknown, ErrorCode.NONE, unknown]
    assert move(cluster, {0: [1]}, name="none") == [unknown]
    wish = ReassignablePartition(partition_index=0, replicas=[5, 6])
    topic = ReassignableTopic(name="flights", partitions=[wish, wish])
    request = AlterPartitionReassignmentsRequest(topics=[topic])
    answer = cluster.answer(AlterPartitionReassignmentsResponse, request)
    codes = [row.error_code for row in answer.responses[0].partitions]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert cluster.state().adding == (4,)


def test_the_number_of_replicas_changes_only_where_the_request_allows_it(cluster: Cluster) -> None:
    refused = [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert move(cluster, {0: [1, 2]}, other_factor=False) == refused
    assert move(cluster, {0: [1, 2, 4]}, other_factor=False) == [ErrorCode.NONE]
    assert move(cluster, {0: [1, 2, 4, 5]}, other_factor=False) == refused  # three are wanted, four are there
    assert move(cluster, {0: [5, 2, 4]}, other_factor=False) == [ErrorCode.NONE]


def test_a_fenced_broker_is_added_when_it_is_back(cluster: Cluster) -> None:
    cluster.beat(4, want_fence=True)
    assert move(cluster, {0: [4, 2, 3]}) == [ErrorCode.NONE]
    assert in_sync(cluster, 1, 2, 3, 4) is ErrorCode.INELIGIBLE_REPLICA
    cluster.beat(4)
    assert in_sync(cluster, 1, 2, 3, 4) is ErrorCode.NEW_LEADER_ELECTED
    assert cluster.state().leader == 4


def test_a_leader_fenced_in_the_middle_is_replaced_and_the_move_goes_on(cluster: Cluster) -> None:
    move(cluster, {0: [4, 5, 6]})
    in_sync(cluster, 1, 2, 3, 4)
    cluster.beat(1, want_fence=True)
    state = cluster.state()
    assert (state.leader, state.isr, state.adding) == (4, (2, 3, 4), (4, 5, 6))
    in_sync(cluster, 2, 3, 4, 5, 6)
    assert (cluster.state().replicas, cluster.state().leader) == ((4, 5, 6), 4)


def test_fencing_who_leaves_may_finish_a_move(cluster: Cluster) -> None:
    """Fewer replicas are wanted, and the only one out of sync is fenced."""
    move(cluster, {0: [1, 2]})
    assert cluster.state().replicas == (1, 2)
    cluster.beat(2, want_fence=True)
    assert (cluster.state().isr, cluster.state().leader) == ((1,), 1)


def test_the_elr_holds_no_replica_that_left(cluster: Cluster) -> None:
    cluster.assign([1, 2], name="small", min_insync_replicas="2")
    topic = cluster.image.topics_by_name["small"].id
    move(cluster, {0: [4, 5]}, name="small")
    cluster.append([PartitionChangeRecord(topic_id=topic, partition_id=0, isr=[4, 5, 1])])
    cluster.beat(2, want_fence=True)
    cluster.beat(1, want_fence=True)
    state = cluster.state("small")
    assert (state.replicas, state.isr, state.leader, state.elr) == ((4, 5), (4, 5), 4, ())
    cluster.beat(4, want_fence=True)
    cluster.beat(5, want_fence=True)
    assert (cluster.state("small").elr, cluster.state("small").leader) == ((4, 5), NO_NODE)


def test_a_topic_may_be_deleted_while_it_moves(cluster: Cluster) -> None:
    move(cluster, {0: [4, 5, 6]})
    cluster.commit(DeleteTopicsRequest(topics=[DeleteTopicState(name="flights")]))
    assert move(cluster, {0: None}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_unregistered_broker_is_out_of_the_isr_but_stays_a_replica(cluster: Cluster) -> None:
    move(cluster, {0: [4, 2, 3]})
    cluster.commit(UnregisterBrokerRequest(broker_id=3))
    state = cluster.state()
    assert (state.isr, state.replicas) == ((1, 2), (4, 2, 3, 1))
    assert move(cluster, {0: [4, 2, 5]}) == [ErrorCode.NONE]  # and so it is moved away from
    in_sync(cluster, 1, 2, 4, 5)
    assert cluster.state().replicas == (4, 2, 5)


def test_a_broker_with_several_directories_chooses_itself(cluster: Cluster) -> None:
    cluster.register(7, log_dirs=[Uuid.of(7, 1000), Uuid.of(7, 2000)])
    cluster.beat(7)
    move(cluster, {0: [1, 2, 7]})
    assert cluster.state().directory_of(7) == DIRECTORY_UNASSIGNED
