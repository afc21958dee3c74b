"""The cluster: its id, its brokers and controllers, brokers that come, go, and are forgotten.

barnabas cluster id
barnabas cluster brokers
barnabas cluster list-endpoints --bootstrap-controller 127.0.0.1:9093
barnabas cluster unregister --id 3
barnabas cluster unregister-controller --id 3    one that is stopped, votes no more and will not come back
barnabas cluster add-brokers 4 5                 a plan that gives them their share; --execute does it
barnabas cluster remove-brokers 1 --execute --wait
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.cli.brokers.unregister import add_unregister_flags, unregister, unregister_controller
from barnabas.cli.controllers import add_flags, bootstrap_of, security_of
from barnabas.cli.moves import add_plan_flags, carry_out, ids, no_broker, placed
from barnabas.cli.output import print_document, show
from barnabas.cli.typed.numbers import node_id
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.described import ClusterDescription

__all__ = ["add_arguments", "endpoint_lines", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas cluster`."""
    add_flags(parser, before_the_verb=True)
    verbs = parser.add_subparsers(
        dest="verb",
        required=True,
        metavar="id|brokers|list-endpoints|unregister[-controller]|add-brokers|remove-brokers",
    )
    ident = verbs.add_parser("id", help="the cluster's id: barnabas cluster id", aliases=["cluster-id"])
    brokers = verbs.add_parser("brokers", help="who is there: barnabas cluster brokers")
    endpoints = verbs.add_parser(
        "list-endpoints", help="brokers, or with --bootstrap-controller controllers", aliases=["endpoints"]
    )
    endpoints.add_argument(
        "--include-fenced-brokers", action="store_true", help="also brokers that do not serve now"
    )
    forget = verbs.add_parser("unregister", help="forget a broker that is stopped and will not come back")
    forget.add_argument("--id", "-i", type=node_id, required=True, metavar="ID", help="its node.id")
    add_unregister_flags(forget)
    former = verbs.add_parser(
        "unregister-controller", help="forget a controller that is stopped and no voter any more"
    )
    former.add_argument("--id", "-i", type=node_id, required=True, metavar="ID", help="its node.id")
    come = verbs.add_parser("add-brokers", help="give brokers that run their share of the partitions")
    go = verbs.add_parser("remove-brokers", help="move all partitions away from brokers")
    for verb in (come, go):
        verb.add_argument("ids", nargs="+", type=node_id, metavar="ID", help="node.id")
        add_plan_flags(verb)
    for verb in (ident, brokers, endpoints, forget, former, come, go):
        add_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas cluster id|brokers|list-endpoints|unregister...|add-brokers|remove-brokers`."""
    from barnabas.client.admin.admin import Admin

    listing = args.verb in ("list-endpoints", "endpoints")
    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        if args.verb == "unregister":
            at_controller = bool(args.bootstrap_controller)
            return unregister(admin, args, "cluster.unregistered", at_controller=at_controller)
        if args.verb == "unregister-controller":
            return unregister_controller(admin, args)
        if args.verb in ("add-brokers", "remove-brokers"):
            return _move(admin, args)
        fenced = args.verb == "brokers" or (listing and args.include_fenced_brokers)
        cluster = admin.describe_cluster(fenced=fenced)
    if listing and not args.json:
        print("\n".join(endpoint_lines(cluster, controllers=bool(args.bootstrap_controller))))
    elif listing or args.verb == "brokers":
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
        kind = "controllers" if args.bootstrap_controller else "brokers"
        show(args, kind, rows, ["id", "host", "port", "rack", "state"])
    elif args.json:
        print_document("cluster", {"cluster_id": cluster.cluster_id})
    else:
        print(f"Cluster ID: {cluster.cluster_id}")
    return 0


def _move(admin: Admin, args: argparse.Namespace) -> int:
    """Partitions move so that these brokers carry their share, or nothing."""
    from barnabas.client.balance import balanced

    cluster = admin.describe_cluster(fenced=True)
    living = {broker.id: broker.rack for broker in cluster.brokers if broker.id not in cluster.fenced}
    before = placed(admin)
    racks = {broker.id: broker.rack for broker in cluster.brokers}
    carrying = {id_ for replicas in before.values() for id_ in replicas}
    if args.verb == "add-brokers":
        if missing := [id_ for id_ in args.ids if id_ not in living]:
            raise ConfigError(
                f"broker {missing[0]} does not serve", next_step="start it; see `barnabas cluster brokers`"
            )
        staying = {id_: rack for id_, rack in living.items() if id_ in carrying | set(args.ids)}
    else:
        if unknown := [id_ for id_ in args.ids if id_ not in racks and id_ not in carrying]:
            raise no_broker(unknown[0], racks)
        staying = {id_: rack for id_, rack in living.items() if id_ not in args.ids}
        if not staying:
            raise ConfigError("no broker would be left")
    away = {id_: racks.get(id_) for id_ in sorted(carrying - living.keys() - set(args.ids))}
    if away and not args.json:
        print(f"Not serving, and left as they are: {ids(away)}. To move what lies there, name them too.")
    hosts = {broker.id: broker.host for broker in cluster.brokers}
    code = carry_out(admin, args, balanced(before, staying, away, hosts=hosts), before)
    if args.verb == "remove-brokers" and args.execute and not args.json:
        left = ids(args.ids)
        print(f"When all is moved: stop {left}, then `barnabas cluster unregister --id` for each.")
    return code


def endpoint_lines(cluster: ClusterDescription, *, controllers: bool) -> list[str]:
    """The table of `list-endpoints`, as Kafka's tool prints it."""
    host = max((len(node.host) for node in cluster.brokers), default=100)
    rack = max((len(node.rack) for node in cluster.brokers if node.rack), default=10)

    def line(*cells: object) -> str:
        widths = (10, host, 10, rack, 15) if controllers else (10, host, 10, rack, 10, 15)
        return " ".join(f"{cell!s:<{width}}" for cell, width in zip(cells, widths, strict=True))

    state = () if controllers else ("STATE",)
    lines = [line("ID", "HOST", "PORT", "RACK", *state, "ENDPOINT_TYPE")]
    for node in cluster.brokers:
        state = () if controllers else ("fenced" if node.id in cluster.fenced else "unfenced",)
        kind = "controller" if controllers else "broker"
        lines.append(line(node.id, node.host, node.port, node.rack or "null", *state, kind))
    return lines
