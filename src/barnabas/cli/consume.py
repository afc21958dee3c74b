"""Read records and print them, until Ctrl-C or --max.

barnabas consume greetings --from-beginning
barnabas consume greetings --group billing --max 10
barnabas consume greetings --partition 0 --offset 42 --format json
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from typing import Any

from barnabas.cli.output import JSON_VERSION, add_cluster_flags
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas consume`."""
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("--from-beginning", action="store_true", help="not only what comes from now on")
    parser.add_argument("--partition", type=int, action="append", metavar="N", help="only this one")
    parser.add_argument("--offset", metavar="WHERE", help="begin at an offset, earliest, latest or time:MS")
    parser.add_argument("--group", "-g", help="share the topics with this group and go on where it stopped")
    parser.add_argument("--max", type=int, metavar="N", help="end after N records")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="end after so long without a record")
    parser.add_argument(
        "--format",
        choices=["value", "key", "json"],
        default="value",
        help="value: its bytes; key: KEY, a tab, VALUE; json: one document a line",
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
        start="earliest" if args.from_beginning else "latest",
        isolation=args.isolation_level,
        idle=args.idle,
        timeout=args.timeout,
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
    if args.group and (args.partition or args.offset):
        raise ConfigError("--group shares out partitions and offsets itself", next_step="leave --group out")
    if args.from_beginning and args.offset:
        raise ConfigError(
            "--from-beginning and --offset exclude each other", next_step="leave one of them out"
        )
    if args.partition and len(args.topics) > 1:
        raise ConfigError("--partition goes with one topic")


def _place(consumer: Any, args: argparse.Namespace) -> None:
    if args.partition:
        consumer.assign([(args.topics[0], number) for number in args.partition])
    if args.offset is None:
        return
    if args.offset.startswith("time:") and args.offset[5:].isdigit():
        consumer.seek_to_time(int(args.offset[5:]))
        return
    if not args.offset.isdigit() and args.offset not in ("earliest", "latest"):
        raise ConfigError(
            f"--offset {args.offset} names no place", next_step="write a number, earliest, latest or time:MS"
        )
    where = int(args.offset) if args.offset.isdigit() else args.offset
    consumer.position(*_any_partition(consumer, args))  # assigns what was not assigned
    for topic, partition in consumer.assignment():
        consumer.seek(topic, partition, where)


def _any_partition(consumer: Any, args: argparse.Namespace) -> tuple[str, int]:
    return args.topics[0], args.partition[0] if args.partition else 0


def _print_all(consumer: Any, args: argparse.Namespace) -> None:
    out = sys.stdout.buffer
    write = {"value": _value_line, "key": _key_line, "json": _json_line}[args.format]
    if args.max is not None and args.max <= 0:
        return
    for printed, message in enumerate(consumer, 1):
        out.write(write(message))
        if consumer.statistics().buffered == 0:
            out.flush()
        if printed == args.max:
            return


def _value_line(message: Any) -> bytes:
    return (message.value or b"") + b"\n"


def _key_line(message: Any) -> bytes:
    return (message.key or b"") + b"\t" + (message.value or b"") + b"\n"


def _json_line(message: Any) -> bytes:
    document = {
        "version": JSON_VERSION,
        "kind": "record",
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": _content(message.key),
        "value": _content(message.value),
        "headers": [[name, _content(content)] for name, content in message.headers],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _content(content: bytes | None) -> Any:
    """Text where it is text, {"base64": ...} where it is not."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
