"""DescribeProducers: what a replica remembers of the producers of its partitions (KIP-664).

Any replica answers.  It is how one finds a transaction that nobody ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.wire.schemas.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["describe_producers"]


def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest, version: int, now: Now
) -> DescribeProducersResponse:
    """Serve one DescribeProducers request."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _described(broker, context, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _described(broker: Broker, context: RequestContext, topic: str, index: int) -> PartitionResponse:
    error = ErrorCode.NONE
    partition = broker.partition(topic, index)
    if not allowed(broker.authorizer, context, Operation.READ, ResourceType.TOPIC, topic):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif not topic:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition is None or partition.offline:
        known = broker.image.partition(topic, index) is not None
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if error or partition is None:
        return PartitionResponse(partition_index=index, error_code=error, active_producers=[])
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.transaction_start,
            )
            for state in partition.log.producers.active()
        ],
    )
