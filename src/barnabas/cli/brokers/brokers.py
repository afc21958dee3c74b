"""Brokers: see them, give new ones their share, empty those that shall go.

barnabas brokers list                            state, replicas, leaders, bytes of each
barnabas brokers describe 3                      its address, disks, what it carries, whether it may stop
barnabas brokers add 4 5 --wait                  4 and 5, which run, get their share; nothing else moves
barnabas brokers drain 1 --wait                  cordon 1, move all away, make it no voter, say when to stop it
barnabas brokers remove 1                        the same as drain; afterwards stop it and unregister it
barnabas brokers unregister 1                    forget it, once it is stopped and carries nothing

A drained broker is cordoned (KIP-1066): it gets no new replicas until `barnabas brokers add` lifts that.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.cli.brokers.drain import CORDON, drain
from barnabas.cli.brokers.placement import Placement, size_text
from barnabas.cli.brokers.rebalance import add_move_flags, carry_out, request_timeout
from barnabas.cli.brokers.unregister import add_unregister_flags, unregister
from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, show
from barnabas.cli.typed.numbers import node_id

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas brokers`."""
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="list|describe|add|drain|remove|unregister"
    )
    add_cluster_flags(verbs.add_parser("list", help="all brokers: barnabas brokers list"))
    describe = verbs.add_parser("describe", help="one broker: barnabas brokers describe 3")
    describe.add_argument("id", type=node_id, metavar="ID", help="its node.id")
    add_cluster_flags(describe)
    add = verbs.add_parser("add", help="give brokers that run their share, lift their cordon")
    add.add_argument("ids", nargs="+", type=node_id, metavar="ID", help="node.id")
    add_move_flags(add)
    for name in ("drain", "remove"):
        verb = verbs.add_parser(
            name, help=f"empty a broker so that it may stop: barnabas brokers {name} 1 --wait"
        )
        verb.add_argument("id", type=node_id, metavar="ID", help="its node.id")
        verb.add_argument(
            "--keep-voter", action="store_true", help="a combined node stays a voter of the quorum"
        )
        add_move_flags(verb)
    forget = verbs.add_parser("unregister", help="forget a broker that is stopped and carries nothing")
    forget.add_argument("id", type=node_id, metavar="ID", help="its node.id")
    add_unregister_flags(forget)
    add_cluster_flags(forget)


def run(args: argparse.Namespace) -> int:
    """`barnabas brokers list|describe|add|drain|remove|unregister`."""
    from barnabas.client.admin.admin import Admin

    with Admin(args.bootstrap_server, timeout=request_timeout(args), security=security_of(args)) as admin:
        verbs: dict[str, Any] = {
            "list": _list,
            "describe": _describe,
            "add": _add,
            "drain": drain,
            "remove": drain,
            "unregister": partial(unregister, document="brokers.unregistered"),
        }
        return int(verbs[args.verb](admin, args) or 0)


def _rows(look: Placement) -> list[dict[str, Any]]:
    held, led = look.counts()
    rows = []
    for broker in sorted(look.brokers.keys() | held.keys()):
        known, dirs = look.brokers.get(broker), look.dirs.get(broker)
        rows.append(
            {
                "id": broker,
                "address": known.address if known else None,
                "rack": known.rack if known else None,
                "state": look.state(broker),
                "replicas": held[broker],
                "preferred": led[broker],
                "bytes": sum(dirs.sizes().values()) if dirs else -1,
                "free": dirs.usable_bytes if dirs else -1,
            }
        )
    return rows


def _list(admin: Admin, args: argparse.Namespace) -> None:
    rows = _rows(Placement.of(admin))
    if not args.json:
        for row in rows:
            row.update(bytes=size_text(row["bytes"]), free=size_text(row["free"]))
    columns = ["id", "address", "rack", "state", "replicas", "preferred", "bytes", "free"]
    show(args, "brokers", rows, columns)


def _describe(admin: Admin, args: argparse.Namespace) -> None:
    look = Placement.of(admin)
    row = next((row for row in _rows(look) if row["id"] == args.id), None)
    if row is None:
        raise look.unknown(args.id)
    dirs = look.dirs.get(args.id)
    quorum = admin.quorum()
    voter = any(replica.id == args.id for replica in quorum.voters)
    in_sync_alone = [
        f"{topic.name}-{p.partition}"
        for topic in admin.topics(internal=True)
        for p in topic.partitions.values()
        if p.isr == (args.id,) and len(p.replicas) > 1
    ]
    content = {
        **row,
        "voter": voter,
        "quorum_leader": quorum.leader == args.id,
        "directories": list(dirs.paths) if dirs else [],
        "cordoned": list(dirs.cordoned) if dirs else [],
        "offline": list(dirs.offline) if dirs else [],
        "in_sync_alone": in_sync_alone,
    }
    if args.json:
        print_document("broker", {"broker": content})
        return
    print(f"broker {args.id}  {row['state']}  {row['address'] or 'no address'}  rack {row['rack'] or '-'}")
    role = (
        "leader of the quorum"
        if content["quorum_leader"]
        else "a voter of the quorum"
        if voter
        else "no voter"
    )
    print(f"  carries    {row['replicas']} replicas, {row['preferred']} of them preferred leaders, "
          f"{size_text(row['bytes'])}")  # fmt: skip
    print(f"  quorum     {role}")
    for path in content["directories"]:
        marks = [word for word in ("cordoned", "offline") if path in content[word]]
        print(f"  directory  {path}{'  ' + ', '.join(marks) if marks else ''}")
    if in_sync_alone:
        print(f"  the only one in sync of {len(in_sync_alone)}: {', '.join(in_sync_alone[:5])}")
        print("  next: do not stop it before others are in sync; `barnabas topics describe` shows who lags")
    elif not row["replicas"] and not voter:
        print(f"  It carries nothing: stop it, then `barnabas brokers unregister {args.id}`.")


def _add(admin: Admin, args: argparse.Namespace) -> int:
    look = Placement.of(admin)
    look.check_serving(args.ids)
    cordoned = sorted(look.cordoned & set(args.ids))
    carrying = {one for replicas in look.replicas.values() for one in replicas}
    staying = [one for one in look.targets() if one in carrying]
    plan = look.spread_over(sorted({*staying, *args.ids}))
    look.check_room(plan)
    if not args.dry_run:
        for broker in cordoned:
            admin.alter_configs("broker", str(broker), reset=[CORDON])
    if cordoned and not args.json:
        word = "Would lift" if args.dry_run else "Lifted"
        print(f"{word} the cordon of broker {', '.join(map(str, cordoned))}.")
    again = f"barnabas brokers add {' '.join(map(str, args.ids))}"
    return carry_out(admin, args, look, plan, again=again)
