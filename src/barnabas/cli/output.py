"""How results are printed: a table for people, aligned text for pipes, one versioned document for programs.

`rich` is loaded only when the output is a terminal.  JSON documents carry
{"version": 1, "kind": ...}; a field may be added without a new version, none is renamed or removed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.cli.typed.numbers import seconds

__all__ = [
    "COMMAND_CONFIG",
    "JSON_VERSION",
    "add_cluster_flags",
    "add_command_config",
    "print_document",
    "print_rows",
    "show",
]

JSON_VERSION = 1
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
COMMAND_CONFIG = "BARNABAS_COMMAND_CONFIG"
"""The variable that names the file of clients' settings for every command."""
NARROW = 60
"""A terminal of fewer columns gets the rows of a table that does not fit one below the other."""


def add_command_config(parser: argparse.ArgumentParser) -> None:
    """`add_command_config(parser)`: the flag that says how to log in (`controllers.security_of` reads it)."""
    parser.add_argument(
        "--command-config",
        "-c",
        metavar="FILE",
        default=os.environ.get(COMMAND_CONFIG),
        help=f"property file with security.protocol, sasl.* and ssl.* (default: ${COMMAND_CONFIG})",
    )


def add_cluster_flags(parser: argparse.ArgumentParser, *, json_flag: bool = True) -> None:
    """`add_cluster_flags(parser)`: the flags of every command that talks to a cluster."""
    parser.add_argument(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        default=os.environ.get("BARNABAS_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help="where the cluster is; several with commas (default: $BARNABAS_BOOTSTRAP or 127.0.0.1:9092)",
    )
    add_command_config(parser)
    parser.add_argument(
        "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="how long to try (30)"
    )
    if json_flag:
        parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")


def show(args: argparse.Namespace, kind: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """`show(args, "topics", rows, ["name", "partitions"])`: a table, or with --json all fields."""
    if getattr(args, "json", False):
        print_document(kind, {kind.rsplit(".", 1)[-1]: list(rows)})
    else:
        print_rows(columns, [[row.get(column) for column in columns] for row in rows])


def print_document(kind: str, content: dict[str, Any]) -> None:
    """`print_document("topics", {"topics": [...]})`: one line of JSON with its version and kind."""
    document = {"version": JSON_VERSION, "kind": kind, **content}
    print(json.dumps(document, default=str, separators=(",", ":"), ensure_ascii=False))


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """`print_rows(["name", "lag"], [["t", 3]])`: columns as wide as their content; numbers to the right."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    numeric = [
        bool(texts)
        and all(row[i] == "-" or row[i].lstrip("-").replace(".", "", 1).isdecimal() for row in texts)
        for i in range(len(columns))
    ]
    titles = [column.upper().replace("_", "-") for column in columns]
    widths = [max(len(titles[i]), *(len(row[i]) for row in texts), 0) for i in range(len(columns))]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        if room < NARROW and sum(widths) + 2 * len(widths) > room:
            _blocks(titles, texts)
        else:
            _rich_table(columns, texts, numeric)
        return
    for row in [titles, *texts]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _blocks(titles: Sequence[str], texts: list[list[str]]) -> None:
    """A row as lines, each a title and its value: columns of three letters are none."""
    wide = max(map(len, titles))
    for number, row in enumerate(texts):
        if number:
            print()
        for title, cell in zip(titles, row, strict=True):
            print(f"{title:<{wide}}  {cell}")


def _rich_table(columns: Sequence[str], texts: list[list[str]], numeric: list[bool]) -> None:
    from rich.console import Console
    from rich.table import Table

    from barnabas.cli.typed.plain import plain, terminal

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column.replace("_", " "), justify="right" if right else "left", overflow="fold")
    for row in texts:
        table.add_row(*(plain(cell).replace("[", r"\[") for cell in row))
    Console(file=terminal()).print(table)
