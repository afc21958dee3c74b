"""ExchangeEndpoints, the one request of our own, in words of the core and back."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.model import Endpoint, ReplicaKey
from barnabas.raft import messages as raft
from barnabas.raft.discovery.book import MOST_CONTACTS, Contact
from barnabas.server.kraft.codec.fields import code_of
from barnabas.wire.schemas import own

__all__ = ["exchange_asked", "exchange_in", "exchange_out", "exchange_response_out"]


def exchange_out(request: raft.ExchangeRequest, version: int) -> own.ExchangeEndpointsRequest:
    """What we ask."""
    return own.ExchangeEndpointsRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        replica_directory_id=request.replica.directory_id,
        nodes=_nodes(request.contacts),
    )


def exchange_in(message: own.ExchangeEndpointsResponse, listener: str) -> raft.ExchangeResponse:
    """What is answered."""
    return raft.ExchangeResponse(code_of(message.error_code), _contacts(message.nodes))


def exchange_asked(
    message: own.ExchangeEndpointsRequest, version: int, listener: str
) -> raft.ExchangeRequest:
    """What we are asked."""
    key = ReplicaKey(message.replica_id, message.replica_directory_id)
    return raft.ExchangeRequest(key, _contacts(message.nodes), message.cluster_id)


def exchange_response_out(response: raft.ExchangeResponse) -> own.ExchangeEndpointsResponse:
    """What we answer."""
    return own.ExchangeEndpointsResponse(error_code=response.error, nodes=_nodes(response.contacts))


def _nodes(contacts: Iterable[Contact]) -> list[own.KnownNode]:
    return [
        own.KnownNode(
            node_id=contact.key.id,
            directory_id=contact.key.directory_id,
            epoch=contact.epoch,
            boot=contact.start,
            listeners=[
                own.KnownListener(name=e.listener, host=e.host, port=e.port) for e in contact.endpoints
            ],
        )
        for contact in contacts
    ]


def _contacts(nodes: list[own.KnownNode]) -> tuple[Contact, ...]:
    """Those that can be entries at all; of a flood only the first."""
    contacts = (
        Contact(
            ReplicaKey(node.node_id, node.directory_id),
            tuple(Endpoint(e.name, e.host, e.port) for e in node.listeners),
            node.epoch,
            node.boot,
        )
        for node in nodes[:MOST_CONTACTS]
    )
    return tuple(contact for contact in contacts if contact.is_sane)
