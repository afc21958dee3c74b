"""`format("barnabas")` beside Spark's own `format("kafka")`, on Barnabas and on Apache Kafka: the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.peers import ApacheKafka, Barnabas, Peer
from bench.stock import connector_jars, why_no_connector
from tests.compat.conftest import free_port
from tests.compat.connector_cases import EARLY, REFUSED, ROWS, STREAMS, Case
from tests.patience import LATE_STARTS

from barnabas.client.admin.admin import Admin
from barnabas.client.producer import Producer
from barnabas.client.transactional import TransactionalProducer
from barnabas.pipeline.late_workers import LateWorkers
from barnabas.wire.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.compat, pytest.mark.spark]

STOCK, OURS = "kafka", "barnabas"
ONE_COPY = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
late = LateWorkers(print, LATE_STARTS)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if (why := why_no_connector()) is not None:
        pytest.skip(why)
    from barnabas.pipeline.session import session

    warehouse = str(tmp_path_factory.mktemp("wh"))
    found = session(
        "equal", "local[2]", **{"spark.jars": connector_jars(), "spark.sql.warehouse.dir": warehouse}
    )
    yield found
    found.stop()


@pytest.fixture(scope="module", params=[Barnabas, ApacheKafka], ids=["Barnabas", "Apache Kafka"])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, apache: Path
) -> Iterator[str]:
    peer: Peer = request.param(tmp_path_factory.mktemp("peer"), free_port(), fsync=False, settings=ONE_COPY)
    try:
        peer.start()
        peer.wait()
        fill(peer.bootstrap)
        yield peer.bootstrap
    finally:
        peer.stop()


def fill(bootstrap: str) -> None:
    """The topics of the cases."""
    codecs = ("gzip", "snappy", "lz4", "zstd")
    with Admin(bootstrap) as admin:
        kept = {"retention.ms": "-1"}
        for topic in ("plain", "empty", "transactions", *(f"codec-{codec}" for codec in codecs)):
            admin.create_topic(topic, partitions=3, configs=kept)
        admin.create_topic("large", partitions=1)
        admin.create_topic("appended", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
        admin.create_topic("deleted", partitions=1)
    with Producer(bootstrap, linger=0.005) as producer:
        for number in range(300):
            key = None if number % 7 == 0 else b"\xff%d" % number
            value = None if number % 11 == 0 else b"value-%d" % number
            headers = [("n", b"%d" % number), ("", None)] if number % 3 else []
            producer.send(
                "plain", value, key, partition=number % 3, headers=headers, timestamp=EARLY + number
            )
            producer.send("appended", value, key, partition=0, timestamp=EARLY + number)
            producer.send("deleted", value, key, partition=0)
        for size in (0, 1, 100, 10_000, 900_000):
            producer.send("large", b"x" * size, b"y" * (size // 100), partition=0)
    for codec in codecs:
        with Producer(bootstrap, compression=codec) as producer:
            for number in range(200):
                producer.send(f"codec-{codec}", b"value-%d" % number * (number % 20), partition=number % 3)
    with TransactionalProducer(bootstrap, "writer") as writer:
        for round_ in range(9):
            writer.begin()
            for number in range(5):
                writer.send("transactions", b"%d-%d" % (round_, number), partition=number % 3)
            writer.flush()
            writer.abort() if round_ % 3 == 1 else writer.commit()
    with Admin(bootstrap) as admin:
        until = DeleteRecordsPartition(partition_index=0, offset=120)
        topic = DeleteRecordsTopic(name="deleted", partitions=[until])
        answer = admin.cluster.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=9000))
        assert answer.topics[0].partitions[0].low_watermark == 120


def reader(spark: Any, bootstrap: str, kind: str, case: Case, *, stream: bool = False) -> Any:
    made = (spark.readStream if stream else spark.read).format(kind)
    for name, value in {"kafka.bootstrap.servers": bootstrap, **case.options}.items():
        made = made.option(name, value)
    return made.load().where(case.where)


def rows(frame: Any) -> list[Any]:
    found = frame.selectExpr("*", "unix_micros(timestamp) AS micros").drop("timestamp").collect()
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def by_name(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", ROWS, ids=by_name)
def test_the_rows_of_a_batch_are_those_of_sparks_connector(spark: Any, bootstrap: str, case: Case) -> None:
    ours = late.retry(lambda: rows(reader(spark, bootstrap, OURS, case)))
    frame = reader(spark, bootstrap, STOCK, case)
    assert ours == rows(frame)
    assert late.retry(lambda: reader(spark, bootstrap, OURS, case)).dtypes == frame.dtypes


@pytest.mark.parametrize("case", REFUSED, ids=by_name)
def test_what_sparks_connector_refuses_is_refused(spark: Any, bootstrap: str, case: Case) -> None:
    with pytest.raises(Exception, match=r"barnabas\S*Error: ") as caught:
        late.retry(lambda: rows(reader(spark, bootstrap, OURS, case)))
    assert "Traceback" not in str(caught.value)
    with pytest.raises(Exception):  # noqa: B017 (of a dozen classes of Java's)
        rows(reader(spark, bootstrap, STOCK, case))


@pytest.mark.parametrize("case", STREAMS, ids=by_name)
def test_the_micro_batches_of_a_stream_are_those_of_sparks_connector(
    spark: Any, bootstrap: str, tmp_path: Path, case: Case
) -> None:
    def streamed(kind: str) -> tuple[list[int], list[Any]]:
        table = f"t{abs(hash((kind, str(tmp_path))))}"
        frame = reader(spark, bootstrap, kind, case, stream=True)
        query = frame.writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
        query.awaitTermination()
        sizes = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
        return sizes, rows(spark.table(table))

    assert late.retry(lambda: streamed(OURS)) == streamed(STOCK)
