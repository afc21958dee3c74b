"""Where a controller believes the others to be, and telling it better (a request of our own).

told = read_endpoints("127.0.0.1", 9093)
set_endpoint("127.0.0.1", 9093, 2, "10.0.0.2", 9093)
"""

from __future__ import annotations

import time
from typing import NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.client.security.options import Security, SecurityOptions
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import DirectoryId, NodeId
from barnabas.wire.schemas.cluster import DescribeClusterRequest
from barnabas.wire.schemas.own import ExchangeEndpointsRequest, KnownListener, KnownNode

__all__ = ["KnownController", "read_endpoints", "set_endpoint"]

CONTROLLERS = 2
"""Endpoint type of DescribeCluster on a controllers' listener."""
OWN_WORD = 1
"""A start from this number on: the node said so itself, or an operator did."""


class KnownController(NamedTuple):
    """A controller, as another one knows it.  `start` 0: only the voter set says so."""

    id: NodeId
    directory_id: DirectoryId
    endpoints: tuple[str, ...]
    epoch: int
    start: int


def read_endpoints(
    host: str, port: int, *, timeout: float = 10.0, security: SecurityOptions = None
) -> list[KnownController]:
    """`read_endpoints("127.0.0.1", 9093)` -> everybody whom that controller knows, by id.

    `security`: options by Kafka's names.
    Raises ConnectionFailed, KafkaError UNSUPPORTED_VERSION where a controller of Apache Kafka answers.
    """
    with _connected(host, port, timeout, security) as line:
        return _known(_exchange(line, []))


def set_endpoint(
    host: str,
    port: int,
    node: NodeId,
    at_host: str,
    at_port: int,
    *,
    timeout: float = 10.0,
    security: SecurityOptions = None,
) -> KnownController:
    """`set_endpoint("127.0.0.1", 9093, 2, "10.0.0.2", 9093)` -> what that controller knows of node 2 now.

    It tells the others.  Raises as `read_endpoints`, and VOTER_NOT_FOUND where it knows no such controller.
    """
    with _connected(host, port, timeout, security) as line:
        nodes = _exchange(line, [])
        known = [one for one in nodes if one.node_id == node and one.listeners]
        if not known:
            ids = (
                ", ".join(str(one.node_id) for one in sorted(nodes, key=lambda one: one.node_id)) or "nobody"
            )
            raise KafkaError(
                ErrorCode.VOTER_NOT_FOUND,
                f"the controller at {host}:{port} knows no controller {node}: it knows {ids}",
                next_step="see its id with `barnabas quorum describe --status`",
            )
        newest = max(known, key=lambda one: (one.boot > 0, one.epoch, one.boot))
        told = KnownNode(
            node_id=node,
            directory_id=newest.directory_id,
            epoch=newest.epoch,
            boot=max(newest.boot + 1, int(time.time() * 1000)),
            listeners=[KnownListener(name=newest.listeners[0].name, host=at_host, port=at_port)],
        )
        _exchange(line, [told])
        (now,) = [one for one in _known(_exchange(line, [])) if one[:2] == (node, newest.directory_id)]
        if not now.endpoints[0].endswith(f"://{at_host}:{at_port}"):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"controller {node} itself says that it is at {now.endpoints[0]}",
                next_step="change where it listens in its own properties, and start it again",
            )
        return now


def _connected(host: str, port: int, timeout: float, security: SecurityOptions) -> BlockingConnection:
    return BlockingConnection(
        host, port, timeout=timeout, connect_timeout=timeout, security=Security.parse(security)
    )


def _exchange(line: BlockingConnection, nodes: list[KnownNode]) -> list[KnownNode]:
    cluster = line.request(DescribeClusterRequest(endpoint_type=CONTROLLERS)).cluster_id
    answer = line.request(ExchangeEndpointsRequest(cluster_id=cluster, replica_id=-1, nodes=nodes))
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), "the controller does not exchange addresses")
    found: list[KnownNode] = answer.nodes
    return found


def _known(nodes: list[KnownNode]) -> list[KnownController]:
    found = [
        KnownController(
            node.node_id,
            node.directory_id,
            tuple(f"{e.name}://{e.host}:{e.port}" for e in node.listeners),
            node.epoch,
            node.boot,
        )
        for node in nodes
    ]
    return sorted(found)
