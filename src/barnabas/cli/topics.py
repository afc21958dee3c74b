"""Topics: see, make, change and remove them.

barnabas topics list                                 all topics
barnabas topics describe orders                      partitions, leaders, replicas, first and last offsets
barnabas topics create orders --partitions 6 --config retention.ms=3600000
barnabas topics grow orders --partitions 12          more partitions (keys then map elsewhere)
barnabas topics delete orders                        with all its records
"""

from __future__ import annotations

import argparse
from typing import Any

from barnabas.cli.output import add_cluster_flags, print_document, show
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas topics`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|describe|create|grow|delete")
    lists = verbs.add_parser("list", help="all topics: barnabas topics list")
    lists.add_argument("--internal", action="store_true", help="also the brokers' own topics")
    describe = verbs.add_parser("describe", help="one topic: barnabas topics describe orders")
    describe.add_argument("topic")
    create = verbs.add_parser("create", help="make topics: barnabas topics create orders --partitions 6")
    create.add_argument("topics", nargs="+", metavar="topic")
    create.add_argument("--partitions", type=int, default=-1, help="how many (default: the brokers' own)")
    create.add_argument("--replication-factor", type=int, default=-1, metavar="N", help="copies of each")
    create.add_argument("--config", action="append", default=[], metavar="NAME=VALUE", help="a setting")
    create.add_argument("--if-not-exists", action="store_true", help="no error when it is there already")
    create.add_argument("--dry-run", action="store_true", help="only ask whether it would be done")
    grow = verbs.add_parser("grow", help="add partitions: barnabas topics grow orders --partitions 12")
    grow.add_argument("topic")
    grow.add_argument("--partitions", type=int, required=True, help="how many in all")
    delete = verbs.add_parser("delete", help="remove topics: barnabas topics delete orders")
    delete.add_argument("topics", nargs="+", metavar="topic")
    for verb in (lists, describe, create, grow, delete):
        add_cluster_flags(verb)


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
    """`barnabas topics list|describe|create|grow|delete`."""
    from barnabas.client.admin import Admin

    with Admin(args.bootstrap_server, timeout=args.timeout) as admin:
        verb: Any = {
            "list": _list,
            "describe": _describe,
            "create": _create,
            "grow": _grow,
            "delete": _delete,
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
    topic = admin.describe_topic(args.topic)
    led = [p.partition for p in topic.partitions.values() if p.leader >= 0]
    first = admin.offsets(topic.name, "earliest", led) if led else {}
    last = admin.offsets(topic.name, "latest", led) if led else {}
    settings = {c.name: c.value for c in admin.configs("topic", topic.name) if c.source == "topic"}
    rows = [
        {
            "partition": p.partition,
            "leader": p.leader,
            "epoch": p.leader_epoch,
            "replicas": list(p.replicas),
            "isr": list(p.isr),
            "earliest": first[p.partition].offset if p.partition in first else None,
            "latest": last[p.partition].offset if p.partition in last else None,
        }
        for p in topic.partitions.values()
    ]
    if args.json:
        content = {"name": topic.name, "id": str(topic.id), "configs": settings, "partitions": rows}
        print_document("topic", {"topic": content})
        return
    print(f"topic {topic.name}  id {topic.id}  settings {_settings_text(settings)}")
    for row in rows:
        row.update(replicas=_numbers(row["replicas"]), isr=_numbers(row["isr"]))
    show(args, "topic", rows, ["partition", "leader", "epoch", "replicas", "isr", "earliest", "latest"])


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
    admin.add_partitions(args.topic, args.partitions)
    if args.json:
        print_document("topics.grown", {"name": args.topic, "partitions": args.partitions})
    else:
        print(f"Topic {args.topic} has {args.partitions} partitions now.")


def _delete(admin: Any, args: argparse.Namespace) -> None:
    for name in args.topics:
        admin.delete_topic(name)
        if not args.json:
            print(f"Deleted topic {name}.")
    if args.json:
        print_document("topics.deleted", {"deleted": args.topics})


def _numbers(numbers: list[int]) -> str:
    return ",".join(str(number) for number in numbers)


def _settings_text(settings: dict[str, str | None]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "all default"
