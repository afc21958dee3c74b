"""Consumer groups: who reads what, how far they are, where they continue.

barnabas groups list
barnabas groups describe billing                     partitions, offsets, lag, members
barnabas groups reset billing --topic orders --to earliest            shows what it would set
barnabas groups reset billing --topic orders --to earliest --execute  sets it
barnabas groups delete billing
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows, show
from barnabas.errors import ConfigError
from barnabas.model import TopicPartition

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas groups`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|describe|reset|delete")
    lists = verbs.add_parser("list", help="all groups: barnabas groups list")
    describe = verbs.add_parser("describe", help="offsets and lag: barnabas groups describe billing")
    describe.add_argument("group")
    describe.add_argument("--members", action="store_true", help="members instead of partitions")
    reset = verbs.add_parser(
        "reset", help="go on elsewhere: barnabas groups reset billing --to earliest --execute"
    )
    reset.add_argument("group")
    reset.add_argument(
        "--topic", action="append", metavar="TOPIC", help="only this one (default: all it read)"
    )
    reset.add_argument("--to", required=True, metavar="WHERE", help="earliest, latest, an offset, or time:MS")
    reset.add_argument(
        "--execute", action="store_true", help="set the offsets; without it they are only shown"
    )
    reset.add_argument("--dry-run", action="store_true", help="only show, even with --execute")
    delete = verbs.add_parser("delete", help="with its offsets: barnabas groups delete billing")
    delete.add_argument("groups", nargs="+", metavar="group")
    for verb in (lists, describe, reset, delete):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas groups list|describe|reset|delete`."""
    from barnabas.client.admin.admin import Admin

    with Admin(args.bootstrap_server, timeout=args.timeout, security=security_of(args)) as admin:
        if args.verb == "list":
            rows = [group._asdict() for group in admin.groups()]
            show(args, "groups", rows, ["group", "type", "protocol", "state"])
        elif args.verb == "describe":
            _describe(admin, args)
        elif args.verb == "reset":
            _reset(admin, args)
        else:
            for group in args.groups:
                admin.delete_group(group)
                if not args.json:
                    print(f"Deleted group {group}.")
            if args.json:
                print_document("groups.deleted", {"deleted": args.groups})
    return 0


def _describe(admin: Any, args: argparse.Namespace) -> None:
    group = admin.describe_group(args.group)
    members = [
        {
            "member": m.id,
            "client": m.client_id,
            "host": m.host,
            "instance": m.instance_id,
            "partitions": " ".join(str(p) for p in m.partitions),
        }
        for m in group.members
    ]
    offsets = [
        {
            "topic": o.topic,
            "partition": o.partition,
            "committed": o.committed,
            "end": o.end,
            "lag": o.lag,
            "member": o.member.id if o.member else None,
            "host": o.member.host if o.member else None,
        }
        for o in admin.group_offsets(args.group)
    ]
    if args.json:
        about = {"group": group.group, "state": group.state, "type": group.type, "protocol": group.protocol}
        about |= {"coordinator": group.coordinator, "members": members, "offsets": offsets}
        print_document("group", {"group": about})
        return
    lag = sum(o["lag"] or 0 for o in offsets)
    print(f"group {group.group}  {group.state}  coordinator {group.coordinator}  lag {lag}")
    if args.members:
        show(args, "members", members, ["member", "client", "host", "partitions"])
    else:
        show(args, "offsets", offsets, ["topic", "partition", "committed", "end", "lag", "member", "host"])


def _reset(admin: Any, args: argparse.Namespace) -> None:
    """Show where the group would go on, and set it with --execute."""
    group = admin.describe_group(args.group)  # raises where there is none: a mistyped name makes no group
    known = {TopicPartition(o.topic, o.partition): o.committed for o in admin.group_offsets(args.group)}
    topics = args.topic or sorted({target.topic for target in known})
    chosen: dict[TopicPartition, int] = {}
    for topic in topics:
        for partition, offset in _targets(admin, topic, args.to).items():
            chosen[TopicPartition(topic, partition)] = offset
    execute = args.execute and not args.dry_run
    if execute:
        admin.set_group_offsets(args.group, chosen)
    rows = [
        {"topic": t.topic, "partition": t.partition, "committed": known.get(t), "offset": offset}
        for t, offset in sorted(chosen.items())
    ]
    if args.json:
        print_document("group.offsets", {"group": args.group, "executed": execute, "offsets": rows})
        return
    print_rows(
        ["topic", "partition", "committed", "new"],
        [[row["topic"], row["partition"], row["committed"], row["offset"]] for row in rows],
    )
    if not execute:
        members = f"stop its {len(group.members)} members first, then " if group.members else ""
        print(f"Nothing is changed yet: {members}add --execute.", file=sys.stderr)


def _targets(admin: Any, topic: str, where: str) -> dict[int, int]:
    """The offset of each partition that `where` names, within what there is."""
    first = {p: o.offset for p, o in admin.offsets(topic, "earliest").items()}
    last = {p: o.offset for p, o in admin.offsets(topic, "latest").items()}
    if where == "earliest":
        return first
    if where == "latest":
        return last
    if where.isdigit():
        return {p: min(max(int(where), first[p]), last[p]) for p in first}
    if where.startswith("time:") and where[5:].isdigit():
        found = admin.offsets(topic, int(where[5:]))
        return {p: o.offset if o.offset >= 0 else last[p] for p, o in found.items()}
    raise ConfigError(
        f"--to {where} is not a position", next_step="write earliest, latest, an offset, or time:MILLISECONDS"
    )
