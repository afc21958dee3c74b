"""`barnabas quorum recover`: go on when a majority of the controllers is gone for good.

On the machine of each node that is left, stopped:      recover plan --config FILE --json > N.json
With all of them, where it is to be written:            recover plan --config FILE --from N.json ...
The same words, and the hash that the plan showed:      recover apply --config FILE --from N.json ... --plan HASH
Before the nodes start again:                           recover verify --config FILE --from N.json ...

Brokers have copies of the metadata log, too: give them all.  If a broker's log has the most, it is copied to a
controller, whose own is kept beside its directory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.exits import Exit
from barnabas.cli.output import print_document, print_rows, show
from barnabas.cli.typed.confirm import confirm
from barnabas.cli.typed.numbers import node_ids
from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from barnabas.raft.membership.recovery import RecoveryPlan, Survivor
    from barnabas.server.node.lost_majority import Found

__all__ = ["add_arguments", "plan_lines", "run"]

STEPS = ("plan", "apply", "verify")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quorum recover`."""
    parser.add_argument(
        "step", nargs="?", choices=STEPS, default="plan", metavar="plan|apply|verify", help="default: plan"
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="properties of a node that is left, stopped",
    )
    parser.add_argument(
        "--directory", action="append", default=[], metavar="DIR", help="or its metadata directory"
    )
    parser.add_argument(
        "--from", dest="described", action="append", default=[], metavar="JSON", help="one elsewhere (--json)"
    )
    parser.add_argument(
        "--voters", type=node_ids, metavar="IDS", help="only these survivors shall vote (default: all)"
    )
    parser.add_argument("--plan", metavar="HASH", help="with apply: of the plan that was shown, and no other")
    parser.add_argument("--execute", action="store_true", help="the same as apply, without the hash")
    parser.add_argument("--yes", action="store_true", help="with apply: do not ask")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document")


def run(args: argparse.Namespace) -> int:
    """Show the plan, write it, or look at what came of it.  1 when it was refused, or verified as bad."""
    from barnabas.raft.membership.recovery import plan_recovery
    from barnabas.server.node.lost_majority import document_of, plan_hash

    writes = args.execute or args.step == "apply"
    if args.step == "apply" and not args.plan:
        raise ConfigError(
            "apply needs the hash of the plan",
            next_step="`barnabas quorum recover plan`, and the same words, shows it",
        )
    found = _survivors(args)
    if args.step == "verify":
        return _verify(args, found)
    members = _members(args.voters, found)
    plan: RecoveryPlan | None = None
    refused: KafkaError | None = None
    try:
        plan = plan_recovery(tuple(one.survivor for one in found), members)
    except KafkaError as error:
        refused = error
    hash_ = "" if plan is None else plan_hash(plan, found)
    if args.plan and plan is not None and args.plan != hash_:
        raise ConfigError(
            f"the plan is another one now: {hash_}, not {args.plan}",
            next_step="a log or the words changed since it was shown: plan again, and read it again",
        )
    if writes and plan is not None:
        _write(args, plan, found)
    if args.json:
        document: dict[str, Any] = {"survivors": [document_of(one) for one in found]}
        document["plan"] = None if plan is None else _plan_document(plan)
        document["refused"] = None if refused is None else refused.message
        document["hash"] = hash_ or None
        document["executed"] = bool(writes and plan is not None)
        print_document("quorum.recovery", document)
        return Exit.FAILED if writes and refused else Exit.OK
    _show(found)
    if refused is not None or plan is None:
        raise refused or AssertionError
    print("\n".join(plan_lines(plan, found, executed=writes)))
    if not writes:
        print(
            f"Plan {hash_}: `barnabas quorum recover apply ... --plan {hash_}` with the same words writes it."
        )
    return Exit.OK


def _verify(args: argparse.Namespace, found: Sequence[Found]) -> int:
    """What each directory is now; 1 where one must not start as it is."""
    from barnabas.server.node.lost_majority import verify

    verdicts = verify(found)
    rows = [
        {
            "id": one.found.survivor.voter.key.id,
            "incarnation": one.found.survivor.generation,
            "last_epoch": one.found.survivor.last_epoch,
            "records": one.found.survivor.end_offset,
            "ok": "yes" if one.is_good else "no",
            "says": one.says,
        }
        for one in verdicts
    ]
    show(args, "directories", rows, ["id", "incarnation", "last_epoch", "records", "ok", "says"])
    return Exit.OK if all(one.is_good for one in verdicts) else Exit.FAILED


def _survivors(args: argparse.Namespace) -> list[Found]:
    from barnabas.config import Config
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock
    from barnabas.server.node.lost_majority import found_in, read_survivor

    disk, clock = OsDisk(), SystemClock()
    found: list[Found] = []
    for file in args.config:
        from barnabas.cli.controllers import read_properties

        config = Config.load(read_properties(file))
        directory, endpoints, fixed = found_in(config)
        can_vote = "controller" in config.roles
        found.append(read_survivor(disk, clock, directory, endpoints, fixed, can_vote=can_vote))
    found += [read_survivor(disk, clock, directory) for directory in args.directory]
    for path in args.described:
        found += _described(path)
    if not found:
        raise ConfigError(
            "there is nothing to recover from",
            next_step="give the properties of every node that is left with --config, brokers, too",
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


def _members(ids: Sequence[int] | None, found: Sequence[Found]) -> tuple[Any, ...] | None:
    if ids is None:
        return None
    known = {one.survivor.voter.key.id: one.survivor.voter.key for one in found}
    missing = [str(id_) for id_ in ids if id_ not in known]
    if missing:
        raise ConfigError(f"--voters: {', '.join(missing)} is not among the survivors given")
    return tuple(known[id_] for id_ in dict.fromkeys(ids))


def _write(args: argparse.Namespace, plan: RecoveryPlan, found: Sequence[Found]) -> None:
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock
    from barnabas.server.node.lost_majority import execute

    chosen = next(one for one in found if one.survivor.voter.key == plan.chosen)
    host = next(one for one in found if one.survivor.voter.key == plan.host)
    if not host.directory:
        raise ConfigError(
            f"the plan is to be written on the machine of controller {plan.host.id}",
            next_step="run it there, with --config for it and --from for the others",
        )
    if not chosen.directory:
        raise ConfigError(
            f"the log of broker {plan.chosen.id} has the most, and lies on another machine",
            next_step=f"copy its directory to controller {plan.host.id}'s machine, and give it with --directory",
        )
    if not args.yes:
        _confirm(plan, found)
    execute(OsDisk(), SystemClock(), plan, chosen, host)


def _confirm(plan: RecoveryPlan, found: Sequence[Found]) -> None:
    print("\n".join(plan_lines(plan, found, executed=False)), file=sys.stderr)
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to confirm this", next_step="say --yes")
    confirm(f"Write this to controller {plan.host.id}'s log?")


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
                survivor.high_watermark,
                _role_of(survivor),
                str(survivor.voters),
                max(survivor.generation, survivor.saved.generation),
            ]
        )
    columns = ["id", "directory", "last_epoch", "records", "committed", "voter", "of_voters", "incarnation"]
    print_rows(columns, rows)


def _role_of(survivor: Survivor) -> str:
    if not survivor.can_vote:
        return "no (a broker)"
    return "yes" if survivor.voters.has(survivor.voter.key) else "no"


def plan_lines(plan: RecoveryPlan, found: Sequence[Found], *, executed: bool) -> list[str]:
    """The plan in words, and what is to be done next."""
    keys = ", ".join(str(voter.key) for voter in plan.voters)
    first, rest = plan.host.id, [voter.key.id for voter in plan.voters if voter.key != plan.host]
    lines = [
        "",
        f"Controller {first} has the most: the quorum {'goes' if executed else 'would go'} on from its log.",
    ]
    if plan.chosen != plan.host:
        lines[1] = (
            f"Broker {plan.chosen.id} has the most: its log {'was' if executed else 'would be'} copied to "
            f"controller {first}, and the quorum {'goes' if executed else 'would go'} on from it."
        )
    lines += [
        f"New voters: {keys}.",
        f"Incarnation {plan.generation} of the quorum, from epoch {plan.epoch} on.",
    ]
    lines.append("What may be lost:" if plan.lost else "No committed record can be lost.")
    lines += [f"  - {sentence}" for sentence in plan.lost]
    lines.append("")
    if not executed:
        return [*lines, "Nothing is written yet. Copy the directories first."]
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
        "host": {"id": plan.host.id, "directory_id": str(plan.host.directory_id)},
        "voters": [{"id": v.key.id, "directory_id": str(v.key.directory_id)} for v in plan.voters],
        "epoch": plan.epoch,
        "incarnation": plan.generation,
        "lost": list(plan.lost),
    }
