"""DescribeQuorum (key 55): leader, voters, observers, and how far each is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from barnabas.errors import ErrorCode
from barnabas.model import METADATA_TOPIC, NodeId
from barnabas.raft.describe import Description, ReplicaRow
from barnabas.raft.messages import ChangeResponse
from barnabas.server.kraft.quorum_events import missing, way_out
from barnabas.wire.schemas.quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Node,
    PeerError,
    ReplicaState,
)

__all__ = ["describe_quorum"]


def describe_quorum(
    quorum: Description,
    request: DescribeQuorumRequest,
    *,
    controllers: Collection[NodeId] = (),
    leaderless_ms: int = -1,
    check: Callable[[DescribeQuorumRequestPartitionData], ChangeResponse] | None = None,
    history: Callable[[], list[str]] | None = None,
) -> DescribeQuorumResponse:
    """The answer for the partitions asked for; there is one, the metadata log.

    `controllers`: those that are registered; `check` says what would become of a change that is asked about.
    """
    topics = []
    asked_for_it = False
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            if topic.topic_name != METADATA_TOPIC or asked.partition_index != 0:
                partitions.append(_unknown(asked.partition_index))
                continue
            asked_for_it = True
            detail = _detail(quorum, controllers, leaderless_ms)
            if asked.check and check is not None and quorum.is_leader:
                outcome = check(asked)
                detail |= {"check_error": int(outcome.error), "check_message": outcome.message or ""}
            if asked.history and history is not None:
                detail["history"] = history()
            partitions.append(_partition(quorum, detail))
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


def _unknown(partition: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
    )


def _detail(quorum: Description, controllers: Collection[NodeId], leaderless_ms: int) -> dict[str, Any]:
    """What Apache Kafka's tools do not ask for, in tagged fields that they pass over."""
    waiting = list(quorum.waiting)
    if leaderless_ms >= 0:
        who = missing(quorum) or "the voters answer, and elect"
        waiting.append(f"no leader for {leaderless_ms / 1000:.1f} s: {who}")
        if then := way_out(quorum):
            waiting.append(f"next: {then}")
    return {
        "target_voters": [key.id for key in quorum.target or ()],
        "committed_voters": [key.id for key in quorum.committed or ()],
        "steps_left": quorum.steps_left,
        "survivable": quorum.survivable,
        "peer_errors": [PeerError(node_id=node, reason=reason) for node, reason in quorum.errors],
        "leaderless_ms": leaderless_ms,
        "waiting": waiting,
        "could_be_voters": list(quorum.could_vote(controllers)),
    }


def _partition(quorum: Description, detail: dict[str, Any]) -> DescribeQuorumResponsePartitionData:
    if not quorum.is_leader:
        return DescribeQuorumResponsePartitionData(
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            error_message=None,
            leader_id=-1 if quorum.leader_id is None else quorum.leader_id,
            leader_epoch=quorum.epoch,
            **detail,
        )
    return DescribeQuorumResponsePartitionData(
        error_message=None,
        leader_id=-1 if quorum.leader_id is None else quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[_row(row) for row in quorum.replicas],
        observers=[_row(row) for row in quorum.observers],
        **detail,
    )


def _row(row: ReplicaRow) -> ReplicaState:
    return ReplicaState(
        replica_id=row.key.id,
        replica_directory_id=row.key.directory_id,
        log_end_offset=row.end_offset,
        last_fetch_timestamp=row.last_fetch_ms,
        last_caught_up_timestamp=row.caught_up_ms,
    )
