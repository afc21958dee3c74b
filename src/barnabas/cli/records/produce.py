"""Send records: lines of the standard input or of a file, or generated ones.

echo hello | barnabas produce greetings --header source=cli --key k1
barnabas produce greetings --key-separator : --file pairs.txt
barnabas produce copy --format '{key}\\t{headers}\\t{value}' --file records.tsv
barnabas consume greetings --from-beginning --until latest --format json | barnabas produce copy --format json
barnabas produce load --records 1000000 --size 100 --compression lz4

Nothing is sent after the first error; the command then says which lines are stored, and with which
--from-line to go on.  What a line says of its key, partition, timestamp or headers goes before the flags.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document
from barnabas.cli.records.template import InputLine, header_of, parser_of
from barnabas.cli.typed.numbers import INT64, count, partition, whole
from barnabas.cli.typed.usage import any_text
from barnabas.errors import BarnabasError, ConfigError, StorageError

__all__ = ["add_arguments", "run"]

_STRIDE = 2000  # records between two looks at the clock
_LAST_WAIT_S = 2.0  # after Ctrl-C, for the answers that are on their way


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas produce`."""
    parser.add_argument("topic")
    parser.add_argument("--file", metavar="FILE", help="lines of this file instead of the standard input")
    parser.add_argument(
        "--from-line", type=whole(1, INT64), default=1, metavar="N", help="leave out the lines before N"
    )
    parser.add_argument("--records", type=count, metavar="N", help="make N records instead of reading any")
    parser.add_argument(
        "--size", type=whole(0), default=100, metavar="BYTES", help="of a generated record (100)"
    )
    parser.add_argument(
        "--format",
        metavar="TEMPLATE",
        help="of a line: value (the default), json (as `consume` prints it), or text around {key} {value} "
        "{partition} {timestamp} {headers}; headers are NAME=VALUE,NAME=VALUE",
    )
    parser.add_argument("--key-separator", metavar="TEXT", help="short for --format '{key}TEXT{value}'")
    parser.add_argument(
        "--null", type=any_text, metavar="TEXT", help="a key or value that is this text is null"
    )
    parser.add_argument("--key", type=any_text, help="of every record whose line names none")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="as --key")
    parser.add_argument("--partition", type=partition, help="as --key (default: by the key)")
    parser.add_argument(
        "--timestamp", type=whole(-1, INT64), metavar="MS", help="as --key, ms since 1970 (default: now)"
    )
    parser.add_argument("--acks", choices=["all", "1", "0"], default="all", help="who must have it (all)")
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none")
    parser.add_argument("--quiet", "-q", action="store_true", help="no bar and no summary")
    add_cluster_flags(parser)


def run(args: argparse.Namespace) -> int:
    """`barnabas produce TOPIC`."""
    from barnabas.cli.records.sent import Ledger
    from barnabas.client.producer import Producer

    lines = _with_bar(args, _lines(args))
    headers = tuple(header_of(text.encode()) for text in args.header)
    key = None if args.key is None else args.key.encode()
    default = InputLine(None, key, args.partition, args.timestamp, headers)
    producer = Producer(
        args.bootstrap_server,
        acks=args.acks,
        compression=args.compression,
        request_timeout=args.timeout,
        delivery_timeout=max(args.timeout, 1.0),
        stop_at_error=True,
        security=security_of(args),
    )
    ledger = Ledger(args.from_line)
    begun = time.monotonic()
    failure: BaseException | None = None
    try:
        _send_all(producer, ledger, lines, args.topic, default)
    except KeyboardInterrupt as interrupt:
        _flushed(producer, _LAST_WAIT_S)
        failure = interrupt
    except (BarnabasError, OSError) as error:
        failure = _flushed(producer, None) or error  # an earlier line may have failed, too
    producer.abandon()
    return _report(args, ledger, time.monotonic() - begun, failure)


def _send_all(
    producer: Any, ledger: Any, lines: Iterator[tuple[int, InputLine]], topic: str, default: InputLine
) -> None:
    for number, line in lines:
        delivery = producer.send(
            topic,
            line.value,
            key=default.key if line.key is None else line.key,
            partition=default.partition if line.partition is None else line.partition,
            headers=default.headers if line.headers is None else line.headers,
            timestamp=default.timestamp if line.timestamp is None else line.timestamp,
        )
        ledger.add(number, len(line.value or b""), delivery)
        if number % _STRIDE == 0:
            ledger.settle()
    producer.flush()


def _flushed(producer: Any, timeout: float | None) -> BarnabasError | None:
    """Wait for the answers to what was sent; what a record failed with."""
    try:
        producer.flush(timeout)
    except BarnabasError as error:
        return error
    return None


def _report(args: argparse.Namespace, ledger: Any, seconds: float, failure: BaseException | None) -> int:
    from barnabas.cli.main import report

    standing = ledger.standing()
    count = sum(last - first + 1 for first, last in standing.stored)
    unit = "line" if args.records is None else "record"
    if args.json:
        about: dict[str, Any] = {"topic": args.topic, "records": count, "bytes": standing.size}
        about |= {"seconds": seconds, "stored": standing.stored, "unknown": standing.unknown}
        about |= {"go_on": None if failure is None else standing.go_on}
        print_document("produced", about)
    if failure is not None:
        code = 130 if isinstance(failure, KeyboardInterrupt) else report(failure)  # type: ignore[arg-type]
        for sentence in standing.told(unit, acknowledged=args.acks != "0"):
            print(f"  {sentence}", file=sys.stderr)
        return code
    if not args.json and not args.quiet:
        rate = f", {count / seconds:,.0f} records/s" if count > _STRIDE else ""
        print(f"Sent {count} {'record' if count == 1 else 'records'} to {args.topic}{rate}.", file=sys.stderr)
    return 0


# -- the input -----------------------------------------------------------------------------------


def _lines(args: argparse.Namespace) -> Iterator[tuple[int, InputLine]]:
    if args.format and args.key_separator:
        raise ConfigError("--key-separator is a --format of its own", next_step="leave one of them out")
    if args.records is not None:
        if args.file or args.key_separator or args.format:
            raise ConfigError(
                "--records makes its own records: leave --file, --format and --key-separator out"
            )
        return islice(_generated(args.records, args.size), args.from_line - 1, None)
    template = args.format or "value"
    if args.key_separator:
        template = f"{{key}}{_literal(args.key_separator)}{{value}}"
    return _parsed(_source(args.file), template, args.null, args.from_line)


def _literal(text: str) -> str:
    """The text as it stands in a template."""
    return text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")


def _source(file: str | None) -> Any:
    if file is None:
        return sys.stdin.buffer
    try:
        return open(file, "rb")
    except OSError as error:
        raise StorageError(f"cannot read {file}: {error.strerror}") from error


def _generated(count: int, size: int) -> Iterator[tuple[int, InputLine]]:
    """Numbered records of one size, so that a reader can see whether one is missing."""
    filler = b"." * size
    for number in range(count):
        head = b"%d " % number
        yield number + 1, InputLine((head + filler)[: max(size, len(head))])


def _parsed(source: Any, template: str, null: str | None, first: int) -> Iterator[tuple[int, InputLine]]:
    parse = parser_of(template, null)

    def parsed() -> Iterator[tuple[int, InputLine]]:
        for number, text in enumerate(source, 1):
            if number < first:
                continue
            try:
                yield number, parse(text.rstrip(b"\r\n"))
            except ValueError as error:
                raise ConfigError(
                    f"line {number} {error}", next_step=f"write the line as --format {template!r} says"
                ) from error

    return parsed()


def _with_bar(args: argparse.Namespace, lines: Iterator[Any]) -> Iterator[Any]:
    """The lines, with a bar on a terminal while records are being generated."""
    if args.records is None or args.quiet or args.json or not sys.stderr.isatty():
        yield from lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.completed:,} of {task.total:,}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sending", total=args.records)
        for number, pair in enumerate(lines, 1):
            yield pair
            if number % _STRIDE == 0:
                bar.update(task, completed=number)
