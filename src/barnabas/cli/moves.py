"""What the commands that move partitions share: read and print plans, carry them out, watch them.

A plan file is Apache Kafka's: {"version": 1, "partitions": [{"topic": ..., "partition": ..., "replicas": [...]}]},
so plans of `kafka-reassign-partitions --generate` are taken, and ours are taken there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.output import print_document, print_rows
from barnabas.cli.typed.plain import terminal
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.moves import Move

__all__ = [
    "add_plan_flags",
    "await_seen",
    "carry_out",
    "ids",
    "no_broker",
    "placed",
    "plan_text",
    "read_plan",
    "show_moves",
    "watch",
]

Plan = dict[TopicPartition, list[NodeId]]
_LOOK_EVERY = 0.3
SEEN_S = 10.0


def add_plan_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of a command that has a plan."""
    parser.add_argument("--execute", action="store_true", help="do it; without this the plan is only shown")
    parser.add_argument("--wait", action="store_true", help="with --execute: show progress until it is done")
    parser.add_argument("--save", metavar="FILE", help="write the plan, and what undoes it to FILE.undo")


def ids(numbers: Iterable[NodeId]) -> str:
    return ",".join(map(str, numbers))


def no_broker(broker: NodeId, known: Iterable[NodeId]) -> KafkaError:
    """The error of a command about a broker that nobody registered."""
    return KafkaError(
        ErrorCode.RESOURCE_NOT_FOUND,
        f"there is no broker {broker}; there are {', '.join(map(str, sorted(known))) or 'none'}",
        next_step="`barnabas brokers list` shows them",
    )


def placed(admin: Admin, topics: Sequence[str] = ()) -> Plan:
    """The target replicas of every partition of these topics (none named: of all).

    The controller says what moves, a broker where partitions are, and the broker may hear of a move's end later:
    what moved at the first look or at the last counts as where it was going.
    """
    moving = admin.moves()
    found = [admin.describe_topic(name) for name in topics] or admin.topics(internal=True)
    replicas = {
        TopicPartition(topic.name, p.partition): list(p.replicas)
        for topic in found
        for p in topic.partitions.values()
    }
    for move in (*moving, *admin.moves()):
        where = TopicPartition(move.topic, move.partition)
        if where in replicas:
            replicas[where] = list(move.target)
    return replicas


def await_seen(admin: Admin, targets: Mapping[TopicPartition, Sequence[NodeId]]) -> None:
    """Wait until brokers, too, say that these moves ended; who looks next would plan from what is over.

    Returns after `SEEN_S` all the same: somebody may have moved them on, or deleted the topic.
    """
    deadline = time.monotonic() + SEEN_S
    while time.monotonic() < deadline:
        now = placed(admin)
        if all(now.get(where) == list(replicas) for where, replicas in targets.items()):
            return
        time.sleep(_LOOK_EVERY)


# Plans as files.


def plan_text(plan: Mapping[TopicPartition, Sequence[NodeId]]) -> str:
    """A plan in Kafka's format."""
    rows = [
        {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
        for where, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": rows}, indent=1) + "\n"


def read_plan(path: str) -> Plan:
    """A plan out of a file; "-" is standard input.  Raises ConfigError."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        rows = json.loads(text)["partitions"]
        plan = {
            TopicPartition(str(row["topic"]), int(row["partition"])): [int(b) for b in row["replicas"]]
            for row in rows
        }
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} holds no plan: {error}",
            next_step='write {"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}',
        ) from error
    if len(plan) != len(rows):
        raise ConfigError(f"{path} names a partition more than once")
    return plan


def _save(path: str, plan: Plan, before: Plan) -> None:
    try:
        Path(path).write_text(plan_text(plan), encoding="utf-8")
        Path(path + ".undo").write_text(plan_text({where: before[where] for where in plan}), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


# Showing and doing them.


def carry_out(admin: Admin, args: argparse.Namespace, plan: Plan, before: Plan) -> int:
    """Show a plan; with --execute begin it, with --wait watch it to its end.  The exit code."""
    from barnabas.client.balance import copies

    unknown = [where for where in plan if where not in before]
    if unknown:
        raise ConfigError(f"there is no partition {unknown[0].topic}-{unknown[0].partition}")
    plan = {where: replicas for where, replicas in plan.items() if before[where] != replicas}
    _check_replicas(admin, plan, before)
    if args.save:
        _save(args.save, plan, before)
    refused: Mapping[TopicPartition, KafkaError] = {}
    if args.execute and plan:
        refused = admin.move(plan)
    if args.json:
        _document(args, plan, before, refused)
    else:
        _table(plan, before, refused)
        copied = copies(before, plan)
        moved = f"{len(plan)} {'partition' if len(plan) == 1 else 'partitions'}"
        data = f"{copied} {'replica' if copied == 1 else 'replicas'} to copy"
        if not plan:
            print("Nothing has to move.")
        elif args.execute:
            print(
                f"Began: {moved}, {data}." if not refused else f"Began, with {len(refused)} refused: {moved}."
            )
        else:
            print(f"A plan: {moved}, {data}. Add --execute to do it.")
    if args.execute and args.wait and plan:
        begun = {where: replicas for where, replicas in plan.items() if where not in refused}
        watch(admin, list(begun), quiet=args.json)
        await_seen(admin, begun)
    return 1 if refused else 0


def _check_replicas(admin: Admin, plan: Plan, before: Plan) -> None:
    """Raises KafkaError for a new replica on a broker that does not exist, ConfigError for one named twice."""
    known = {broker.id for broker in admin.describe_cluster(fenced=True).brokers}
    for where, replicas in sorted(plan.items()):
        if missing := set(replicas) - known - set(before[where]):
            raise no_broker(min(missing), known)
        if len(set(replicas)) < len(replicas):
            raise ConfigError(
                f"the replicas {ids(replicas)} of {where.topic}-{where.partition} name a broker twice",
                next_step=f"name each broker once, of {ids(sorted(known))}",
            )


def _document(
    args: argparse.Namespace, plan: Plan, before: Plan, refused: Mapping[TopicPartition, KafkaError]
) -> None:
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "before": before[where],
            "replicas": replicas,
            "error": refused[where].code.name if where in refused else None,
        }
        for where, replicas in sorted(plan.items())
    ]
    print_document("topics.reassigned", {"reassigned": rows, "executed": args.execute})


def _table(plan: Plan, before: Plan, refused: Mapping[TopicPartition, KafkaError]) -> None:
    if plan:
        columns = ["topic", "partition", "replicas", "becomes", *(["refused"] if refused else [])]
        print_rows(
            columns,
            [
                [
                    where.topic,
                    where.partition,
                    ids(before[where]),
                    ids(replicas),
                    *([refused[where].code.name if where in refused else ""] if refused else []),
                ]
                for where, replicas in sorted(plan.items())
            ],
        )


def show_moves(args: argparse.Namespace, found: Sequence[Move]) -> None:
    """What moves now."""
    if args.json:
        rows: list[dict[str, Any]] = [
            {
                **move._asdict(),
                "replicas": list(move.target),
                "adding": list(move.adding),
                "removing": list(move.removing),
            }
            for move in found
        ]
        print_document("topics.moving", {"moving": rows})
    elif found:
        print_rows(
            ["topic", "partition", "replicas", "to_come", "to_go"],
            [
                [move.topic, move.partition, ids(move.target), ids(move.adding), ids(move.removing)]
                for move in found
            ],
        )
    else:
        print("Nothing moves.")


def watch(admin: Admin, partitions: Sequence[TopicPartition], *, quiet: bool) -> None:
    """Wait until none of these partitions moves any more; a bar on a terminal, a line now and then elsewhere."""
    wanted, total = set(partitions), len(partitions)

    def left() -> int:
        return sum(TopicPartition(m.topic, m.partition) in wanted for m in admin.moves())

    if quiet or not sys.stdout.isatty():
        told = -1
        while (count := left()) > 0:
            if not quiet and count != told:
                print(f"{total - count} of {total} moved", flush=True)
                told = count
            time.sleep(_LOOK_EVERY)
        if not quiet:
            print(f"{total} of {total} moved")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("moving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=terminal())) as progress:
        bar = progress.add_task("moving", total=total)
        while (count := left()) > 0:
            progress.update(bar, completed=total - count)
            time.sleep(_LOOK_EVERY)
        progress.update(bar, completed=total)
