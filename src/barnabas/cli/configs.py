"""Settings of topics, brokers, groups and telemetry subscriptions, as the cluster knows them.

barnabas configs list group                         the groups that have settings of their own
barnabas configs show topic orders                  what was set, and where it comes from
barnabas configs show broker 1 --all                defaults too
barnabas configs set topic orders retention.ms=60000
barnabas configs reset topic orders retention.ms    back to the default
barnabas configs set group etl consumer.session.timeout.ms=50000
barnabas configs set client-metrics all metrics=*   clients push their metrics (`barnabas telemetry`)
barnabas configs set broker-logger 1 connection=DEBUG   what node 1 writes, until it ends
"""

from __future__ import annotations

import argparse
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, show
from barnabas.cli.typed.usage import any_text

__all__ = ["add_arguments", "run"]

_KINDS = ["topic", "broker", "broker-logger", "group", "client-metrics"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas configs`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|show|set|reset")
    lists = verbs.add_parser("list", help="what has settings: barnabas configs list group")
    lists.add_argument("kind", choices=_KINDS, nargs="?", help="only of this kind")
    shows = verbs.add_parser("show", help="see settings: barnabas configs show topic orders")
    sets = verbs.add_parser("set", help="change some: barnabas configs set topic orders retention.ms=60000")
    resets = verbs.add_parser(
        "reset", help="back to the default: barnabas configs reset topic orders retention.ms"
    )
    for verb in (shows, sets, resets):
        verb.add_argument("kind", choices=_KINDS)
        verb.add_argument(
            "name",
            type=any_text,
            help='name of the topic or group, number of the broker ("" for all brokers)',
        )
    shows.add_argument("--all", action="store_true", help="also those that have their default")
    sets.add_argument("settings", nargs="+", metavar="NAME=VALUE")
    resets.add_argument("settings", nargs="+", metavar="NAME")
    for verb in (sets, resets):
        verb.add_argument("--dry-run", action="store_true", help="only ask whether it would be done")
    for verb in (lists, shows, sets, resets):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas configs list|show|set|reset`."""
    from barnabas.client.admin.admin import Admin

    with Admin(args.bootstrap_server, timeout=args.timeout, security=security_of(args)) as admin:
        if args.verb == "list":
            from barnabas.client.admin.resources import resources_of

            rows = [found._asdict() for found in resources_of(admin.cluster, args.kind)]
            show(args, "resources", rows, ["kind", "name"])
            return 0
        if args.verb == "show":
            _show(admin, args)
            return 0
        from barnabas.cli.topics import parse_settings

        change = parse_settings(args.settings) if args.verb == "set" else {}
        reset = args.settings if args.verb == "reset" else []
        admin.alter_configs(args.kind, args.name, change, reset=reset, validate_only=args.dry_run)
    if args.json:
        content = {
            "kind_of": args.kind,
            "name": args.name,
            "set": change,
            "reset": reset,
            "dry_run": args.dry_run,
        }
        print_document("configs.changed", content)
    else:
        of = f"{args.kind} {args.name}" if args.name else "all brokers"
        print(f"{'Could change' if args.dry_run else 'Changed'} settings of {of}.")
    return 0


def _show(admin: Any, args: argparse.Namespace) -> None:
    settings = [s for s in admin.configs(args.kind, args.name) if args.all or s.source != "default"]
    rows = [
        {
            "name": s.name,
            "value": "(hidden)" if s.sensitive else s.value,
            "source": s.source,
            "read_only": s.read_only,
        }
        for s in settings
    ]
    if not rows and not args.json:
        print(f"{args.kind} {args.name} has its defaults; --all shows them.")
        return
    show(args, "configs", rows, ["name", "value", "source"])
