"""Data directories: format them, show which node they belong to.

barnabas storage random-uuid
barnabas storage format --standalone -t $(barnabas storage random-uuid) -c server.properties
barnabas storage info -c server.properties
"""

from __future__ import annotations

import argparse
import sys

from barnabas.cli.exits import Exit
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas storage`, those of Kafka's tool."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="format|info|random-uuid")
    form = verbs.add_parser("format", help="make directories this node's own")
    form.add_argument("--config", "-c", required=True, metavar="FILE", help="the node's properties")
    form.add_argument("--cluster-id", "-t", required=True, metavar="ID", help="see `storage random-uuid`")
    form.add_argument("--ignore-formatted", "-g", action="store_true", help="pass over what is formatted")
    form.add_argument("--release-version", "-r", metavar="VERSION", help="features of this release")
    form.add_argument(
        "--add-scram",
        "-S",
        action="append",
        default=[],
        metavar="MECHANISM=[name=USER,password=...]",
        help="a first user; others see a command line: `barnabas users add` asks for the password",
    )
    form.add_argument("--feature", "-f", action="append", default=[], metavar="NAME=LEVEL")
    first = form.add_mutually_exclusive_group()
    first.add_argument("--standalone", "-s", action="store_true", help="this node is the first voter")
    first.add_argument("--no-initial-controllers", "-N", action="store_true", help="it will join a quorum")
    first.add_argument("--initial-controllers", "-I", metavar="ID@HOST:PORT:DIRECTORY,...")
    info = verbs.add_parser("info", help="whose directories they are")
    info.add_argument("--config", "-c", required=True, metavar="FILE", help="the node's properties")
    verbs.add_parser("random-uuid", help="a new cluster id or directory id")


def run(args: argparse.Namespace) -> int:
    """`barnabas storage format|info|random-uuid`."""
    if args.verb == "random-uuid":
        from barnabas.server.loop.system import SystemRandomness

        print(SystemRandomness().uuid())
        return 0
    return _format(args) if args.verb == "format" else _info(args)


def _format(args: argparse.Namespace) -> int:
    from barnabas.cli.start import load_config
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock, SystemRandomness
    from barnabas.server.node.first_users import scram_record
    from barnabas.server.node.format import FormatPlan, check_alone, format_directories

    config = load_config(args.config)
    plan = FormatPlan.of(
        config,
        args.cluster_id,
        standalone=args.standalone,
        initial_controllers=args.initial_controllers,
        no_initial_controllers=args.no_initial_controllers,
        ignore_formatted=args.ignore_formatted,
        features=_features(args.feature),
        release=args.release_version,
        users=[scram_record(text) for text in args.add_scram],
    )
    try:
        if args.standalone:
            check_alone(config, plan.cluster_id)
        result = format_directories(OsDisk(), SystemClock(), SystemRandomness(), plan)
    except ConfigError as error:  # a refusal, not wrong usage: the same code as Kafka's tool
        from barnabas.cli.main import report

        report(error)
        return Exit.FAILED
    print("\n".join(result.lines))
    return Exit.OK


def _features(words: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for word in words:
        name, _, level = word.partition("=")
        if not level.isdecimal():
            raise ConfigError(
                f"{word!r} is no feature", next_step="write NAME=LEVEL, for example group.version=1"
            )
        levels[name] = int(level)
    return levels


def _info(args: argparse.Namespace) -> int:
    from barnabas.cli.start import load_config
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.node.format import format_report

    config = load_config(args.config)
    directories = list(dict.fromkeys([*config.log_dirs, config.metadata_log_dir]))
    found, problems, properties = format_report(OsDisk(), directories)
    out = sys.stdout
    if found:
        out.write("Found log directory:\n" if len(found) == 1 else "Found log directories:\n")
        out.writelines(f"  {directory}\n" for directory in found)
        out.write("\n")
    if properties:
        content = ", ".join(f"{name}={value}" for name, value in sorted(properties.items()))
        out.write(f"Found metadata: {{{content}}}\n\n")
    if problems:
        out.write("Found problem:\n" if len(problems) == 1 else "Found problems:\n")
        out.writelines(f"  {problem}\n" for problem in problems)
        out.write("\n")
    return Exit.FAILED if problems else Exit.OK
