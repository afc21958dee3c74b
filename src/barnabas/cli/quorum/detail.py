"""`barnabas quorum describe --detail` and `watch`: what an operator wants to know before and during a change."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.controllers import bootstrap_of, security_of
from barnabas.cli.output import print_document
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, NodeId, Uuid, VoterCheck

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.described import QuorumDetail, QuorumReplica

__all__ = [
    "bootstrap_line",
    "detail_lines",
    "run_detail",
    "run_watch",
    "wait_for_target",
    "wait_until_possible",
]

_NEXT = "next: "
"""How a node without a leader begins what is to be done, after what it waits for."""
_COLUMNS = ("NODE", "ROLE", "LAG", "LAG_MS", "ENDPOINTS", "LAST_ERROR")
GIVEN_UP_LOOKS = 3
"""A leader that was just elected may not say its target at once: so often it must be missing."""
LEADERLESS_CODE = 1
"""Exit code where there is no leader: a script must not take that for a quorum that works."""


def run_detail(args: argparse.Namespace, admin: Admin) -> int:
    """Print it once; 1 where there is no leader."""
    detail = admin.quorum_detail()
    if args.json:
        print_document("quorum.detail", {"quorum": _document(detail)})
    else:
        print("\n".join(detail_lines(detail)))
    return 0 if detail.quorum is not None else LEADERLESS_CODE


def run_watch(args: argparse.Namespace) -> int:
    """Print what changed, until Ctrl-C or `--count` looks.  With --json one document for each look."""
    from barnabas.client.admin.admin import Admin

    before: list[str] = []
    looks = 0
    code = 0
    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        while True:
            detail = admin.quorum_detail()
            code = 0 if detail.quorum is not None else LEADERLESS_CODE
            looks += 1
            if args.json:
                print_document("quorum.detail", {"quorum": _document(detail)})
            elif (lines := detail_lines(detail, moving=False)) != before:
                print(time.strftime("%H:%M:%S"))
                print("\n".join(f"  {line}" for line in lines), flush=True)
                before = lines
            if args.count and looks >= args.count:
                return code
            time.sleep(args.interval)


def wait_for_target(args: argparse.Namespace, admin: Admin, target: Sequence[int]) -> None:
    """Print each step of the way to the target, then how nodes find the new voters.

    Raises KafkaError: REQUEST_TIMED_OUT with what it waits for (the target stays in force), or that the target
    is in force no more and was not reached.
    """
    try:
        _watch_target(args, admin, target)
    except KeyboardInterrupt:
        ends = "`barnabas quorum watch` goes on looking, `barnabas quorum reassign --cancel` ends it"
        print(f"\nThe target {_ids(target)} stays in force: {ends}.", file=sys.stderr)
        raise


def _watch_target(args: argparse.Namespace, admin: Admin, target: Sequence[int]) -> None:
    deadline = time.monotonic() + args.timeout
    before = ""
    out = sys.stderr if args.json else sys.stdout
    given_up = 0
    while True:
        detail = admin.quorum_detail()
        if detail.quorum is not None and set(detail.target) != set(target):
            if {voter.id for voter in detail.quorum.voters} == set(target) and not detail.target:
                print(bootstrap_line(detail), file=out)
                return
            given_up += 1
            if given_up >= GIVEN_UP_LOOKS:
                raise _given_up(detail, target)
        else:
            given_up = 0
        waits = detail.waiting[-1] if detail.waiting else "the next step"
        line = f"{detail.steps_left} to go, {waits}"
        if line != before and not given_up:
            print(line, file=out, flush=True)
            before = line
        if time.monotonic() > deadline:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the target is not reached yet: {line}; it stays in force",
                next_step="`barnabas quorum watch` goes on looking; `barnabas quorum reassign --cancel` ends it",
            )
        time.sleep(0.2)


def _given_up(detail: QuorumDetail, target: Sequence[int]) -> KafkaError:
    """The target is in force no more: somebody else changed it, or Apache Kafka leads now."""
    assert detail.quorum is not None
    voters = [voter.id for voter in detail.quorum.voters]
    now = f"the voters are {_ids(voters)}"
    if detail.target:
        return KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"somebody set the target {_ids(detail.target)} in place of {_ids(target)}; {now}",
            next_step="`barnabas quorum history` says who; agree on one target, then ask for it again",
        )
    if detail.kafkas:
        goes = [voter for voter in voters if voter not in target]
        verb = (
            f"remove-controller --controller-id {goes[0]}" if goes else "--command-config FILE add-controller"
        )
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"node {detail.quorum.leader} leads now and runs Apache Kafka, which takes no target; {now}",
            next_step=f"go the rest of the way one voter at a time: `barnabas quorum {verb}`",
        )
    return KafkaError(
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        f"the target {_ids(target)} was given up before it was reached; {now}",
        next_step="`barnabas quorum history` says who cancelled it; ask again if the target is still wanted",
    )


def wait_until_possible(
    args: argparse.Namespace,
    admin: Admin,
    kind: VoterCheck,
    voters: Sequence[int],
    directory_id: Uuid = ZERO_UUID,
) -> None:
    """Print what the change waits for, whenever that is another thing, until the leader could begin it.

    Raises KafkaError with the last reason when the time is up, and what the leader refuses for good.
    """
    from barnabas.client.admin.quorum_detail import check_change

    deadline = time.monotonic() + args.timeout
    before = ""
    while True:
        try:
            check_change(admin.cluster, kind, voters, directory_id, force=args.force)
            return
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return  # that leader cannot check; it will say itself what is wrong
            if error.code is not ErrorCode.REQUEST_TIMED_OUT or time.monotonic() > deadline:
                raise
            line = error.message.removesuffix("; nothing was changed")
            if line != before:
                print(line, file=sys.stderr if args.json else sys.stdout, flush=True)
                before = line
        time.sleep(0.1)


def bootstrap_line(detail: QuorumDetail, *, without: NodeId | None = None) -> str:
    """What the nodes' files should say from now on, so that they find the voters at their next start.

    `without`: one who has just become none, and may be told of still.
    """
    known = detail.quorum.voters if detail.quorum is not None else ()
    voters = [voter for voter in known if voter.id != without]
    addresses = [voter.endpoints[0].partition("://")[2] for voter in voters if voter.endpoints]
    return f"controller.quorum.bootstrap.servers={','.join(addresses)}"


def detail_lines(detail: QuorumDetail, *, moving: bool = True) -> list[str]:
    """`detail_lines(admin.quorum_detail())` -> facts, then a table; without `moving` no offsets and lags."""
    quorum = detail.quorum
    lines: list[str] = []
    if quorum is not None:
        committed = f", committed up to {quorum.high_watermark}" if moving else ""
        of_kafka = ", runs Apache Kafka" if detail.kafkas else ""
        lines.append(_fact("Leader", f"{quorum.leader}, epoch {quorum.epoch}{committed}{of_kafka}"))
        voters = _ids(voter.id for voter in quorum.voters)
        if detail.committed:
            voters += f"; not committed yet, before: {_ids(detail.committed)}"
        lines.append(_fact("Voters", voters))
        lines.append(_fact("Bears", _bears(detail)))
        disk = {voter.id: f"{voter.id} with its new disk" for voter in quorum.voters}
        if detail.could_be_voters is None:
            could = "unknown: ask a controller (-C HOST:PORT)"
        else:
            could = _ids(disk.get(id_, id_) for id_ in detail.could_be_voters) or "nobody else"
        lines.append(_fact("Could vote", could))
    else:
        lines.append(_fact("Leader", "none"))
    if detail.target:
        steps = "step" if detail.steps_left == 1 else "steps"
        lines.append(_fact("Target", f"{_ids(detail.target)}; {detail.steps_left} {steps} left"))
    lines += [_fact("Waits", reason) for reason in detail.waiting if not reason.startswith(_NEXT)]
    lines += _table(detail, moving)
    known = [reason for reason in detail.waiting if reason.startswith(_NEXT)]
    lines += [f"  {reason}" for reason in known]
    if quorum is None and not known:
        lines.append("  next: start the voters that do not answer; if a majority is gone for good,")
        lines.append("        `barnabas quorum recover --help`")
    return lines


def _bears(detail: QuorumDetail) -> str:
    failures = "failure" if detail.bears == 1 else "failures"
    assert detail.quorum is not None
    even = ""
    if len(detail.quorum.voters) % 2 == 0:
        even = f"; {len(detail.quorum.voters)} voters bear no more than {len(detail.quorum.voters) - 1} would"
    return f"{detail.bears} more {failures} of a voter now{even}"


def _table(detail: QuorumDetail, moving: bool) -> list[str]:
    errors = dict(detail.errors)
    rows = [[name for name in _COLUMNS if moving or not name.startswith("LAG")]]
    quorum = detail.quorum
    if quorum is None:
        return [_fact("Last error", f"of node {node}: {reason}") for node, reason in detail.errors]
    leader = next((r for r in (*quorum.voters, *quorum.observers) if r.id == quorum.leader), None)
    roles = [(r, "voter") for r in quorum.voters] + [(r, "observer") for r in quorum.observers]
    for replica, role in roles:
        lag = [*_lag(replica, leader)] if moving else []
        name = "leader" if replica is leader else role
        error = errors.pop(replica.id, "-")  # it is the voter's, where an observer has its id on another disk
        rows.append([str(replica.id), name, *lag, ",".join(replica.endpoints) or "-", error])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _lag(replica: QuorumReplica, leader: QuorumReplica | None) -> tuple[str, str]:
    """Records and milliseconds after the leader, `-` where unknown."""
    if leader is None or replica.log_end_offset < 0:
        return "-", "-"
    records = max(0, leader.log_end_offset - replica.log_end_offset)
    if records == 0:
        return "0", "0"
    if replica.last_caught_up < 0 or leader.last_caught_up < 0:
        return str(records), "-"
    return str(records), str(max(0, leader.last_caught_up - replica.last_caught_up))


def _fact(name: str, value: str) -> str:
    return f"{name + ':':<12}{value}"


def _ids(controllers: Any) -> str:
    return ", ".join(map(str, controllers))


def _document(detail: QuorumDetail) -> dict[str, Any]:
    quorum = detail.quorum
    document: dict[str, Any] = {
        "target": list(detail.target),
        "steps_left": detail.steps_left,
        "committed_voters": list(detail.committed),
        "could_be_voters": None if detail.could_be_voters is None else list(detail.could_be_voters),
        "waiting": list(detail.waiting),
        "errors": {str(node): reason for node, reason in detail.errors},
        "leaderless_ms": detail.leaderless_ms,
        "survivable": detail.bears,
        "leader": None,
    }
    if quorum is not None:
        document |= {
            "cluster_id": quorum.cluster_id,
            "leader": quorum.leader,
            "epoch": quorum.epoch,
            "high_watermark": quorum.high_watermark,
            "voters": [{**r._asdict(), "directory_id": str(r.directory_id)} for r in quorum.voters],
            "observers": [{**r._asdict(), "directory_id": str(r.directory_id)} for r in quorum.observers],
        }
    return document
