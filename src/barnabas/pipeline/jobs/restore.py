"""Restore topics from an archive: the same records in the same partitions and the same order, exactly once.

    barnabas pipeline run restore /data/archive 127.0.0.1:9092 --rename flights=flights-restored

A run that was cut off goes on from its checkpoint; what it left undecided is ended first (decision 35).  Offsets
are others afterwards.  Copy this file and change it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.client.offsets import list_offsets
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.pipeline.jobs.archive_directory import (
    ArchiveDirectory,
    grown_index,
    index_of,
    read_index,
    replace,
    write_index,
)
from barnabas.pipeline.jobs.archive_source import ArchiveSource
from barnabas.pipeline.jobs.progress import Progress, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["archived_files", "restore"]

_TARGETS = "targets.json"
_AGAIN = "run the same command again: it goes on where it was"


def archived_files(spark: SparkSession, directory: str) -> list[str]:
    """Spark's addresses of the files of an archive that whole micro-batches wrote."""
    place = ArchiveDirectory(directory)
    place.topics()
    if not place.check_list():
        return []  # no micro-batch has ended yet
    return list(spark.read.schema("offset long").parquet(place.records).inputFiles())


def restore(
    spark: SparkSession,
    directory: str,
    bootstrap: str,
    progress: Progress,
    *,
    rename: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
    checkpoint: str | None = None,
    rows: int = 200_000,
    heard: Callable[[int, int], bool] = lambda rows, lag: False,
) -> dict[str, str]:
    """`restore(spark, "/data/archive", "127.0.0.1:9092", Progress("restore"))`; the names that topics have now.

    Topics that are not there are made; one that has records, or fewer partitions, is refused.  `checkpoint`: how
    far it is (in the archive's directory, one for each cluster and names, unless said).
    Restored again, topics get what was archived since.  Raises BarnabasError.
    """
    place = ArchiveDirectory(directory)
    names = {topic.name: rename.get(topic.name, topic.name) for topic in place.topics()}
    if unknown := sorted(rename.keys() - names.keys()):
        raise ConfigError(
            f"the archive has no topic {', '.join(unknown)}", next_step=f"it has {', '.join(sorted(names))}"
        )
    with Cluster(bootstrap, client_id="barnabas-restore") as cluster:
        cluster.refresh()
        target = f"{cluster.cluster_id()} {sorted(names.items())}"
    work = checkpoint or os.path.join(
        place.path, "_restore", hashlib.sha256(target.encode()).hexdigest()[:16]
    )
    index = os.path.join(work, "index.json")
    files = index_of(archived_files(spark, directory))
    if os.path.exists(index):
        _check_targets(work, bootstrap)
        grown_index(index, files)
    else:
        _prepare(place, bootstrap, names)
        os.makedirs(work, exist_ok=True)
        write_targets(work, target_ids(bootstrap, names.values()))
        write_index(index, files)
    goal = {file.where: file.last + 1 for file in read_index(index)}
    spark.dataSource.register(ArchiveSource)

    def start() -> StreamingQuery:
        from pyspark.sql import functions as f

        records = (
            spark.readStream.format(ArchiveSource.name())
            .option("index", index)
            .option("maxRowsPerTrigger", str(rows))
            .load()
        )
        pairs = [f.lit(text) for pair in names.items() for text in pair]
        renamed = records.withColumn("topic", f.create_map(*pairs)[f.col("topic")])
        return (
            renamed.select("key", "value", "topic", "partition", "headers", "timestamp")
            .writeStream.format("barnabas")
            .options(**options)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("checkpointLocation", os.path.join(work, "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    run_to_end(start, progress, goal=goal, again=_AGAIN, heard=heard)
    return names


def target_ids(bootstrap: str, names: Iterable[str]) -> dict[str, str]:
    """The ids of topics by name; without those that are not there."""
    with Cluster(bootstrap, client_id="barnabas-restore") as cluster:
        return {name: str(info.id) for name, info in cluster.find(list(names)).items()}


def write_targets(work: str, ids: Mapping[str, str]) -> None:
    """Keep which topics a restore writes to: before the index, which says that it has begun."""
    replace(os.path.join(work, _TARGETS), json.dumps(ids))


def _check_targets(work: str, bootstrap: str) -> None:
    """A restore that goes on needs the topics it began with: else it would end as done, and they be empty."""
    path = os.path.join(work, _TARGETS)
    try:
        with open(path, encoding="utf-8") as file:
            began: dict[str, str] = json.load(file)
    except (OSError, ValueError) as error:
        raise BarnabasError(
            f"{path} cannot be read: {error}", next_step=f"restore from the start: remove {work}"
        ) from error
    there = target_ids(bootstrap, began)
    if gone := sorted(name for name, id_ in began.items() if there.get(name) != id_):
        raise ConfigError(
            f"the topic {', '.join(gone)} was deleted since this restore began",
            next_step=f"restore from the start: remove {work}, or name another --checkpoint",
        )


def _prepare(place: ArchiveDirectory, bootstrap: str, names: Mapping[str, str]) -> None:
    """Make the topics that are not there.  Raises ConfigError for one that cannot take the archive."""
    with Admin(bootstrap) as admin, Cluster(bootstrap, client_id="barnabas-restore") as cluster:
        for topic in place.topics():
            name = names[topic.name]
            try:
                there = len(cluster.topic(name, refresh=True).partitions)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                admin.create_topic(name, partitions=topic.partitions)
                continue
            if there < topic.partitions:
                raise ConfigError(
                    f"the topic {name} has {there} partitions, the archive {topic.partitions}",
                    next_step=f"barnabas topics alter {name} --partitions {topic.partitions}, or rename it: "
                    f"--rename {topic.name}=OTHER",
                )
            if any(at.offset for at in list_offsets(cluster, name, "latest").values()):
                raise ConfigError(
                    f"the topic {name} has records already",
                    next_step=f"restore into another one: --rename {topic.name}=OTHER",
                )
