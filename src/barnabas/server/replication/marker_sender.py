"""Sends the markers of ended transactions to the brokers that lead their partitions.

`broker/transactions/markers` decides who is asked what; this module has the connections.  This node itself is
asked the same way, over its own listener.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.client.aio import AsyncConnection
from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.observe import events

if TYPE_CHECKING:
    from barnabas.broker.transactions.markers import TransactionMarkers
    from barnabas.wire.schemas.transactions import WriteTxnMarkersRequest

__all__ = ["MarkerSender"]

UNREACHED = events.register(
    "transactions.markers-wait",
    logging.WARNING,
    "a broker could not be asked to write the markers of ended transactions; it is asked again",
)

_CONNECT_WITHIN_S = 2.0
_GRACE_S = 5.0
"""Seconds beyond the longest time in which a leader answers that its replicas did not follow."""


class MarkerSender:
    """The connections of one node for this purpose.  `listener` is the name by which brokers reach each other."""

    __slots__ = ("_connections", "_image", "_listener", "_markers", "_runtime", "_sending", "_stopped")

    def __init__(
        self, runtime: Runtime, image: MetadataImage, markers: TransactionMarkers, listener: str
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._markers = markers
        self._listener = listener
        self._connections: dict[NodeId, AsyncConnection] = {}
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
            connection = await self._connection(leader)
            limit = runtime.config.int("request.timeout.ms") / 1000 + _GRACE_S
            response = await connection.request(request, timeout=limit)
        except BarnabasError as error:
            if (lost := self._connections.pop(leader, None)) is not None:
                lost.abort()
            if not self._stopped:
                events.emit(UNREACHED, broker=leader, error=error)
                markers.failed(leader, runtime.clock.now())
        else:
            markers.answered(leader, response, runtime.clock.now())
        runtime.step.soon()

    async def _connection(self, leader: NodeId) -> AsyncConnection:
        kept = self._connections.get(leader)
        if kept is not None and not kept.closed:
            return kept
        known = self._image.brokers.get(leader)
        endpoint = known.endpoint(self._listener) if known is not None else None
        if endpoint is None:
            raise BarnabasError(f"broker {leader} has no listener {self._listener}")
        connection = self._connections[leader] = await AsyncConnection.connect(
            endpoint.host,
            endpoint.port,
            client_id=f"transactions-{self._runtime.node_id}",
            connect_timeout=_CONNECT_WITHIN_S,
        )
        return connection

    def stop(self) -> None:
        """Send nothing more; who coordinates the transactions next sends what is left."""
        self._stopped = True
        for connection in self._connections.values():
            connection.abort()

    def __repr__(self) -> str:
        return f"<MarkerSender to {sorted(self._connections)}>"
