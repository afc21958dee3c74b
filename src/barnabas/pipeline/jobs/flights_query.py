"""The streaming query of the demo, a process of its own: topic -> aggregation -> topic, exactly once.

    python -m barnabas.pipeline.jobs.flights_query --bootstrap HOST:PORT --topic T --out T2 --work DIR

For each day, carrier and hour it counts flights and adds up their delays; once a day is over, its results are
written to the topic `out`.  A day is over when the flights are LATE days further, for then nothing comes any more.

It talks to the demo in lines of JSON: on stdout `ready`, `progress` after every micro-batch, `again` when the
query had to be started again, `done`, or `failed`; on stdin one line with the offsets at which the stream ends,
after which it reads up to them and ends.  When stdin closes without that line the demo is gone, and so is this
process.  Killed with -9 and started again on the same directory, it goes on where it was.
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

__all__ = ["EVENT", "main"]

EVENT = (
    "id int, date string, carrier string, tailnum string, origin string, dest string, "
    "dep_delay int, arr_delay int, distance int, hour int"
)
LATE = "90 days"
"""How far partitions may be apart: while one has no leader, the others go on."""
ALL_DAYS_ARE_OVER = "2014"
"""Spark's watermark in the micro-batch that writes the last days of 2013 (see flights.END_OF_YEAR)."""
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
        .option("columns", "value")
        .option("maxOffsetsPerTrigger", MOST_OFFSETS)
        .load()
    )
    flight = f.from_json(f.col("value").cast("string"), EVENT).alias("flight")
    flights = messages.select(flight).select("flight.*").withColumn("day", f.to_timestamp("date"))
    delays = (
        flights.withWatermark("day", LATE)
        .groupBy("day", "carrier", "hour")
        .agg(
            f.count("*").alias("flights"),
            f.count("dep_delay").alias("departed"),
            f.sum(f.coalesce("dep_delay", f.lit(0))).alias("minutes"),
        )
        .withColumn("date", f.date_format("day", "yyyy-MM-dd"))
    )
    value = f.to_json(f.struct("date", "carrier", "hour", "flights", "departed", "minutes")).alias("value")
    return (
        delays.select(f.col("carrier").alias("key"), value)
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", args.bootstrap)
        .option("topic", args.out)
        .option("checkpointLocation", os.path.join(args.work, "checkpoint"))
        .trigger(processingTime=MICRO_BATCH)
        .start()
    )


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
        self.days_are_over = False
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
        self.days_are_over = progress.get("eventTime", {}).get("watermark", "") >= ALL_DAYS_ARE_OVER
        if progress["batchId"] > self.told and progress["numInputRows"]:
            self.told = progress["batchId"]
            took, rows = progress.get("batchDuration", 0), progress["numInputRows"]
            tell("progress", batch=self.told, through=sum(self.at.values()), rows=rows, took_ms=took)
        return self.is_whole()

    def is_whole(self) -> bool:
        """Whether everything up to the end was read, and what it makes was written."""
        goal = self.goal
        return (
            goal is not None
            and self.days_are_over
            and all(self.at.get(where, 0) >= offset for where, offset in goal.items())
        )


def main() -> int:
    """Run the query until the demo says where the stream ends.  Exit code 0 when it was read up to there."""
    parser = argparse.ArgumentParser(prog="flights_query")
    for name in ("bootstrap", "topic", "out", "work"):
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
            # Their folder would be elsewhere (paths of sockets are short), and stay there after kill -9.
            "spark.python.unix.domain.socket.enabled": "false",
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
        tell("done")
        spark.stop()
        return 0
    except Exception as error:
        tell("failed", error=str(error), next_step=getattr(error, "next_step", None))
        raise


if __name__ == "__main__":
    sys.exit(main())
