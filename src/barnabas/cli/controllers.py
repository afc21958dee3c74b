"""Flags and words that the commands about controllers share (`quorum`, `features`, `cluster`).

Apache Kafka's tools take the cluster before the verb (`--bootstrap-controller HOST:PORT describe`), ours
after it; both are taken.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from barnabas.cli.output import COMMAND_CONFIG, DEFAULT_BOOTSTRAP
from barnabas.cli.typed.numbers import seconds
from barnabas.errors import ConfigError, StorageError

__all__ = ["add_flags", "bootstrap_of", "read_properties", "security_of"]


def add_flags(parser: argparse.ArgumentParser, *, before_the_verb: bool = False) -> None:
    """The flags of a command that talks to brokers or controllers, before the verb or after it."""
    later: dict[str, Any] = {} if before_the_verb else {"default": argparse.SUPPRESS}

    def flag(*names: str, default: Any = None, **more: Any) -> None:
        parser.add_argument(*names, **{"default": default, **later, **more})

    flag(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        help="brokers, with commas (default: $BARNABAS_BOOTSTRAP or 127.0.0.1:9092)",
    )
    flag("--bootstrap-controller", "-C", metavar="HOST:PORT", help="controllers instead of brokers")
    flag(
        "--command-config",
        "-c",
        metavar="FILE",
        help=f"how to log in (default: ${COMMAND_CONFIG}); for add-controller the new controller's properties",
    )
    flag("--timeout", type=seconds, default=30.0, metavar="SECONDS", help="how long to try (30)")
    flag("--json", action="store_true", default=False, help="print one JSON document")


def bootstrap_of(args: argparse.Namespace) -> str:
    """The addresses to ask.  Raises ConfigError when both kinds are given."""
    if args.bootstrap_server and args.bootstrap_controller:
        raise ConfigError("say --bootstrap-server or --bootstrap-controller, one of the two")
    given: str | None = args.bootstrap_controller or args.bootstrap_server
    return given or os.environ.get("BARNABAS_BOOTSTRAP", DEFAULT_BOOTSTRAP)


def security_of(args: argparse.Namespace) -> dict[str, str]:
    """How to log in: the security options in --command-config.  Raises ConfigError.

    A node's file, as add-controller takes it, has settings of those names that say how others log in there.  With
    `security.protocol`, which is no node's, it is a client's file, too, as for Kafka's tools; else the file that
    $BARNABAS_COMMAND_CONFIG names counts.
    """
    from barnabas.client.security.options import NAMES, is_security_option

    default = os.environ.get(COMMAND_CONFIG)
    path = getattr(args, "command_config", None) or default
    properties = read_properties(path) if path else {}
    if "process.roles" in properties:
        if "security.protocol" not in properties:
            properties = read_properties(default) if default and default != path else {}
        properties = {name: value for name, value in properties.items() if name in NAMES}
    return {name: value for name, value in properties.items() if is_security_option(name)}


def read_properties(path: str) -> dict[str, str]:
    """The settings in a property file, with the values that they refer to.  Raises ConfigError."""
    from barnabas.cli.typed import properties

    try:
        return properties.with_values(properties.read_properties(path))
    except StorageError as error:
        raise ConfigError(error.message, next_step=error.next_step) from error.__cause__
