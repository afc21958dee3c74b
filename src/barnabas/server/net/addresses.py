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
from typing import Protocol

from barnabas.controller.image import MetadataImage
from barnabas.model import NodeId
from barnabas.server.net.context import RequestContext

__all__ = ["Addresses"]


class RegisteredEndpoint(Protocol):
    """An endpoint as a node registered it."""

    @property
    def listener(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Addresses:
    """The addresses of all nodes, as the clients of one of them are told."""

    __slots__ = ("_image", "node_id")

    def __init__(self, node_id: NodeId, image: MetadataImage) -> None:
        self.node_id = node_id
        self._image = image

    def of(
        self, context: RequestContext, node_id: NodeId, endpoints: Iterable[RegisteredEndpoint]
    ) -> tuple[str, int]:
        """Host and port of node `node_id` for the client of `context`; ("", -1): it has no such listener."""
        client = context.client
        found = next(((e.host, e.port) for e in endpoints if e.listener == client.listener), ("", -1))
        if node_id != self.node_id or client.advertised:
            return found
        alone = len(self._image.controllers if client.kind == "C" else self._image.brokers) <= 1
        if alone or found[1] < 0 or (_only_here(found[0]) and not _only_here(client.local_host)):
            return client.local_host, client.local_port
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
