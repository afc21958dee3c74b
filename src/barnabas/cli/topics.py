"""Topics: see, make, change and remove them.

barnabas topics list                                 all topics
barnabas topics describe orders                      partitions, leaders, replicas, first and last offsets
barnabas topics describe --under-replicated          partitions that miss a replica, of all topics
barnabas topics create orders --partitions 6 --config retention.ms=3600000
barnabas topics grow orders --partitions 12          more partitions (keys then map elsewhere)
barnabas topics delete orders                        with all its records
barnabas topics reassign                             what moves between brokers now
barnabas topics reassign orders --brokers 1,2,3,4    a plan that spreads it evenly; --execute does it
barnabas topics reassign orders --partition 0 --replicas 4,5,6 --execute --wait
barnabas topics elect-leaders orders                 first replicas lead again
barnabas topics recover orders 3                     what a partition that nobody can lead would lose; --yes
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.moves import add_plan_flags, carry_out, placed, read_plan, show_moves
from barnabas.cli.output import add_cluster_flags, print_document, print_rows, show
from barnabas.cli.typed.confirm import confirm
from barnabas.cli.typed.numbers import INT16, node_ids, partition, whole
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition

__all__ = ["add_arguments", "run"]

_LOSES = {
    OFFSETS_TOPIC: "most groups belong to other partitions, where no coordinator finds their positions",
    TRANSACTIONS_TOPIC: "most transactional ids belong to other partitions: what is open under them is aborted",
}
"""The loss of a coordinators' topic that gets more partitions, by its name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas topics`."""
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="list|describe|create|grow|delete|reassign|elect-leaders|recover"
    )
    lists = verbs.add_parser("list", help="all topics: barnabas topics list")
    lists.add_argument("--internal", action="store_true", help="also the brokers' own topics")
    describe = verbs.add_parser("describe", help="one or several: barnabas topics describe orders")
    describe.add_argument("topics", nargs="*", metavar="topic", help="default with --under-replicated: all")
    describe.add_argument(
        "--under-replicated", action="store_true", help="only partitions that miss an in-sync replica"
    )
    create = verbs.add_parser("create", help="make topics: barnabas topics create orders --partitions 6")
    create.add_argument("topics", nargs="+", metavar="topic")
    create.add_argument(
        "--partitions", type=whole(-1), default=-1, help="how many (default: the brokers' own)"
    )
    create.add_argument(
        "--replication-factor", type=whole(-1, INT16), default=-1, metavar="N", help="copies of each"
    )
    create.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    create.add_argument("--if-not-exists", action="store_true", help="no error when it is there already")
    create.add_argument("--dry-run", action="store_true", help="only ask whether it would be done")
    grow = verbs.add_parser("grow", help="add partitions: barnabas topics grow orders --partitions 12")
    grow.add_argument("topic")
    grow.add_argument("--partitions", type=whole(1), required=True, help="how many in all")
    grow.add_argument(
        "--yes", action="store_true", help="also where coordinators lose sight of groups or transactional ids"
    )
    delete = verbs.add_parser("delete", help="remove topics: barnabas topics delete orders")
    delete.add_argument("topics", nargs="+", metavar="topic")
    delete.add_argument("--yes", action="store_true", help="do not ask (it asks on a terminal only)")
    more = _reassign_flags(verbs), _elect_flags(verbs), _recover_flags(verbs)
    for verb in (lists, describe, create, grow, delete, *more):
        add_cluster_flags(verb)


def _reassign_flags(verbs: Any) -> argparse.ArgumentParser:
    reassign: argparse.ArgumentParser = verbs.add_parser(
        "reassign", help="move partitions to other brokers; alone: what moves now"
    )
    reassign.add_argument("topics", nargs="*", metavar="topic")
    how = reassign.add_mutually_exclusive_group()
    how.add_argument(
        "--brokers", type=node_ids, metavar="IDS", help="spread the topics over these, moving little"
    )
    how.add_argument(
        "--replicas", type=node_ids, metavar="IDS", help="the replicas of --partition; the first is to lead"
    )
    how.add_argument("--plan", metavar="FILE", help="a plan in Kafka's format; - is standard input")
    how.add_argument("--cancel", action="store_true", help="turn back what moves (of the topics, or all)")
    reassign.add_argument("--partition", type=partition, metavar="N", help="with --replicas: which one")
    add_plan_flags(reassign)
    return reassign


def _elect_flags(verbs: Any) -> argparse.ArgumentParser:
    elect: argparse.ArgumentParser = verbs.add_parser(
        "elect-leaders", help="first replicas lead again: barnabas topics elect-leaders orders"
    )
    elect.add_argument("topics", nargs="*", metavar="topic", help="default: all")
    elect.add_argument("--partition", type=partition, metavar="N", help="only this one, of one topic")
    elect.add_argument(
        "--unclean", action="store_true", help="where nobody leads, whoever lives: records may be lost"
    )
    return elect


def _recover_flags(verbs: Any) -> argparse.ArgumentParser:
    recover: argparse.ArgumentParser = verbs.add_parser(
        "recover", help="what is left of partitions that nobody can lead: barnabas topics recover orders"
    )
    recover.add_argument("topic")
    recover.add_argument("partition", nargs="?", type=partition, help="default: all that have no leader")
    recover.add_argument("--yes", action="store_true", help="elect the best replica; what it lacks is lost")
    return recover


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """`parse_settings(["a=1"])` -> {"a": "1"}; ConfigError for a word without "="."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"{pair!r} is no setting", next_step="write NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def run(args: argparse.Namespace) -> int:
    """`barnabas topics list|describe|create|grow|delete|reassign|elect-leaders|recover`."""
    from barnabas.client.admin.admin import Admin

    with Admin(args.bootstrap_server, timeout=args.timeout, security=security_of(args)) as admin:
        verb: Any = {
            "list": _list,
            "describe": _describe,
            "create": _create,
            "grow": _grow,
            "delete": _delete,
            "reassign": _reassign,
            "elect-leaders": _elect,
            "recover": _recover,
        }[args.verb]
        return int(verb(admin, args) or 0)


def _list(admin: Any, args: argparse.Namespace) -> None:
    rows = [
        {
            "name": topic.name,
            "id": str(topic.id),
            "partitions": len(topic.partitions),
            "replication": max((len(p.replicas) for p in topic.partitions.values()), default=0),
            "internal": topic.internal,
        }
        for topic in admin.topics(internal=args.internal)
    ]
    show(args, "topics", rows, ["name", "partitions", "replication"])


def _describe(admin: Any, args: argparse.Namespace) -> None:
    if args.under_replicated:
        _describe_under_replicated(admin, args)
        return
    if not args.topics:
        raise ConfigError("say which topics", next_step="name them, or see `barnabas topics list`")
    found = [_described(admin, topic) for topic in [admin.describe_topic(name) for name in args.topics]]
    if args.json:
        several = {"topics": found} if len(found) > 1 else {"topic": found[0]}
        print_document("topic", several)
        return
    for topic in found:
        print(f"topic {topic['name']}  id {topic['id']}  settings {_settings_text(topic['configs'])}")
        rows = [{name: _shown(value) for name, value in row.items()} for row in topic["partitions"]]
        show(args, "topic", rows, list(rows[0]))


def _describe_under_replicated(admin: Any, args: argparse.Namespace) -> None:
    topics = [admin.describe_topic(name) for name in args.topics] or admin.topics(internal=True)
    rows = [
        {
            "topic": topic.name,
            "partition": p.partition,
            "leader": p.leader,
            "replicas": list(p.replicas),
            "isr": list(p.isr),
            "missing": sorted(set(p.replicas) - set(p.isr)),
        }
        for topic in topics
        for p in topic.partitions.values()
        if len(p.isr) < len(p.replicas)
    ]
    if args.json:
        print_document("topics.under-replicated", {"under-replicated": rows})
    elif rows:
        shown = [{name: _shown(value) for name, value in row.items()} for row in rows]
        show(args, "topics.under-replicated", shown, list(shown[0]))
    else:
        print("Every partition has all its replicas in sync.")


def _described(admin: Any, topic: Any) -> dict[str, Any]:
    led = [p.partition for p in topic.partitions.values() if p.leader >= 0]
    first = admin.offsets(topic.name, "earliest", led) if led else {}
    last = admin.offsets(topic.name, "latest", led) if led else {}
    settings = {c.name: c.value for c in admin.configs("topic", topic.name) if c.source == "topic"}
    eligible = admin.eligible_replicas(topic.name)
    rows = [
        {
            "partition": p.partition,
            "leader": p.leader,
            "epoch": p.leader_epoch,
            "replicas": list(p.replicas),
            "isr": list(p.isr),
            "elr": eligible[p.partition].elr if p.partition in eligible else None,
            "last_known_elr": eligible[p.partition].last_known_elr if p.partition in eligible else None,
            "earliest": first[p.partition].offset if p.partition in first else None,
            "latest": last[p.partition].offset if p.partition in last else None,
        }
        for p in topic.partitions.values()
    ]
    return {"name": topic.name, "id": str(topic.id), "configs": settings, "partitions": rows}


def _create(admin: Any, args: argparse.Namespace) -> None:
    from barnabas.errors import ErrorCode, KafkaError

    made: list[dict[str, Any]] = []
    for name in args.topics:
        try:
            topic = admin.create_topic(
                name,
                partitions=args.partitions,
                replication=args.replication_factor,
                configs=parse_settings(args.config),
                validate_only=args.dry_run,
            )
        except KafkaError as error:
            if not args.if_not_exists or error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            if not args.json:
                print(f"Topic {name} exists already.")
            continue
        made.append(
            {
                "name": name,
                "id": str(topic.id),
                "partitions": topic.partitions,
                "replication": topic.replication,
            }
        )
        if not args.json:
            copies = f"{topic.replication} {'copy' if topic.replication == 1 else 'copies'} each"
            parts = f"{topic.partitions} {'partition' if topic.partitions == 1 else 'partitions'}"
            print(f"{'Could create' if args.dry_run else 'Created'} topic {name} ({parts}, {copies}).")
    if args.json:
        print_document("topics.created", {"created": made, "dry_run": args.dry_run})


def _grow(admin: Any, args: argparse.Namespace) -> None:
    if args.topic in _LOSES and not args.yes:
        raise ConfigError(
            f"with another count of partitions {_LOSES[args.topic]}",
            next_step=f"if that is wanted: barnabas topics grow {args.topic} --partitions {args.partitions} --yes",
        )
    admin.add_partitions(args.topic, args.partitions)
    if args.json:
        print_document("topics.grown", {"name": args.topic, "partitions": args.partitions})
    else:
        print(f"Topic {args.topic} has {args.partitions} partitions now.")


def _delete(admin: Any, args: argparse.Namespace) -> None:
    names = list(dict.fromkeys(args.topics))
    found = [admin.describe_topic(name) for name in names]  # (all are there, or none is deleted)
    if sys.stdin.isatty() and not args.yes:
        count = sum(len(topic.partitions) for topic in found)
        parts = f"{count} {'partition' if count == 1 else 'partitions'}"
        confirm(f"Delete {', '.join(names)} with all records of {parts}?")
    for name in names:
        admin.delete_topic(name)
        if not args.json:
            print(f"Deleted topic {name}.")
    if args.json:
        print_document("topics.deleted", {"deleted": names})


def _reassign(admin: Any, args: argparse.Namespace) -> int:
    from barnabas.client.balance import balanced

    if args.cancel:
        return _cancel(admin, args)
    if not (args.brokers or args.replicas or args.plan):
        if args.execute:
            raise ConfigError("say what to do: --brokers, --replicas or --plan")
        found = [move for move in admin.moves() if not args.topics or move.topic in args.topics]
        show_moves(args, found)
        return 0
    if args.plan:
        plan = read_plan(args.plan)
        before = placed(admin, sorted({where.topic for where in plan}))
    elif args.replicas:
        if len(args.topics) != 1 or args.partition is None:
            raise ConfigError("--replicas are those of one --partition of one topic")
        before = placed(admin, args.topics)
        plan = {TopicPartition(args.topics[0], args.partition): args.replicas}
    else:
        if not args.topics:
            raise ConfigError(
                "say which topics", next_step="name them, or see `barnabas cluster add-brokers`"
            )
        before = placed(admin, args.topics)
        brokers = admin.describe_cluster(fenced=True).brokers
        racks = {broker.id: broker.rack for broker in brokers}
        hosts = {broker.id: broker.host for broker in brokers}
        wanted = {broker: racks.get(broker) for broker in args.brokers}
        plan = balanced(before, wanted, hosts=hosts)
    return carry_out(admin, args, plan, before)


def _cancel(admin: Any, args: argparse.Namespace) -> int:
    found = [move for move in admin.moves() if not args.topics or move.topic in args.topics]
    refused = admin.move({TopicPartition(m.topic, m.partition): None for m in found}) if found else {}
    if args.json:
        rows = [
            {
                "topic": move.topic,
                "partition": move.partition,
                "error": error.code.name if (error := refused.get((move.topic, move.partition))) else None,
            }
            for move in found
        ]
        print_document("topics.cancelled", {"cancelled": rows})
        return 1 if refused else 0
    for where, error in refused.items():
        print(f"{where.topic}-{where.partition} goes on: {error.message} ({error.code.name})")
    print(f"Turned back: {len(found) - len(refused)} of {len(found)}." if found else "Nothing moves.")
    return 1 if refused else 0


def _elect(admin: Any, args: argparse.Namespace) -> int:
    wanted: list[TopicPartition] | None = None
    if args.partition is not None:
        if len(args.topics) != 1:
            raise ConfigError("--partition is one of one topic: name it")
        admin.describe_topic(args.topics[0]).partition(args.partition)
        wanted = [TopicPartition(args.topics[0], args.partition)]
    elif args.topics:
        wanted = [
            TopicPartition(name, number)
            for name in args.topics
            for number in sorted(admin.describe_topic(name).partitions)
        ]
    return _show_elected(args, admin.elect_leaders(wanted, unclean=args.unclean))


def _show_elected(args: argparse.Namespace, outcome: Any) -> int:
    rows = [
        {"topic": where.topic, "partition": where.partition, "error": error.code.name if error else None}
        for where, error in sorted(outcome.items())
    ]
    failed = [row for row in rows if row["error"] not in (None, "ELECTION_NOT_NEEDED")]
    if args.json:
        print_document("topics.elected", {"elected": rows})
        return 1 if failed else 0
    done = sum(row["error"] is None for row in rows)
    print(f"Elected {done} {'leader' if done == 1 else 'leaders'}; {len(failed)} could not be.")
    if failed:
        print_rows(["topic", "partition", "error"], [list(row.values()) for row in failed])
    return 1 if failed else 0


def _recover(admin: Any, args: argparse.Namespace) -> int:
    """Say what each replica has where nobody leads, and with --yes have the best one elected."""
    described = admin.describe_topic(args.topic)
    numbers = sorted(described.partitions) if args.partition is None else [args.partition]
    for number in numbers:
        described.partition(number)
    try:
        found = admin.recoverable([TopicPartition(args.topic, number) for number in numbers])
    except KafkaError as error:
        if error.code != ErrorCode.INVALID_REQUEST:
            raise
        raise KafkaError(
            error.code,
            "the active controller is of Apache Kafka, or of an older release: it does not say what is left",
            next_step="`barnabas topics elect-leaders TOPIC --partition N --unclean` elects any live replica",
        ) from error
    lost = {where: replicas for where, replicas in sorted(found.items()) if isinstance(replicas, list)}
    for refused in found.values():
        if isinstance(refused, KafkaError) and refused.code is not ErrorCode.ELECTION_NOT_NEEDED:
            raise refused
    if args.yes and lost:
        return _show_elected(args, admin.elect_leaders(list(lost), unclean=True))
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replica": one.replica,
            "state": "away" if not one.alive else "lacks records" if one.incomplete else "whole",
            "epoch": one.epoch if one.end >= 0 else None,
            "end": one.end if one.end >= 0 else None,
            "would_lead": one.leads,
        }
        for where, replicas in lost.items()
        for one in replicas
    ]
    if args.json:
        print_document("topics.recoverable", {"recoverable": rows})
    elif not rows:
        print("Every partition has a leader.")
    else:
        print_rows(list(rows[0]), [list(row.values()) for row in rows])
        print(
            "Lost would be what only others than the one that would lead have: a replica that is away may have"
        )
        print("more than it, until it is back. Nothing was changed; --yes elects.")
    return 0


def _shown(value: Any) -> Any:
    """Return what a table shows: numbers with commas, nothing for an empty list."""
    return (",".join(map(str, value)) or None) if isinstance(value, list | tuple) else value


def _settings_text(settings: dict[str, str | None]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "all default"
