"""The address under which a client is told a node.

Of this very node, unless `advertised.listeners` says otherwise, it is the one the client dialled: that one
works, by proof, from where the client is, behind whatever mapping of ports or names.  Of other nodes it
is what they registered for a listener of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.model import NodeId
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.services import Services

__all__ = ["node_address"]


class RegisteredEndpoint(Protocol):
    """An endpoint as a node registered it."""

    @property
    def listener(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def node_address(
    node: Services, context: RequestContext, node_id: NodeId, endpoints: Iterable[RegisteredEndpoint]
) -> tuple[str, int]:
    """Host and port of node `node_id` for the client of `context`; ("", -1): it has no such listener."""
    listener = context.connection.listener
    if node_id == node.node_id and not listener.advertised:
        return context.local_host, context.local_port
    for endpoint in endpoints:
        if endpoint.listener == listener.name:
            return endpoint.host, endpoint.port
    return "", -1
