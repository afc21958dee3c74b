"""The address that a node tells clients: one per node and listener, the one that it registered.

There is one exception: a node that is alone, or that registered an address of its own machine only
(`listeners` with a wildcard or localhost, and no `advertised.listeners`), returns the address that the client
dialled if that is more useful, because it provably works for that client.  A node in a cluster of several
must not do so: a client that gets now the dialled and now the registered address drops its connection each
time (librdkafka), and sends again what was in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol

from barnabas.model import NodeId
from barnabas.server.net.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.loop.runtime import Services

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
    found = next(((e.host, e.port) for e in endpoints if e.listener == listener.name), ("", -1))
    if node_id != node.node_id or listener.advertised:
        return found
    image = node.quorum.image
    alone = len(image.controllers if listener.kind == "C" else image.brokers) <= 1
    if alone or found[1] < 0 or (_only_here(found[0]) and not _only_here(context.local_host)):
        return context.local_host, context.local_port
    return found


@lru_cache(64)
def _only_here(host: str) -> bool:
    """Whether this names the machine it is said on: a wildcard, localhost, a loopback address."""
    if host in ("", "localhost"):
        return True
    try:
        address = ip_address(host.removeprefix("::ffff:"))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
