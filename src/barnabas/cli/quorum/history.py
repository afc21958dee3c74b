"""`barnabas quorum history`: who changed the quorum when, and what the change waited for."""

from __future__ import annotations

import argparse
import time
from typing import Any

from barnabas.cli.controllers import bootstrap_of, security_of
from barnabas.cli.output import show

__all__ = ["history_rows", "run"]

COLUMNS = ["when", "what", "outcome", "by", "waited_s", "waited_for"]


def run(args: argparse.Namespace) -> int:
    """Print the newest changes, the last one last."""
    from barnabas.client.admin.quorum_detail import quorum_history
    from barnabas.client.cluster import Cluster

    with Cluster(bootstrap_of(args), timeout=args.timeout, security=security_of(args)) as cluster:
        found = quorum_history(cluster)
    newest = found[-args.last :] if args.last else found
    show(args, "quorum.history", history_rows(newest), COLUMNS)
    return 0


def history_rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table, times in the reader's time zone."""
    return [
        {
            **line,
            "when": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["at"] / 1000)),
            "waited_s": line.get("seconds"),
            "waited_for": line.get("waited_for"),
        }
        for line in found
    ]
