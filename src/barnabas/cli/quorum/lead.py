"""`barnabas quorum transfer-leadership`: another voter leads the quorum."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from barnabas.cli.controllers import bootstrap_of, security_of
from barnabas.cli.output import print_document
from barnabas.cli.quorum.target import warn_of_force
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ANY_VOTER, VoterCheck

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.described import QuorumDescription

__all__ = ["transfer"]

ELECTION_S = 10.0
"""A successor that lives needs a fraction of a second; after so long it is said to have failed."""


def transfer(args: argparse.Namespace) -> int:
    """`quorum transfer-leadership [--to N]`: hand the lead over, and say who leads then."""
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.quorum import transfer_leadership
    from barnabas.client.admin.quorum_detail import check_change

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        before = admin.quorum()
        to = ANY_VOTER if args.to is None else args.to
        if args.dry_run:
            outcome = check_change(admin.cluster, VoterCheck.TRANSFER, [to], force=args.force)
            _say(args, before.leader, args.to, before.epoch, outcome, f"DRY RUN: {outcome}")
            return 0
        if args.to == before.leader:
            already = f"Node {before.leader} leads the quorum already."
            _say(args, before.leader, before.leader, before.epoch, "", already)
            return 0
        if args.force:
            warn_of_force("changes that wait are given up; where the successor lags, another voter may win")
        if args.wait:
            _until_possible(args, admin, to)
        transfer_leadership(admin.cluster, args.to, force=args.force)
        after = _next_leader(args, admin, before)
    leads = f"Node {after.leader} leads the quorum, epoch {after.epoch}; before it node {before.leader} did."
    _say(args, before.leader, after.leader, after.epoch, "", leads)
    return 0


def _say(
    args: argparse.Namespace, before: int, leader: int | None, epoch: int, outcome: str, text: str
) -> None:
    if args.json:
        document = {"leader": leader, "before": before, "epoch": epoch}
        print_document(
            "quorum.transferred", {"transferred": document, "dry_run": args.dry_run, "outcome": outcome}
        )
    else:
        print(text)


def _until_possible(args: argparse.Namespace, admin: Admin, to: int) -> None:
    from barnabas.cli.quorum.detail import wait_until_possible

    wait_until_possible(args, admin, VoterCheck.TRANSFER, [to])


def _next_leader(args: argparse.Namespace, admin: Admin, before: QuorumDescription) -> QuorumDescription:
    """Who leads the next epoch.  Raises KafkaError where it is not who was asked for, or nobody."""
    deadline = time.monotonic() + min(args.timeout, ELECTION_S)
    while True:
        after = admin.quorum()
        if after.epoch > before.epoch:
            break
        if time.monotonic() > deadline:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {before.leader} has stepped down, and nobody leads yet",
                next_step="`barnabas quorum describe --detail` says who does not answer",
            )
        time.sleep(0.02)
    if args.to is not None and after.leader != args.to:
        sys.stdout.flush()
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"node {after.leader} was elected instead of node {args.to}",
            next_step="`barnabas quorum describe --detail` shows who lags; then ask again",
        )
    return after
