"""The quorum of controllers: show who leads, votes and keeps up, and change the voters.  Prints as Kafka's tool.

barnabas quorum describe --status
barnabas quorum describe --replication --human-readable
barnabas quorum describe --detail        (who waits for what, who does not answer, what may fail)
barnabas quorum history                  (who changed it when, what it waited for)
barnabas quorum watch                    (the same, whenever it changes)
barnabas quorum --bootstrap-controller 127.0.0.1:9093 describe --status
barnabas quorum --command-config new-controller.properties add-controller
barnabas quorum remove-controller --controller-id 4
barnabas quorum reassign --target 4,5,6          (Barnabas only: all the way, one safe change at a time)
barnabas quorum replace --node 2                 (its new, empty disk takes its vote; --with 4: node 4 does)
barnabas quorum readmit --node 4                 (a controller that was removed, and runs, votes again)
barnabas quorum transfer-leadership --to 3
barnabas quorum -C 127.0.0.1:9093 set-endpoint --node 2 --endpoint HOST:PORT   (Barnabas only: nobody finds it)
barnabas quorum -C 127.0.0.1:9093 bootstrap      (Barnabas only: begin a cluster, once; see start --join)
barnabas quorum recover --config FILE            (Barnabas only: a majority is lost; offline)
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.cli.controllers import add_flags, bootstrap_of, read_properties, security_of
from barnabas.cli.output import print_document
from barnabas.cli.quorum import bootstrap as quorum_bootstrap
from barnabas.cli.quorum import detail as quorum_detail
from barnabas.cli.quorum import history as quorum_history
from barnabas.cli.quorum import lead, target
from barnabas.cli.quorum import recover as quorum_recover
from barnabas.cli.quorum import set_endpoint as quorum_set_endpoint
from barnabas.cli.typed.numbers import count, node_id, node_ids, seconds
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Endpoint, Uuid, VoterCheck

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.described import QuorumDescription, QuorumReplica

__all__ = ["add_arguments", "new_controller", "replication_lines", "run", "status_lines"]

_COLUMNS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)

_SHOWN = "`barnabas quorum describe --status` shows ids and directory ids"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quorum`."""
    add_flags(parser, before_the_verb=True)
    verbs = parser.add_subparsers(
        dest="verb",
        required=True,
        metavar="describe|watch|history|add-controller|remove-controller|reassign|replace|readmit|transfer-leadership|recover",
    )
    describe = verbs.add_parser("describe", help="barnabas quorum describe --status")
    describe.add_argument("--status", action="store_true", help="leader, epoch, high watermark, voters")
    describe.add_argument("--replication", action="store_true", help="how far each replica is")
    describe.add_argument("--detail", action="store_true", help="changes, what they wait for, last errors")
    watch = verbs.add_parser("watch", help="describe --detail, printed again whenever it changes")
    watch.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS", help="between looks (1)")
    watch.add_argument("--count", type=count, default=0, metavar="N", help="end after so many looks")
    history = verbs.add_parser("history", help="who changed the quorum when, what each change waited for")
    history.add_argument(
        "--last", type=count, default=0, metavar="N", help="only the newest N (all, 200 at most)"
    )
    describe.add_argument("--human-readable", action="store_true", help="times as `N ms ago`")
    add = verbs.add_parser(
        "add-controller", help="make the controller of --command-config, which runs and follows, a voter"
    )
    remove = verbs.add_parser("remove-controller", help="make a voter an observer")
    remove.add_argument("--controller-id", "-i", type=node_id, required=True, metavar="ID", help="node.id")
    remove.add_argument(
        "--controller-directory-id",
        "-d",
        metavar="UUID",
        help="its directory id (default: that of the voter with this node.id)",
    )
    reassign = verbs.add_parser("reassign", help="name the voters there shall be; without flags: progress")
    reassign.add_argument("--target", type=node_ids, metavar="IDS", help="of controllers that run, as 4,5,6")
    reassign.add_argument("--cancel", action="store_true", help="stay with the voters of this moment")
    replace = verbs.add_parser("replace", help="a node's new disk, or another node, takes its vote")
    replace.add_argument("--node", type=node_id, required=True, metavar="ID", help="the voter that goes")
    replace.add_argument(
        "--with", dest="by", type=node_id, metavar="ID", help="who comes (the same, on a new disk)"
    )
    readmit = verbs.add_parser("readmit", help="a controller that was removed votes again")
    readmit.add_argument("--node", type=node_id, required=True, metavar="ID", help="its node.id; it runs")
    transfer = verbs.add_parser("transfer-leadership", help="let another voter lead the quorum")
    transfer.add_argument(
        "--to", type=node_id, metavar="ID", help="who leads next (default: who has most of the log)"
    )
    for verb, force in (
        (add, "also on the way to a target, which may undo it"),
        (remove, "also on the way to a target, which may undo it"),
        (reassign, ""),
        (replace, "also on the way to a target, which is given up"),
        (readmit, "also on the way to a target, which is given up"),
        (transfer, "give up changes that wait, take a successor that lags"),
    ):
        verb.add_argument("--dry-run", action="store_true", help="let the leader check it; change nothing")
        verb.add_argument("--wait", action="store_true", help="until it can be done and is, with the reason")
        if force:
            verb.add_argument("--force", action="store_true", help=force)
    for verb in (describe, watch, history, add, remove, reassign, replace, readmit, transfer):
        add_flags(verb)
    begin = verbs.add_parser("bootstrap", help="begin a cluster with a node that waits for one, once")
    add_flags(begin)
    quorum_bootstrap.add_arguments(begin)
    moved = verbs.add_parser("set-endpoint", help="say where a controller is that the others do not find")
    add_flags(moved)
    quorum_set_endpoint.add_arguments(moved)
    quorum_recover.add_arguments(
        verbs.add_parser("recover", help="go on when a majority of the controllers is gone for good")
    )


def run(args: argparse.Namespace) -> int:
    """`barnabas quorum VERB`."""
    if args.verb == "describe":
        return _describe(args)
    if args.verb == "bootstrap":
        return quorum_bootstrap.run(args)
    if args.verb == "set-endpoint":
        return quorum_set_endpoint.run(args)
    if args.verb == "recover":
        return quorum_recover.run(args)
    if args.verb == "history":
        return quorum_history.run(args)
    if args.verb == "watch":
        return quorum_detail.run_watch(args)
    verbs = {
        "add-controller": _add,
        "remove-controller": _remove,
        "reassign": target.reassign,
        "replace": target.replace,
        "readmit": target.readmit,
        "transfer-leadership": lead.transfer,
    }
    return verbs[args.verb](args)


def _describe(args: argparse.Namespace) -> int:
    chosen = args.status + args.replication + args.detail
    if chosen > 1 or (chosen == 0 and not args.json):
        raise ConfigError("say --status, --replication or --detail, one of the three")
    if args.human_readable and args.status:
        raise ConfigError("--human-readable goes with --replication only")
    from barnabas.client.admin.admin import Admin

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        if args.detail:
            return quorum_detail.run_detail(args, admin)
        quorum = admin.quorum()
    if args.json:
        print_document("quorum", {"quorum": _document(quorum)})
    elif args.status:
        print("\n".join(status_lines(quorum)))
    else:
        now = int(time.time() * 1000) if args.human_readable else None
        print("\n".join(replication_lines(quorum, now)))
    return 0


def _add(args: argparse.Namespace) -> int:
    if not args.command_config:
        raise ConfigError(
            "add-controller needs --command-config with the new controller's properties",
            next_step="give the file that it was started with",
        )
    controller, directory_id, endpoints, cluster_id = new_controller(read_properties(args.command_config))
    shown = ", ".join(str(endpoint) for endpoint in endpoints)
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.quorum import add_controller

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        outcome = _before(args, admin, VoterCheck.ADD, controller, directory_id)
        if not args.dry_run:
            add_controller(admin.cluster, controller, directory_id, endpoints, cluster_id, force=args.force)
            with suppress(BarnabasError):  # it is added, whatever comes of this look
                target.warn_of_even_number(len(admin.quorum().voters))
        bootstrap = _bootstrap(args, admin)
    if args.json:
        document = {
            "id": controller,
            "directory_id": str(directory_id),
            "endpoints": list(map(str, endpoints)),
        }
        print_document("quorum.added", {"added": document, "dry_run": args.dry_run, "outcome": outcome})
        return 0
    done = "DRY RUN of adding" if args.dry_run else "Added"
    print(f"{done} controller {controller} with directory id {directory_id} and endpoints: {shown}")
    if outcome:
        print(f"The leader says: {outcome}.  Whether the endpoint answers is only seen when it is added.")
    if bootstrap:
        print(bootstrap)
    return 0


def _before(args: argparse.Namespace, admin: Admin, kind: VoterCheck, node: int, directory: Uuid) -> str:
    """What --dry-run, --wait and --force do before a change: what the leader says of it, only with --dry-run."""
    from barnabas.client.admin.quorum_detail import check_change

    if args.dry_run:
        return check_change(admin.cluster, kind, [node], directory, force=args.force)
    if args.force:
        target.warn_of_force("on the way to a target the leader may undo this with its next steps")
    if args.wait:
        quorum_detail.wait_until_possible(args, admin, kind, [node], directory)
    return ""


def _bootstrap(args: argparse.Namespace, admin: Admin) -> str:
    """With --wait the line for the nodes' files."""
    return "" if args.dry_run or not args.wait else quorum_detail.bootstrap_line(admin.quorum_detail())


def new_controller(properties: dict[str, str]) -> tuple[int, Uuid, tuple[Endpoint, ...], str]:
    """Id, directory id, controller endpoints and cluster id that a property file stands for.

    Raises ConfigError when it is no controller's file, or its directory is not formatted.
    """
    from barnabas.config import Config
    from barnabas.log.files.disk import OsDisk
    from barnabas.log.files.meta_properties import read_meta_properties

    config = Config.load(properties)
    if "controller" not in config.roles or not config.is_given("node.id"):
        raise ConfigError("that file is not a controller's: process.roles has no controller, or no node.id")
    meta = read_meta_properties(OsDisk(), config.metadata_log_dir)
    if meta is None or meta.directory_id is None:
        raise ConfigError(
            f"{config.metadata_log_dir} has no meta.properties with a directory id",
            next_step="format it with `barnabas storage format --no-initial-controllers`, start the controller",
        )
    advertised = {endpoint.listener: endpoint for endpoint in config.advertised_listeners}
    endpoints = []
    for endpoint in config.controller_listeners:
        own = advertised.get(endpoint.listener, endpoint)
        endpoints.append(own if own.host not in ("", "0.0.0.0", "::") else own._replace(host="localhost"))
    return config.node_id, meta.directory_id, tuple(endpoints), meta.cluster_id


def _remove(args: argparse.Namespace) -> int:
    controller = args.controller_id
    directory_id = None
    if args.controller_directory_id is not None:
        try:
            directory_id = Uuid.parse(args.controller_directory_id)
        except ValueError as error:
            raise ConfigError(f"--controller-directory-id: {error}", next_step=_SHOWN) from error
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.quorum import remove_controller

    with Admin(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as admin:
        if directory_id is None:
            directory_id = _directory_of(admin.quorum(), controller)
        outcome = _before(args, admin, VoterCheck.REMOVE, controller, directory_id)
        if not args.dry_run:
            remove_controller(admin.cluster, controller, directory_id, force=args.force)
        bootstrap = _bootstrap(args, admin)
    if args.json:
        document = {"id": controller, "directory_id": str(directory_id)}
        print_document("quorum.removed", {"removed": document, "dry_run": args.dry_run, "outcome": outcome})
        return 0
    done = "DRY RUN of removing" if args.dry_run else "Removed"
    print(f"{done} KRaft controller {controller} with directory id {directory_id}")
    if outcome:
        print(f"The leader says: {outcome}.")
    if bootstrap:
        print(bootstrap)
    return 0


def _directory_of(quorum: QuorumDescription, controller: int) -> Uuid:
    """The directory id of the voter with this id; there is at most one."""
    for voter in quorum.voters:
        if voter.id == controller:
            return voter.directory_id
    ids = ", ".join(str(voter.id) for voter in quorum.voters)
    raise KafkaError(
        ErrorCode.VOTER_NOT_FOUND,
        f"controller {controller} is no voter: the voters are {ids}",
        next_step=_SHOWN,
    )


def status_lines(quorum: QuorumDescription) -> list[str]:
    """`status_lines(admin.quorum())` -> the eight lines of --status."""
    leader = _leader(quorum)
    if leader is None:
        raise BarnabasError(
            f"the leader, node {quorum.leader}, is not among voters and observers: it is removing itself",
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


def _leader(quorum: QuorumDescription) -> QuorumReplica | None:
    """The leader's row; a leader that removes itself is an observer until the others have the new set."""
    found = (r for r in quorum.observers if r.id == quorum.leader)
    return quorum.leader_replica or next(found, None)


def replication_lines(quorum: QuorumDescription, now: int | None) -> list[str]:
    """`replication_lines(admin.quorum(), None)` -> the table of --replication; `now` in ms: times as ages."""
    leader = _leader(quorum)
    end = leader.log_end_offset if leader else quorum.high_watermark
    followers = [(r, "Follower") for r in quorum.voters if r is not leader]
    rows = [list(_COLUMNS)]
    for replica, status in [
        *([(leader, "Leader")] if leader else []),
        *followers,
        *((r, "Observer") for r in quorum.observers if r is not leader),
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
