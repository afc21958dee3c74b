"""`python -m tests.sink_kills.copy BOOTSTRAP CHECKPOINT`: the query that copies `in` to `out` up to end."""

from __future__ import annotations

import sys

from barnabas.pipeline.session import session

__all__ = ["main"]


def main() -> None:
    bootstrap, checkpoint = sys.argv[1:]
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.4",
    }
    spark = session("copy", "local[3,4]", **speculation)
    rows = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "600")
        .load()
        .select("key", "value")
    )
    query = (
        rows.writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
