"""`barnabas quorum set-endpoint`: say where a controller is, when the others cannot find it.

At a controller that runs (it tells the others):
    barnabas quorum -C 127.0.0.1:9093 set-endpoint --node 2 --endpoint HOST:PORT
In the directory of one that is stopped:
    barnabas quorum set-endpoint --config FILE --node 2 --endpoint HOST:PORT
Without --node: what it knows of everybody.

An address only says where to dial.  Whoever answers there must still be that controller, with its disk.
"""

from __future__ import annotations

import argparse
from typing import Any

from barnabas.cli.controllers import read_properties, security_of
from barnabas.cli.exits import Exit
from barnabas.cli.output import show
from barnabas.cli.typed.numbers import node_id
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas quorum set-endpoint`."""
    parser.add_argument(
        "--node", type=node_id, metavar="ID", help="whose address; without it: show what is known"
    )
    parser.add_argument("--endpoint", metavar="HOST:PORT", help="where its controller listener is now")
    parser.add_argument(
        "--config", metavar="FILE", help="properties of a node that is stopped, on this machine"
    )


def run(args: argparse.Namespace) -> int:
    """Set it, or show what is known."""
    if (args.node is None) != (args.endpoint is None):
        raise ConfigError(
            "--node and --endpoint go together", next_step="leave out both to see what is known"
        )
    if bool(args.config) == bool(args.bootstrap_controller):
        raise ConfigError(
            "say which node shall know it: one that runs (-C HOST:PORT) or one that is stopped (--config FILE)"
        )
    at = None if args.endpoint is None else _address(args.endpoint)
    rows = _offline(args, at) if args.config else _online(args, at)
    if at is not None and not args.json:
        print(f"Controller {args.node} is looked for at {args.endpoint} now.")
    show(args, "controllers", rows, ["id", "directory_id", "endpoints", "said_by"])
    return Exit.OK


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigError(f"--endpoint {text} is no HOST:PORT", next_step="for example 10.0.0.2:9093")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _online(args: argparse.Namespace, at: tuple[str, int] | None) -> list[dict[str, Any]]:
    from barnabas.client.admin.endpoints import read_endpoints, set_endpoint

    security = security_of(args)
    controllers = [_address(text.strip()) for text in args.bootstrap_controller.split(",")]
    if at is not None:
        for host, port in controllers:
            set_endpoint(host, port, args.node, *at, timeout=args.timeout, security=security)
    known = read_endpoints(*controllers[0], timeout=args.timeout, security=security)
    return [_row(one.id, one.directory_id, one.endpoints, one.start) for one in known]


def _offline(args: argparse.Namespace, at: tuple[str, int] | None) -> list[dict[str, Any]]:
    from barnabas.config import Config
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock
    from barnabas.server.node.known_addresses import known_addresses, set_address

    config, disk, clock = Config.load(read_properties(args.config)), OsDisk(), SystemClock()
    if at is None:
        contacts = known_addresses(disk, clock, config)
    else:
        contacts = set_address(disk, clock, config, args.node, *at)
    return [_row(c.key.id, c.key.directory_id, tuple(map(str, c.endpoints)), c.start) for c in contacts]


def _row(node_id: int, directory_id: object, endpoints: tuple[str, ...], start: int) -> dict[str, Any]:
    return {
        "id": node_id,
        "directory_id": str(directory_id),
        "endpoints": ", ".join(endpoints),
        "said_by": "itself or an operator" if start else "the voter set",
    }
