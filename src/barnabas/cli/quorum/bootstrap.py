"""`barnabas quorum bootstrap`: begin a cluster with one of the nodes that wait for one, once.

All nodes were started with the same words, `barnabas start FILE --join HOST1:PORT,HOST2:PORT`, and wait:
    barnabas quorum -C HOST1:PORT bootstrap                   it begins a cluster, and the others join it
    barnabas quorum -C HOST1:PORT bootstrap --cluster-id X    the same; typed again it changes nothing
"""

from __future__ import annotations

import argparse

from barnabas.cli.controllers import security_of
from barnabas.cli.exits import Exit
from barnabas.cli.output import print_document
from barnabas.errors import ConfigError, ErrorCode, KafkaError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quorum bootstrap`."""
    parser.add_argument("--cluster-id", metavar="ID", help="of the new cluster (default: the node draws one)")


def run(args: argparse.Namespace) -> int:
    """Ask the node.  1 where it is of another cluster, or knows of one."""
    from barnabas.client.blocking import BlockingConnection
    from barnabas.client.security.options import Security
    from barnabas.wire.schemas.own import BootstrapQuorumRequest

    host, _, port = (args.bootstrap_controller or "").rpartition(":")
    if not host or not port.isdecimal() or "," in host:
        raise ConfigError(
            "bootstrap needs the one controller that begins the cluster", next_step="say -C HOST:PORT"
        )
    with BlockingConnection(
        host.removeprefix("[").removesuffix("]"),
        int(port),
        timeout=args.timeout,
        connect_timeout=args.timeout,
        security=Security.parse(security_of(args)),
    ) as line:
        answer = line.request(BootstrapQuorumRequest(cluster_id=args.cluster_id))
    if answer.error_code:
        raise KafkaError(
            ErrorCode(answer.error_code),
            answer.error_message or "the node begins no cluster",
            next_step=f"`barnabas quorum -C {host}:{port} describe --status` shows the quorum that there is",
        )
    if args.json:
        print_document(
            "quorum.begun", {"begun": {"cluster_id": answer.cluster_id, "node_id": answer.node_id}}
        )
    else:
        print(
            f"Cluster {answer.cluster_id} has begun with controller {answer.node_id}; nodes that wait join it."
        )
    return Exit.OK
