"""ElectLeaders: preferred leaders back in place, unclean ones where nobody leads, and what is refused."""

from __future__ import annotations

import pytest
from tests.controller.cluster import Cluster

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE
from barnabas.wire.metadata import PartitionChangeRecord
from barnabas.wire.reassignment import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def cluster() -> Cluster:
    """`flights` on 1, 2, 3 (led by 1) and on 2, 3, 1 (led by 2)."""
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], [2, 3, 1])
    return cluster


def change(cluster: Cluster, index: int, **fields: object) -> None:
    topic = cluster.image.topics_by_name["flights"].id
    record = PartitionChangeRecord(topic_id=topic, partition_id=index, **fields)  # type: ignore[arg-type]
    cluster.append([record])


def elect(
    cluster: Cluster, election: int, asked: dict[str, list[int]] | None
) -> dict[tuple[str, int], ErrorCode]:
    topics = None
    if asked is not None:
        topics = [TopicPartitions(topic=name, partitions=found) for name, found in asked.items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=topics)
    answer = cluster.answer(ElectLeadersResponse, request)
    assert answer.error_code == 0
    return {
        (topic.topic, row.partition_id): ErrorCode(row.error_code)
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }


def test_the_first_replica_leads_again_when_it_is_in_sync(cluster: Cluster) -> None:
    change(cluster, 0, leader=3)
    epoch = cluster.state().leader_epoch
    assert elect(cluster, PREFERRED, {"flights": [0, 1]}) == {
        ("flights", 0): ErrorCode.NONE,
        ("flights", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }
    assert (cluster.state().leader, cluster.state().leader_epoch) == (1, epoch + 1)


def test_a_first_replica_that_is_behind_does_not_lead(cluster: Cluster) -> None:
    change(cluster, 0, leader=3, isr=[2, 3])
    offset = cluster.offset
    assert elect(cluster, PREFERRED, {"flights": [0]}) == {
        ("flights", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    }
    assert (cluster.state().leader, cluster.offset) == (3, offset)


def test_asked_about_everything_only_what_is_to_be_done_is_told(cluster: Cluster) -> None:
    change(cluster, 1, leader=1)
    assert elect(cluster, PREFERRED, None) == {("flights", 1): ErrorCode.NONE}
    assert elect(cluster, PREFERRED, None) == {}


def test_an_unclean_election_takes_place_only_where_nobody_leads(cluster: Cluster) -> None:
    change(cluster, 0, leader=NO_NODE, isr=[])
    assert elect(cluster, UNCLEAN, {"flights": [0, 1]}) == {
        ("flights", 0): ErrorCode.NONE,
        ("flights", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }
    state = cluster.state()
    assert (state.leader, state.isr, state.recovering) == (1, (1,), True)


def test_where_no_replica_lives_nobody_is_elected(cluster: Cluster) -> None:
    cluster.time += 60  # their sessions are long over: new lives may register, and are fenced
    for broker in (1, 2, 3):
        cluster.register(broker, incarnation=2)
    change(cluster, 0, leader=NO_NODE, isr=[])
    assert elect(cluster, UNCLEAN, {"flights": [0]}) == {
        ("flights", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    }


def test_what_does_not_exist_is_told_by_partition_and_an_unknown_election_is_refused(
    cluster: Cluster,
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, PREFERRED, {"flights": [7], "none": [0]}) == {
        ("flights", 7): unknown,
        ("none", 0): unknown,
    }
    with pytest.raises(KafkaError) as refused:
        elect(cluster, 5, None)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
