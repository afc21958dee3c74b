"""`barnabas start --nodes`: a cluster on this machine, one process for each node."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from barnabas.cli.output import print_document, print_rows
from barnabas.cli.typed.streams import told_if_possible
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.config import Config

__all__ = ["run"]


def run(args: argparse.Namespace, config: Config) -> int:
    """Ends with 0 when every node stopped cleanly, else 1."""
    from barnabas.log.files.disk import OsDisk
    from barnabas.server.loop.system import SystemClock, SystemRandomness
    from barnabas.server.node.host.layout import lay_out
    from barnabas.server.node.host.processes import run_host
    from barnabas.server.node.host.storage import format_host

    nodes = lay_out(config, _count(args.nodes))
    formatted = format_host(config, nodes, OsDisk(), SystemClock(), SystemRandomness())

    def ready(abouts: list[dict[str, Any]]) -> None:
        for about in abouts:
            about["formatted"] = about["node_id"] in formatted.now
        with told_if_possible():
            if args.json:
                print_document("nodes", {"cluster_id": formatted.cluster_id, "nodes": abouts})
            else:
                _tell(formatted.cluster_id, abouts)

    return run_host(config, nodes, args.override, ready)


def _tell(cluster_id: str, abouts: list[dict[str, Any]]) -> None:
    """Say that all nodes serve: one line for each."""
    from barnabas.version import __version__

    print(f"Barnabas {__version__}: {len(abouts)} nodes are ready.  Ctrl-C stops them.")
    print(f"  cluster id  {cluster_id}")
    print_rows(
        ["node", "roles", "listeners", "data", "pid"],
        [
            (
                about["node_id"],
                "broker,controller" if about["controller"] else "broker",
                ", ".join(about["listeners"]),
                ", ".join(about["directories"]) + (", formatted just now" if about["formatted"] else ""),
                about["pid"],
            )
            for about in abouts
        ],
    )


def _count(text: str) -> int:
    """Raises ConfigError."""
    if text == "auto":
        from barnabas.server.loop.system import cores

        return cores()
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"--nodes {text!r} is no number", next_step="--nodes 3, or --nodes auto") from None
