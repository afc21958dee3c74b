"""Rows of a source whose values become structs, in Arrow, and what becomes of values that cannot be read.

A tombstone (a value that is null) stays null.  Every other value is read, or is bad; a bad one fails the task,
goes to a column, or to a topic: no row is left out unless that topic has acknowledged it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from barnabas.errors import BarnabasError
from barnabas.pipeline.options import COLUMNS
from barnabas.pipeline.values.avro_values import avro_reader
from barnabas.pipeline.values.confluent import confluent_reader
from barnabas.pipeline.values.csv_values import csv_reader
from barnabas.pipeline.values.dead_letters import DeadLetters, Letter
from barnabas.pipeline.values.json_values import json_reader
from barnabas.pipeline.values.options import COLUMN, CONFLUENT, FAIL, TOPIC, BadValueError, ValueOptions
from barnabas.pipeline.values.shapes import struct_of

__all__ = ["BadRecordError", "Decoder", "decoded", "needed"]


class BadRecordError(BarnabasError):
    """A value cannot be read, and badRecords=fail."""


def needed(columns: Iterable[str], values: ValueOptions) -> tuple[str, ...]:
    """The columns that have to be there, in the order of the schema, so that these can be given out."""
    wanted = {*columns, "topic", "partition", "offset", *(("key",) if values.bad == TOPIC else ())}
    return tuple(name for name in COLUMNS if name in wanted)


class Decoder:
    """Makes structs of the values of batches."""

    def __init__(self, values: ValueOptions) -> None:
        self._values = values
        struct = struct_of(values)
        self._type = to_arrow_type(struct, timezone="UTC")
        self._read = _reader(values, struct)

    def __repr__(self) -> str:
        return f"<Decoder {self._values.format}>"

    def column(self, raw: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The structs, and what is wrong with those rows that could not be read (null, too)."""
        found: list[Any] = []
        bad: dict[int, str] = {}
        for row, data in enumerate(raw.to_pylist()):
            if data is None:
                found.append(None)
                continue
            try:
                found.append(self._read(data))
            except BadValueError as error:
                found.append(None)
                bad[row] = error.message
        try:
            return pa.array(found, self._type), bad
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return self._one_by_one(found, bad)

    def _one_by_one(self, found: list[Any], bad: dict[int, str]) -> tuple[pa.Array, dict[int, str]]:
        """Some value is none of Arrow's: find which."""
        for row, one in enumerate(found):
            try:
                pa.array([one], self._type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                found[row] = None
                bad[row] = f"a field is out of the range of its type ({type(error).__name__})"
        return pa.array(found, self._type), bad


def _reader(values: ValueOptions, struct: spark.StructType) -> Callable[[bytes], dict[str, Any]]:
    if values.format == "json":
        return json_reader(struct)
    if values.format == "csv":
        return csv_reader(struct)
    if values.format == CONFLUENT:
        return confluent_reader(values)
    return avro_reader(values.schema)


def decoded(
    rows: Iterable[pa.RecordBatch],
    values: ValueOptions,
    columns: tuple[str, ...],
    letters: Callable[[], DeadLetters],
) -> Iterator[pa.RecordBatch]:
    """The rows with structs.  `letters` opens the topic for bad ones, when the first of them comes."""
    decoder = Decoder(values)
    names = [*columns, *([values.column] if values.bad == COLUMN else [])]
    topic: DeadLetters | None = None
    try:
        for batch in rows:
            raw = batch.column("value")
            structs, bad = decoder.column(raw)
            if bad and values.bad == FAIL:
                raise _refusal(batch, values, bad)
            given = {name: batch.column(name) for name in batch.schema.names} | {"value": structs}
            if values.bad == COLUMN:
                keep = pa.array([row in bad for row in range(batch.num_rows)])
                given[values.column] = pa.compute.if_else(keep, raw, pa.scalar(None, pa.binary()))
            done = pa.RecordBatch.from_arrays([given[name] for name in names], names=names)
            if bad and values.bad == TOPIC:
                topic = topic or letters()
                topic.send(_letters(batch, bad))
                done = done.filter(pa.array([row not in bad for row in range(batch.num_rows)]))
            if done.num_rows:
                yield done
    finally:
        if topic is not None:
            topic.close()


def _refusal(batch: pa.RecordBatch, values: ValueOptions, bad: dict[int, str]) -> BadRecordError:
    row = min(bad)
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    more = f" ({len(bad) - 1} more right after it)" if len(bad) > 1 else ""
    return BadRecordError(
        f"{topic}-{partition} offset {offset}: the value cannot be read as {values.format}: {bad[row]}{more}",
        next_step="badRecords=column puts such values into a column, badRecords=topic:NAME into a topic",
    )


def _letters(batch: pa.RecordBatch, bad: dict[int, str]) -> Iterator[Letter]:
    names = ("key", "value", "topic", "partition", "offset")
    for row in sorted(bad):
        key, value, topic, partition, offset = (batch.column(name)[row].as_py() for name in names)
        yield Letter(key, value, topic, partition, offset, bad[row])
