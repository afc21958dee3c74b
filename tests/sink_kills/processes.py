"""The processes of the query, by what they are: the driver's Python, the JVM, and Spark's Python workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

__all__ = ["kill", "of_the_query"]

DAEMONS = ("pyspark.daemon", "barnabas.pipeline.worker_daemon")
"""Programs whose children are Python workers; Java's command line names ours, too, as a setting."""


def of_the_query(roots: Sequence[int]) -> dict[str, list[int]]:
    """The processes that descend from the first root, its driver, and from others: kind -> process ids."""
    parents: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: dict[str, list[int]] = {"driver": [roots[0]], "jvm": [], "worker": [], "executor": []}
    left = [child for root in roots for child in parents.get(root, ())]
    while left:
        process = left.pop()
        left += parents.get(process, ())
        command = commands.get(process, "")
        if any(f" -m {daemon} " in command for daemon in DAEMONS):
            found["worker"].append(process)
        elif "org.apache.spark.deploy.SparkSubmit" in command:
            found["jvm"].append(process)
        elif "CoarseGrainedExecutorBackend" in command:
            found["executor"].append(process)
    return found


def kill(process: int) -> None:
    """kill -9; one that is gone already is no error."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
