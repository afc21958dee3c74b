"""Connections to brokers, over the listener by which brokers reach each other: one each, dialled when needed."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.aio import AsyncConnection
from barnabas.client.security.options import PLAINTEXT, Security
from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.server.loop.dialling import dial

__all__ = ["BrokerConnections", "PeerListener", "dial_broker"]

CONNECT_WITHIN_S = 2.0


class PeerListener(NamedTuple):
    """The listener by which brokers reach each other: its name, and how this node logs in there."""

    name: str
    security: Security = PLAINTEXT


async def dial_broker(
    image: MetadataImage, node: NodeId, listener: PeerListener, client_id: str
) -> AsyncConnection:
    """A new connection to where the metadata says the broker is.

    A request that waits while the controller fences the broker fails: it may hang.  Raises BarnabasError when it
    has no such listener, ConnectionFailed after `CONNECT_WITHIN_S`.
    """

    async def is_out() -> bool:
        now = image.brokers.get(node)
        return now is None or now.fenced

    known = image.brokers.get(node)
    endpoint = known.endpoint(listener.name) if known is not None else None
    if endpoint is None:
        raise BarnabasError(f"broker {node} has no listener {listener.name}")
    return await dial(
        endpoint.host,
        endpoint.port,
        client_id=client_id,
        connect_timeout=CONNECT_WITHIN_S,
        security=listener.security,
        is_out=is_out,
    )


class BrokerConnections:
    """The connections that one part of this node keeps to brokers."""

    __slots__ = ("_client_id", "_image", "_kept", "_listener", "_stopped")

    def __init__(self, image: MetadataImage, listener: PeerListener, client_id: str) -> None:
        self._image = image
        self._listener = listener
        self._client_id = client_id
        self._kept: dict[NodeId, AsyncConnection] = {}
        self._stopped = False

    async def to(self, node: NodeId) -> AsyncConnection:
        """The connection to that broker, dialled where there is none.  Raises as `dial_broker`."""
        kept = self._kept.get(node)
        if kept is not None and not kept.closed:
            return kept
        made = self._kept[node] = await dial_broker(self._image, node, self._listener, self._client_id)
        if self._stopped:
            made.abort()
        return made

    def drop(self, node: NodeId) -> None:
        """The connection is of no more use: the next `to` dials anew."""
        if (lost := self._kept.pop(node, None)) is not None:
            lost.abort()

    def stop(self) -> None:
        """End all of them, and those that are being dialled."""
        self._stopped = True
        for connection in self._kept.values():
            connection.abort()

    def __repr__(self) -> str:
        return f"<BrokerConnections to {sorted(self._kept)}>"
