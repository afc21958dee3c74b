"""Send records: lines of the standard input or of a file, or generated ones.

echo hello | barnabas produce greetings
barnabas produce greetings --key-separator : --file pairs.txt
barnabas produce load --records 1000000 --size 100 --compression lz4
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from barnabas.cli.output import add_cluster_flags, print_document
from barnabas.errors import ConfigError, StorageError

__all__ = ["add_arguments", "run"]

_TURN = 2000  # records between two looks at the clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas produce`."""
    parser.add_argument("topic")
    parser.add_argument("--file", metavar="FILE", help="lines of this file instead of the standard input")
    parser.add_argument("--records", type=int, metavar="N", help="make N records instead of reading any")
    parser.add_argument("--size", type=int, default=100, metavar="BYTES", help="of a generated record (100)")
    parser.add_argument("--key-separator", metavar="TEXT", help="a line is KEY TEXT VALUE")
    parser.add_argument("--partition", type=int, help="all into this one")
    parser.add_argument("--acks", choices=["all", "1", "0"], default="all", help="who must have it (all)")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    parser.add_argument("--quiet", "-q", action="store_true", help="no bar and no summary")
    add_cluster_flags(parser)


def run(args: argparse.Namespace) -> int:
    """`barnabas produce TOPIC`."""
    from barnabas.client.producer import Producer

    pairs = _pairs(args)
    begun = time.monotonic()
    sent = size = 0
    with Producer(
        args.bootstrap_server,
        acks=args.acks,
        compression=args.compression,
        request_timeout=args.timeout,
        delivery_timeout=max(args.timeout, 1.0),
    ) as producer:
        for key, value in _with_bar(args, pairs):
            producer.send(args.topic, value, key=key, partition=args.partition)
            sent += 1
            size += len(value)
        producer.flush()
    seconds = time.monotonic() - begun
    if args.json:
        print_document("produced", {"topic": args.topic, "records": sent, "bytes": size, "seconds": seconds})
    elif not args.quiet:
        rate = f", {sent / seconds:,.0f} records/s" if sent > _TURN else ""
        print(f"Sent {sent} {'record' if sent == 1 else 'records'} to {args.topic}{rate}.", file=sys.stderr)
    return 0


def _pairs(args: argparse.Namespace) -> Iterator[tuple[bytes | None, bytes]]:
    if args.records is not None:
        if args.file or args.key_separator:
            raise ConfigError("--records makes its own records: leave --file and --key-separator out")
        return _generated(args.records, args.size)
    if args.file:
        try:
            source: Any = open(args.file, "rb")  # noqa: SIM115  read to the end, then the process ends
        except OSError as error:
            raise StorageError(f"cannot read {args.file}: {error.strerror}") from error
    else:
        source = sys.stdin.buffer
    return _lines(source, args.key_separator)


def _generated(count: int, size: int) -> Iterator[tuple[bytes | None, bytes]]:
    """Numbered records of one size, so that a reader can see whether one is missing."""
    filler = b"." * max(size, 0)
    for number in range(count):
        head = b"%d " % number
        yield None, (head + filler)[: max(size, len(head))]


def _lines(source: Iterable[bytes], separator: str | None) -> Iterator[tuple[bytes | None, bytes]]:
    mark = separator.encode() if separator else None
    for number, line in enumerate(source, 1):
        line = line.rstrip(b"\r\n")
        if mark is None:
            yield None, line
            continue
        key, found, value = line.partition(mark)
        if not found:
            raise ConfigError(
                f"line {number} has no {separator!r}",
                next_step="write KEY, the separator, VALUE on every line",
            )
        yield key, value


def _with_bar(args: argparse.Namespace, pairs: Iterator[Any]) -> Iterator[Any]:
    """The pairs, with a bar on a terminal while records are being generated."""
    if args.records is None or args.quiet or args.json or not sys.stderr.isatty():
        yield from pairs
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.completed:,} of {task.total:,}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sending", total=args.records)
        for number, pair in enumerate(pairs, 1):
            yield pair
            if number % _TURN == 0:
                bar.update(task, completed=number)
