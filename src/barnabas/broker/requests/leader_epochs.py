"""OffsetForLeaderEpoch: where the log of an epoch ends, so that a client finds where its log diverged from ours.

(KIP-101 for followers, KIP-320 for consumers.)  Only the leader answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.wire.schemas.offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["offsets_for_leader_epoch"]


def offsets_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest, version: int, now: Now
) -> OffsetForLeaderEpochResponse:
    """Serve one OffsetForLeaderEpoch request."""
    authorizer = broker.authorizer
    everything = authorizer is not None and allowed(
        authorizer,
        context,
        Operation.CLUSTER_ACTION,
        ResourceType.CLUSTER,
        "kafka-cluster",
        asked=False,
    )
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _refused(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    if not everything
                    and not allowed(authorizer, context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
                    else _answer(broker, topic.topic, asked)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: Broker, name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.partition(name, asked.partition)
    if partition is None:
        return _refused(asked, broker.missing(name, asked.partition))
    if error := partition.unavailable(asked.current_leader_epoch):
        return _refused(asked, error)
    epoch, end = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)


def _refused(asked: OffsetForLeaderPartition, error: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(error_code=error, partition=asked.partition)
