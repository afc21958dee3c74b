"""Restore topics from an archive: the same records in the same partitions and the same order, exactly once.

    barnabas pipeline run restore /data/archive 127.0.0.1:9092 --rename flights=flights-restored

A run that was cut off goes on from its checkpoint; what it left undecided is ended first (decision 35).  Offsets
are others afterwards.  Copy this file and change it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.admin import Admin
from barnabas.errors import ConfigError
from barnabas.pipeline.archives.directory import ArchiveDirectory, check_nothing_else
from barnabas.pipeline.archives.index import grown_index, index_of, read_index, write_index
from barnabas.pipeline.archives.source import ArchiveSource
from barnabas.pipeline.jobs.held_directory import held_for
from barnabas.pipeline.jobs.job_options import security_in
from barnabas.pipeline.jobs.progress import Progress, run_to_end
from barnabas.pipeline.jobs.restored_topics import (
    BEGINS_WITH,
    CHECKPOINT,
    check_targets,
    prepare,
    write_targets,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["restore"]

_AGAIN = "run the same command again: it goes on where it was"


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

    Topics that are not there are made with the archive's configs (see `restored_topics`); one that has records, or
    fewer partitions, or would delete what it gets, is refused.  `checkpoint`: how
    far it is (in the archive's directory, one for each cluster and names, unless said).
    Restored again, topics get what was archived since.  Raises BarnabasError.
    """
    place = ArchiveDirectory(directory)
    names = {topic.name: rename.get(topic.name, topic.name) for topic in place.topics()}
    if unknown := sorted(rename.keys() - names.keys()):
        raise ConfigError(
            f"the archive has no topic {', '.join(unknown)}", next_step=f"it has {', '.join(sorted(names))}"
        )
    with Admin(bootstrap, client_id="barnabas-restore", security=security_in(options)) as admin:
        target = f"{admin.cluster.cluster_id()} {sorted(names.items())}"
        work = checkpoint or os.path.join(
            place.path, "_restore", hashlib.sha256(target.encode()).hexdigest()[:16]
        )
        index = os.path.join(work, "index.json")
        files = index_of(place.files())
        if os.path.exists(index):
            check_targets(work, admin)
            grown_index(index, files)
        else:
            check_nothing_else(work, BEGINS_WITH)
            with _written(work):
                os.makedirs(work, exist_ok=True)
                write_targets(work, prepare(admin, place.topics(), names, files, progress.say))
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
            .option("checkpointLocation", os.path.join(work, CHECKPOINT))
            .trigger(availableNow=True)
            .start()
        )

    with held_for("a restore", work):
        run_to_end(start, progress, goal=goal, again=_AGAIN, heard=heard)
    return names


@contextlib.contextmanager
def _written(work: str) -> Iterator[None]:
    """Say what helps where the restore's own directory cannot be written: the archive may be for reading only."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{work}, which says how far the restore is, cannot be written: {error.strerror or error}",
            next_step="name a directory that you may write to: --checkpoint DIR",
        ) from error
