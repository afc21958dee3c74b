"""`barnabas quorum reassign`, `replace` and `readmit`: name the voters there shall be; the leader goes the way.

`replace` and `readmit` are targets that follow from the voters of now: the one with another replica in a
voter's place, the other with one more voter.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.controllers import bootstrap_of, security_of
from barnabas.cli.output import print_document
from barnabas.cli.quorum.detail import wait_for_target
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import VoterCheck

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.described import QuorumDescription, QuorumDetail

__all__ = ["even_sets", "readmit", "reassign", "replace", "warn_of_even_number", "warn_of_force"]

_FORMAT = "format its empty disk with `barnabas storage format --no-initial-controllers`, start it, ask again"
SOON_S = 3.0
"""After an election a leader that works has heard of everybody who lives; a reason that lasts longer is told."""
_WATCH = "`barnabas quorum watch` shows the way there."


def reassign(args: argparse.Namespace) -> int:
    """`quorum reassign --target IDS|--cancel`; without flags what is under way."""
    target = args.target
    if target and args.cancel:
        raise ConfigError("say --target or --cancel, one of the two")
    if args.wait and (args.dry_run or (target is None and not args.cancel)):
        raise ConfigError("--wait goes with --target or --cancel, and not with --dry-run")
    if args.dry_run and target is None and not args.cancel:
        raise ConfigError("--dry-run goes with --target or --cancel")
    from barnabas.client.admin.admin import Admin

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        if target is None and not args.cancel:
            return _under_way(args, admin)
        if args.dry_run:
            return _check_only(args, admin, target)
        way = _go(args, admin, target)
    if args.json:
        done = {"target": target, "cancelled": args.cancel, "to_come": [], "to_go": [], "under_way": False}
        print_document("quorum.reassignment", {"reassignment": done, "way": way})
    elif target is None:
        print("The voters stay as they are.")
    else:
        ids = _ids(sorted(target))
        print(f"The voters are {ids}." if args.wait else f"The voters shall be {ids}.  {_WATCH}")
    return 0


def replace(args: argparse.Namespace) -> int:
    """`quorum replace --node N [--with M]`: N's new disk, or another node, takes N's vote.

    With the same id the old entry goes first, where the rest is a live majority; another node comes first.
    """
    from barnabas.client.admin.admin import Admin

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        detail = _once_heard(args, admin, args.node if args.by is None else args.by)
        quorum = _led(detail)
        old = next((voter for voter in quorum.voters if voter.id == args.node), None)
        if old is None:
            raise _no_voter(args.node, quorum)
        _not_on_the_way(args, detail)
        comes = args.node if args.by is None else args.by
        ids = [voter.id for voter in quorum.voters if voter.id != args.node]
        if comes in ids:
            raise KafkaError(
                ErrorCode.DUPLICATE_VOTER,
                f"node {comes} is a voter already",
                next_step=f"`barnabas quorum remove-controller --controller-id {args.node}` removes the other",
            )
        found = [o for o in quorum.observers if o.id == comes and o.directory_id != old.directory_id]
        if not found:
            disk = "a new disk of node" if comes == args.node else "node"
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{disk} {comes} does not follow the leader: it could not take over the vote",
                next_step=_FORMAT,
            )
        if comes == args.node:
            _rest_is_alive(args, admin, old.directory_id)
        return _carried_out(args, admin, "replaced", sorted([*ids, comes]))


def readmit(args: argparse.Namespace) -> int:
    """`quorum readmit --node N`: a controller that was removed, and runs, votes again."""
    from barnabas.client.admin.admin import Admin

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        detail = _once_heard(args, admin, args.node)
        quorum = _led(detail)
        ids = [voter.id for voter in quorum.voters]
        if args.node in ids:
            raise KafkaError(
                ErrorCode.DUPLICATE_VOTER,
                f"node {args.node} is a voter already",
                next_step="if its disk is new, `barnabas quorum replace --node "
                f"{args.node}`; else nothing is to be done",
            )
        _not_on_the_way(args, detail)
        if all(observer.id != args.node for observer in quorum.observers):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"node {args.node} does not follow the leader",
                next_step="start that controller and ask again; `barnabas quorum describe --detail` shows it then",
            )
        return _carried_out(args, admin, "readmitted", sorted([*ids, args.node]))


def _carried_out(args: argparse.Namespace, admin: Admin, done: str, target: list[int]) -> int:
    """The rest of replace and readmit: a target, and the answer."""
    if args.dry_run:
        return _check_only(args, admin, target)
    way = _go(args, admin, target)
    if args.json:
        document = {"node": args.node, "target": target, "reached": args.wait}
        print_document(f"quorum.{done}", {done: document, "way": way})
    elif args.wait:
        print(f"Node {args.node} is {done}: the voters are {_ids(target)}.")
    else:
        print(f"Node {args.node} is being {done}: the voters shall be {_ids(target)}.  {_WATCH}")
    return 0


def _check_only(args: argparse.Namespace, admin: Admin, target: list[int] | None) -> int:
    from barnabas.client.admin.quorum_detail import check_change

    kind = VoterCheck.CANCEL if target is None else VoterCheck.TARGET
    outcome = check_change(admin.cluster, kind, target or ())
    if args.json:
        checked = {"target": target, "cancelled": target is None, "outcome": outcome}
        print_document("quorum.reassignment", {"reassignment": checked, "dry_run": True})
    else:
        print(f"DRY RUN: {outcome}")
    _warn_of_even(outcome, target)
    return 0


def _go(args: argparse.Namespace, admin: Admin, target: list[int] | None) -> str:
    """Set the target (None: none any more), warn of the sets on the way, wait if asked to; the way."""
    from barnabas.client.admin.quorum import reassign_controllers
    from barnabas.client.admin.quorum_detail import check_change

    way = waits = ""
    deadline = time.monotonic() + args.timeout
    while target is not None and not way:
        try:
            way = check_change(admin.cluster, VoterCheck.TARGET, target)
        except KafkaError as error:
            # Where it waits: a replica that has just died counts as alive for a moment, a new one does not.
            soon = error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT and args.wait
            if soon and time.monotonic() < deadline:
                if error.message != waits:
                    waits = error.message
                    print(f"waits: {waits}", file=sys.stderr, flush=True)
                time.sleep(0.2)
                continue
            if error.code not in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNSUPPORTED_VERSION):
                raise
            break
    reassign_controllers(admin.cluster, target)
    _warn_of_even(way, target)
    if args.wait and target is not None:
        wait_for_target(args, admin, target)
    return way


def _under_way(args: argparse.Namespace, admin: Admin) -> int:
    from barnabas.client.admin.quorum import controllers_under_way

    under_way = controllers_under_way(admin.cluster)
    adding, removing = under_way or ([], [])
    if args.json:
        done: dict[str, Any] = {"target": None, "cancelled": False, "to_come": adding, "to_go": removing}
        print_document("quorum.reassignment", {"reassignment": {**done, "under_way": under_way is not None}})
    elif under_way is None:
        print("No change of controllers is under way.")
    else:
        print(f"Controllers to come: {_ids(adding)}; to go: {_ids(removing)}.")
    return 0


# -- refusals that need no leader's check ----------------------------------------------------------


def _led(detail: QuorumDetail) -> QuorumDescription:
    if detail.quorum is None:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "the quorum has no leader, so nothing can be changed",
            next_step="`barnabas quorum describe --detail` says who is missing",
        )
    return detail.quorum


def _no_voter(node: int, quorum: QuorumDescription) -> KafkaError:
    ids = _ids([voter.id for voter in quorum.voters])
    return KafkaError(
        ErrorCode.VOTER_NOT_FOUND,
        f"node {node} is no voter: the voters are {ids}",
        next_step="name one of them; `barnabas quorum describe --detail` shows all",
    )


def _not_on_the_way(args: argparse.Namespace, detail: QuorumDetail) -> None:
    if not detail.target:
        return
    target = _ids(detail.target)
    if not args.force:
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"the voters are on their way to {target}",
            next_step="`barnabas quorum reassign --cancel` ends that; --force replaces the target",
        )
    warn_of_force(f"the target {target} is given up; steps that are done stay done")


def _once_heard(args: argparse.Namespace, admin: Admin, comes: int) -> QuorumDetail:
    """The quorum, once its leader has heard of the node that comes.

    Who follows a leader fetches from the next one a moment after its election.  The leader says whether it is too
    early to tell: then look again.
    """
    from barnabas.client.admin.quorum_detail import check_change

    deadline = time.monotonic() + min(args.timeout, SOON_S)
    while True:
        detail = admin.quorum_detail()
        quorum = detail.quorum
        heard = quorum is None or any(observer.id == comes for observer in quorum.observers)
        if heard or time.monotonic() >= deadline:
            return detail
        try:
            check_change(admin.cluster, VoterCheck.TARGET, [comes])
        except KafkaError as error:
            if error.code is ErrorCode.REQUEST_TIMED_OUT:
                time.sleep(0.05)
                continue
        return admin.quorum_detail()  # it may have been heard between the two looks


def _rest_is_alive(args: argparse.Namespace, admin: Admin, directory_id: Any) -> None:
    """With the same id the old entry must go first: do not begin what the leader could not do."""
    from barnabas.client.admin.quorum_detail import check_change

    deadline = time.monotonic() + (args.timeout if args.wait else min(args.timeout, SOON_S))
    while True:
        try:
            check_change(admin.cluster, VoterCheck.REMOVE, [args.node], directory_id, force=args.force)
            return
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return
            if error.code is not ErrorCode.REQUEST_TIMED_OUT or time.monotonic() >= deadline:
                error.next_step = (
                    f"start the other voters first, or `barnabas quorum replace --node {args.node} --with ID`, "
                    "which adds another node first"
                )
                raise
        time.sleep(0.05)


# -- warnings --------------------------------------------------------------------------------------


def warn_of_force(risk: str) -> None:
    """Say what --force risks."""
    print(f"warning: --force: {risk}", file=sys.stderr)


def even_sets(way: str) -> list[list[str]]:
    """`even_sets("1, 2, 3 -> 1, 3 -> 1, 3, 4")` -> the sets between that one death of a voter stops."""
    sets = [part.partition(", then it waits")[0].split(", ") for part in way.split(" -> ")]
    if any(not id_.isdecimal() for ids in sets for id_ in ids):
        return []
    return [ids for ids in sets[1:-1] if len(ids) == 2]


def _warn_of_even(way: str, target: list[int] | None) -> None:
    """An even set costs a node and bears nothing more; with two, either one's death stops the quorum."""
    if target is None:
        return
    fragile = even_sets(way)
    if fragile:
        named = " and ".join(f"({', '.join(ids)})" for ids in fragile)
        print(
            f"warning: on the way the voters are {named}: then either one's death, also the leader's, stops "
            "the quorum; a target of one voter more avoids that",
            file=sys.stderr,
        )
    warn_of_even_number(len(target))


def warn_of_even_number(voters: int) -> None:
    """Say that so many voters bear no more failures than one fewer would, where that is so."""
    if voters and voters % 2 == 0:
        bears = (voters - 1) // 2
        failures = "one dies" if bears == 0 else f"more than {bears} die"
        print(f"warning: {voters} voters stop when {failures}, as {voters - 1} would", file=sys.stderr)


def _ids(controllers: Any) -> str:
    return ", ".join(map(str, controllers)) or "none"
