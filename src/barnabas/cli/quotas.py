"""Quotas: how much a user, a client id or an address may use.

barnabas quotas list                                          all of them
barnabas quotas list --user alice                             those that name alice
barnabas quotas set --user alice producer_byte_rate=1048576   bytes a second, for all her clients together
barnabas quotas set --default-user --client-id etl consumer_byte_rate=5e6
barnabas quotas set --default-ip connection_creation_rate=20
barnabas quotas delete --user alice producer_byte_rate        no limit any more
"""

from __future__ import annotations

import argparse
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "run"]

_TYPES = ("user", "client-id", "ip")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quotas`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|set|delete")
    lists = verbs.add_parser("list", help="quotas by entity: barnabas quotas list --user alice")
    sets = verbs.add_parser("set", help="limit: barnabas quotas set --user alice producer_byte_rate=1048576")
    deletes = verbs.add_parser(
        "delete", help="limit no more: barnabas quotas delete --user alice producer_byte_rate"
    )
    for verb in (lists, sets, deletes):
        for kind in _TYPES:
            one = verb.add_mutually_exclusive_group()
            one.add_argument(f"--{kind}", dest=kind, metavar="NAME", help=f"this {kind}")
            one.add_argument(
                f"--default-{kind}",
                dest=f"default {kind}",
                action="store_true",
                help=f"every {kind} without a quota of its own",
            )
    sets.add_argument("quotas", nargs="+", metavar="QUOTA=NUMBER")
    deletes.add_argument("quotas", nargs="+", metavar="QUOTA")
    for verb in (sets, deletes):
        verb.add_argument("--dry-run", action="store_true", help="only ask whether it would be done")
    for verb in (lists, sets, deletes):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas quotas list|set|delete`."""
    from barnabas.client.admin.quotas import alter_quotas
    from barnabas.client.cluster import Cluster

    given = vars(args)
    entity: dict[str, str | None] = {
        kind: given[kind] for kind in _TYPES if given[kind] is not None or given[f"default {kind}"]
    }
    if args.verb != "list" and not entity:
        raise ConfigError("say whom the quota limits", next_step="for example --user alice or --default-user")
    change = _numbers(args.quotas) if args.verb == "set" else {}
    remove = args.quotas if args.verb == "delete" else []
    cluster = Cluster(
        args.bootstrap_server, client_id="barnabas-quotas", timeout=args.timeout, security=security_of(args)
    )
    try:
        if args.verb == "list":
            _list(cluster, args, entity)
            return 0
        alter_quotas(cluster, entity, change, remove=remove, validate_only=args.dry_run)
    finally:
        cluster.close()
    if args.json:
        content = {"entity": entity, "set": change, "deleted": remove, "dry_run": args.dry_run}
        print_document("quotas.changed", content)
    else:
        print(f"{'Could change' if args.dry_run else 'Changed'} the quotas of {_named(entity)}.")
    return 0


def _list(cluster: Any, args: argparse.Namespace, entity: dict[str, str | None]) -> None:
    from barnabas.client.admin.quotas import quotas_of

    found = quotas_of(cluster, entity)
    if args.json:
        print_document("quotas", {"quotas": [one._asdict() for one in found]})
        return
    print_rows(
        ["entity", "quota", "per_second"],
        [
            [_named(one.entity), quota, f"{value:.15g}"]
            for one in found
            for quota, value in sorted(one.quotas.items())
        ],
    )


def _named(entity: dict[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {'(default)' if entity[kind] is None else entity[kind]}" for kind in _TYPES if kind in entity
    )


def _numbers(pairs: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for pair in pairs:
        quota, _, number = pair.partition("=")
        try:
            found[quota] = float(number)
        except ValueError:
            raise ConfigError(
                f"{pair} sets no quota",
                next_step="write QUOTA=NUMBER, for example producer_byte_rate=1048576",
            ) from None
    return found
