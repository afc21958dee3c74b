"""What every `barnabas pipeline run JOB` has: flags, options, a Spark session, a bar and reports."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.controllers import read_properties, security_of
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.jobs.status import JobReport

__all__ = ["add_common", "add_rename", "options_in", "rename_of", "reported", "spark_of"]


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
    job.add_argument("--command-config", metavar="FILE", help="settings of Kafka clients, one a line")
    if streams:
        job.add_argument("--rows", type=int, default=200_000, help="of a micro-batch at most (200000)")
        job.add_argument("--name", help="in `barnabas pipeline list` (the job and its topics)")


def options_in(path: str | None) -> dict[str, str]:
    """What a file of Kafka clients' settings says, under the names of Spark's options."""
    given = read_properties(path) if path else {}
    return {f"kafka.{name}": value for name, value in given.items()}


def rename_of(args: argparse.Namespace) -> dict[str, str]:
    pairs = [text.partition("=") for text in args.rename]
    for old, equals, new in pairs:
        if not (old and equals and new):
            raise ConfigError(f"--rename {old}{equals}{new}: write it as OLD=NEW")
    return {old: new for old, _, new in pairs}


@contextmanager
def spark_of(args: argparse.Namespace) -> Iterator[SparkSession]:
    from barnabas.pipeline.session import session

    spark = session(f"barnabas {args.job}", args.master)
    try:
        yield spark
    finally:
        spark.stop()


def reported(
    args: argparse.Namespace, bootstrap: str, name: str, job: Callable[[SparkSession, JobReport], None]
) -> None:
    """Run a job with its bar and its reports; say how it ended."""
    from barnabas.pipeline.jobs.progress import Progress
    from barnabas.pipeline.jobs.status import JobReport

    if args.rows < 1:
        raise ConfigError(f"--rows {args.rows}: a micro-batch has at least one row")
    with (
        Progress(args.job) as progress,
        JobReport(bootstrap, args.name or name, args.job, progress, security=security_of(args)) as report,
        spark_of(args) as spark,
    ):
        job(spark, report)
    status = report.status
    print(f"{status.name}: {status.state}, {status.rows:,} rows, {status.lag:,} behind")
