"""`__consumer_offsets` moves: coordinators change, committed offsets do not."""

from __future__ import annotations

from tests.server.virtual import Virtual

from barnabas.errors import ErrorCode
from barnabas.model import NodeId
from barnabas.wire.schemas.groups import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

OFFSETS = "__consumer_offsets"


def coordinator(cluster: Virtual, at: NodeId) -> NodeId:
    """Who coordinates group `g`, once somebody does."""
    found: list[NodeId] = []

    def look() -> bool:
        answer = cluster.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), at=at)
        (one,) = answer.coordinators
        found.append(one.node_id)
        if one.error_code:
            cluster.run(0.1)
        return not one.error_code

    while not look():
        assert len(found) < 300
    return found[-1]


def commit(cluster: Virtual, at: NodeId, offset: int) -> ErrorCode:
    topic = OffsetCommitRequestTopic(
        name="t",
        topic_id=cluster.image.topics_by_name["t"].id,
        partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
    )
    answer = cluster.ask(OffsetCommitRequest(group_id="g", topics=[topic]), at=at)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(cluster: Virtual, at: NodeId) -> tuple[ErrorCode, int]:
    topic = OffsetFetchRequestTopics(
        name="t", topic_id=cluster.image.topics_by_name["t"].id, partition_indexes=[0]
    )
    answer = cluster.ask(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])]), at=at
    )
    (group,) = answer.groups
    if group.error_code:
        return ErrorCode(group.error_code), -1
    row = group.topics[0].partitions[0]
    return ErrorCode(row.error_code), row.committed_offset


def test_committed_offsets_move_with_their_partition() -> None:
    with Virtual((4, 5, 6, 7), (1, 2, 3)) as cluster:
        cluster.create("t", [4, 5])
        first = coordinator(cluster, 4)
        cluster.until(lambda: commit(cluster, first, 42) is ErrorCode.NONE)
        before = cluster.state(OFFSETS).replicas
        others = [broker for broker in (4, 5, 6, 7) if broker not in before]
        target = [*others, before[-1]][:2]
        assert cluster.move(OFFSETS, target) is ErrorCode.NONE
        cluster.until(lambda: not cluster.state(OFFSETS).adding and not cluster.state(OFFSETS).removing)
        cluster.run(1)
        assert committed(cluster, first)[0] is ErrorCode.NOT_COORDINATOR or first in target
        second = coordinator(cluster, 5)
        assert second == cluster.state(OFFSETS).leader
        assert committed(cluster, second) == (ErrorCode.NONE, 42)
        assert commit(cluster, second, 43) is ErrorCode.NONE
        cluster.kill(second)
        cluster.until(lambda: cluster.state(OFFSETS).leader not in (second, -1), 20)
        cluster.run(1)
        third = coordinator(cluster, next(b for b in (4, 5, 6, 7) if b != second))
        assert committed(cluster, third) == (ErrorCode.NONE, 43)


def test_voters_and_partitions_may_be_moved_in_one_request() -> None:
    """What is asked for the partitions (no other number of replicas) holds beside the voters too."""
    with Virtual((4, 5, 6), (1, 2, 3)) as cluster:
        cluster.create("t", [4, 5])
        topics = [
            ReassignableTopic(
                name=name, partitions=[ReassignablePartition(partition_index=0, replicas=replicas)]
            )
            for name, replicas in (("__cluster_metadata", [1, 2]), ("t", [4, 5, 6]))
        ]
        answer = cluster.ask(
            AlterPartitionReassignmentsRequest(allow_replication_factor_change=False, topics=topics)
        )
        codes = {topic.name: ErrorCode(topic.partitions[0].error_code) for topic in answer.responses}
        assert codes == {
            "__cluster_metadata": ErrorCode.NONE,
            "t": ErrorCode.INVALID_REPLICATION_FACTOR,
        }
