"""The data path: each request goes to the broker as it is, with one reading of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.delete_records import delete_records
from barnabas.broker.requests.describe_producers import describe_producers
from barnabas.broker.requests.leader_epochs import offsets_for_leader_epoch
from barnabas.broker.requests.list_offsets import list_offsets
from barnabas.broker.requests.txn_markers import CompleteTransaction, write_txn_markers
from barnabas.ports import Clock
from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.wire.schemas.transactions import (
    DescribeProducersRequest,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["DataApi"]


class DataApi:
    """Records, and what is asked about them.  `complete` ends transactions of groups."""

    __slots__ = ("_broker", "_clock", "_complete")

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        complete: CompleteTransaction,
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._complete = complete

    def produce(self, context: RequestContext, request: Message) -> Message:
        """Produce (key 0) comes in by a door of its own (`net/produce_door`), never here."""
        raise AssertionError(f"{context} did not come by its door")

    def fetch(self, context: RequestContext, request: Message) -> Message:
        """Fetch (key 1) comes in by a door of its own (`net/fetch_door`), never here."""
        raise AssertionError(f"{context} did not come by its door")

    def list_offsets(self, context: RequestContext, request: ListOffsetsRequest) -> Message:
        """ListOffsets (key 2)."""
        return list_offsets(self._broker, context, request, context.version, self._clock.now())

    def epoch_ends(self, context: RequestContext, request: OffsetForLeaderEpochRequest) -> Message:
        """OffsetForLeaderEpoch (key 23; KIP-101, KIP-320)."""
        return offsets_for_leader_epoch(self._broker, context, request, context.version, self._clock.now())

    def delete_records(self, context: RequestContext, request: DeleteRecordsRequest) -> Message | Waiting:
        """DeleteRecords (key 21; KIP-107)."""
        return delete_records(self._broker, context, request, context.version, self._clock.now())

    def write_txn_markers(
        self, context: RequestContext, request: WriteTxnMarkersRequest
    ) -> Message | Waiting:
        """WriteTxnMarkers (key 27; KIP-98)."""
        return write_txn_markers(self._broker, context, request, self._clock.now(), self._complete)

    def describe_producers(self, context: RequestContext, request: DescribeProducersRequest) -> Message:
        """DescribeProducers (key 61; KIP-664)."""
        return describe_producers(self._broker, context, request, context.version, self._clock.now())
