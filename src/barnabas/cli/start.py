"""Run a node in the foreground until Ctrl-C (a second one ends it at once).

  barnabas start                         one node: data in ./barnabas-data, listening on 127.0.0.1:9092
  barnabas start --override listeners=PLAINTEXT://127.0.0.1:19092
  barnabas start server.properties       Kafka's property names; the directories must be formatted

Without a file the node formats itself the first time.  With one it refuses an unformatted directory, as
Kafka does: an empty disk should not join a cluster unnoticed (`barnabas storage format`).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from barnabas.config import Config

__all__ = ["add_arguments", "load_config", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas start`."""
    parser.add_argument("properties", nargs="?", metavar="FILE", help="server.properties, as Kafka's")
    parser.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting that wins over the file; may be given several times",
    )


def load_config(path: str | None, overrides: list[str] | None = None) -> Config:
    """`load_config("server.properties", ["node.id=2"])` -> Config; ConfigError names the nearest setting."""
    from barnabas.cli.topics import parse_settings
    from barnabas.config import Config, parse_properties

    properties: dict[str, str] = {}
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                properties = dict(parse_properties(file.read()))
        except UnicodeDecodeError as error:
            raise ConfigError(
                f"{path} is no text file", next_step="give a file of NAME=VALUE lines"
            ) from error
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
    properties.update(parse_settings(overrides or []))
    return Config.load(properties)


def run(args: argparse.Namespace) -> int:
    """`barnabas start`: ends with the node's exit code."""
    config = load_config(args.properties, args.override)
    from barnabas.server.process import run as run_node

    return run_node(config)
