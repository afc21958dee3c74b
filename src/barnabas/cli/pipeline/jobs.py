"""`barnabas pipeline run JOB`, `list`, `status` and `stop`: the jobs that people run on a log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, show
from barnabas.cli.pipeline.running import (
    add_accept_loss,
    add_common,
    add_rename,
    check_cluster,
    options_in,
    rename_of,
    reported,
    source_options,
    spark_of,
)
from barnabas.cli.typed.numbers import interval, whole
from barnabas.errors import BarnabasError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.jobs.audit import Side
    from barnabas.pipeline.jobs.status import JobReport

__all__ = ["add_job_arguments", "run_job"]

_COLUMNS = ("name", "job", "state", "rows", "lag", "rows_per_s", "told_s_ago", "process")
_AUDITED = ("topic", "partition", "in", "records", "offsets", "checksum", "compared")


def add_job_arguments(verbs: Any) -> None:
    """The verbs `run`, `list`, `status` and `stop`."""
    jobs = verbs.add_parser("run", help="archive, restore, audit or mirror topics").add_subparsers(
        dest="job", required=True, metavar="JOB"
    )
    job = jobs.add_parser("archive", help="write topics to Parquet files; again: what is new since")
    job.add_argument("topics", metavar="HOST:PORT/TOPIC[,TOPIC]", help="the cluster and its topics")
    job.add_argument("directory", help="the archive, new or one of the same topics")
    job.add_argument("--follow", type=interval, metavar="TIME", help='go on for ever, so often: "10 seconds"')
    job.add_argument(
        "--format",
        choices=("parquet", "delta"),
        default="parquet",
        help="delta: the files are a Delta table, too (DIRECTORY/records)",
    )
    add_accept_loss(job)
    add_common(job)
    job = jobs.add_parser("restore", help="write an archive to topics, exactly once")
    job.add_argument("directory", help="the archive")
    job.add_argument("bootstrap", metavar="HOST:PORT", help="the cluster")
    job.add_argument("--checkpoint", metavar="DIR", help="how far it is (in the archive's directory)")
    add_rename(job)
    add_common(job)
    job = jobs.add_parser("audit", help="compare topics, archives and copies by count and checksum")
    job.add_argument("sides", metavar="SIDE", nargs="+", help="HOST:PORT/TOPIC[,TOPIC] or an archive")
    job.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    job.add_argument("--source-config", metavar="FILE", help="as --command-config, for the first side")
    add_rename(job)
    add_common(job, streams=False)
    job = jobs.add_parser(
        "mirror", help="copy topics to another cluster, exactly once; again: what is new since"
    )
    job.add_argument("topics", metavar="HOST:PORT/TOPIC[,TOPIC]", help="the cluster to read, and its topics")
    job.add_argument("bootstrap", metavar="HOST:PORT", help="the cluster that gets the copies")
    job.add_argument("directory", help="how far the mirror is, new or that of an earlier run")
    job.add_argument("--groups", metavar="GROUP[,GROUP]", help="translate what these groups have committed")
    job.add_argument("--follow", type=interval, metavar="TIME", help='go on for ever, so often: "10 seconds"')
    job.add_argument("--source-config", metavar="FILE", help="as --command-config, for the cluster to read")
    add_accept_loss(job)
    add_rename(job)
    add_common(job)
    job = jobs.add_parser("flights", help="an example: late flights to a topic of their own, exactly once")
    job.add_argument("topics", metavar="HOST:PORT/TOPIC", help="the cluster, and the topic with the flights")
    job.add_argument("late", metavar="TOPIC", help="gets those that leave late")
    job.add_argument("directory", help="how far it is, new or that of an earlier run")
    job.add_argument(
        "--send", action="store_true", help="fill the topic with the data set of `make demo` first"
    )
    job.add_argument("--minutes", type=whole(0), default=15, help="after which a flight is late (15)")
    job.add_argument("--follow", type=interval, metavar="TIME", help='go on for ever, so often: "10 seconds"')
    add_common(job)
    found = verbs.add_parser("list", help="the jobs that reported to a cluster")
    add_cluster_flags(found)
    one = verbs.add_parser("status", help="how far a job is")
    one.add_argument("name")
    add_cluster_flags(one)
    stop = verbs.add_parser("stop", help="ask a job to stop after its micro-batch")
    stop.add_argument("name")
    add_cluster_flags(stop)


def run_job(args: argparse.Namespace) -> int:
    """Run one of these verbs; its exit code."""
    from barnabas.client.connection import ConnectionFailed

    if args.verb == "run":
        jobs = {
            "archive": _archive,
            "restore": _restore,
            "audit": _audit,
            "mirror": _mirror,
            "flights": _flights,
        }
        try:
            return jobs[args.job](args)
        except ConnectionFailed as error:
            if error.next_step is None:  # (else it would name a flag that jobs have not)
                error.next_step = f"see whether a node listens at {error.address}: a job is given HOST:PORT"
            raise
    return {"list": _list, "status": _status, "stop": _stop}[args.verb](args)


def _topics(side: Side) -> tuple[str, list[str]]:
    if side.bootstrap is None:
        raise ConfigError(
            f"{side.text} is a directory", next_step="write HOST:PORT/TOPIC, then the directory"
        )
    return side.bootstrap, list(side.topics)


def _archive(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.archive import archive
    from barnabas.pipeline.jobs.audit import Side

    bootstrap, topics = _topics(Side.parse(args.topics))
    check_cluster(bootstrap, args.command_config, topics)

    def run(spark: SparkSession, report: JobReport) -> None:
        archive(
            spark,
            bootstrap,
            topics,
            args.directory,
            report.progress,
            options=source_options(args.command_config, args),
            rows=args.rows,
            every=args.follow,
            delta=args.format == "delta",
            heard=report.heard,
        )

    reported(args, bootstrap, f"archive-{'-'.join(topics)}", run)
    return 0


def _restore(args: argparse.Namespace) -> int:
    from barnabas.pipeline.archives.directory import ArchiveDirectory
    from barnabas.pipeline.jobs.restore import restore

    rename = rename_of(args)
    names = [rename.get(topic.name, topic.name) for topic in ArchiveDirectory(args.directory).topics()]

    def run(spark: SparkSession, report: JobReport) -> None:
        restore(
            spark,
            args.directory,
            args.bootstrap,
            report.progress,
            rename=rename,
            options=options_in(args.command_config),
            checkpoint=args.checkpoint,
            rows=args.rows,
            heard=report.heard,
        )

    reported(args, args.bootstrap, f"restore-{'-'.join(names)}", run)
    return 0


def _mirror(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.audit import Side
    from barnabas.pipeline.jobs.mirror import mirror

    source, topics = _topics(Side.parse(args.topics))
    rename = rename_of(args)
    check_cluster(source, args.source_config, topics, source_of_two=True)

    def run(spark: SparkSession, report: JobReport) -> None:
        mirror(
            spark,
            source,
            topics,
            args.bootstrap,
            args.directory,
            report.progress,
            rename=rename,
            groups=[group for group in (args.groups or "").split(",") if group],
            source_options=source_options(args.source_config, args),
            options=options_in(args.command_config),
            rows=args.rows,
            every=args.follow,
            heard=report.heard,
        )

    reported(args, args.bootstrap, f"mirror-{'-'.join(rename.get(name, name) for name in topics)}", run)
    return 0


def _flights(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.audit import Side
    from barnabas.pipeline.jobs.late_flights import late_flights, send_flights

    bootstrap, topics = _topics(Side.parse(args.topics))
    if len(topics) != 1:
        raise ConfigError(f"flights are in one topic, not in {len(topics)}", next_step="name one topic")
    options = options_in(args.command_config)
    check_cluster(bootstrap, args.command_config, () if args.send else topics)

    def run(spark: SparkSession, report: JobReport) -> None:
        if args.send:
            send_flights(bootstrap, topics[0], report.progress, options=options)
        late_flights(
            spark,
            bootstrap,
            topics[0],
            args.late,
            args.directory,
            report.progress,
            minutes=args.minutes,
            options=options,
            rows=args.rows,
            every=args.follow,
            heard=report.heard,
        )

    reported(args, bootstrap, f"flights-{args.late}", run)
    return 0


def _audit(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.audit import Side, audit

    sides = [Side.parse(text) for text in args.sides]
    if len({side.text for side in sides}) != len(sides):
        raise ConfigError("one side is named twice")
    for number, side in enumerate(sides):
        if side.bootstrap is not None:
            own = args.command_config if number or args.source_config is None else args.source_config
            check_cluster(side.bootstrap, own, side.topics)
    with spark_of(args) as spark:
        findings = audit(
            spark,
            sides,
            rename=rename_of(args),
            options=options_in(args.command_config),
            first_options=options_in(args.source_config) if args.source_config else None,
        )
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
        error = BarnabasError(
            f"no job {args.name}",
            next_step=f"`barnabas pipeline list -b {args.bootstrap_server}` shows the jobs",
        )
        error.exit_code = 4  # type: ignore[attr-defined]  # as Exit.NOT_FOUND
        raise error
    show(args, "pipeline.job", found, (*_COLUMNS, "reason"))
    return 0


def _stop(args: argparse.Namespace) -> int:
    from barnabas.pipeline.jobs.status import ask_to_stop

    ask_to_stop(args.bootstrap_server, args.name, security=security_of(args), timeout=args.timeout)
    status = f"barnabas pipeline status {args.name} -b {args.bootstrap_server}"
    print(f"{args.name} is asked to stop; `{status}` says when it has")
    return 0
