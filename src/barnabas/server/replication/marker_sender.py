"""Sending of the markers of ended transactions to the brokers that lead their partitions.

`broker/transactions/markers` decides who is asked what; this module sends.  This node itself is
asked the same way, over its own listener.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.observe import events
from barnabas.server.replication.broker_connections import BrokerConnections, PeerListener

if TYPE_CHECKING:
    from barnabas.broker.transactions.markers import TransactionMarkers
    from barnabas.wire.schemas.transactions import WriteTxnMarkersRequest

__all__ = ["MarkerSender"]

UNREACHED = events.register(
    "transactions.markers-wait",
    logging.WARNING,
    "a broker could not be asked to write the markers of ended transactions; it is asked again",
)

_GRACE_S = 5.0
"""Seconds beyond the longest time in which a leader answers that its replicas did not follow."""


class MarkerSender:
    """The markers of one node.  `listener` is that by which brokers reach each other."""

    __slots__ = ("_connections", "_markers", "_runtime", "_sending", "_stopped")

    def __init__(
        self, runtime: Runtime, image: MetadataImage, markers: TransactionMarkers, listener: PeerListener
    ) -> None:
        self._runtime = runtime
        self._markers = markers
        self._connections = BrokerConnections(image, listener, f"transactions-{runtime.node_id}")
        self._sending: set[NodeId] = set()
        self._stopped = False
        markers.wake = self._soon

    def _soon(self, leader: NodeId) -> None:
        """There is something to send to that broker."""
        if not self._stopped and leader not in self._sending:
            self._sending.add(leader)
            self._runtime.tasks.start(self._send_all(leader), f"markers to {leader}")

    async def _send_all(self, leader: NodeId) -> None:
        """Send what waits for a broker, one request at a time."""
        try:
            while not self._stopped and (request := self._markers.next_request(leader)) is not None:
                await self._send(leader, request)
        finally:
            self._sending.discard(leader)

    async def _send(self, leader: NodeId, request: WriteTxnMarkersRequest) -> None:
        runtime, markers = self._runtime, self._markers
        try:
            connection = await self._connections.to(leader)
            limit = runtime.config.int("request.timeout.ms") / 1000 + _GRACE_S
            response = await connection.request(request, timeout=limit)
        except BarnabasError as error:
            self._connections.drop(leader)
            if not self._stopped:
                events.emit(UNREACHED, broker=leader, error=error)
                markers.failed(leader, runtime.clock.now())
        else:
            markers.answered(leader, response, runtime.clock.now())
        runtime.step.soon()

    def stop(self) -> None:
        """Send nothing more; who coordinates the transactions next sends what is left."""
        self._stopped = True
        self._connections.stop()

    def __repr__(self) -> str:
        return f"<MarkerSender {self._connections!r}>"
