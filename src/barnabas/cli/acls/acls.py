"""ACLs: who may do what (docs/acls.md).

barnabas acls add --allow-principal User:alice --operation Read --topic orders
barnabas acls add --allow-principal User:alice --consumer --topic orders --group billing
barnabas acls list --topic orders --resource-pattern-type match      all that concern the topic
barnabas acls remove --allow-principal User:alice --operation Read --topic orders
barnabas acls check --principal User:alice --operation Read --topic orders      which rule decides
barnabas acls why                                                    who was refused what, lately
barnabas acls why --bootstrap-controller 127.0.0.1:9093              the same, by the controllers
"""

from __future__ import annotations

import argparse
from typing import Any

from barnabas.cli.acls.flags import (
    add_change_flags,
    add_filter_flags,
    asked,
    filters,
    operation_named,
    resources,
    word,
)
from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas acls`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="add|list|remove|check|why")
    add = verbs.add_parser(
        "add", help="allow or deny: barnabas acls add --allow-principal User:alice --operation Read --topic t"
    )
    lists = verbs.add_parser("list", help="ACLs: barnabas acls list --topic t --resource-pattern-type match")
    remove = verbs.add_parser(
        "remove", help="take back what add gave: barnabas acls remove --allow-principal User:alice --topic t"
    )
    check = verbs.add_parser(
        "check",
        help="which rule decides: barnabas acls check --principal User:alice --operation Read --topic t",
    )
    why = verbs.add_parser(
        "why", help="who was refused what lately, and what would allow it: barnabas acls why"
    )
    for verb in (add, remove):
        add_change_flags(verb)
    add_filter_flags(lists)
    add_filter_flags(check)
    check.add_argument("--operation", required=True, metavar="NAME", help="what they want to do")
    check.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where they come from")
    why.add_argument("--principal", metavar="User:NAME", help="only theirs")
    why.add_argument(
        "--bootstrap-controller", metavar="HOST:PORT", help="ask the controllers, of which this is one"
    )
    for verb in (add, lists, remove, check, why):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas acls add|list|remove|check|why`."""
    from barnabas.client.cluster import Cluster

    work = {"add": _add, "list": _list, "remove": _remove, "check": _check, "why": _why}[args.verb]
    controllers = getattr(args, "bootstrap_controller", None)
    cluster = Cluster(
        controllers or args.bootstrap_server,
        client_id="barnabas-acls",
        timeout=args.timeout,
        security=security_of(args),
    )
    try:
        return work(cluster, args)
    finally:
        cluster.close()


def _add(cluster: Any, args: argparse.Namespace) -> int:
    from barnabas.client.admin.acls import create_acls

    acls = asked(args)
    create_acls(cluster, acls)
    _show(args, acls, "acls.added", f"Added {_count(acls)}.")
    return 0


def _remove(cluster: Any, args: argparse.Namespace) -> int:
    from barnabas.client.admin.acls import delete_acls

    gone = delete_acls(cluster, asked(args))
    _show(args, gone, "acls.removed", f"Removed {_count(gone)}." if gone else "There was no such ACL.")
    return 0


def _list(cluster: Any, args: argparse.Namespace) -> int:
    from barnabas.client.admin.acls import acls_of

    found = sorted({acl for wanted in filters(args) for acl in acls_of(cluster, wanted)})
    _show(args, found, "acls", "" if found else "There are no such ACLs.")
    return 0


def _count(acls: list[Any]) -> str:
    return f"{len(acls)} ACL{'' if len(acls) == 1 else 's'}"


def _show(args: argparse.Namespace, acls: list[Any], name: str, words: str) -> None:
    rows = [_words(acl) for acl in acls]
    titles = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]
    if args.json:
        print_document(name, {"acls": [dict(zip(titles, row, strict=True)) for row in rows]})
        return
    if rows:
        print_rows(titles, rows)
    if words:
        print(words)


def _words(acl: Any) -> list[str]:
    from barnabas.security.acl import Operation, PatternType, Permission, ResourceType

    return [
        ResourceType(acl.resource).name.lower(),
        acl.name,
        PatternType(acl.pattern).name.lower(),
        acl.principal,
        acl.host,
        word(Operation(acl.operation)),
        Permission(acl.permission).name.lower(),
    ]


def _check(cluster: Any, args: argparse.Namespace) -> int:
    """Decide here, by the ACLs and settings that the cluster tells, and name the rule."""
    from barnabas.client.admin.acls import acls_of
    from barnabas.security.acl import Acl
    from barnabas.security.authorizer import StandardAuthorizer
    from barnabas.settings.coordinator_topics import is_ours
    from barnabas.settings.table_access import super_users

    named = resources(args)
    if len(named) != 1 or len(args.principal) != 1:
        raise ConfigError(
            "check answers about one principal and one resource",
            next_step="for example --principal User:alice --operation Read --topic orders",
        )
    (kind, name), (principal,) = named[0], args.principal
    operation = operation_named(args.operation)
    settings = _settings(cluster)
    authorizer = StandardAuthorizer(
        super_users(settings.get("super.users") or ""),
        allow_everyone=settings.get("allow.everyone.if.no.acl.found") == "true",
    )
    authorizer.loaded = True
    for number, acl in enumerate(acls_of(cluster)):
        authorizer.put(
            number,
            Acl(
                acl.resource,
                acl.name or "",
                acl.pattern,
                acl.principal or "",
                acl.host or "",
                acl.operation,
                acl.permission,
            ),
        )
    decision = authorizer.decide(principal, args.host, operation, kind, name)
    rule = str(decision)
    if not decision.allowed and settings.get("super.users", "") is None and not is_ours(settings):
        rule += f"; unless {principal} is one of super.users, which Apache Kafka shows nobody"
    if args.json:
        content = {"allowed": decision.allowed, "rule": rule, "acl": decision.acl is not None}
        print_document("acls.checked", content)
        return 0
    print(f"{principal} {'may' if decision.allowed else 'may not'}: {rule}")
    if not decision.allowed and decision.acl is None:
        from barnabas.security.refusals import command_that_allows

        print(f"  next: {command_that_allows(principal, operation, kind, name)}")
    return 0


def _settings(cluster: Any) -> dict[str, str | None]:
    """Return the settings of one broker.  Raises KafkaError for somebody who may not see them."""
    from barnabas.errors import ErrorCode, KafkaError
    from barnabas.wire.broker_settings import request_of, values_of

    broker = cluster.brokers()[0].id
    told = values_of(cluster.connection(broker).request(request_of(broker)))
    if not told:
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "you may not see the settings of the cluster, so nobody can say who its super users are",
            next_step="ask as somebody with DescribeConfigs on the cluster (--command-config)",
        )
    return told


def _why(cluster: Any, args: argparse.Namespace) -> int:
    import time

    from barnabas.client.admin.acls import refusals_of, refusals_of_controllers
    from barnabas.security.acl import Operation, ResourceType
    from barnabas.security.refusals import command_that_allows
    from barnabas.wire.registry import API_NAMES

    if args.bootstrap_controller:
        refused = refusals_of_controllers(cluster)
    else:
        refused = refusals_of(cluster)
    found = [one for one in refused if args.principal in (None, one.principal)]
    if args.json:
        rows = [
            {
                **one._asdict(),
                "operation": word(Operation(one.operation)),
                "resource": ResourceType(one.resource).name.lower(),
                "api": API_NAMES.get(one.api, one.api),
                "next": command_that_allows(one.principal, one.operation, one.resource, one.name),
            }
            for one in found
        ]
        print_document("acls.refusals", {"refusals": rows})
        return 0
    if not found:
        print("Nobody was refused anything since the nodes started.")
    for one in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(one.last_ms / 1000))
        what = f"{word(Operation(one.operation))} on {ResourceType(one.resource).name.lower()} {one.name}"
        print(f"{when}Z  node {one.node}: {one.principal} from {one.host}: {what}")
        often = "once" if one.times == 1 else f"{one.times} times"
        print(f"  {API_NAMES.get(one.api, one.api)}, {often}; {one.rule}")
        print(f"  next: {command_that_allows(one.principal, one.operation, one.resource, one.name)}")
    return 0
