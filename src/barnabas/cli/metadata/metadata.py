"""Look through a cluster's metadata in one snapshot or log of a controller; no node has to run.

  barnabas metadata shell -s FILE [COMMAND ...]   one command, or a prompt where you type them (`help`)

FILE is a .checkpoint or the .log of __cluster_metadata-0, ours or Apache Kafka's. Commands: ls, cat, cd, pwd,
find, tree, help, history, man, exit; paths may have *, ? and {a,b} in them.

examples:
  barnabas metadata shell -s 00000000000000000058-0000000001.checkpoint ls /image
  barnabas metadata shell -s 00000000000000000000.log cat /image/topics/byName/flights/0
  barnabas metadata shell -s 00000000000000000000.log --json tree /image/features
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from barnabas.cli.exits import Exit
from barnabas.cli.metadata.shell import COMMANDS, MetadataShell

__all__ = ["add_arguments", "run"]

PROMPT = ">> "
_AS_DOCUMENTS = ("cat", "tree")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas metadata`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="shell")
    shell = verbs.add_parser("shell", help="walk through the metadata in a snapshot or log")
    shell.add_argument("-s", "--snapshot", required=True, metavar="FILE", help="a .checkpoint or .log")
    shell.add_argument("--json", action="store_true", help="print one JSON document (commands cat and tree)")
    shell.add_argument("command", nargs="*", metavar="COMMAND", help="without one: a prompt")


def run(args: argparse.Namespace) -> int:
    """`barnabas metadata shell`."""
    from barnabas.cli.metadata.tree import metadata_tree, read_metadata

    with open(args.snapshot, "rb") as file:
        root = metadata_tree(read_metadata(file))
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    shell = MetadataShell(root, width=width)
    if args.json:
        return _document(shell, args.command)
    if args.command:
        return _print(shell, args.command)
    return _converse(shell)


def _document(shell: MetadataShell, words: list[str]) -> int:
    from barnabas.cli.output import print_document
    from barnabas.errors import ConfigError

    if not words or words[0] not in _AS_DOCUMENTS:
        raise ConfigError("--json goes with the commands cat and tree", next_step="name one of them")
    output = shell.run(words)
    if not output.found:
        print("\n".join(output.lines), file=sys.stderr)
        return _status(words)
    print_document("metadata", {"content": shell.document(words[1:])})
    return 0


def _print(shell: MetadataShell, words: list[str]) -> int:
    output = shell.run(words)
    for line in output.lines:
        print(line)
    return 0 if output.found else _status(words)


def _status(words: list[str]) -> int:
    command = COMMANDS.get(words[0])
    return Exit.USAGE if command is None or len(words) - 1 < command.fewest else Exit.NOT_FOUND


def _converse(shell: MetadataShell) -> int:
    """Read lines until `exit` or the end of input."""
    if sys.stdin.isatty():
        _complete_with_tab(shell)
        print("`help` lists the commands, `exit` leaves.")
    prompt = PROMPT if sys.stdin.isatty() else ""
    while not shell.ended:
        try:
            line = input(prompt).strip()
        except EOFError:
            if prompt:
                print()
            break
        try:
            words = shlex.split(line)
        except ValueError as error:  # a quote that is not closed
            print(f"error: {error}")
            continue
        if words:
            shell.history.append(line)
            _print(shell, words)
    return 0


def _complete_with_tab(shell: MetadataShell) -> None:
    try:
        import readline
    except ImportError:  # a Python without it: typing works, the tab key does not
        return

    def complete(text: str, state: int) -> str | None:
        first = not readline.get_line_buffer()[: readline.get_begidx()].strip()
        found = [name for name in COMMANDS if name.startswith(text)] if first else shell.completions(text)
        return found[state] if state < len(found) else None

    readline.set_completer_delims(" \t")
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
