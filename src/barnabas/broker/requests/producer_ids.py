"""InitProducerId without a transactional id: the next number of a block (`producer_id_blocks`).

One with a transactional id is for its coordinator (`transactions/answering`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import Operation, RequestContext, ResourceType
from barnabas.broker.producer_id_blocks import ProducerIdWaiting, refused_init
from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.security.acl import CLUSTER_NAME
from barnabas.wire.schemas.transactions import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["init_producer_id"]

_WAIT_S = 20.0
"""Seconds that a producer waits for a block."""


def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest, version: int, now: Now
) -> InitProducerIdResponse | Waiting:
    """Serve one InitProducerId request without a transactional id (KIP-98)."""
    assert request.transactional_id is None
    authorizer, cluster = broker.authorizer, (ResourceType.CLUSTER, CLUSTER_NAME)
    if (
        authorizer is not None
        and not authorizer.authorize(context, Operation.IDEMPOTENT_WRITE, *cluster, asked=False)
        and not authorizer.authorize_any(context, Operation.WRITE, ResourceType.TOPIC)
    ):
        authorizer.authorize(context, Operation.IDEMPOTENT_WRITE, *cluster)  # so that the refusal is noted
        return refused_init(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    blocks = broker.producer_ids
    producer_id = None if blocks.waiting else blocks.take()
    if blocks.should_ask(now):
        broker.host.allocate_producer_ids()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    waiting = ProducerIdWaiting(now.mono + _WAIT_S, blocks)
    if not broker.purgatory.add(waiting):
        waiting.release()
        return refused_init(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return waiting
