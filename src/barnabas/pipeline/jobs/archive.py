"""Archive topics: what committed readers see of them goes to Parquet files, and again from there the next time.

    barnabas pipeline run archive 127.0.0.1:9092/flights /data/archive

Each row keeps key, value, headers, partition, offset, timestamp and its type.  The query's checkpoint is in the
directory: a run that was cut off goes on where the last whole micro-batch ended, and no row comes twice, for Spark
lists the files of a micro-batch in one step, and readers read listed files only.  Copy this file and change it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.admin import Admin
from barnabas.client.offsets import list_offsets
from barnabas.errors import KafkaError
from barnabas.model import TopicPartition
from barnabas.pipeline.archives.delta import DeltaLog
from barnabas.pipeline.archives.directory import ArchiveDirectory, ArchivedTopic
from barnabas.pipeline.jobs.held_directory import held_for
from barnabas.pipeline.jobs.job_options import security_in
from barnabas.pipeline.jobs.progress import Progress, run_to_end
from barnabas.pipeline.jobs.restored_topics import own_configs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["SETTINGS", "archive"]

SETTINGS = {
    # Files are written without a sort before: a task has the rows of one partition, and they are in their order.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What the session of an archive needs."""
_AGAIN = "run the same command again: it goes on after the last whole micro-batch"


def archive(
    spark: SparkSession,
    bootstrap: str,
    topics: list[str],
    directory: str,
    progress: Progress,
    *,
    options: Mapping[str, str] = {},
    rows: int = 200_000,
    every: str | None = None,
    delta: bool = False,
    heard: Callable[[int, int], bool] = lambda rows, lag: False,
) -> None:
    """`archive(spark, "127.0.0.1:9092", ["flights"], "/data/archive", Progress("archive"))`.

    `options` of the source beside; `rows` of a micro-batch; `every`: go on for ever, so often ("10 seconds");
    `delta`: the directory `records` is a Delta table, too (it stays one, whoever runs this again).
    Raises BarnabasError, with what to do.
    """
    place = ArchiveDirectory(directory)
    with Admin(bootstrap, client_id="barnabas-archive", security=security_in(options)) as admin:
        found = [admin.describe_topic(name) for name in sorted(set(topics))]
        known = [
            ArchivedTopic(info.name, str(info.id), len(info.partitions), _configs(admin, info.name, progress))
            for info in found
        ]
        goal = {
            TopicPartition(topic.name, number): at.offset
            for topic in known
            for number, at in list_offsets(admin.cluster, topic.name, isolation="read_committed").items()
        }
        place.claim(admin.cluster.cluster_id(), known)
    table = DeltaLog(place) if delta or DeltaLog.is_there(place) else None
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)

    def start() -> StreamingQuery:
        records = (
            spark.readStream.format("barnabas")
            .options(**options)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", ",".join(topic.name for topic in known))
            .option("startingOffsets", "earliest")
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", str(rows))
            .load()
        )
        writer = (
            records.writeStream.format("parquet")
            .partitionBy("topic", "partition")
            .option("path", place.records)
            .option("checkpointLocation", place.checkpoint)
        )
        follows = {"processingTime": every} if every else {"availableNow": True}
        return writer.trigger(**follows).start()

    def told(rows: int, lag: int) -> bool:
        if table is not None:
            table.add_new()
        return heard(rows, lag)

    with held_for("an archive", place.path):
        place.check_checkpoint()
        place.remove_unlisted()
        run_to_end(start, progress, goal=goal, again=_AGAIN, heard=told)
        place.remove_unlisted()
        if table is not None:
            table.add_new()


def _configs(admin: Admin, topic: str, progress: Progress) -> dict[str, str] | None:
    """A topic's own configs; None, and a line, where they may not be seen."""
    try:
        return own_configs(admin, topic)
    except KafkaError as error:
        progress.say(f"the archive does not have the configs of {topic}: {error}")
        return None
