"""Avro: a damaged datum is bad, schemas that mean too much are refused, two schemas go together as Avro says."""

from __future__ import annotations

import datetime as dt
import io
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")
fastavro = pytest.importorskip("fastavro")

import pyarrow as pa  # noqa: E402 (only where it is installed)
from pyspark.sql import types as spark  # noqa: E402
from pyspark.sql.pandas.types import to_arrow_type  # noqa: E402

from barnabas.errors import ConfigError  # noqa: E402
from barnabas.pipeline.values.avro_schemas import avro_schema_of, avro_struct, parsed  # noqa: E402
from barnabas.pipeline.values.avro_values import avro_reader, reader_between  # noqa: E402
from barnabas.pipeline.values.options import BadValueError  # noqa: E402


def record(*types: Any, name: str = "r", **more: Any) -> str:
    fields = [{"name": f"f{n}", "type": type_, **more} for n, type_ in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": fields})


ENUM = {"type": "enum", "name": "E", "symbols": ["x", "y", "z"]}


@pytest.mark.parametrize(
    ("type_", "data", "said"),
    [
        (["null", "string"], b"\x01\x02a", "a branch that the union has not"),  # branch -1
        (["null", "string"], b"\x04", "a branch that the union has not"),
        (ENUM, b"\x01", "a symbol that the enum has not"),  # symbol -1
        (ENUM, b"\x06", "a symbol that the enum has not"),
        ("boolean", b"\x02", "neither true nor false"),
        ("int", b"\xff\xff\xff\xff\x1f", "more than 32 bits"),
        ("long", b"\x80" * 10 + b"\x01", "more than 10 bytes"),
        ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\x80", "it ends before"),
        ("float", b"\0\0\0", "it ends before"),
        ("string", b"\x01", "a length that is not there"),
        ("bytes", b"\x04a", "a length that is not there"),
        ("string", b"\x02\xff", "no UTF-8"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "fewer bytes"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\x0f", "more items than there are bytes"),
        ({"type": "array", "items": "int"}, b"\x01\x04\x02\x00", "a block of items that is not as long"),
        ({"type": "map", "values": "int"}, b"\x01\x02\x02a\x02\x00", "a block of items that is not as long"),
        ({"type": "map", "values": "int"}, b"\xfe\xff\xff\xff\x0f", "more items than there are bytes"),
        ({"type": "int", "logicalType": "date"}, b"\xff\xff\xff\xff\x0f", "out of the years 1 to 9999"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xff" * 9 + b"\x01", "out of the years"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1},
            b"\x02\x64",
            r"decimal\(2,1\)",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            b"\xd0\x0f" + b"\x7f" * 1000,
            "decimal",
        ),
    ],
)
def test_a_damaged_datum_is_bad_and_no_row(type_: Any, data: bytes, said: str) -> None:
    with pytest.raises(BadValueError, match=said):
        avro_reader(record(type_))(data)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_datum_that_lacks_its_end_or_has_more_is_bad(data: st.DataObject) -> None:
    row = data.draw(ROWS)
    whole = written(WRITER, row)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for lie in (whole[:cut], whole + b"\0"):
        with pytest.raises(BadValueError):
            avro_reader(WRITER)(lie)


def written(schema: str, row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), row)
    return stream.getvalue()


# -- two schemas -----------------------------------------------------------------------------------

WRITER = json.dumps(
    {
        "type": "record",
        "name": "n.w",
        "fields": [
            {"name": "i", "type": "int"},
            {
                "name": "gone",
                "type": {"type": "array", "items": ["null", "string", {"type": "map", "values": "long"}]},
            },
            {"name": "l", "type": "long"},
            {"name": "f", "type": "float"},
            {"name": "s", "type": "string"},
            {"name": "b", "type": "bytes"},
            {"name": "u", "type": ["null", "int", "string"]},
            {"name": "e", "type": ENUM},
            {"name": "x", "type": {"type": "fixed", "name": "X", "size": 2}},
            {
                "name": "in",
                "type": {"type": "record", "name": "in", "fields": [{"name": "z", "type": "int"}]},
            },
            {"name": "again", "type": ["null", "n.in"]},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
            {"name": "left", "type": ["null", "boolean"]},
        ],
    }
)
READER = json.dumps(
    {
        "type": "record",
        "name": "n.w",
        "fields": [
            {"name": "new", "type": "string", "default": "d"},
            {"name": "i", "type": ["null", "double"]},
            {"name": "l", "type": "float"},
            {"name": "f", "type": "double"},
            {"name": "text", "aliases": ["b"], "type": "string"},
            {"name": "s", "type": "bytes"},
            {"name": "u", "type": ["null", "string"]},
            {"name": "e", "type": {**ENUM, "symbols": ["y", "x"], "default": "y"}},
            {"name": "x", "type": {"type": "fixed", "name": "X", "size": 2}},
            {
                "name": "in",
                "type": {
                    "type": "record",
                    "name": "in",
                    "fields": [
                        {"name": "z", "type": "long"},
                        {"name": "y", "type": ["null", "int"], "default": None},
                    ],
                },
            },
            {"name": "again", "type": ["null", "n.in"]},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": ["null", "long"]}}},
            {"name": "more", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
        ],
    }
)
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
_small = st.integers(-1000, 1000)
ROWS = st.fixed_dictionaries(
    {
        "i": st.integers(-(2**31), 2**31 - 1),
        "gone": st.lists(st.none() | _text | st.dictionaries(_text, _small, max_size=2), max_size=3),
        "l": st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(width=32, allow_nan=False),
        "s": _text,
        "b": _text.map(str.encode),
        "u": st.none() | _text | _small,
        "e": st.sampled_from(["x", "y", "z"]),
        "x": st.binary(min_size=2, max_size=2),
        "in": st.fixed_dictionaries({"z": _small}),
        "again": st.none() | st.fixed_dictionaries({"z": _small}),
        "m": st.dictionaries(_text, st.lists(_small, max_size=3), max_size=2),
        "left": st.none() | st.booleans(),
    }
)


@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_what_was_written_with_another_schema_is_what_fastavro_makes_of_it(row: dict[str, Any]) -> None:
    data = written(WRITER, row)
    ours: Any
    try:
        ours = reader_between(parsed(WRITER), parsed(READER))(data)
    except BadValueError:
        ours = None
    theirs = None
    writer, reader = (fastavro.parse_schema(json.loads(text)) for text in (WRITER, READER))
    if type(row["u"]) is not int:  # (no branch of the reader has it)
        theirs = fastavro.schemaless_reader(io.BytesIO(data), writer, reader)
        theirs["m"] = list(theirs["m"].items())
        theirs["l"] = float(theirs["l"])
    assert ours == theirs


@pytest.mark.parametrize(
    ("writer", "reader", "said"),
    [
        ("string", "int", "written as string, which cannot be read as int"),
        ("long", "int", "written as long, which cannot be read as int"),
        ("double", "float", "written as double"),
        (["null", "string"], "int", "cannot be read as int"),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "written as fixed",
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "G", "size": 2},
            "written as fixed",
        ),
        (ENUM, {**ENUM, "name": "Other"}, "written as enum"),
        (
            {"type": "array", "items": "string"},
            {"type": "array", "items": "int"},
            r"value.f0\[\] was written",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "written as timestamp-millis, which cannot be read as timestamp-micros",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "another scale",
        ),
    ],
)
def test_schemas_that_do_not_go_together_are_bad_before_a_datum_is_read(
    writer: Any, reader: Any, said: str
) -> None:
    with pytest.raises(BadValueError, match=said):
        reader_between(parsed(record(writer)), parsed(record(reader)))


def test_a_field_that_was_not_written_needs_a_default() -> None:
    with pytest.raises(BadValueError, match=r"value\.f1 was not written, and has no default"):
        reader_between(parsed(record("int")), parsed(record("int", "int")))


def test_a_field_that_was_written_under_two_names_is_taken_once() -> None:
    writer = {"type": "record", "name": "r", "fields": [{"name": n, "type": "int"} for n in ("a", "b")]}
    reader = {"type": "record", "name": "r", "fields": [{"name": "a", "aliases": ["b"], "type": "int"}]}
    assert reader_between(parsed(json.dumps(writer)), parsed(json.dumps(reader)))(b"\x02\x04") == {"a": 1}


def test_a_large_number_is_read_as_one_of_less_digits() -> None:
    struct = avro_struct(record("float"))
    read = reader_between(parsed(record("long")), parsed(record("float")))
    found = pa.array(
        [read(written(record("long"), {"f0": 2**40 + 1}))], to_arrow_type(struct, timezone="UTC")
    )
    assert found.to_pylist() == [{"f0": 2.0**40}]


def test_days_go_from_the_year_1_to_the_year_9999() -> None:
    schema = record({"type": "int", "logicalType": "date"})
    struct = to_arrow_type(avro_struct(schema), timezone="UTC")
    for day in (dt.date.min, dt.date.max):
        assert pa.array([avro_reader(schema)(written(schema, {"f0": day}))], struct).to_pylist() == [
            {"f0": day}
        ]
    plain = record("int")
    for days in (-719_163, 2_932_897):
        with pytest.raises(BadValueError, match="years 1 to 9999"):
            avro_reader(schema)(written(plain, {"f0": days}))


@pytest.mark.parametrize(
    ("type_", "default", "found"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (["null", "int"], None, None),
        (["null", "int"], 5, 5),
        ("double", 1, 1.0),
        (ENUM, "z", "z"),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
        (
            {"type": "record", "name": "q", "fields": [{"name": "a", "type": "int", "default": 3}]},
            {},
            {"a": 3},
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, 5, 5000),
    ],
)
def test_defaults_are_values_of_their_type(type_: Any, default: Any, found: Any) -> None:
    reader = {"type": "record", "name": "r", "fields": [{"name": "d", "type": type_, "default": default}]}
    assert reader_between(parsed(record("int")), parsed(json.dumps(reader)))(b"\0") == {"d": found}


# -- schemas that mean too much --------------------------------------------------------------------


def nested(levels: int, inner: str = '"int"') -> str:
    return '{"type": "array", "items": ' * levels + inner + "}" * levels


def laughing(levels: int, width: int = 10) -> str:
    """Each record has the next one ten times: few words, and ten to the power of levels fields."""
    tree: Any = "null"
    for level in range(levels):
        name = f"l{level}"
        fields = [{"name": f"f{n}", "type": tree if n == 0 else inner_name(tree)} for n in range(width)]
        tree = {"type": "record", "name": name, "fields": fields}
    return json.dumps(tree)


def inner_name(tree: Any) -> Any:
    return tree["name"] if isinstance(tree, dict) else tree


BOMBS = {
    "deep": (record({"type": "array", "items": json.loads(nested(70))}), "more than 64 levels"),
    "very deep": ("[" * 400 + "]" * 400, "more than 64 levels"),
    "laughing": (laughing(12), "more than 10000 types"),
    "wide": (record(*["int"] * 10_001), "more than 10000 types"),
    "branches": (
        record([{"type": "fixed", "name": f"x{n}", "size": 1} for n in range(300)]),
        "more than 256 types",
    ),
    "symbols": (record({**ENUM, "symbols": [f"s{n}" for n in range(10_001)]}), "more than 10000 symbols"),
    "long symbol": (record({**ENUM, "symbols": ["s" * 1001]}), "a symbol of more than 1000"),
    "long name": (record("int", name="n" * 1001), "a name of more than 1000"),
    "fixed": (record({"type": "fixed", "name": "F", "size": 1 << 40}), "0 to 1048576 bytes"),
    "fixed less": (record({"type": "fixed", "name": "F", "size": -1}), "0 to 1048576 bytes"),
    "fixed text": (record({"type": "fixed", "name": "F", "size": "9"}), "0 to 1048576 bytes"),
    "nothing": (record({"type": "array", "items": "null"}), "items that take no bytes"),
    "empty": (
        record({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}),
        "items that take no bytes",
    ),
    "recursive": (record(["null", "r"]), "recursive"),
    "default": (record("string", default="x" * 70_000), "default of more than 64 KiB"),
    "decimal": (
        record({"type": "bytes", "logicalType": "decimal", "precision": "4"}),
        "precision and scale are no such numbers",
    ),
    "decimal less": (
        record({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}),
        "precision and scale are no such numbers",
    ),
    "parsed": (json.dumps({"type": "int", "__fastavro_parsed": True}), "key __fastavro_parsed"),
    "long": (record("int") + " " * (1 << 20), "more than 1 MiB"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_schema_that_means_too_much_is_refused_at_once(name: str) -> None:
    schema, said = BOMBS[name]
    began = time.process_time()
    with pytest.raises(ConfigError, match=said) as caught:
        parsed(schema)
    assert time.process_time() - began < 2
    assert len(caught.value.message) < 400


def test_a_schema_of_many_fields_and_names_is_taken() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "a", "type": "int"}]}
    schema = record(inner, *["inner"] * 500, *[["null", "string"]] * 500)
    assert len(avro_struct(schema).fields) == 1001


def test_fields_without_bytes_cost_no_time_for_each_item() -> None:
    """A record of a boolean and thousands of nulls takes a byte: an array of them is a lot of fields."""
    nulls = [{"name": f"n{n}", "type": "null"} for n in range(5_000)]
    item = {"type": "record", "name": "i", "fields": [{"name": "b", "type": "boolean"}, *nulls]}
    writer = json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": "gone", "type": {"type": "array", "items": item}},
                {"name": "f0", "type": "int"},
            ],
        }
    )
    read = reader_between(parsed(writer), parsed(record("int")))
    began = time.process_time()
    assert read(b"\xc0\x9a\x0c" + b"\1" * 100_000 + b"\0\x02") == {"f0": 1}
    assert time.process_time() - began < 2


def test_two_structs_of_one_path_get_two_names() -> None:
    inner = spark.StructType().add("x", spark.IntegerType())
    struct = spark.StructType().add("a_b", inner).add("a", spark.StructType().add("b", inner))
    assert avro_struct(avro_schema_of(struct)) == struct


def test_a_uuid_is_text() -> None:
    read = avro_reader(record({"type": "string", "logicalType": "uuid"}))
    assert read(b"\x48123e4567-e89b-12d3-a456-426614174000") == {"f0": "123e4567-e89b-12d3-a456-426614174000"}
