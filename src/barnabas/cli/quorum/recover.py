"""`barnabas quorum recover`: go on when a majority of the controllers is gone for good.

On the machine of each surviving controller, stopped:      recover --config FILE --json > N.json
With all of them, where the plan is to be written:         recover --config FILE --from N.json ...
The same, and the plan is carried out:                     recover --config FILE --from N.json --execute
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.exits import Exit
from barnabas.cli.output import print_document, print_rows
from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from barnabas.raft.membership.recovery import RecoveryPlan
    from barnabas.server.node.lost_majority import Found

__all__ = ["add_arguments", "plan_lines", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quorum recover`."""
    parser.add_argument(
        "--config", action="append", default=[], metavar="FILE", help="properties of a survivor, stopped"
    )
    parser.add_argument(
        "--directory", action="append", default=[], metavar="DIR", help="or its metadata directory"
    )
    parser.add_argument(
        "--from", dest="described", action="append", default=[], metavar="JSON", help="one elsewhere (--json)"
    )
    parser.add_argument("--voters", metavar="IDS", help="only these survivors shall vote (default: all)")
    parser.add_argument("--execute", action="store_true", help="write the plan; else it is only shown")
    parser.add_argument("--yes", action="store_true", help="with --execute: do not ask")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document")


def run(args: argparse.Namespace) -> int:
    """Show the plan; with --execute write it.  1 when it was refused or not confirmed."""
    from barnabas.raft.membership.recovery import plan_recovery
    from barnabas.server.node.lost_majority import document_of

    found = _survivors(args)
    members = _members(args.voters, found)
    plan: RecoveryPlan | None = None
    refused: KafkaError | None = None
    try:
        plan = plan_recovery(tuple(one.survivor for one in found), members)
    except KafkaError as error:
        refused = error
    if args.execute and plan is not None:
        _write(args, plan, found)
    if args.json:
        document: dict[str, Any] = {"survivors": [document_of(one) for one in found]}
        document["plan"] = None if plan is None else _plan_document(plan)
        document["refused"] = None if refused is None else refused.message
        document["executed"] = bool(args.execute and plan is not None)
        print_document("quorum.recovery", document)
        return Exit.FAILED if args.execute and refused else Exit.OK
    _show(found)
    if refused is not None or plan is None:
        raise refused or AssertionError
    print("\n".join(plan_lines(plan, found, executed=args.execute)))
    return Exit.OK


def _survivors(args: argparse.Namespace) -> list[Found]:
    from barnabas.config import Config
    from barnabas.log.storage.disk import OsDisk
    from barnabas.server.loop.system import SystemClock
    from barnabas.server.node.lost_majority import found_in, read_survivor

    disk, clock = OsDisk(), SystemClock()
    found: list[Found] = []
    for file in args.config:
        from barnabas.cli.controllers import read_properties

        directory, endpoints, fixed = found_in(Config.load(read_properties(file)))
        found.append(read_survivor(disk, clock, directory, endpoints, fixed))
    found += [read_survivor(disk, clock, directory) for directory in args.directory]
    for path in args.described:
        found += _described(path)
    if not found:
        raise ConfigError(
            "there is nothing to recover from",
            next_step="give the properties of every surviving controller with --config",
        )
    clusters = sorted({one.cluster_id for one in found})
    keys = [one.survivor.voter.key for one in found]
    if len(clusters) > 1:
        raise ConfigError(f"the survivors are of different clusters: {', '.join(clusters)}")
    if len({key.id for key in keys}) < len(keys):
        raise ConfigError(f"a node id occurs twice: {', '.join(map(str, keys))}")
    return found


def _described(path: str) -> list[Found]:
    from barnabas.server.node.lost_majority import from_document

    try:
        with open(path, encoding="utf-8") as file:
            rows = list(json.load(file)["survivors"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is no description of a survivor: {error}",
            next_step="make it on that machine with `barnabas quorum recover --config FILE --json`",
        ) from error
    return [from_document(row) for row in rows]


def _members(text: str | None, found: Sequence[Found]) -> tuple[Any, ...] | None:
    if text is None:
        return None
    known = {one.survivor.voter.key.id: one.survivor.voter.key for one in found}
    try:
        wanted = list(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError as error:
        raise ConfigError(f"--voters {text}: say node ids with commas") from error
    missing = [str(id_) for id_ in wanted if id_ not in known]
    if missing:
        raise ConfigError(f"--voters {text}: {', '.join(missing)} is not among the survivors given")
    return tuple(known[id_] for id_ in wanted)


def _write(args: argparse.Namespace, plan: RecoveryPlan, found: Sequence[Found]) -> None:
    from barnabas.log.storage.disk import OsDisk
    from barnabas.server.loop.system import SystemClock
    from barnabas.server.node.lost_majority import execute

    chosen = next(one for one in found if one.survivor.voter.key == plan.chosen)
    if not chosen.directory:
        raise ConfigError(
            f"the plan is to be written on the machine of controller {plan.chosen.id}",
            next_step="run it there, with --config for it and --from for the others",
        )
    if not args.yes:
        _confirm(plan, found)
    execute(OsDisk(), SystemClock(), plan, chosen)


def _confirm(plan: RecoveryPlan, found: Sequence[Found]) -> None:
    print("\n".join(plan_lines(plan, found, executed=False)), file=sys.stderr)
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to confirm this", next_step="say --yes")
    print(f"Write this to controller {plan.chosen.id}'s log? It cannot be undone [yes/no] ", file=sys.stderr)
    if sys.stdin.readline().strip() != "yes":
        raise KeyboardInterrupt


def _show(found: Sequence[Found]) -> None:
    rows = []
    for one in found:
        survivor = one.survivor
        rows.append(
            [
                survivor.voter.key.id,
                survivor.voter.key.directory_id,
                survivor.last_epoch,
                survivor.end_offset,
                "yes" if survivor.voters.has(survivor.voter.key) else "no",
                str(survivor.voters),
                max(survivor.generation, survivor.saved.generation),
            ]
        )
    print_rows(["id", "directory", "last_epoch", "records", "voter", "of_voters", "incarnation"], rows)


def plan_lines(plan: RecoveryPlan, found: Sequence[Found], *, executed: bool) -> list[str]:
    """The plan in words, and what is to be done next."""
    keys = ", ".join(str(voter.key) for voter in plan.voters)
    first, rest = plan.chosen.id, [voter.key.id for voter in plan.voters if voter.key != plan.chosen]
    lines = [
        "",
        f"Controller {first} has the most: the quorum {'goes' if executed else 'would go'} on from its log.",
        f"New voters: {keys}.",
        f"Incarnation {plan.generation} of the quorum, from epoch {plan.epoch} on.",
    ]
    lines.append("What may be lost:" if plan.lost else "No committed record can be lost.")
    lines += [f"  - {sentence}" for sentence in plan.lost]
    lines.append("")
    if not executed:
        return [*lines, "Nothing is written yet: --execute does it. Copy the directories first."]
    lines.append(
        f"Written. Start controller {first}" + (f", then {', '.join(map(str, rest))}." if rest else ".")
    )
    lines += [
        "All of them need controller.quorum.bootstrap.servers and must not have controller.quorum.voters.",
        "Lost nodes that come back with their old disks are refused: format those anew, then add them.",
    ]
    return lines


def _plan_document(plan: RecoveryPlan) -> dict[str, Any]:
    return {
        "chosen": {"id": plan.chosen.id, "directory_id": str(plan.chosen.directory_id)},
        "voters": [{"id": v.key.id, "directory_id": str(v.key.directory_id)} for v in plan.voters],
        "epoch": plan.epoch,
        "incarnation": plan.generation,
        "lost": list(plan.lost),
    }
