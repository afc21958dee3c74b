"""Blocks of producer ids for brokers (KIP-730): each block is given out once, ever."""

from __future__ import annotations

from barnabas.controller.view import Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.metadata import ProducerIdsRecord
from barnabas.wire.schemas.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse

__all__ = ["BLOCK", "allocate_producer_ids"]

BLOCK = 1000
"""Ids per block."""
_LAST = 2**63 - 1


def allocate_producer_ids(view: View, request: AllocateProducerIdsRequest) -> Decision:
    """AllocateProducerIds (key 67): the next block, to a broker with the right epoch.

    Raises KafkaError(BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH).
    """
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    if broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker.id} has epoch {broker.epoch} by now")
    start = view.image.next_producer_id
    if start > _LAST - BLOCK:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    record = ProducerIdsRecord(broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=start + BLOCK)
    answer = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK)
    return Decision(answer, [record])
