"""Mirror topics to another cluster: the same records in the same partitions and the same order, exactly once.

    barnabas pipeline run mirror 10.0.0.1:9092/flights 10.1.0.1:9092 /data/mirror --groups billing

Offsets are others there, since the ends of transactions take offsets, too.  Which became which is written to
`__barnabas_offsets.CLUSTER` in the same transactions, and groups' committed offsets are translated with it.  The
directory has the query's checkpoint: run again, the mirror goes on where it was.  Copy this file and change it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.admin import Admin
from barnabas.client.metadata import TopicInfo
from barnabas.client.offsets import list_offsets
from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.pipeline.jobs.held_directory import held_for
from barnabas.pipeline.jobs.job_options import security_in
from barnabas.pipeline.jobs.mirror_directory import MirrorDirectory, Mirrored
from barnabas.pipeline.jobs.mirrored_groups import MAP_PREFIX, GroupTranslation
from barnabas.pipeline.jobs.mirrored_topics import make_map, make_mirrors
from barnabas.pipeline.jobs.progress import Progress, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["mirror"]

_AGAIN = "run the same command again: it goes on where it was"
_TRANSLATE_EVERY_S = 5.0


def mirror(
    spark: SparkSession,
    source: str,
    topics: Iterable[str],
    target: str,
    directory: str,
    progress: Progress,
    *,
    rename: Mapping[str, str] = {},
    groups: Iterable[str] = (),
    source_options: Mapping[str, str] = {},
    options: Mapping[str, str] = {},
    rows: int = 200_000,
    every: str | None = None,
    heard: Callable[[int, int], bool] = lambda rows, lag: False,
) -> dict[str, str]:
    """`mirror(spark, "10.0.0.1:9092", ["flights"], "10.1.0.1:9092", "/data/mirror", Progress("mirror"))`.

    `options` of the sink beside, `source_options` of the source; `rows` of a micro-batch; `every`: go on for ever,
    so often ("10 seconds").  `groups`: translate what these have committed, in cluster `source`.
    Returns the names that topics have there.  Raises BarnabasError, with what to do.
    """
    names = {name: rename.get(name, name) for name in sorted(set(topics))}
    place = MirrorDirectory(directory)
    with contextlib.ExitStack() as stack:
        here = stack.enter_context(
            Admin(source, client_id="barnabas-mirror", security=security_in(source_options))
        )
        there = stack.enter_context(Admin(target, client_id="barnabas-mirror", security=security_in(options)))
        found = {name: here.describe_topic(name) for name in names}
        begun = place.claim(here.cluster.cluster_id(), there.cluster.cluster_id(), _ids(found), names)
        made = make_mirrors(here, there, found.values(), names, begun, place.checkpoint, progress.say)
        map_topic = MAP_PREFIX + here.cluster.cluster_id()
        make_map(there, map_topic)
        place.begin(made)
        goal = {
            TopicPartition(name, number): at.offset
            for name in names
            for number, at in list_offsets(here.cluster, name, isolation="read_committed").items()
        }
        translation = GroupTranslation(here, there, map_topic, names, groups)
        due = time.monotonic()

        def told(rows: int, lag: int) -> bool:
            nonlocal due
            if time.monotonic() >= due:
                due = time.monotonic() + _TRANSLATE_EVERY_S
                try:
                    translation.translate(progress.say)
                except BarnabasError as error:  # (the next time it may work, and at the end it has to)
                    progress.say(f"groups are not translated now: {error}")
            return heard(rows, lag)

        def start() -> StreamingQuery:
            return _query(
                spark, source, target, names, place, map_topic, source_options, options, rows, every
            )

        with held_for("a mirror", place.path):
            run_to_end(start, progress, goal=goal, again=_AGAIN, heard=told)
        translation.translate(progress.say)
    return names


def _ids(found: Mapping[str, TopicInfo]) -> Mirrored:
    return {name: str(info.id) for name, info in found.items()}


def _query(
    spark: SparkSession,
    source: str,
    target: str,
    names: Mapping[str, str],
    place: MirrorDirectory,
    map_topic: str,
    source_options: Mapping[str, str],
    options: Mapping[str, str],
    rows: int,
    every: str | None,
) -> StreamingQuery:
    """One task for each partition keeps the order: the rows of a partition are never shuffled or cut."""
    from pyspark.sql import functions as f

    records = (
        spark.readStream.format("barnabas")
        .options(**source_options)
        .option("kafka.bootstrap.servers", source)
        .option("subscribe", ",".join(names))
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(rows))
        .load()
    )
    pairs = [f.lit(text) for pair in names.items() for text in pair]
    renamed = records.withColumn("topic", f.create_map(*pairs)[f.col("topic")])
    writer = (
        renamed.select("key", "value", "topic", "partition", "headers", "timestamp", "offset")
        .writeStream.format("barnabas")
        .options(**options)
        .option("kafka.bootstrap.servers", target)
        .option("offsetMap", map_topic)
        .option("checkpointLocation", place.checkpoint)
    )
    follows = {"processingTime": every} if every else {"availableNow": True}
    return writer.trigger(**follows).start()
