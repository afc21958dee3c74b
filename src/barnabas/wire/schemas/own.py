"""Messages of our own, between our own nodes.  Apache Kafka knows none of them and is never sent one.

A node sends one only to a node that names its key in ApiVersions, which an Apache Kafka node never does.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import (
    OWN_TAG,
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    Uuid,
    since,
)
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "BootstrapQuorumRequest",
    "BootstrapQuorumResponse",
    "ExchangeEndpointsRequest",
    "ExchangeEndpointsResponse",
    "KnownListener",
    "KnownNode",
]


class ExchangeEndpointsRequest(Message, key=OWN_TAG, versions="0", flexible="0+"):
    """What the sender knows of the addresses of all controllers; it asks for the same."""

    cluster_id: String | None = None
    replica_id: Int32 = 0
    replica_directory_id: Uuid = ZERO_UUID
    nodes: Array[KnownNode] = []
    incarnation: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class ExchangeEndpointsResponse(Message, key=OWN_TAG, versions="0", flexible="0+"):
    """What the other one knows."""

    error_code: Int16 = 0
    nodes: Array[KnownNode] = []
    incarnation: Int32 = since(0, default=-1, tag=OWN_TAG, ignorable=True)
    origin: Uuid = since(0, default=ZERO_UUID, tag=OWN_TAG + 1, ignorable=True)


class KnownNode(Struct):
    """A controller, where it listens, and how new that is: the epoch and the start of the node that said so."""

    node_id: Int32 = 0
    directory_id: Uuid = ZERO_UUID
    epoch: Int32 = 0
    boot: Int64 = 0
    listeners: Array[KnownListener] = []


class BootstrapQuorumRequest(Message, key=OWN_TAG + 1, versions="0", flexible="0+"):
    """Begin a cluster with this node, which waits for one to join; without an id it draws one."""

    cluster_id: String | None = None


class BootstrapQuorumResponse(Message, key=OWN_TAG + 1, versions="0", flexible="0+"):
    """The cluster that the node is of now, or why it began none."""

    error_code: Int16 = 0
    error_message: String | None = None
    cluster_id: String | None = None
    node_id: Int32 = -1


class KnownListener(Struct):
    name: String = ""
    host: String = ""
    port: UInt16 = 0
