"""Read records and print them, until Ctrl-C or --max.

barnabas consume greetings --from-beginning
barnabas consume greetings --group billing --max 10
barnabas consume greetings -o -5 -e                                 the last five of each partition, then end
barnabas consume greetings -o 2026-01-31T12:00:00Z --until latest
barnabas consume greetings --partition 0 --offset 42 --until latest --format json
barnabas consume orders --avro http://127.0.0.1:8081                values by their schemas, as JSON
barnabas consume greetings --format '{offset} {key}: {value} ({header:trace})'
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags
from barnabas.cli.records.avro import with_avro_values
from barnabas.cli.records.template import printer_of
from barnabas.cli.typed.numbers import count, partition, seconds
from barnabas.cli.typed.places import WORDS, place
from barnabas.cli.typed.plain import plain_bytes
from barnabas.cli.typed.usage import any_text
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import Offset, TopicPartition

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas consume`."""
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("--from-beginning", action="store_true", help="not only what comes from now on")
    parser.add_argument("--partition", type=partition, action="append", metavar="N", help="only this one")
    parser.add_argument("--offset", "-o", metavar="WHERE", help=f"begin at {WORDS}")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--until", metavar="WHERE", help="end before such a place; latest: as it is now")
    ends.add_argument(
        "--exit", "-e", action="store_const", dest="until", const="latest", help="--until latest"
    )
    parser.add_argument("--group", "-g", help="share the topics with this group and go on where it stopped")
    parser.add_argument("--max", type=count, metavar="N", help="end after N records")
    parser.add_argument("--idle", type=seconds, metavar="SECONDS", help="end after so long without a record")
    parser.add_argument(
        "--format",
        metavar="TEMPLATE",
        default="value",
        help="value: its bytes; key: KEY, a tab, VALUE; json: one document a line; or text around {topic} "
        "{partition} {offset} {timestamp} {key} {value} {headers} {header:NAME}",
    )
    parser.add_argument(
        "--avro",
        metavar="URL",
        help="the registry of the values' Avro schemas (Confluent's format): as JSON",
    )
    parser.add_argument(
        "--null", type=any_text, metavar="TEXT", default="", help="printed for a null key or value"
    )
    parser.add_argument(
        "--isolation-level", choices=["read_uncommitted", "read_committed"], default="read_uncommitted"
    )
    add_cluster_flags(parser, json_flag=False)
    parser.add_argument("--json", action="store_const", dest="format", const="json", help="--format json")


def run(args: argparse.Namespace) -> int:
    """`barnabas consume TOPIC...`."""
    from barnabas.client.consumer import Consumer

    _check(args)
    consumer = Consumer(
        args.bootstrap_server,
        *args.topics,
        group=args.group,
        start="earliest" if args.from_beginning else "error" if args.offset else "latest",
        isolation=args.isolation_level,
        idle=args.idle,
        timeout=args.timeout,
        security=security_of(args),
    )
    try:
        with consumer:
            try:
                _place(consumer, args)
                _print_all(consumer, args)
            except KeyboardInterrupt:  # the usual end; what was printed counts as read
                return 130
    finally:
        sys.stdout.flush()
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.group and (args.partition or args.offset or args.until):
        raise ConfigError("--group shares out partitions and offsets itself", next_step="leave --group out")
    printer_of(args.format, args.null)
    for flag, text in (("--offset", args.offset), ("--until", args.until)):
        if text is not None:
            place(text, flag)
    if args.from_beginning and args.offset:
        raise ConfigError(
            "--from-beginning and --offset exclude each other", next_step="leave one of them out"
        )
    if args.partition and len(args.topics) > 1:
        raise ConfigError("--partition goes with one topic")


def _place(consumer: Any, args: argparse.Namespace) -> None:
    """Assign the partitions and go to their beginnings; refuse what no partition has."""
    if args.partition:
        consumer.assign([(args.topics[0], number) for number in args.partition])
    elif not args.group:
        for topic in args.topics:
            consumer.position(topic, 0)  # assigns; who mistypes a topic hears of it, and does not wait for it
    if args.offset is None and args.until is None:
        return
    if args.offset is not None:
        for target, offset in _places(consumer, args.offset, "--offset").items():
            consumer.seek(*target, offset)
    if args.until is not None:
        ends = _places(consumer, args.until, "--until")
        for target, end in ends.items():
            if (begin := consumer.position(*target)) > end:
                raise ConfigError(
                    f"{target} is to be read from offset {begin} until {end}",
                    next_step="begin before the end: --from-beginning, or an --offset that is below it",
                )
        consumer.stop_at(ends)


def _places(consumer: Any, where: str, flag: str) -> dict[TopicPartition, Offset]:
    """The offset that `where` names in each assigned partition.

    Raises KafkaError OFFSET_OUT_OF_RANGE for a number that a partition does not have; --until may be ahead.
    """
    wanted = place(where, flag)
    if wanted.end is not None:
        return dict(consumer.offsets_at(wanted.end))
    if wanted.time_ms is not None:
        return dict(consumer.offsets_at(wanted.time_ms))
    if wanted.last is not None:
        first, end = consumer.offsets_at("earliest"), consumer.offsets_at("latest")
        return {target: max(first[target], end[target] - wanted.last) for target in end}
    assert wanted.offset is not None
    if flag == "--offset":
        _check_there(consumer, wanted.offset)
    return dict.fromkeys(consumer.assignment(), wanted.offset)


def _check_there(consumer: Any, offset: Offset) -> None:
    first, end = consumer.offsets_at("earliest"), consumer.offsets_at("latest")
    for target in consumer.assignment():
        if not first[target] <= offset <= end[target]:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{target} has no offset {offset}: it begins at {first[target]} and ends at {end[target]}",
                next_step="choose an offset in between, or partitions with --partition",
            )


def _print_all(consumer: Any, args: argparse.Namespace) -> None:
    out = sys.stdout.buffer
    write = printer_of(args.format, args.null)
    decoded = with_avro_values(args.avro) if args.avro is not None else None
    is_seen = sys.stdout.isatty()
    """Into a file or a pipe go the bytes as they are."""
    if args.max is not None and args.max <= 0:
        return
    for printed, message in enumerate(consumer, 1):
        line = write(message if decoded is None else decoded(message))
        out.write(plain_bytes(line) if is_seen else line)
        if consumer.statistics().buffered == 0:
            out.flush()
        if printed == args.max:
            return
