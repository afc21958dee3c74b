"""Values of JSON, CSV and Avro become rows, and rows values: what holds without Spark's JVM."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")
fastavro = pytest.importorskip("fastavro")

import pyarrow as pa  # noqa: E402 (only where it is installed)
from pyspark.sql import types as spark  # noqa: E402

from barnabas.client.admin.admin import Admin  # noqa: E402
from barnabas.client.security.options import Security  # noqa: E402
from barnabas.errors import ConfigError, KafkaError  # noqa: E402
from barnabas.pipeline.options import SourceOptions  # noqa: E402
from barnabas.pipeline.sink.options import SinkOptions  # noqa: E402
from barnabas.pipeline.values.avro_schemas import avro_schema_of, avro_struct  # noqa: E402
from barnabas.pipeline.values.avro_values import avro_reader  # noqa: E402
from barnabas.pipeline.values.csv_values import csv_reader  # noqa: E402
from barnabas.pipeline.values.dead_letters import DeadLetters, Letter  # noqa: E402
from barnabas.pipeline.values.decoding import BadRecordError, Decoder, decoded, needed  # noqa: E402
from barnabas.pipeline.values.encoding import check_struct, encoded  # noqa: E402
from barnabas.pipeline.values.json_values import json_reader  # noqa: E402
from barnabas.pipeline.values.options import BadValueError, ValueOptions  # noqa: E402
from barnabas.pipeline.values.shapes import check_type, ddl_of  # noqa: E402
from barnabas.testing.cluster import Cluster  # noqa: E402

UTC = dt.UTC
FLAT = (
    spark.StructType()
    .add("text", spark.StringType())
    .add("yes", spark.BooleanType())
    .add("small", spark.ByteType())
    .add("number", spark.IntegerType())
    .add("large", spark.LongType())
    .add("real", spark.DoubleType())
    .add("price", spark.DecimalType(12, 3))
    .add("day", spark.DateType())
    .add("at", spark.TimestampType())
    .add("raw", spark.BinaryType())
)
DEEP = (
    spark.StructType(FLAT.fields[:])
    .add("tags", spark.ArrayType(spark.StringType()))
    .add("counts", spark.MapType(spark.StringType(), spark.LongType()))
    .add("inner", spark.StructType().add("a b", spark.IntegerType()).add("c", spark.StringType()))
)
AVRO_DEEP = spark.StructType([*DEEP.fields[:-1]]).add(
    "inner", spark.StructType().add("a", spark.IntegerType()).add("c", spark.StringType())
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
flat = {
    "text": texts,
    "yes": st.booleans(),
    "small": st.integers(-128, 127),
    "number": st.integers(-(2**31), 2**31 - 1),
    "large": st.integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False),
    "price": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: decimal.Decimal(n).scaleb(-3)),
    "day": st.dates(),
    "at": st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(UTC)),
    "raw": st.binary(max_size=20),
}
deep = flat | {
    "tags": st.lists(st.none() | texts, max_size=3),
    "counts": st.dictionaries(texts, st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3).map(
        lambda found: list(found.items())
    ),
}


def rows(fields: dict[str, Any], inner: dict[str, Any] | None = None) -> Any:
    parts = {name: st.none() | one for name, one in fields.items()}
    if inner:
        parts["inner"] = st.none() | st.fixed_dictionaries(inner)
    return st.lists(st.none() | st.fixed_dictionaries(parts), min_size=1, max_size=4)


def options(format_: str, struct: spark.StructType, **more: str) -> ValueOptions:
    schema = more.pop("schema", avro_schema_of(struct) if format_ == "avro" else "")
    return ValueOptions(format_, schema, type_json=struct.json(), **more)


def there_and_back(format_: str, struct: spark.StructType, given_rows: list[Any]) -> None:
    values = options(format_, struct)
    decoder = Decoder(values)
    batch = pa.RecordBatch.from_arrays([pa.array(given_rows, decoder._type)], names=["value"])
    [written] = encoded([batch], values)
    found, bad = decoder.column(written.column(0))
    assert bad == {}
    assert found.to_pylist() == batch.column(0).to_pylist()


@settings(max_examples=80, deadline=None)
@given(rows(deep, {"a b": st.none() | st.integers(0, 9), "c": st.none() | texts}))
def test_json_comes_back_as_it_was(given_rows: list[Any]) -> None:
    there_and_back("json", DEEP, given_rows)


@settings(max_examples=80, deadline=None)
@given(rows(deep, {"a": st.none() | st.integers(0, 9), "c": st.none() | texts}))
def test_avro_comes_back_as_it_was(given_rows: list[Any]) -> None:
    there_and_back("avro", AVRO_DEEP, given_rows)


@settings(max_examples=80, deadline=None)
@given(rows(flat))
def test_csv_comes_back_as_it_was(given_rows: list[Any]) -> None:
    there_and_back("csv", FLAT, given_rows)


@settings(max_examples=80, deadline=None)
@given(st.lists(texts, min_size=2, max_size=5))
def test_csv_of_pythons_own_writer_is_read(fields: list[str]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerow(fields)
    struct = spark.StructType([spark.StructField(f"c{n}", spark.StringType()) for n in range(len(fields))])
    assert list(csv_reader(struct)(file.getvalue().encode()).values()) == fields


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_of_anything_are_a_row_or_bad(data: bytes) -> None:
    readers = [json_reader(DEEP), csv_reader(FLAT), avro_reader(avro_schema_of(AVRO_DEEP))]
    for read in readers:
        try:
            assert isinstance(read(data), dict)
        except BadValueError as error:
            assert error.message


ONE = spark.StructType().add("a", spark.IntegerType()).add("b", spark.StringType())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"a": 1', "no JSON from character"),
        (b'{"a": 2147483648}', "a is out of the range of 32 bits"),
        (b'{"a": 1.0}', "a is no whole number"),
        (b'{"a": true}', "a is no whole number"),
        (b'{"a": "1"}', "a is no whole number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number that is too long"),
        (b'{"b": "\xff"}', "no UTF-8"),
        (b'{"b": "\\ud800"}', "half a character"),
        (b"[" * 1_000_000, "too deep"),
        (b'{"x":' * 100_000, "too deep"),
    ],
)
def test_json_that_is_none_is_bad_with_a_reason(data: bytes, said: str) -> None:
    with pytest.raises(BadValueError, match=said):
        json_reader(ONE)(data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "1 fields, not 2"),
        (b"1", "1 fields, not 2"),
        (b"1,x,y", "more than 2 fields"),
        (b"," * 1_000_000, "more than 2 fields"),
        (b'1,"x', "not one row"),
        (b'1,"x"y', "not one row"),
        (b"1,x\n2,y", "not one row"),
        (b'1,x"y', "not one row"),
        (b"1_0,x", "a is no whole number"),
        (b"\xd9\xa1,x", "a is no whole number"),
        (b"99999999999,x", "out of the range of 32 bits"),
        (b"\xff,x", "no UTF-8"),
    ],
)
def test_csv_that_is_none_is_bad_with_a_reason(data: bytes, said: str) -> None:
    with pytest.raises(BadValueError, match=said):
        csv_reader(ONE)(data)


def test_a_quoted_field_of_csv_takes_linear_time() -> None:
    began = time.process_time()
    with pytest.raises(BadValueError, match="not one row"):
        csv_reader(ONE)(b'1,"' + b'""' * 500_000)
    assert time.process_time() - began < 2


AVRO = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}],
}


def avro(row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, row)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        avro({"a": 1, "b": "x"})[:-1],
        avro({"a": 1, "b": "x"}) + b"\x00",
        b"\x02\x04",  # union branch 2 of 0 and 1
        b"\x02\x01",  # branch -1
        b"\x02\x02\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",  # text of 2**62 bytes
        b"\x02\x02\x01",  # text of -1 bytes
        b"\x02\x02\x02\xff",
        b"\xff" * 30,
    ],
)
def test_avro_that_lies_is_bad(data: bytes) -> None:
    with pytest.raises(BadValueError):
        Decoder(options("avro", avro_struct(json.dumps(AVRO)), schema=json.dumps(AVRO)))._read(data)


def test_a_number_of_avro_beyond_its_type_is_bad() -> None:
    values = options("avro", avro_struct(json.dumps(AVRO)), schema=json.dumps(AVRO))
    found, bad = Decoder(values).column(
        pa.array([b"\xfe\xff\xff\xff\xff\x7f\x00", avro({"a": 1, "b": None})])
    )
    assert found.to_pylist() == [None, {"a": 1, "b": None}]
    assert list(bad) == [0]


def field(type_: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "f", "type": type_}]})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "not an Avro schema"),
        ('"int"', "no record"),
        ('{"type": "nonsense"}', "not an Avro schema"),
        ('["null", ' + field("int") + "]", "no record"),
        (field(["int", "string"]), "value.f is a union of 2 types"),
        (field(["null", "r"]), "recursive"),
        (field({"type": "array", "items": "null"}), "items that take no bytes"),
        (field({"type": "record", "name": "e", "fields": []}), "no fields"),
        (field({"type": "fixed", "name": "x", "size": 0}), "no bytes"),
        (field({"type": "int", "logicalType": "time-millis"}), "time-millis"),
        ("[" * 100_000, "not an Avro schema"),
    ],
)
def test_an_avro_schema_that_spark_has_no_type_for_is_refused(schema: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        avro_struct(schema)


def batch(*data: bytes | None) -> pa.RecordBatch:
    count = len(data)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"k"] * count, pa.binary()),
            pa.array(data, pa.binary()),
            pa.array(["t"] * count),
            pa.array([3] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
        ],
        names=["key", "value", "topic", "partition", "offset"],
    )


def nobody() -> DeadLetters:
    raise AssertionError("no topic is asked for")


MIXED = batch(b'{"a": 1}', None, b"oops", b'{"a": 4, "b": "x"}')


def test_a_bad_value_fails_the_task_and_says_where_it_is() -> None:
    with pytest.raises(BadRecordError, match=r"t-3 offset 2: the value cannot be read as json") as caught:
        list(decoded([MIXED], options("json", ONE), ("value",), nobody))
    assert caught.value.next_step
    assert "oops" not in str(caught.value)


def test_a_bad_value_goes_to_a_column_as_it_is_and_a_tombstone_does_not() -> None:
    values = options("json", ONE, bad="column", column="_corrupt_record")
    [found] = decoded([MIXED], values, ("value",), nobody)
    assert found.to_pylist() == [
        {"value": {"a": 1, "b": None}, "_corrupt_record": None},
        {"value": None, "_corrupt_record": None},
        {"value": None, "_corrupt_record": b"oops"},
        {"value": {"a": 4, "b": "x"}, "_corrupt_record": None},
    ]


def test_rows_go_on_only_after_the_topic_has_the_bad_ones() -> None:
    happened: list[Any] = []

    class Topic:
        def send(self, letters: Any) -> None:
            happened.extend(letters)

        def close(self) -> None:
            happened.append("closed")

    values = options("json", ONE, bad="topic", dead_letters="dead")
    for found in decoded([MIXED, batch(b"{}")], values, ("offset", "value"), Topic):  # type: ignore[arg-type]
        happened.append(found.column("offset").to_pylist())
    letter, first, second, closed = happened
    assert letter[:5] == (b"k", b"oops", "t", 3, 2)
    assert isinstance(letter, Letter)
    assert (first, second, closed) == ([0, 1, 3], [0], "closed")


def test_no_row_goes_on_when_the_topic_refuses() -> None:
    class Refusing:
        def send(self, letters: Any) -> None:
            raise ConnectionError("gone")

        def close(self) -> None: ...

    values = options("json", ONE, bad="topic", dead_letters="dead")
    with pytest.raises(ConnectionError):
        list(decoded([MIXED], values, ("value",), Refusing))  # type: ignore[arg-type]


def test_what_a_bad_record_is_told_by_is_read_though_nobody_selects_it() -> None:
    assert needed(("value",), options("json", ONE)) == ("value", "topic", "partition", "offset")
    assert needed(("value",), options("json", ONE, bad="topic"))[0] == "key"


def test_a_null_that_avro_does_not_allow_fails_without_showing_the_row() -> None:
    values = options("avro", ONE, schema=json.dumps(AVRO))
    secret = pa.RecordBatch.from_arrays([pa.array([{"a": None, "b": "secret"}])], names=["value"])
    with pytest.raises(BadRecordError, match="does not fit the Avro schema") as caught:
        list(encoded([secret], values))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("struct", "said"),
    [
        (spark.StructType().add("a", spark.IntegerType()), "no field b"),
        (spark.StructType(ONE.fields[:]).add("c", spark.IntegerType()), "a field c"),
        (spark.StructType().add("a", spark.LongType()).add("b", spark.StringType()), "value.a is bigint"),
        (spark.StringType(), "the column value is string, not a struct"),
    ],
)
def test_a_struct_that_is_not_the_avro_schema_is_refused_at_planning(struct: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_struct(ValueOptions("avro", json.dumps(AVRO)), struct)


@pytest.mark.parametrize(
    ("type_", "format_", "said"),
    [
        (spark.StructType().add("x", spark.ArrayType(spark.LongType())), "csv", "value.x is array<bigint>"),
        (
            spark.StructType().add("x", spark.MapType(spark.LongType(), spark.LongType())),
            "json",
            "no strings",
        ),
        (spark.StructType().add("x", spark.DayTimeIntervalType()), "json", "value.x is interval"),
        (spark.StructType(), "json", "no fields"),
        (spark.StructType([*ONE.fields, ONE.fields[0]]), "json", "two fields"),
        (spark.BinaryType(), "json", "not a struct"),
    ],
)
def test_a_type_that_a_format_does_not_have_is_refused(type_: Any, format_: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_type(type_, format_)


def test_a_struct_that_is_nested_too_deep_is_refused() -> None:
    type_: Any = spark.StringType()
    for _ in range(70):
        type_ = spark.ArrayType(type_)
    with pytest.raises(ConfigError, match="more than 64 levels deep"):
        check_type(spark.StructType().add("x", type_), "json")


@pytest.mark.parametrize(
    "type_",
    [
        spark.ArrayType(spark.IntegerType(), containsNull=False),
        spark.MapType(spark.StringType(), spark.IntegerType(), valueContainsNull=False),
    ],
    ids=str,
)
def test_an_element_that_may_not_be_null_and_is_makes_the_value_bad(type_: Any) -> None:
    text = b'{"a": [1, null]}' if isinstance(type_, spark.ArrayType) else b'{"a": {"k": null}}'
    with pytest.raises(BadValueError, match="a has an element that is null"):
        json_reader(spark.StructType([spark.StructField("a", type_)]))(text)


def test_a_field_that_may_not_be_null_has_to_be_there() -> None:
    struct = spark.StructType().add("a", spark.IntegerType(), False)
    with pytest.raises(BadValueError, match="a is missing"):
        json_reader(struct)(b"{}")


def test_decimals_are_rounded_half_up_as_in_spark() -> None:
    struct = spark.StructType().add("p", spark.DecimalType(8, 2))
    assert json_reader(struct)(b'{"p": 0.125}') == {"p": decimal.Decimal("0.13")}


def test_a_timestamp_without_a_zone_is_utc_wherever_the_task_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    struct = spark.StructType().add("at", spark.TimestampType())
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = json_reader(struct)(b'{"at": "2026-01-31T12:00:00"}')
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found == {"at": dt.datetime(2026, 1, 31, 12, tzinfo=UTC)}


def test_letters_that_their_topic_does_not_take_fail_the_task() -> None:
    with Cluster() as kafka:
        with Admin(kafka.bootstrap) as admin:
            admin.create_topic("dead", partitions=1, configs={"max.message.bytes": "500"})
        letters = DeadLetters(kafka.bootstrap, "dead", "test", Security())
        try:
            letters.send([Letter(None, b"small", "t", 0, 1, "why")])
            with pytest.raises(KafkaError):
                letters.send([Letter(None, b"x" * 5000, "t", 0, 2, "why")])
        finally:
            letters.close()


def test_names_are_quoted_in_ddl() -> None:
    struct = spark.StructType().add("a b", spark.IntegerType(), False).add("`", spark.StringType())
    assert ddl_of(struct) == "struct<`a b`: int not null, ````: string>"


def test_numbers_are_spelled_as_spark_reads_them() -> None:
    struct = spark.StructType().add("x", spark.DoubleType())
    assert math.isnan(json_reader(struct)(b'{"x": "NaN"}')["x"])
    assert json_reader(struct)(b'{"x": "-Infinity"}') == {"x": -math.inf}
    with pytest.raises(BadValueError):
        json_reader(struct)(b'{"x": "1.5"}')


GIVEN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({"valueFormat": "xml"}, "valueFormat=xml: it is json, csv, avro or confluent-avro"),
        ({"valueFormat": "json"}, "needs valueSchema"),
        ({"valueSchema": "a INT"}, "no effect without valueFormat"),
        ({"badRecords": "column"}, "no effect without valueFormat"),
        ({"valueFormat": "json", "valueSchema": "a INT", "badRecords": "DROPMALFORMED"}, "never dropped"),
        (
            {"valueFormat": "json", "valueSchema": "a INT", "badRecords": "topic:"},
            "fail, column or topic:NAME",
        ),
        ({"valueFormat": "json", "valueSchema": "a INT", "badRecords": "topic:t"}, "a topic that is read"),
        ({"valueFormat": "json", "valueSchema": "a INT", "columns": "key"}, "leaves value out"),
        ({"valueFormat": "json", "valueSchema": "a INT", "columnNameOfCorruptRecord": "x"}, "no effect"),
        ({"valueFormt": "json"}, "did you mean valueFormat"),
    ],
)
def test_options_that_contradict_are_refused(given_options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SourceOptions.parse(GIVEN | given_options, streaming=False)


def test_a_pattern_that_reads_the_dead_letters_is_refused() -> None:
    words = {"valueFormat": "json", "valueSchema": "a INT", "badRecords": "topic:flights.bad"}
    with pytest.raises(ConfigError, match="a topic that is read"):
        given_options = {"kafka.bootstrap.servers": "h:1", "subscribePattern": "flights.*"} | words
        SourceOptions.parse(given_options, streaming=False)


def test_spark_s_own_words_for_bad_records_are_understood() -> None:
    words = GIVEN | {"valueFormat": "json", "valueSchema": "a INT", "badRecords": "PERMISSIVE"}
    values = SourceOptions.parse(words, streaming=False).values
    assert values is not None
    assert values.corrupt_column == "_corrupt_record"


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({"valueFormat": "json", "valueSchema": "a INT"}, "no effect on a sink"),
        ({"valueFormat": "json", "badRecords": "column"}, "badRecords cannot be set"),
    ],
)
def test_a_sink_refuses_what_has_no_effect(given_options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SinkOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "t"} | given_options)


@pytest.mark.parametrize("format_", ["json", "csv", "avro"])
@pytest.mark.parametrize(
    ("type_", "arrow", "value"),
    [
        (spark.TimestampType(), pa.timestamp("us", "UTC"), 253_402_300_800_000_000),
        (spark.TimestampNTZType(), pa.timestamp("us"), -62_135_596_801_000_000),
        (spark.DateType(), pa.date32(), 2_932_897),
    ],
    ids=["timestamp", "timestamp_ntz", "date"],
)
def test_a_date_that_no_text_has_is_told_by_the_sink(
    format_: str, type_: Any, arrow: Any, value: int
) -> None:
    column = pa.StructArray.from_arrays([pa.array([value], arrow)], ["a"])
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    values = ValueOptions(format_, "", type_json=spark.StructType().add("a", type_).json())
    with pytest.raises(BadRecordError, match="out of the years 1 to 9999") as caught:
        list(encoded([batch], values))
    assert caught.value.next_step
