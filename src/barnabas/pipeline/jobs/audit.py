"""Audit: do a topic, its archive and its copies hold the same records in the same order?

    barnabas pipeline run audit 127.0.0.1:9092/flights /data/archive 127.0.0.1:9092/flights-restored

Key, value, headers and timestamp of each record are compared by checksum (see `checksums`), each partition by
itself; offsets are shown and not compared.  Copy this file and change it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import Cluster
from barnabas.errors import ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.archives.directory import ArchiveDirectory
from barnabas.pipeline.archives.index import index_of, write_index
from barnabas.pipeline.archives.source import ArchiveSource
from barnabas.pipeline.jobs.checksums import RUN_SCHEMA, Run, join_runs, run_of_row, runs_of
from barnabas.pipeline.jobs.job_options import security_in
from barnabas.pipeline.jobs.progress import plain_failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Finding", "Side", "audit", "compare", "sum_up"]

_HASH = (
    "xxhash64(isnull(key), coalesce(key, X''), isnull(value), coalesce(value, X''), unix_millis(timestamp), "
    "size(coalesce(headers, array())), "
    "transform(coalesce(headers, array()), h -> struct(h.key, isnull(h.value), coalesce(h.value, X''))))"
)
"""Of one record; what is null is not what is empty."""
_NO_TOPIC = "one side has no such topic"


@dataclass(frozen=True, slots=True)
class Side:
    """Something to look at: topics of a cluster, or an archive.  `text` as it was written."""

    text: str
    bootstrap: str | None = None
    topics: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For a table: of several addresses the first."""
        if self.bootstrap is None:
            return self.text
        return f"{self.bootstrap.split(',')[0]}/{','.join(self.topics)}"

    @classmethod
    def parse(cls, text: str) -> Side:
        """`HOST:PORT/topic,topic` or a directory.  Raises ConfigError."""
        if os.path.isdir(text):
            return cls(text)
        bootstrap, slash, names = text.partition("/")
        topics = tuple(name for name in names.split(",") if name)
        if not slash or not topics or ":" not in bootstrap:
            raise ConfigError(
                f"{text} is neither a directory nor topics",
                next_step="write HOST:PORT/TOPIC, or an archive's directory",
            )
        return cls(text, bootstrap, topics)


@dataclass(frozen=True, slots=True)
class Finding:
    """A partition on one side: what it comes to, and how it compares with the first side ("" on that itself)."""

    where: TopicPartition
    side: str
    run: Run | None
    verdict: str

    def row(self) -> dict[str, Any]:
        run = self.run
        return {
            "topic": self.where.topic,
            "partition": self.where.partition,
            "in": self.side,
            "records": run.records if run else 0,
            "offsets": f"{run.first} to {run.last}" if run else "-",
            "checksum": f"{run.checksum:016x}" if run else "-",
            "compared": self.verdict,
        }


def sum_up(
    spark: SparkSession, side: Side, options: Mapping[str, str] = {}
) -> dict[TopicPartition, Run | None]:
    """What each partition of a side comes to; None where it has no records.

    Raises BarnabasError where a topic, or the archive, is not there.
    """
    found: dict[TopicPartition, Run | None] = dict.fromkeys(_partitions(side, options))
    spark.dataSource.register(ArchiveSource)
    with tempfile.TemporaryDirectory(prefix="barnabas-audit-") as work:
        rows = _rows(spark, side, options, work)
        hashed = rows.selectExpr("topic", "partition", "offset", f"{_HASH} AS hash")
        try:
            runs = hashed.mapInArrow(runs_of, RUN_SCHEMA).collect()
        except Exception as error:
            raise plain_failure(error, "mend that, and run the audit again") from error
    return found | join_runs(run_of_row(row) for row in runs)


def _partitions(side: Side, options: Mapping[str, str]) -> list[TopicPartition]:
    if side.bootstrap is None:
        counts = {topic.name: topic.partitions for topic in ArchiveDirectory(side.text).topics()}
    else:
        with Cluster(side.bootstrap, client_id="barnabas-audit", security=security_in(options)) as cluster:
            counts = {name: len(cluster.topic(name, refresh=True).partitions) for name in side.topics}
    return [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]


def _rows(spark: SparkSession, side: Side, options: Mapping[str, str], work: str) -> DataFrame:
    if side.bootstrap is None:
        index = os.path.join(work, "index.json")
        write_index(index, index_of(ArchiveDirectory(side.text).files()))
        return spark.read.format(ArchiveSource.name()).option("index", index).load()
    return (
        spark.read.format("barnabas")
        .options(**options)
        .option("kafka.bootstrap.servers", side.bootstrap)
        .option("subscribe", ",".join(side.topics))
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .load()
    )


def compare(
    sides: list[tuple[str, dict[TopicPartition, Run | None]]], rename: Mapping[str, str]
) -> list[Finding]:
    """Every partition on every side, beside the first side.  `rename`: the name there of a name on the first side.

    Sides of one topic each need no renaming.
    """
    reference_name, reference = sides[0]
    topics = {where.topic for where in reference}
    findings = [Finding(where, reference_name, run, "") for where, run in reference.items()]
    for name, found in sides[1:]:
        others = {where.topic for where in found}
        back = {rename[topic]: topic for topic in topics & rename.keys() if rename[topic] in others}
        if not back and len(topics) == len(others) == 1:
            back = {others.copy().pop(): topics.copy().pop()}
        named = {TopicPartition(back.get(w.topic, w.topic), w.partition): run for w, run in found.items()}
        both = topics & {where.topic for where in named}
        for where in reference.keys() | named.keys():
            verdict = _verdict(reference.get(where), named.get(where)) if where.topic in both else _NO_TOPIC
            findings.append(Finding(where, name, named.get(where), verdict))
    order = {name: number for number, (name, _) in enumerate(sides)}
    return sorted(findings, key=lambda one: (one.where, order[one.side]))


def _verdict(expected: Run | None, found: Run | None) -> str:
    wanted, there = (run.records if run else 0 for run in (expected, found))
    if there != wanted:
        return f"{abs(there - wanted)} {'more' if there > wanted else 'missing'}"
    same = (expected.checksum if expected else None) == (found.checksum if found else None)
    return "equal" if same else "other contents or order"


def audit(
    spark: SparkSession,
    sides: list[Side],
    *,
    rename: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
    first_options: Mapping[str, str] | None = None,
) -> list[Finding]:
    """`audit(spark, [Side.parse("127.0.0.1:9092/flights"), Side.parse("/data/archive")])`.

    `options` of the source, for the first side `first_options` where they are given.
    """
    found = []
    for number, side in enumerate(sides):
        own = options if number or first_options is None else first_options
        found.append((side.label, sum_up(spark, side, own)))
    return compare(found, rename)
