"""Flights that leave late, to a topic of their own, exactly once: both ways in one small query.

    barnabas pipeline run flights 127.0.0.1:9092/flights late-flights /data/late --send

Topic -> typed columns -> the late ones -> topic: those that leave more than `minutes` after their time.
The directory has the query's checkpoint: run again, it goes on where it was, and no flight is written twice.
Copy this file and change it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.admin import Admin
from barnabas.client.offsets import list_offsets
from barnabas.client.producer import Producer
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.pipeline.archives.directory import check_nothing_else
from barnabas.pipeline.jobs.flights import ROWS, events, find_data
from barnabas.pipeline.jobs.flights_query import EVENT
from barnabas.pipeline.jobs.job_options import security_in
from barnabas.pipeline.jobs.progress import Progress, run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["late_flights", "send_flights"]

_AGAIN = "run the same command again: it goes on where it was"
_PARTITIONS = 4


def late_flights(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    late: str,
    directory: str,
    progress: Progress,
    *,
    minutes: int = 15,
    options: Mapping[str, str] = {},
    rows: int = 200_000,
    every: str | None = None,
    heard: Callable[[int, int], bool] = lambda rows, lag: False,
) -> None:
    """`late_flights(spark, "127.0.0.1:9092", "flights", "late-flights", "/data/late", Progress("flights"))`.

    `options` of source and sink beside; `rows` of a micro-batch; `every`: go on for ever, so often ("10 seconds").
    Raises BarnabasError, with what to do.
    """
    from pyspark.sql import functions as f

    if os.path.exists(directory) and not os.path.isdir(directory):
        raise ConfigError(f"{directory} is a file: a checkpoint is a directory", next_step="name a new one")
    check_nothing_else(directory, ["checkpoint"])
    with Admin(bootstrap, client_id="barnabas-flights", security=security_in(options)) as admin:
        _make(admin, late, len(admin.describe_topic(topic).partitions))
        ends = list_offsets(admin.cluster, topic, isolation="read_committed")
    goal = {TopicPartition(topic, number): at.offset for number, at in ends.items()}

    def start() -> StreamingQuery:
        messages = (
            spark.readStream.format("barnabas")
            .options(**options)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(rows))
            .load()
        )
        flight = f.from_json(f.col("value").cast("string"), EVENT).alias("flight")
        flights = messages.select(flight).select("flight.*").where(f.col("dep_delay") > minutes)
        value = f.to_json(f.struct("id", "date", "origin", "dest", "carrier", "dep_delay")).alias("value")
        writer = (
            flights.select(f.concat_ws("/", "origin", "carrier").alias("key"), value)
            .writeStream.format("barnabas")
            .options(**options)
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", late)
            .option("checkpointLocation", os.path.join(os.path.abspath(directory), "checkpoint"))
        )
        return writer.trigger(**({"processingTime": every} if every else {"availableNow": True})).start()

    run_to_end(start, progress, goal=goal, again=_AGAIN, heard=heard)


def send_flights(
    bootstrap: str, topic: str, progress: Progress, *, options: Mapping[str, str] = {}, count: int = ROWS
) -> None:
    """Fill a topic with the first flights of the data set.  ConfigError where it has records already.

    Raises BarnabasError where the data set (the extra `demo`) is not installed.
    """
    path, security = find_data(), security_in(options)
    with Admin(bootstrap, client_id="barnabas-flights", security=security) as admin:
        _make(admin, topic, _PARTITIONS)
        if any(at.offset for at in list_offsets(admin.cluster, topic).values()):
            raise ConfigError(f"the topic {topic} has records already", next_step="leave out --send")
    with Producer(bootstrap, client_id="barnabas-flights", security=security) as producer:
        for flight in events(path, count):
            producer.send(topic, flight.value, flight.key)
    progress.say(f"sent {count:,} flights to {topic}")


def _make(admin: Admin, topic: str, partitions: int) -> None:
    try:
        admin.create_topic(topic, partitions=partitions)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
