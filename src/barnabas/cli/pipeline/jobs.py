"""`barnabas pipeline run JOB`, `list`, `status` and `stop`: the jobs that people run on a log."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barnabas.cli.controllers import read_properties, security_of
from barnabas.cli.output import add_cluster_flags, show
from barnabas.errors import BarnabasError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.jobs.status import JobReport

__all__ = ["add_job_arguments", "run_job"]

_COLUMNS = ("name", "job", "state", "rows", "lag", "rows_per_s", "told_s_ago", "process")
_AUDITED = ("topic", "partition", "in", "records", "offsets", "checksum", "compared")


def add_job_arguments(verbs: Any) -> None:
    """The verbs `run`, `list`, `status` and `stop`."""
    jobs = verbs.add_parser("run", help="archive, restore or audit topics").add_subparsers(
        dest="job", required=True, metavar="JOB"
    )
    job = jobs.add_parser("archive", help="write topics to Parquet files; again: what is new since")
    job.add_argument("topics", metavar="HOST:PORT/TOPIC[,TOPIC]", help="the cluster and its topics")
    job.add_argument("directory", help="the archive, new or one of the same topics")
    job.add_argument("--follow", metavar="TIME", help='go on for ever, so often: "10 seconds"')
    _add_common(job)
    job = jobs.add_parser("restore", help="write an archive to topics, exactly once")
    job.add_argument("directory", help="the archive")
    job.add_argument("bootstrap", metavar="HOST:PORT", help="the cluster")
    job.add_argument("--checkpoint", metavar="DIR", help="how far it is (in the archive's directory)")
    _add_rename(job)
    _add_common(job)
    job = jobs.add_parser("audit", help="compare topics, archives and copies by count and checksum")
    job.add_argument("sides", metavar="SIDE", nargs="+", help="HOST:PORT/TOPIC[,TOPIC] or an archive")
    job.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    _add_rename(job)
    _add_common(job, streams=False)
    found = verbs.add_parser("list", help="the jobs that reported to a cluster")
    add_cluster_flags(found)
    one = verbs.add_parser("status", help="how far a job is")
    one.add_argument("name")
    add_cluster_flags(one)
    stop = verbs.add_parser("stop", help="ask a job to stop after its micro-batch")
    stop.add_argument("name")
    add_cluster_flags(stop)


def _add_rename(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--rename",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="the topic's name there; may be repeated",
    )


def _add_common(job: argparse.ArgumentParser, *, streams: bool = True) -> None:
    job.add_argument("--master", default="local[*]", help="Spark's master (local[*])")
    job.add_argument("--command-config", metavar="FILE", help="settings of Kafka clients, one a line")
    if streams:
        job.add_argument("--rows", type=int, default=200_000, help="of a micro-batch at most (200000)")
        job.add_argument("--name", help="in `barnabas pipeline list` (the job and its topics)")


def run_job(args: argparse.Namespace) -> int:
    """Run one of these verbs; its exit code."""
    if args.verb == "run":
        return {"archive": _archive, "restore": _restore, "audit": _audit}[args.job](args)
    return {"list": _list, "status": _status, "stop": _stop}[args.verb](args)


def _options(args: argparse.Namespace) -> dict[str, str]:
    """What --command-config says, under the names of Spark's options."""
    given = read_properties(args.command_config) if args.command_config else {}
    return {f"kafka.{name}": value for name, value in given.items()}


def _rename(args: argparse.Namespace) -> dict[str, str]:
    pairs = [text.partition("=") for text in args.rename]
    for old, equals, new in pairs:
        if not (old and equals and new):
            raise ConfigError(f"--rename {old}{equals}{new}: write it as OLD=NEW")
    return {old: new for old, _, new in pairs}


@contextmanager
def _spark(args: argparse.Namespace) -> Iterator[SparkSession]:
    from barnabas.pipeline.session import session

    spark = session(f"barnabas {args.job}", args.master)
    try:
        yield spark
    finally:
        spark.stop()


def _reported(
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
        _spark(args) as spark,
    ):
        job(spark, report)
    status = report.status
    print(f"{status.name}: {status.state}, {status.rows:,} rows, {status.lag:,} behind")


def _archive(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.archive import archive
    from barnabas.pipeline.jobs.audit import Side

    side = Side.parse(args.topics)
    if side.bootstrap is None:
        raise ConfigError(
            f"{args.topics} is a directory", next_step="write HOST:PORT/TOPIC, then the directory"
        )
    bootstrap, topics = side.bootstrap, list(side.topics)

    def run(spark: SparkSession, report: JobReport) -> None:
        archive(
            spark,
            bootstrap,
            topics,
            args.directory,
            report.progress,
            options=_options(args),
            rows=args.rows,
            every=args.follow,
            heard=report.heard,
        )

    _reported(args, bootstrap, f"archive-{'-'.join(topics)}", run)
    return 0


def _restore(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.archive_directory import ArchiveDirectory
    from barnabas.pipeline.jobs.restore import restore

    rename = _rename(args)
    names = [rename.get(topic.name, topic.name) for topic in ArchiveDirectory(args.directory).topics()]

    def run(spark: SparkSession, report: JobReport) -> None:
        restore(
            spark,
            args.directory,
            args.bootstrap,
            report.progress,
            rename=rename,
            options=_options(args),
            checkpoint=args.checkpoint,
            rows=args.rows,
            heard=report.heard,
        )

    _reported(args, args.bootstrap, f"restore-{'-'.join(names)}", run)
    return 0


def _audit(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.audit import Side, audit

    sides = [Side.parse(text) for text in args.sides]
    if len({side.text for side in sides}) != len(sides):
        raise ConfigError("one side is named twice")
    with _spark(args) as spark:
        findings = audit(spark, sides, rename=_rename(args), options=_options(args))
    show(args, "pipeline.audit", [finding.row() for finding in findings], _AUDITED)
    if other := [finding for finding in findings if finding.verdict not in ("", "equal")]:
        raise BarnabasError(
            f"{len(other)} of {sum(finding.verdict != '' for finding in findings)} partitions are not equal",
            next_step="where the log still grows or forgets, archive again first; else restore from the archive",
        )
    return 0


def _list(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.status import now_ms, read_jobs

    found = read_jobs(args.bootstrap_server, security=security_of(args), timeout=args.timeout)
    show(args, "pipeline.jobs", [job.row(now_ms()) for job in found], _COLUMNS)
    return 0


def _status(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.status import now_ms, read_jobs

    jobs = read_jobs(args.bootstrap_server, security=security_of(args), timeout=args.timeout)
    found = [job.row(now_ms()) for job in jobs if job.name == args.name]
    if not found:
        error = BarnabasError(f"no job {args.name}", next_step="`barnabas pipeline list` shows the jobs")
        error.exit_code = 4  # type: ignore[attr-defined]  # as Exit.NOT_FOUND
        raise error
    show(args, "pipeline.job", found, (*_COLUMNS, "reason"))
    return 0


def _stop(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.status import ask_to_stop

    ask_to_stop(args.bootstrap_server, args.name, security=security_of(args), timeout=args.timeout)
    print(f"{args.name} is asked to stop; `barnabas pipeline status {args.name}` says when it has")
    return 0
