"""The voters there should be, as a reassignment of the metadata partition (KIP-642).

AlterPartitionReassignments (key 45) on `__cluster_metadata`-0 names the final set of controllers, by id;
replicas null cancels.  Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION there, so no tool of its own depends
on it.  What is under way is listed like any other reassignment (key 46).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, Endpoint, NodeId
from barnabas.raft.membership.target import TARGET, parse_target
from barnabas.raft.messages import ChangeResponse, ReassignRequest
from barnabas.server.kraft.codec import LONGEST_CHANGE
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.server.kraft.driver import Quorum
    from barnabas.server.net.context import RequestContext

__all__ = ["alter_reassignments", "ongoing"]


def alter_reassignments(quorum: Quorum, request: Message, context: RequestContext) -> asyncio.Future[Message]:
    """AlterPartitionReassignments (key 45), on the active controller."""
    assert isinstance(request, AlterPartitionReassignmentsRequest)
    if not any(topic.name == METADATA_TOPIC for topic in request.topics):
        return quorum.submit(request, context, context.version)
    return asyncio.get_running_loop().create_task(_alter(quorum, request, context))


async def _alter(
    quorum: Quorum, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Message:
    if not quorum.is_active_controller:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
    responses: list[ReassignableTopicResponse] = []
    others = [topic for topic in request.topics if topic.name != METADATA_TOPIC]
    if others:
        answer = await quorum.submit(_of(request, others), context, context.version)
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        if answer.error_code:
            return answer
        responses += answer.responses
    for topic in request.topics:
        if topic.name == METADATA_TOPIC:
            responses.append(await _set_target(quorum, topic, request.timeout_ms / 1000))
    return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)


def _of(
    request: AlterPartitionReassignmentsRequest, topics: list[ReassignableTopic]
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=request.timeout_ms,
        allow_replication_factor_change=request.allow_replication_factor_change,
        topics=topics,
    )


async def _set_target(quorum: Quorum, topic: ReassignableTopic, seconds: float) -> ReassignableTopicResponse:
    rows = []
    for partition in topic.partitions:
        answer = ChangeResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the quorum has one partition")
        if partition.partition_index == 0:
            target = None if partition.replicas is None else tuple(partition.replicas)
            wish = ReassignRequest(target, _registered(quorum), min(seconds, LONGEST_CHANGE))
            given = await quorum.change(wish)
            assert isinstance(given, ChangeResponse)
            answer = given
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, answer.message or "")
        rows.append(
            ReassignablePartitionResponse(
                partition_index=partition.partition_index,
                error_code=answer.error,
                error_message=answer.message,
            )
        )
    return ReassignableTopicResponse(name=METADATA_TOPIC, partitions=rows)


def _registered(quorum: Quorum) -> tuple[tuple[NodeId, tuple[Endpoint, ...]], ...]:
    """Where the registered controllers listen."""
    return tuple(
        (controller.id, tuple(Endpoint(e.listener, e.host, e.port) for e in controller.endpoints))
        for controller in quorum.image.controllers.values()
    )


def ongoing(quorum: Quorum) -> OngoingTopicReassignment | None:
    """The change to a target set that is under way, as far as this node has replayed; None: there is none."""
    text = quorum.image.cluster_config().get(TARGET)
    if text is None:
        return None
    voters, target = list(quorum.voters.ids), [member.key.id for member in parse_target(text)]
    row = OngoingPartitionReassignment(
        partition_index=0,
        replicas=[*target, *(id_ for id_ in voters if id_ not in target)],
        adding_replicas=[id_ for id_ in target if id_ not in voters],
        removing_replicas=[id_ for id_ in voters if id_ not in target],
    )
    return OngoingTopicReassignment(name=METADATA_TOPIC, partitions=[row])
