"""The data path: each request goes to the broker as it is, with one reading of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.delete_records import delete_records as _delete_records
from barnabas.broker.requests.fetch import fetch as _fetch
from barnabas.broker.requests.leader_epochs import offsets_for_leader_epoch as _offsets_for_leader_epoch
from barnabas.broker.requests.list_offsets import list_offsets as _list_offsets
from barnabas.broker.requests.produce import produce as _produce
from barnabas.broker.requests.producer_ids import init_producer_id as _init_producer_id
from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse
from barnabas.wire.schemas.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.wire.schemas.produce import ProduceRequest, ProduceResponse
from barnabas.wire.schemas.transactions import InitProducerIdRequest

if TYPE_CHECKING:
    from barnabas.server.loop.runtime import Services

__all__ = ["delete_records", "epoch_ends", "fetch", "init_producer_id", "list_offsets", "produce"]


def produce(
    node: Services, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Waiting | None:
    """Produce (key 0).  None: acks=0, nobody expects an answer; with an error its connection ends."""
    node.traffic.produced(request)
    return _produce(node.broker, context, request, context.version, node.clock.now())


def fetch(node: Services, context: RequestContext, request: FetchRequest) -> FetchResponse | Waiting:
    """Fetch (key 1)."""
    return _fetch(node.broker, context, request, context.version, node.clock.now())


def list_offsets(node: Services, context: RequestContext, request: ListOffsetsRequest) -> Message:
    """ListOffsets (key 2)."""
    return _list_offsets(node.broker, context, request, context.version, node.clock.now())


def epoch_ends(node: Services, context: RequestContext, request: OffsetForLeaderEpochRequest) -> Message:
    """OffsetForLeaderEpoch (key 23; KIP-101, KIP-320)."""
    return _offsets_for_leader_epoch(node.broker, context, request, context.version, node.clock.now())


def init_producer_id(
    node: Services, context: RequestContext, request: InitProducerIdRequest
) -> Message | Waiting:
    """InitProducerId (key 22; KIP-98)."""
    return _init_producer_id(node.broker, context, request, context.version, node.clock.now())


def delete_records(
    node: Services, context: RequestContext, request: DeleteRecordsRequest
) -> Message | Waiting:
    """DeleteRecords (key 21; KIP-107)."""
    return _delete_records(node.broker, context, request, context.version, node.clock.now())
