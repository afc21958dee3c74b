"""Addresses that this node tells clients of and that another node has, too: one of the two is wrong.

Each client that dials such an address reaches one of the two nodes, and what it asks about the other one is
answered by the wrong node.  Apache Kafka registers both without a word.
"""

from __future__ import annotations

import logging

from barnabas.controller.image import BrokerState, ControllerState, MetadataImage
from barnabas.model import NodeId
from barnabas.server.observe import events

__all__ = ["SharedAddresses"]

SHARED = events.register(
    "broker.address-shared", logging.WARNING, "another node has an address that this one tells clients of"
)


class SharedAddresses:
    """The addresses of one broker that another registered node has, each told once."""

    __slots__ = ("_node_id", "_told")

    def __init__(self, node_id: NodeId) -> None:
        self._node_id = node_id
        self._told: frozenset[tuple[NodeId, str, int]] = frozenset()

    def look(self, image: MetadataImage) -> None:
        """Tell of each address that is shared since the last look.  A fenced broker's address may be ours now."""
        own = image.brokers.get(self._node_id)
        if own is None:
            return
        mine = {(endpoint.host, endpoint.port) for endpoint in own.endpoints}
        serving: list[BrokerState | ControllerState] = [b for b in image.brokers.values() if not b.fenced]
        serving += image.controllers.values()
        shared = frozenset(
            (node.id, endpoint.host, endpoint.port)
            for node in serving
            if node.id != self._node_id
            for endpoint in node.endpoints
            if (endpoint.host, endpoint.port) in mine
        )
        for other, host, port in sorted(shared - self._told):
            events.emit(
                SHARED,
                reason=f"node {other} is registered with it",
                address=f"{host}:{port}",
                node=self._node_id,
                next=f"set advertised.listeners of node {self._node_id} or {other} to its own, and start it again",
            )
        self._told = shared
