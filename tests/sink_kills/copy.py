"""`python -m tests.sink_kills.copy BOOTSTRAP CHECKPOINT [MASTER]`: the query that copies `in` to `out` up to end.

On a master of its own, Spark runs slow tasks a second time on another worker; one in four stops in its middle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from barnabas.pipeline.session import session

__all__ = ["main"]

_SPECULATION = {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.4",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
}
"""Only outside local masters: Spark starts no task twice there."""


def main() -> None:
    bootstrap, checkpoint, *master = sys.argv[1:]
    spark = session("copy", master[0], **_SPECULATION) if master else session("copy", "local[3,4]")
    rows = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "600")
        .load()
        .select("key", "value")
    )
    if master:
        rows = rows.mapInArrow(halting(Path(checkpoint).parent), "key binary, value binary")
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


def halting(folder: Path) -> Any:
    """Rows as they are; the first attempt of one task in four stops for 3 s in its middle.

    A file `again-*` says that a task ran another time.
    """

    def halt(batches: Any) -> Any:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        attempt, task = context.attemptNumber(), context.partitionId()
        if attempt:
            (folder / f"again-{context.taskAttemptId()}-{task}-{attempt}").touch()
        halts = attempt == 0 and (context.stageId() + task) % 4 == 0
        for number, batch in enumerate(batches):
            if halts and number == 4:
                time.sleep(3)
            yield batch

    return halt


if __name__ == "__main__":
    main()
