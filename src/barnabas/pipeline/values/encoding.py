"""Rows of a sink: the struct in the column value becomes bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from barnabas.pipeline.values.avro_schemas import avro_schema_of, avro_struct
from barnabas.pipeline.values.avro_values import avro_writer
from barnabas.pipeline.values.confluent import confluent_writer
from barnabas.pipeline.values.csv_values import csv_writer
from barnabas.pipeline.values.decoding import BadRecordError
from barnabas.pipeline.values.json_values import json_writer
from barnabas.pipeline.values.options import CONFLUENT, BadValueError, ValueOptions
from barnabas.pipeline.values.shapes import check_same, check_type, struct_of

__all__ = ["check_struct", "encoded"]


def check_struct(values: ValueOptions, type_: Any) -> None:
    """Whether structs of this type can be written.  Raises ConfigError that names the field."""
    check_type(type_, values.format)
    if values.format not in ("avro", CONFLUENT):
        return
    if values.schema:
        check_same(type_, avro_struct(values.schema), "value")
    else:
        avro_struct(avro_schema_of(type_))  # (names that Avro does not allow)


def encoded(batches: Iterable[pa.RecordBatch], values: ValueOptions) -> Iterator[pa.RecordBatch]:
    """The batches with bytes in the column value; null stays null, a tombstone.  Raises BadRecordError."""
    write = _writer(values)
    for batch in batches:
        index = batch.schema.get_field_index("value")
        rows = _rows_of(batch.column(index), values)
        data = pa.array((_bytes(write, row, values) for row in rows), pa.binary())
        yield batch.set_column(index, "value", data)


def _rows_of(column: pa.Array, values: ValueOptions) -> list[Any]:
    """Return the structs as Python has them, whose dates end with the year 9999; Spark's do not."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError) as error:
        raise _refusal(values, "a date or timestamp is out of the years 1 to 9999") from error


def _refusal(values: ValueOptions, said: str) -> BadRecordError:
    return BadRecordError(
        f"a value cannot be written as {values.format}: {said}",
        next_step="filter such rows out; nothing of this write is committed",
    )


def _bytes(write: Callable[[Any], bytes], row: Any, values: ValueOptions) -> bytes | None:
    if row is None:
        return None
    try:
        return write(row)
    except BadValueError as error:
        raise _refusal(values, error.message) from None


def _writer(values: ValueOptions) -> Callable[[dict[str, Any]], bytes]:
    struct = struct_of(values)
    if values.format == "json":
        return json_writer(struct)
    if values.format == "csv":
        return csv_writer(struct)
    if values.format == CONFLUENT:
        writer = confluent_writer(values)
    else:
        writer = avro_writer(values.schema or avro_schema_of(struct))
    plain = _plain(struct)
    return lambda row: writer(plain(row))


def _plain(type_: spark.DataType) -> Callable[[Any], Any]:
    """Maps come out of Arrow as pairs, and fastavro wants dicts."""
    if isinstance(type_, spark.MapType):
        inner = _plain(type_.valueType)
        return lambda value: None if value is None else {key: inner(one) for key, one in value}
    if isinstance(type_, spark.ArrayType):
        inner = _plain(type_.elementType)
        return lambda value: None if value is None else [inner(one) for one in value]
    if isinstance(type_, spark.StructType):
        fields = [(field.name, _plain(field.dataType)) for field in type_.fields]
        return lambda row: None if row is None else {name: inner(row[name]) for name, inner in fields}
    return lambda value: value
