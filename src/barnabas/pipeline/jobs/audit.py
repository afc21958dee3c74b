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

from barnabas.errors import ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.jobs.archive_directory import index_of, write_index
from barnabas.pipeline.jobs.archive_source import ArchiveSource
from barnabas.pipeline.jobs.checksums import RUN_SCHEMA, Run, join_runs, run_of_row, runs_of
from barnabas.pipeline.jobs.progress import plain_failure
from barnabas.pipeline.jobs.restore import archived_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Finding", "Side", "audit", "compare", "sum_up"]

_HASH = (
    "xxhash64(isnull(key), coalesce(key, X''), isnull(value), coalesce(value, X''), unix_millis(timestamp), "
    "size(coalesce(headers, array())), "
    "transform(coalesce(headers, array()), h -> struct(h.key, isnull(h.value), coalesce(h.value, X''))))"
)
"""Of one record; what is null is not what is empty."""


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


def sum_up(spark: SparkSession, side: Side, options: Mapping[str, str] = {}) -> dict[TopicPartition, Run]:
    """What each partition of a side comes to.  Partitions without records are not in it."""
    spark.dataSource.register(ArchiveSource)
    with tempfile.TemporaryDirectory(prefix="barnabas-audit-") as work:
        rows = _rows(spark, side, options, work)
        hashed = rows.selectExpr("topic", "partition", "offset", f"{_HASH} AS hash")
        try:
            found = hashed.mapInArrow(runs_of, RUN_SCHEMA).collect()
        except Exception as error:
            raise plain_failure(error, "mend that, and run the audit again") from error
    return join_runs(run_of_row(row) for row in found)


def _rows(spark: SparkSession, side: Side, options: Mapping[str, str], work: str) -> DataFrame:
    if side.bootstrap is None:
        index = os.path.join(work, "index.json")
        write_index(index, index_of(archived_files(spark, side.text)))
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


def compare(sides: list[tuple[str, dict[TopicPartition, Run]]], rename: Mapping[str, str]) -> list[Finding]:
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
        for where in reference.keys() | named.keys():
            findings.append(
                Finding(where, name, named.get(where), _verdict(reference.get(where), named.get(where)))
            )
    order = {name: number for number, (name, _) in enumerate(sides)}
    return sorted(findings, key=lambda one: (one.where, order[one.side]))


def _verdict(expected: Run | None, found: Run | None) -> str:
    wanted, there = (run.records if run else 0 for run in (expected, found))
    if there != wanted:
        return f"{abs(there - wanted)} {'more' if there > wanted else 'missing'}"
    same = expected is not None and found is not None and expected.checksum == found.checksum
    return "equal" if same else "other contents or order"


def audit(
    spark: SparkSession,
    sides: list[Side],
    *,
    rename: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
) -> list[Finding]:
    """`audit(spark, [Side.parse("127.0.0.1:9092/flights"), Side.parse("/data/archive")])`."""
    return compare([(side.label, sum_up(spark, side, options)) for side in sides], rename)
