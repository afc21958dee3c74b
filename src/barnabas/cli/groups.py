"""Consumer groups: who reads what, how far they are, where they continue.

barnabas groups list
barnabas groups describe billing                     partitions, offsets, lag, members
barnabas groups reset billing --topic orders --to earliest            shows what it would set
barnabas groups reset billing --topic orders --to earliest --execute  sets it
barnabas groups delete-offsets billing --topic orders                 it no longer counts what it read there
barnabas groups delete billing
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows, show
from barnabas.cli.typed.places import WORDS, place
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas groups`."""
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="list|describe|reset|delete-offsets|delete"
    )
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
    reset.add_argument("--to", required=True, metavar="WHERE", help=WORDS)
    reset.add_argument(
        "--execute", action="store_true", help="set the offsets; without it they are only shown"
    )
    reset.add_argument("--dry-run", action="store_true", help="only show, even with --execute")
    delete = verbs.add_parser("delete", help="with its offsets: barnabas groups delete billing")
    delete.add_argument("groups", nargs="+", metavar="group")
    forget = verbs.add_parser(
        "delete-offsets",
        help="of topics it no longer reads: barnabas groups delete-offsets billing --topic t",
    )
    forget.add_argument("group")
    forget.add_argument("--topic", action="append", required=True, metavar="TOPIC", help="may be repeated")
    for verb in (lists, describe, reset, forget, delete):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas groups list|describe|reset|delete-offsets|delete`."""
    from barnabas.client.admin.admin import Admin

    with Admin(args.bootstrap_server, timeout=args.timeout, security=security_of(args)) as admin:
        if args.verb == "list":
            rows = [group._asdict() for group in admin.groups()]
            show(args, "groups", rows, ["group", "type", "protocol", "state"])
        elif args.verb == "describe":
            _describe(admin, args)
        elif args.verb == "reset":
            _reset(admin, args)
        elif args.verb == "delete-offsets":
            _delete_offsets(admin, args)
        else:
            names = list(dict.fromkeys(args.groups))
            for name in names:
                admin.delete_group(name)
                if not args.json:
                    print(f"Deleted group {name}.")
            if args.json:
                print_document("groups.deleted", {"deleted": names})
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


def _delete_offsets(admin: Any, args: argparse.Namespace) -> None:
    """Forget what the group has committed in some topics."""
    known = {
        TopicPartition(o.topic, o.partition)
        for o in admin.group_offsets(args.group)
        if o.committed is not None
    }
    chosen = sorted(target for target in known if target.topic in args.topic)
    if missing := sorted(set(args.topic) - {target.topic for target in chosen}):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"group {args.group} has committed nothing in {', '.join(missing)}",
            next_step=f"`barnabas groups describe {args.group}` shows where it has",
        )
    admin.delete_group_offsets(args.group, chosen)
    if args.json:
        rows = [target._asdict() for target in chosen]
        print_document("group.offsets-deleted", {"group": args.group, "deleted": rows})
        return
    print(f"Deleted what group {args.group} had committed in {', '.join(map(str, chosen))}.")


def _targets(admin: Any, topic: str, where: str) -> dict[int, int]:
    """The offset of each partition that `where` names, within what there is."""
    first = {p: o.offset for p, o in admin.offsets(topic, "earliest").items()}
    last = {p: o.offset for p, o in admin.offsets(topic, "latest").items()}
    wanted = place(where, "--to")
    if wanted.end is not None:
        return first if wanted.end == "earliest" else last
    if wanted.time_ms is not None:
        found = admin.offsets(topic, wanted.time_ms)
        return {p: o.offset if o.offset >= 0 else last[p] for p, o in found.items()}
    if wanted.last is not None:
        return {p: max(first[p], last[p] - wanted.last) for p in first}
    assert wanted.offset is not None
    return {p: min(max(wanted.offset, first[p]), last[p]) for p in first}
