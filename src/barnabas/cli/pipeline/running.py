"""What every `barnabas pipeline run JOB` has: flags, options, a Spark session, a bar and reports."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.controllers import read_properties, security_of
from barnabas.cli.output import add_command_config
from barnabas.cli.typed.numbers import whole
from barnabas.errors import BarnabasError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.jobs.status import JobReport

__all__ = [
    "add_accept_loss",
    "add_common",
    "add_rename",
    "check_cluster",
    "options_in",
    "rename_of",
    "reported",
    "source_options",
    "spark_of",
]


def add_rename(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="the topic's name there; may be repeated",
    )


def add_common(job: argparse.ArgumentParser, *, streams: bool = True) -> None:
    job.add_argument("--master", default="local[*]", help="Spark's master (local[*])")
    job.add_argument(
        "--spark-log",
        metavar="LEVEL",
        choices=("off", "error", "warn", "info", "debug"),
        default="off",
        help="what Spark itself logs: off, error, warn, info or debug (off; a job says why it failed)",
    )
    add_command_config(job)
    if streams:
        job.add_argument("--rows", type=whole(1), default=200_000, help="of a micro-batch at most (200000)")
        job.add_argument("--name", help="in `barnabas pipeline list` (the job and its topics)")


def options_in(path: str | None) -> dict[str, str]:
    """What a file of Kafka clients' settings says, under the names of Spark's options."""
    given = read_properties(path) if path else {}
    return {f"kafka.{name}": value for name, value in given.items()}


def add_accept_loss(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--accept-loss",
        action="store_true",
        help="go on where records were deleted before they were read, without them (they are said)",
    )


def source_options(path: str | None, args: argparse.Namespace) -> dict[str, str]:
    """Those of the cluster that is read."""
    return options_in(path) | ({"failOnDataLoss": "false"} if args.accept_loss else {})


def check_cluster(
    bootstrap: str, config: str | None, topics: Iterable[str] = (), *, source_of_two: bool = False
) -> None:
    """Log in to a cluster and look for topics before Spark takes its time to start.  Raises BarnabasError.

    `source_of_two`: it is the cluster that a mirror reads, whose settings are in a file of their own.
    """
    from barnabas.client.admin.admin import Admin
    from barnabas.client.connection import ConnectionFailed
    from barnabas.pipeline.jobs.job_options import security_in

    with Admin(bootstrap, client_id="barnabas-job", security=security_in(options_in(config))) as admin:
        try:
            admin.cluster.cluster_id()
        except BarnabasError as error:
            if not source_of_two or config is not None or error.next_step is None:
                raise  # (nobody listens there)
            said = error.message if bootstrap in error.message else f"{bootstrap}: {error.message}"
            raise ConnectionFailed(
                said,
                address=bootstrap,
                next_step="if the cluster to read asks for TLS or a login, give its settings with "
                "--source-config FILE (--command-config is for the other one)",
            ) from error
        for topic in topics:
            admin.describe_topic(topic)


def rename_of(args: argparse.Namespace) -> dict[str, str]:
    pairs = [text.partition("=") for text in args.rename]
    for old, equals, new in pairs:
        if not (old and equals and new):
            raise ConfigError(f"--rename {old}{equals}{new}: write it as OLD=NEW")
    return {old: new for old, _, new in pairs}


@contextmanager
def spark_of(args: argparse.Namespace) -> Iterator[SparkSession]:
    from barnabas.pipeline.connect import is_remote
    from barnabas.pipeline.jobs.interrupts import INTERRUPTS
    from barnabas.pipeline.session import session

    spark = session(f"barnabas {args.job}", args.master)
    try:
        if not is_remote(args.master):
            spark.sparkContext.setLogLevel(args.spark_log.upper())
        with INTERRUPTS.noted():
            yield spark
    finally:
        spark.stop()


def reported(
    args: argparse.Namespace, bootstrap: str, name: str, job: Callable[[SparkSession, JobReport], None]
) -> None:
    """Run a job with its bar and its reports; say how it ended."""
    from barnabas.pipeline.jobs.progress import Progress
    from barnabas.pipeline.jobs.status import JobReport

    check_cluster(bootstrap, args.command_config)
    name = args.name or name
    print(f"{name}: `barnabas pipeline status {name} -b {bootstrap}` shows how far it is", flush=True)
    with (
        Progress(args.job) as progress,
        JobReport(bootstrap, name, args.job, progress, security=security_of(args)) as report,
        spark_of(args) as spark,
    ):
        job(spark, report)
    status = report.status
    print(f"{status.name}: {status.state}, {status.rows:,} rows, {status.lag:,} behind")
