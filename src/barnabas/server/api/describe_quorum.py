"""DescribeQuorum (key 55): leader, voters, observers, and how far each is."""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.model import METADATA_TOPIC
from barnabas.raft.describe import Description, ReplicaRow
from barnabas.wire.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Node,
    ReplicaState,
)

__all__ = ["describe_quorum"]


def describe_quorum(quorum: Description, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """The answer for the partitions asked for; there is one, the metadata log."""
    topics = []
    asked_for_it = False
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            known = topic.topic_name == METADATA_TOPIC and asked.partition_index == 0
            asked_for_it |= known
            partitions.append(
                _partition(quorum)
                if known
                else DescribeQuorumResponsePartitionData(
                    partition_index=asked.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=None,
                )
            )
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = []
    if asked_for_it and quorum.is_leader:
        nodes = [
            Node(
                node_id=voter.key.id,
                listeners=[
                    DescribeQuorumResponseListener(name=e.listener, host=e.host, port=e.port)
                    for e in voter.endpoints
                ],
            )
            for voter in quorum.voters
        ]
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(quorum: Description) -> DescribeQuorumResponsePartitionData:
    if not quorum.is_leader:
        return DescribeQuorumResponsePartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message=None,
            leader_id=-1 if quorum.leader_id is None else quorum.leader_id,
            leader_epoch=quorum.epoch,
        )
    return DescribeQuorumResponsePartitionData(
        error_message=None,
        leader_id=-1 if quorum.leader_id is None else quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_row(row) for row in quorum.replicas],
        observers=[_row(row) for row in quorum.observers],
    )


def _row(row: ReplicaRow) -> ReplicaState:
    return ReplicaState(
        replica_id=row.key.id,
        replica_directory_id=row.key.directory_id,
        log_end_offset=row.end_offset,
        last_fetch_timestamp=row.last_fetch_ms,
        last_caught_up_timestamp=row.caught_up_ms,
    )
