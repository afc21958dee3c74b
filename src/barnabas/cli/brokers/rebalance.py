"""Give every broker its share of the replicas, moving as little as that takes.

barnabas rebalance plan                          what would move, how many bytes; nothing is done
barnabas rebalance run --throttle 20M --wait     do it, 20 MB/s for each broker, and watch
barnabas rebalance run --brokers 1,2,3           only these carry something in the end
barnabas rebalance status                        what moves now, what is left, limits that are set
barnabas rebalance cancel                        turn back what moves, remove the limits

Brokers that are fenced or cordoned keep what they have and get nothing.  A run that was interrupted goes on
when it is asked again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from barnabas.cli.brokers.moving import Watch, begin, end_throttles, ended_text, progress, wait
from barnabas.cli.brokers.placement import Placement, byte_rate, size_text
from barnabas.cli.controllers import security_of
from barnabas.cli.moves import await_seen, ids
from barnabas.cli.output import add_cluster_flags, print_document, print_rows
from barnabas.cli.typed.numbers import node_ids
from barnabas.errors import ConfigError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.cli.brokers.placement import Plan
    from barnabas.client.admin.admin import Admin

__all__ = ["add_arguments", "add_move_flags", "carry_out", "plan_rows", "request_timeout", "run"]

REQUEST_SECONDS = 30.0
MOST_ROWS = 20
"""Rows of a plan that are printed without --all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas rebalance`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="plan|run|status|cancel")
    plan = verbs.add_parser("plan", help="what would move: barnabas rebalance plan")
    run_ = verbs.add_parser("run", help="move it: barnabas rebalance run --throttle 20M --wait")
    status = verbs.add_parser("status", help="what moves now, and which limits are set")
    cancel = verbs.add_parser("cancel", help="turn back what moves and remove the limits")
    for verb in (plan, run_):
        verb.add_argument(
            "--brokers",
            type=node_ids,
            metavar="IDS",
            help="carry it all (default: all that serve, uncordoned)",
        )
        verb.add_argument("--all", action="store_true", help=f"print more than {MOST_ROWS} rows of the plan")
    plan.add_argument("--throttle", metavar="RATE", help="for the time it takes: bytes per second and broker")
    for verb in (run_, cancel):
        add_move_flags(verb, throttle=verb is run_)
    for verb in (plan, status):
        add_cluster_flags(verb)


def add_move_flags(parser: argparse.ArgumentParser, *, throttle: bool = True) -> None:
    """Flags of a command that moves partitions; `--timeout` bounds the wait, not a single request."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--wait", action="store_true", help="show progress until it is done")
    if throttle:
        parser.add_argument(
            "--throttle", metavar="RATE", help="most bytes per second and broker: 500K, 10M, 1Gi"
        )
    add_cluster_flags(parser)
    parser.set_defaults(timeout=None)
    for action in parser._actions:
        if action.dest == "timeout":
            action.help = "with --wait: how long to wait (default: until it is done)"


def run(args: argparse.Namespace) -> int:
    """`barnabas rebalance plan|run|status|cancel`."""
    from barnabas.client.admin.admin import Admin

    with Admin(args.bootstrap_server, timeout=request_timeout(args), security=security_of(args)) as admin:
        verbs: dict[str, Any] = {"plan": _plan, "run": _run, "status": _status, "cancel": _cancel}
        return int(verbs[args.verb](admin, args) or 0)


def request_timeout(args: argparse.Namespace) -> float:
    """Seconds for a single request: where `--timeout` bounds the wait for moves, 30."""
    return float(args.timeout) if args.timeout and not hasattr(args, "wait") else REQUEST_SECONDS


def _planned(admin: Admin, args: argparse.Namespace) -> tuple[Placement, Plan]:
    look = Placement.of(admin)
    brokers = args.brokers or look.targets()
    if not brokers:
        raise ConfigError(
            "no broker may take replicas: all are fenced or cordoned", next_step="`barnabas brokers list`"
        )
    look.check_serving(brokers)
    if cordoned := sorted(look.cordoned & set(brokers)):
        raise ConfigError(
            f"broker {ids(cordoned)} is cordoned",
            next_step=f"`barnabas brokers add {cordoned[0]}` lifts that",
        )
    serving = set(look.targets()) if args.brokers else set()
    return look, look.spread_over(brokers, leaving=serving - set(brokers))


def _plan(admin: Admin, args: argparse.Namespace) -> int:
    look, plan = _planned(admin, args)
    show_plan(args, look, plan, executed=False)
    if plan and not args.json:
        print("Nothing was done. `barnabas rebalance run` does it, `--throttle 20M` limits its speed.")
    return 0


def _run(admin: Admin, args: argparse.Namespace) -> int:
    look, plan = _planned(admin, args)
    return carry_out(admin, args, look, plan, again="barnabas rebalance run")


def show_plan(args: argparse.Namespace, look: Placement, plan: Plan, *, executed: bool) -> None:
    """Print a plan: rows, what it costs, or one document."""
    rate = byte_rate(args.throttle) if args.throttle else None
    cost = look.cost(plan)
    if args.json:
        if not executed:
            content = {"moves": plan_rows(look, plan), "cost": cost._asdict(), "executed": False}
            print_document("rebalance", {"rebalance": content})
        return
    if not plan:
        print("Nothing has to move.")
        return
    rows = plan_rows(look, plan)
    shown = rows if getattr(args, "all", False) else rows[:MOST_ROWS]
    print_rows(
        ["topic", "partition", "replicas", "becomes", "size"],
        [
            [r["topic"], r["partition"], ids(r["before"]), ids(r["replicas"]), size_text(r["bytes"])]
            for r in shown
        ],
    )
    if len(shown) < len(rows):
        print(f"... and {len(rows) - len(shown)} more")
    print(f"In all: {cost.text(rate)}.")


def plan_rows(look: Placement, plan: Plan) -> list[dict[str, Any]]:
    """A plan as rows: topic, partition, before, replicas, bytes of one copy."""
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "before": look.replicas[tp],
            "replicas": replicas,
            "bytes": look.sizes.get(tp, -1),
        }
        for tp, replicas in sorted(plan.items())
    ]


def carry_out(
    admin: Admin, args: argparse.Namespace, look: Placement, plan: Plan, *, again: str, document: bool = True
) -> int:
    """Show a plan, begin it, with --wait watch it (and what moved before); 1 where something was refused."""
    rate = byte_rate(args.throttle) if args.throttle else None
    say = progress(quiet=args.json)
    show_plan(args, look, plan, executed=not args.dry_run)
    if args.dry_run:
        return 0
    look.check_room(plan)
    refused = begin(admin, plan, look, rate) if plan else {}
    if not args.json:
        for tp, error in sorted(refused.items()):
            print(f"  {tp.topic}-{tp.partition} is refused: {error.message} ({error.code.name})")
    if args.wait:
        targets = {TopicPartition(m.topic, m.partition): list(m.target) for m in admin.moves()}
        targets |= {tp: replicas for tp, replicas in plan.items() if tp not in refused}
        if targets:
            wait(Watch(admin, sorted(targets), look), say, args.timeout, again)
            await_seen(admin, targets)
        if (text := ended_text(end_throttles(admin, look))) and not args.json:
            print(text)
    elif plan and not args.json:
        print(
            f"Began: {len(plan) - len(refused)} of {len(plan)}. `barnabas rebalance status` shows progress."
        )
    if args.json and document:
        content = {
            "moves": [
                {**row, "error": refused[tp].code.name if tp in refused else None}
                for row, tp in zip(plan_rows(look, plan), sorted(plan), strict=True)
            ],
            "cost": look.cost(plan)._asdict(),
            "executed": True,
            "done": args.wait and not refused,
        }
        print_document("rebalance", {"rebalance": content})
    return 1 if refused else 0


def _status(admin: Admin, args: argparse.Namespace) -> int:
    from barnabas.client.admin.throttles import throttles

    look = Placement.of(admin)
    moving = admin.moves()
    watch = Watch(admin, [TopicPartition(m.topic, m.partition) for m in moving], look)
    watch.look()
    limits = throttles(
        admin, sorted(look.brokers.keys() - look.fenced), sorted({p.topic for p in look.replicas})
    )
    if args.json:
        content = {
            "moving": [
                {
                    "topic": m.topic,
                    "partition": m.partition,
                    "to_come": list(m.adding),
                    "to_go": list(m.removing),
                }
                for m in watch.left
            ],
            "bytes_left": watch.bytes_left,
            "waits_for": watch.reason() if watch.left else None,
            "throttle": {str(broker): rate for broker, rate in limits.rates.items()},
            "throttled_topics": list(limits.topics),
        }
        print_document("rebalance.status", {"status": content})
        return 0
    if watch.left:
        print_rows(
            ["topic", "partition", "replicas", "to_come", "to_go"],
            [
                [m.topic, m.partition, ids(m.target), ids(m.adding), ids(m.removing)]
                for m in watch.left[:MOST_ROWS]
            ],
        )
        print(f"{len(watch.left)} partitions move, {size_text(watch.bytes_left)} left; {watch.reason()}.")
    else:
        print("Nothing moves.")
    if limits:
        rates = ", ".join(f"{broker}: {size_text(rate)}/s" for broker, rate in sorted(limits.rates.items()))
        print(f"Limits of speed: {rates or 'none'}; topics with throttled replicas: {len(limits.topics)}.")
        if not watch.left:
            print("  next: a run that was interrupted left them; `barnabas rebalance cancel` removes them")
    return 0


def _cancel(admin: Admin, args: argparse.Namespace) -> int:
    found = admin.moves()
    tps: dict[TopicPartition, list[NodeId] | None] = {
        TopicPartition(m.topic, m.partition): None for m in found
    }
    refused = {} if args.dry_run or not tps else admin.move(tps)
    left = [tp for tp in tps if tp not in refused]
    look = Placement.of(admin)
    ended = None
    if not args.dry_run:
        if args.wait and left:
            wait(
                Watch(admin, left, look), progress(quiet=args.json), args.timeout, "barnabas rebalance cancel"
            )
        ended = end_throttles(admin, look)
    if args.json:
        content = {"turned_back": len(left), "refused": len(refused), "throttles_removed": bool(ended)}
        print_document("rebalance.cancelled", {"cancelled": {**content, "dry_run": args.dry_run}})
        return 1 if refused else 0
    for tp, error in sorted(refused.items()):
        print(f"{tp.topic}-{tp.partition} goes on: {error.message} ({error.code.name})")
    did = "Would turn back" if args.dry_run else "Turned back"
    print(f"{did}: {len(left)} of {len(tps)}." if tps else "Nothing moves.")
    if ended is not None and (text := ended_text(ended)):
        print(text)
    return 1 if refused else 0
