"""Run a node in the foreground until Ctrl-C (a second one ends it at once).

  barnabas start                         one node: data in ./barnabas-data, listening on 127.0.0.1:9092
  barnabas start --port 19092 --data /tmp/one
  barnabas start --override listeners=PLAINTEXT://127.0.0.1:19092
  barnabas start server.properties       Kafka's property names; the directories must be formatted
  barnabas start --nodes auto            a cluster on this machine: one node for each core
  barnabas start --secure                a node that only its owner can use: TLS, a super user, ACLs

Without a file the node formats itself the first time.  With one it refuses an unformatted directory, as
Kafka does: an empty disk should not join a cluster unnoticed (`barnabas storage format`).

With --nodes the ids, ports and directories of the nodes are derived from those of the first one, the first three
are the controllers, empty directories are formatted, a node that dies is started again, and Ctrl-C stops all.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli.exits import Exit, signals_stop
from barnabas.cli.typed.numbers import whole
from barnabas.cli.typed.streams import told_if_possible
from barnabas.errors import ConfigError, PortTakenError

if TYPE_CHECKING:
    from barnabas.config import Config
    from barnabas.server.node.process import ServerNode

__all__ = ["add_arguments", "banner", "load_config", "run"]


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
    parser.add_argument(
        "--port",
        type=whole(0, 65_534),
        metavar="N",
        help="listen on 127.0.0.1:N, its controller on the next port",
    )
    parser.add_argument("--data", metavar="DIR", help="where its data is (log.dirs)")
    parser.add_argument(
        "--nodes", metavar="N", help="so many nodes on this machine, a process each; auto: one for each core"
    )
    parser.add_argument(
        "--bootstrap", action="store_true", help="begin a cluster with this new node (once, no format step)"
    )
    parser.add_argument("--cluster-id", metavar="ID", help="with --bootstrap or --join: the cluster's")
    parser.add_argument(
        "--join", metavar="HOST:PORT", help="controllers, with commas: join their cluster (no format step)"
    )
    parser.add_argument(
        "--secure",
        action="store_true",
        help="in an empty directory: TLS, a super user, ACLs (docs/security.md)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document when it is ready")
    parser.add_argument(
        "--until-eof",
        action="store_true",
        help="stop when standard input ends, for programs that start a node",
    )


def load_config(path: str | None, overrides: list[str] | None = None) -> Config:
    """`load_config("server.properties", ["node.id=2"])` -> Config; ConfigError names the nearest setting."""
    from barnabas.cli.topics import parse_settings
    from barnabas.cli.typed.properties import read_properties, with_values
    from barnabas.config import Config

    properties: dict[str, str] = {}
    if path is not None:
        advice = "give the path of the node's properties; `barnabas start` without one needs none"
        properties = read_properties(path, advice)
    given = parse_settings(overrides or [])
    if path is None and "listeners" in given:
        given["listeners"] = with_controller(given["listeners"], given.get("process.roles"))
    properties.update(given)
    return Config.load(with_values(properties), file=path)


def with_controller(listeners: str, roles: str | None) -> str:
    """`with_controller("PLAINTEXT://h:9092", None)` adds CONTROLLER://h:9093: a node without a file needs one."""
    first, _, more = listeners.partition(",")
    name, _, address = first.partition("://")
    host, _, port = address.rpartition(":")
    alone = not more and name != "CONTROLLER" and port.isdecimal()
    if not alone or "controller" not in (roles or "controller"):
        return listeners
    return f"{listeners},CONTROLLER://{host}:{int(port) + 1 if int(port) else 0}"


def run(args: argparse.Namespace) -> int:
    """`barnabas start`: ends with the node's exit code."""
    with signals_stop():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    overrides = [f"log.dirs={args.data}"] if args.data is not None and not args.secure else []
    if args.secure:
        from barnabas.cli.start_secure import prepare

        args.properties = str(prepare(args))
    elif args.port is not None:
        if args.properties is not None:
            raise ConfigError(
                "--port goes without FILE", next_step=f"change `listeners` in {args.properties}"
            )
        overrides.append(f"listeners=PLAINTEXT://127.0.0.1:{args.port}")
    config = load_config(args.properties, [*overrides, *args.override, *_joining(args)])
    if args.nodes is not None:
        from barnabas.cli.start_nodes import run as run_nodes

        return run_nodes(args, config)
    from barnabas.server.node.run import run as run_node

    first = None
    if args.bootstrap or args.join:
        from barnabas.server.node.first_start import FirstStart

        first = FirstStart(args.bootstrap, args.cluster_id)

    def ready(node: ServerNode) -> None:
        with told_if_possible():
            if args.json:
                from barnabas.cli.output import print_document
                from barnabas.server.node.run import about

                print_document("node", {"node": about(node)})
            else:
                print("\n".join(banner(node)))
                if args.secure:
                    from barnabas.cli.start_secure import next_steps

                    print("\n".join(next_steps(Path(args.properties), "{}:{}".format(*node.address))))

    try:
        return run_node(
            config,
            format_new=None if args.properties is None and first is None else False,
            first=first,
            on_ready=ready,
            input_ends=sys.stdin.fileno() if args.until_eof else None,
        )
    except ConfigError as error:  # what it met when it started (a taken port), not wrong usage
        from barnabas.cli.main import report

        if isinstance(error, PortTakenError) and args.properties is None:
            error.next_step = (
                f"{error.shown}, or choose another with --port, which takes the one after it, too"
            )
        report(error)
        return Exit.FAILED


def _joining(args: argparse.Namespace) -> list[str]:
    """The words about the first start, checked; those to join are bootstrap servers, too."""
    from barnabas.cli.typed.properties import read_properties

    if args.bootstrap and args.join:
        raise ConfigError(
            "say --bootstrap or --join: a node begins a cluster or joins one",
            next_step=f"--bootstrap at one node, once; --join {args.join} at the others",
        )
    if args.cluster_id and not (args.bootstrap or args.join):
        raise ConfigError("--cluster-id goes with --bootstrap or --join")
    if (args.bootstrap or args.join) and args.nodes is not None:
        raise ConfigError("--nodes starts a whole cluster: it needs no --bootstrap and no --join")
    if (args.bootstrap or args.join) and args.properties is None:
        raise ConfigError(
            "--bootstrap and --join need the node's properties: its id, roles and listeners",
            next_step="barnabas start server.properties --bootstrap",
        )
    if not args.join:
        return []
    name = "controller.quorum.bootstrap.servers"
    for text in args.join.split(","):
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"--join {text} is no HOST:PORT", next_step="for example --join 10.0.0.1:9093")
    given = read_properties(args.properties).get(name, "")
    known = [text.strip() for text in f"{given},{args.join}".split(",") if text.strip()]
    return [f"{name}={','.join(dict.fromkeys(known))}"]


def banner(node: ServerNode) -> list[str]:
    """`print("\\n".join(banner(node)))`: the same for people."""
    from barnabas.server.node.run import about
    from barnabas.version import __version__

    said = about(node)
    durability = {
        "sync": "records are acknowledged when they are synced to disk (log.flush.interval.messages=1)",
        "page-cache": "records are acknowledged from the page cache: a power cut may lose them",
    }[said["durability"]]
    formatted = ", formatted just now" if said["formatted"] else ""
    http = [] if said["http"] is None else [f"  http          {said['http']}/metrics, /health/ready"]
    return [
        f"Barnabas {__version__} is ready.  Ctrl-C stops it.",
        f"  cluster id    {said['cluster_id']}",
        f"  node id       {said['node_id']}",
        f"  directory id  {said['directory_id']}",
        f"  data          {', '.join(said['directories'])}{formatted}",
        f"  listeners     {', '.join(said['listeners'])}",
        *(f"  open to all   {one}: no login, and other machines reach it" for one in said["open_listeners"]),
        *http,
        f"  durability    {durability}",
    ]
