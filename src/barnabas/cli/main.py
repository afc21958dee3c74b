"""`barnabas NOUN [VERB] ...`: finds the noun, loads its file alone, and ends with a documented exit code.

Nothing but argparse is imported before the noun is known, so `barnabas --help` and `--version` answer
at once.  Nouns may be shortened as long as they stay unique (`barnabas prod`), and so may flags.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress

from barnabas.cli.typed.streams import open_closed_streams, settle_streams
from barnabas.version import __version__

__all__ = ["NOUNS", "main"]

NOUNS: dict[str, tuple[str, str, str]] = {
    # noun: (module, one line, an example)
    "start": ("barnabas.cli.start", "run a node (formats itself the first time)", "barnabas start"),
    "demo": ("barnabas.cli.demo", "flights through a node into Spark, with proof", "barnabas demo"),
    "topics": ("barnabas.cli.topics", "list, describe, create, delete topics", "barnabas topics list"),
    "produce": (
        "barnabas.cli.records.produce",
        "send lines or generated records",
        "barnabas produce greetings",
    ),
    "consume": (
        "barnabas.cli.records.consume",
        "read records",
        "barnabas consume greetings --from-beginning",
    ),
    "groups": ("barnabas.cli.groups", "consumer groups, their lag, resets", "barnabas groups describe g1"),
    "transactions": (
        "barnabas.cli.transactions",
        "open transactions, and those that hang",
        "barnabas transactions list",
    ),
    "configs": ("barnabas.cli.configs", "show and change settings", "barnabas configs show topic greetings"),
    "telemetry": (
        "barnabas.cli.telemetry",
        "metrics that clients push",
        "barnabas telemetry list",
    ),
    "acls": ("barnabas.cli.acls.acls", "who may do what, and who was refused", "barnabas acls list"),
    "quotas": ("barnabas.cli.quotas", "how much a client may use", "barnabas quotas list"),
    "users": ("barnabas.cli.access.users", "who may log in", "barnabas users list"),
    "tokens": (
        "barnabas.cli.access.tokens",
        "what logs in as you do (delegation tokens)",
        "barnabas tokens list",
    ),
    "brokers": (
        "barnabas.cli.brokers.brokers",
        "brokers that come, go, and what they carry",
        "barnabas brokers list",
    ),
    "rebalance": (
        "barnabas.cli.brokers.rebalance",
        "give every broker its share",
        "barnabas rebalance plan",
    ),
    "cluster": ("barnabas.cli.cluster", "cluster id, brokers, controllers", "barnabas cluster id"),
    "console": (
        "barnabas.cli.access.console",
        "pages about a cluster, for a browser here",
        "barnabas console",
    ),
    "certs": (
        "barnabas.cli.certs.certs",
        "certificates of nodes and users",
        "barnabas certs init certs",
    ),
    "doctor": (
        "barnabas.cli.doctor.doctor",
        "what is wrong with a connection",
        "barnabas doctor 127.0.0.1:9092",
    ),
    "quorum": (
        "barnabas.cli.quorum.quorum",
        "the controllers and how they keep up",
        "barnabas quorum describe --status",
    ),
    "features": (
        "barnabas.cli.features",
        "levels that the cluster agreed on",
        "barnabas features describe",
    ),
    "drill": (
        "barnabas.cli.drill.drill",
        "rehearse changes of a cluster, with proof",
        "barnabas drill list",
    ),
    "storage": (
        "barnabas.cli.storage",
        "format and inspect data directories",
        "barnabas storage random-uuid",
    ),
    "log": (
        "barnabas.cli.log.log",
        "dump and verify log files",
        "barnabas log dump 00000000000000000000.log",
    ),
    "metadata": (
        "barnabas.cli.metadata.metadata",
        "what a metadata snapshot or log says",
        "barnabas metadata shell -s 0-0.checkpoint",
    ),
    "completion": (
        "barnabas.cli.typed.completion",
        "Tab completes nouns, verbs and flags",
        "barnabas completion bash",
    ),
    "simulate": ("barnabas.cli.simulate.simulate", "whole quorums by seed", "barnabas simulate --seed 1"),
    "pipeline": (
        "barnabas.cli.pipeline.pipeline",
        "Spark pipelines and their lag",
        "barnabas pipeline --help",
    ),
}


_DRAWS = frozenset(("start", "demo", "drill", "simulate", "pipeline"))
"""They draw on a terminal by themselves, and show their own words."""


_STARTS_NODES = frozenset(("start", "demo", "drill"))


def overview() -> str:
    """`print(overview())`: what `barnabas --help` shows."""
    lines = [
        "usage: barnabas NOUN [VERB] [flags]        (barnabas NOUN --help explains one)",
        "",
        "A Kafka-compatible log.  Start a node, then talk to it:",
        "  barnabas start                             in one terminal",
        "  echo hello | barnabas produce greetings    in another",
        "  barnabas consume greetings --from-beginning --max 1",
        "",
        "nouns:",
    ]
    lines += [f"  {noun:<12} {about:<46} {example}" for noun, (_, about, example) in NOUNS.items()]
    lines += [
        "",
        "common flags:",
        "  --bootstrap-server HOST:PORT   the cluster (default $BARNABAS_BOOTSTRAP or 127.0.0.1:9092)",
        "  --json                         one JSON document with a version instead of a table",
        "  --version, --help",
        "",
        "exit codes: 0 done, 1 refused or failed, 2 usage, 3 unreachable, 4 not found, 5 timeout, 6 damaged",
    ]
    return "\n".join(lines)


def find_noun(word: str) -> str | None:
    """`find_noun("prod")` -> "produce"; None if there is no such noun or more than one."""
    if word in NOUNS:
        return word
    matches = [noun for noun in NOUNS if noun.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def main(argv: Sequence[str] | None = None) -> int:
    """`main(["topics", "list"])` -> exit code."""
    open_closed_streams()
    try:
        code = _main(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has gone (| head): not our failure
        return 0
    except OSError as error:  # what the command met otherwise is told by `_run`
        from barnabas.cli.exits import NO_ROOM

        with suppress(OSError):
            print(f"error: the output cannot be written: {error.strerror or error}", file=sys.stderr)
            print(f"  next: {NO_ROOM}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # argparse: --help or wrong usage
        return end.code if isinstance(end.code, int) else 2
    finally:
        settle_streams()
        # CPython notes a KeyboardInterrupt that leaves an `exec` (of a dataclass that is being imported, say), and
        # ends `python -m` by the signal for it, caught or not.  Another `exec` makes it forget.
        exec("")


def _main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version", "version"):
        print(f"barnabas {__version__}")
        return 0
    from barnabas.cli.typed.usage import with_flags_last

    arguments = with_flags_last(arguments, 1)
    noun = find_noun(arguments[0])
    if noun is None:
        return _unknown(arguments[0])
    return _run(noun, arguments[1:]) if noun in _DRAWS else _run_plainly(noun, arguments[1:])


def _run_plainly(noun: str, arguments: list[str]) -> int:
    """Run it; what others have named cannot move the cursor of whoever reads it."""
    from contextlib import redirect_stderr, redirect_stdout

    from barnabas.cli.typed.plain import PlainStream

    with redirect_stdout(PlainStream(sys.stdout)), redirect_stderr(PlainStream(sys.stderr)):
        return _run(noun, arguments)


def _run(noun: str, arguments: list[str]) -> int:
    from importlib import import_module

    from barnabas.cli.typed.usage import Parser, with_flags_last

    module_name, about, _ = NOUNS[noun]
    module = import_module(module_name)
    parser = Parser(
        prog=f"barnabas {noun}",
        description=(module.__doc__ or about).strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    if any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        arguments = with_flags_last(arguments, 1)
    parsed = parser.parse_args(arguments)
    from barnabas.errors import BarnabasError

    try:
        if noun in _STARTS_NODES:
            from barnabas.interpreter import check_posix

            check_posix()
        return int(module.run(parsed) or 0)
    except BrokenPipeError:
        raise
    except (BarnabasError, OSError) as error:
        return report(error, noun)
    except ModuleNotFoundError as error:
        from barnabas.interpreter import POSIX_MODULES, needs_posix

        if error.name not in POSIX_MODULES:
            raise
        return report(needs_posix(), noun)


def report(error: Exception, noun: str = "") -> int:
    """`return report(error)`: print what went wrong and what to do, give the exit code."""
    from barnabas.cli.exits import exit_code, next_step_of

    sys.stdout.flush()
    what = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else error
    print(f"error: {what}", file=sys.stderr)
    print(f"  next: {next_step_of(error, noun)}", file=sys.stderr)
    return int(exit_code(error))


def _unknown(word: str) -> int:
    from barnabas.cli.typed.nearest import meant

    hint = meant("barnabas", word, NOUNS) or "run `barnabas --help`"
    print(f"error: there is no command `barnabas {word}`", file=sys.stderr)
    print(f"  next: {hint}", file=sys.stderr)
    return 2
