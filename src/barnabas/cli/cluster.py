"""The cluster: its id and its brokers.

barnabas cluster id
barnabas cluster brokers
"""

from __future__ import annotations

import argparse

from barnabas.cli.output import add_cluster_flags, print_document, show

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas cluster`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="id|brokers")
    ident = verbs.add_parser("id", help="the cluster's id: barnabas cluster id", aliases=["cluster-id"])
    brokers = verbs.add_parser("brokers", help="who is there: barnabas cluster brokers")
    for verb in (ident, brokers):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas cluster id|brokers`."""
    from barnabas.client.admin import Admin

    with Admin(args.bootstrap_server, timeout=args.timeout) as admin:
        cluster = admin.describe_cluster(fenced=args.verb == "brokers")
    if args.verb == "brokers":
        rows = [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "state": "fenced" if broker.id in cluster.fenced else "unfenced",
            }
            for broker in cluster.brokers
        ]
        show(args, "brokers", rows, ["id", "host", "port", "rack", "state"])
    elif args.json:
        print_document("cluster", {"cluster_id": cluster.cluster_id})
    else:
        print(f"Cluster ID: {cluster.cluster_id}")
    return 0
