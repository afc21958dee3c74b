"""The streaming query of the demo, a process of its own: topic -> typed columns -> Parquet -> the answer.

    python -m barnabas.pipeline.jobs.flights_query --bootstrap HOST:PORT --topic T --output DIR --work DIR

It talks to the demo in lines of JSON: on stdout `ready`, `progress` after every micro-batch, `again` when the
query had to be started again, `answer`, or `failed`; on stdin one line with the offsets at which the stream
ends, after which it reads up to them, computes the answer and ends.  When stdin closes without that line the
demo is gone, and so is this process.

Exactly once: the source's offsets are in the checkpoint before a micro-batch runs, a micro-batch that is
run again reads the same offsets, and Spark's file sink takes the files of a batch into its log in one step.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from barnabas.errors import BarnabasError
from barnabas.pipeline.late_workers import LateWorkers
from barnabas.pipeline.offsets import Offsets, Positions
from barnabas.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["main"]

EVENT = (
    "id int, date string, carrier string, tailnum string, origin string, dest string, "
    "dep_delay int, arr_delay int, distance int, hour int"
)
SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""To Java: compile quickly rather than well (half the CPU), for a process of two minutes on two cores."""
MICRO_BATCH = "1 second"
POLL = 0.2
MOST_OFFSETS = "60000"
"""Per micro-batch: what piled up while Spark started is read in several, so that progress is seen."""


def tell(event: str, **content: Any) -> None:
    """One line for the demo."""
    sys.stdout.write(json.dumps({"event": event, **content}) + "\n")
    sys.stdout.flush()


def start(spark: SparkSession, args: argparse.Namespace) -> StreamingQuery:
    """The query itself."""
    from pyspark.sql import functions as f

    messages = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", args.bootstrap)
        .option("subscribe", args.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", MOST_OFFSETS)
        .load()
    )
    flight = f.from_json(f.col("value").cast("string"), EVENT).alias("flight")
    flights = messages.select(flight, "partition", "offset").select("flight.*", "partition", "offset")
    writer = flights.coalesce(1).writeStream.format("parquet").trigger(processingTime=MICRO_BATCH)
    writer = writer.option("checkpointLocation", os.path.join(args.work, "checkpoint"))
    return writer.start(os.path.join(args.output, "flights"))


def answer(spark: SparkSession, args: argparse.Namespace) -> dict[str, Any]:
    """Delays by carrier and hour, and by key: computed by Spark from what the stream wrote."""
    from pyspark.sql import functions as f

    flights = spark.read.parquet(os.path.join(args.output, "flights"))
    measures = [
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.sum(f.coalesce("dep_delay", f.lit(0))).alias("minutes"),
    ]
    cells = flights.groupBy("carrier", "hour").agg(*measures).coalesce(1).orderBy("carrier", "hour").cache()
    table = cells.withColumn("mean_delay", f.try_divide("minutes", "departed"))
    table.write.mode("overwrite").parquet(os.path.join(args.output, "delays"))
    keys = flights.groupBy(f.concat_ws("/", "origin", "carrier").alias("key")).agg(*measures)
    return {
        "cells": [list(row) for row in cells.collect()],
        "keys": [list(row) for row in keys.collect()],
    }


def orders(lines: Queue[str | None]) -> None:
    """Reads what the demo says; None when it is gone."""
    for line in sys.stdin:
        lines.put(line)
    lines.put(None)


class Reached:
    """How far the query is, told to the demo; and whether that is the end, which the demo says."""

    def __init__(self, lines: Queue[str | None]) -> None:
        self.lines = lines
        self.goal: Offsets | None = None
        self.at: Offsets = {}
        self.told = -1
        self.alone = False
        """The demo is gone."""

    def look(self, query: StreamingQuery) -> bool:
        """Whether the query shall end."""
        with contextlib.suppress(Empty):
            line = self.lines.get_nowait()
            if line is None:
                self.alone = True
                return True
            self.goal = Positions.read(line).offsets
        last = query.lastProgress
        if last is None:
            return False
        progress = json.loads(last.json)
        end = progress["sources"][0].get("endOffset")
        self.at = Positions.read(end).offsets if end else self.at
        if progress["batchId"] > self.told and progress["numInputRows"]:
            self.told = progress["batchId"]
            took, rows = progress.get("batchDuration", 0), progress["numInputRows"]
            tell("progress", batch=self.told, through=sum(self.at.values()), rows=rows, took_ms=took)
        return self.goal is not None and self.is_whole()

    def is_whole(self) -> bool:
        """Whether everything up to the end was read."""
        goal = self.goal
        return goal is not None and all(self.at.get(where, 0) >= offset for where, offset in goal.items())


def main() -> int:
    """Run the query until the demo says where the stream ends, then answer.  Exit code 0 when answered."""
    parser = argparse.ArgumentParser(prog="flights_query")
    for name in ("bootstrap", "topic", "output", "work"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    lines: Queue[str | None] = Queue()
    threading.Thread(target=orders, args=(lines,), daemon=True).start()
    began = time.monotonic()
    try:
        temporary = os.path.join(args.work, "tmp")
        os.makedirs(temporary, exist_ok=True)
        settings = {
            "spark.local.dir": temporary,
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary} {SHORT_LIFE}",
            "spark.sql.warehouse.dir": os.path.join(args.work, "warehouse"),
            "spark.driver.memory": "768m",
            "spark.sql.codegen.wholeStage": "false",
        }
        spark = session("flights", "local[2,4]", **settings)
        late = LateWorkers(lambda line: tell("again", line=line))
        version = spark.sparkContext.version
        java = str(spark.sparkContext._jvm.System.getProperty("java.version"))  # type: ignore[union-attr]

        def begin() -> StreamingQuery:
            query = start(spark, args)
            tell("ready", spark=version, java=java, seconds=round(time.monotonic() - began, 1))
            return query

        reached = Reached(lines)
        failure = late.follow(begin, reached.look, pause=POLL)
        if reached.alone:
            return 1
        if not reached.is_whole():
            raise BarnabasError(f"the query ended: {failure}")
        tell("reading")
        tell("answer", **answer(spark, args))
        spark.stop()
        return 0
    except Exception as error:
        tell("failed", error=str(error), next_step=getattr(error, "next_step", None))
        raise


if __name__ == "__main__":
    sys.exit(main())
