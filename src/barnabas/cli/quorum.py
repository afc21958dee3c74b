"""The quorum of controllers: who leads, who votes, who keeps up.  The lines of Kafka's own tool.

barnabas quorum describe --status
barnabas quorum describe --replication --human-readable
barnabas quorum describe --bootstrap-controller 127.0.0.1:9093 --status
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.output import add_cluster_flags, print_document
from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import ZERO_UUID

if TYPE_CHECKING:
    from barnabas.client.described import QuorumDescription, QuorumReplica

__all__ = ["add_arguments", "replication_lines", "run", "status_lines"]

_COLUMNS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quorum`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="describe")
    describe = verbs.add_parser("describe", help="barnabas quorum describe --status")
    describe.add_argument("--status", action="store_true", help="leader, epoch, high watermark, voters")
    describe.add_argument("--replication", action="store_true", help="how far each replica is")
    describe.add_argument("--human-readable", action="store_true", help="times as `N ms ago`")
    describe.add_argument(
        "--bootstrap-controller", metavar="HOST:PORT", help="ask a controller instead of a broker"
    )
    add_cluster_flags(describe)


def run(args: argparse.Namespace) -> int:
    """`barnabas quorum describe`."""
    if args.status == args.replication and not args.json:
        raise ConfigError("say --status or --replication, one of the two")
    if args.human_readable and args.status:
        raise ConfigError("--human-readable goes with --replication only")
    from barnabas.client.admin import Admin

    with Admin(args.bootstrap_controller or args.bootstrap_server, timeout=args.timeout) as admin:
        quorum = admin.quorum()
    if args.json:
        print_document("quorum", {"quorum": _document(quorum)})
    elif args.status:
        print("\n".join(status_lines(quorum)))
    else:
        now = int(time.time() * 1000) if args.human_readable else None
        print("\n".join(replication_lines(quorum, now)))
    return 0


def status_lines(quorum: QuorumDescription) -> list[str]:
    """`status_lines(admin.quorum())` -> the eight lines of --status."""
    leader = quorum.leader_replica
    if leader is None:
        raise BarnabasError(
            f"the leader, node {quorum.leader}, is not among the voters: it is removing itself",
            next_step="ask again in a moment",
        )
    slowest = min([*quorum.voters, *quorum.observers], key=lambda r: r.log_end_offset)
    behind = leader.log_end_offset - slowest.log_end_offset
    if slowest.log_end_offset == leader.log_end_offset:
        behind_ms = 0
    elif leader.last_caught_up < 0 or slowest.last_caught_up < 0:
        behind_ms = -1
    else:
        behind_ms = leader.last_caught_up - slowest.last_caught_up
    values = {
        "ClusterId": quorum.cluster_id,
        "LeaderId": quorum.leader,
        "LeaderEpoch": quorum.epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": behind,
        "MaxFollowerLagTimeMs": behind_ms,
        "CurrentVoters": _members(quorum.voters),
        "CurrentObservers": _members(quorum.observers),
    }
    return [f"{name + ':':<24}{value}" for name, value in values.items()]


def replication_lines(quorum: QuorumDescription, now: int | None) -> list[str]:
    """`replication_lines(admin.quorum(), None)` -> the table of --replication; `now` in ms: times as ages."""
    leader = quorum.leader_replica
    end = leader.log_end_offset if leader else quorum.high_watermark
    followers = [(r, "Follower") for r in quorum.voters if r is not leader]
    rows = [list(_COLUMNS)]
    for replica, status in [
        *([(leader, "Leader")] if leader else []),
        *followers,
        *((r, "Observer") for r in quorum.observers),
    ]:
        rows.append(
            [
                str(replica.id),
                str(replica.directory_id),
                str(replica.log_end_offset),
                str(end - replica.log_end_offset),
                _time(replica.last_fetch, now),
                _time(replica.last_caught_up, now),
                status,
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    return [
        "".join(f"{cell.ljust(width)}\t" for cell, width in zip(row, widths, strict=True)) for row in rows
    ]


def _time(stamp: int, now: int | None) -> str:
    return str(stamp) if now is None or stamp < 0 else f"{now - stamp} ms ago"


def _members(replicas: tuple[QuorumReplica, ...]) -> str:
    members: list[dict[str, Any]] = []
    for replica in replicas:
        member: dict[str, Any] = {"id": replica.id}
        if replica.directory_id != ZERO_UUID:
            member["directoryId"] = str(replica.directory_id)
        if replica.endpoints:
            member["endpoints"] = list(replica.endpoints)
        members.append(member)
    return json.dumps(members)


def _document(quorum: QuorumDescription) -> dict[str, Any]:
    def replica(r: QuorumReplica) -> dict[str, Any]:
        return {**r._asdict(), "directory_id": str(r.directory_id)}

    return {
        "cluster_id": quorum.cluster_id,
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [replica(r) for r in quorum.voters],
        "observers": [replica(r) for r in quorum.observers],
    }
