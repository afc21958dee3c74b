"""Values in the format of Confluent's serializers: a byte 0, the schema's id in a registry in four bytes, Avro.

The source reads each value by the schema with which it was written, and makes of it what its own schema says, by
Avro's rules.  The sink has its schema registered before any task writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from barnabas.errors import ConfigError
from barnabas.pipeline.values.avro_schemas import avro_schema_of, avro_struct, parsed
from barnabas.pipeline.values.avro_values import avro_reader, avro_writer, reader_between
from barnabas.pipeline.values.options import CONFLUENT, BadValueError, ValueOptions
from barnabas.pipeline.values.registry import Registry, RegistryError, registry_of
from barnabas.pipeline.values.registry_options import RegistryOptions
from barnabas.pipeline.values.shapes import check_same, struct_of

__all__ = ["confluent_reader", "confluent_writer", "own_schema_reader", "registered", "with_schema"]

_MAGIC = 0
_HEAD = 5
_MOST_KEPT = 1_000
"""Schemas of writers that a task keeps."""

Reader = Callable[[bytes], dict[str, Any]]


def with_schema(values: ValueOptions) -> ValueOptions:
    """The options with the schema to read with: the one given, or the newest of the subject.

    Raises ConfigError, RegistryError.
    """
    if values.format != CONFLUENT or values.schema:
        return values
    registry = _registry(values)
    subject = registry.subject_of(values.topic, None)
    found = registry_of(registry).latest(subject)
    try:
        avro_struct(found.text)
    except ConfigError as error:
        raise ConfigError(
            f"schema {found.id}, the newest of {subject}: {error}",
            next_step="give a valueSchema that Spark has types for",
        ) from None
    return replace(values, schema=found.text)


def registered(values: ValueOptions) -> ValueOptions:
    """The options of a sink with the schema that it writes, and its id in the registry.

    Raises ConfigError, RegistryError.
    """
    if values.format != CONFLUENT or values.schema_id is not None:
        return values
    options = _registry(values)
    registry = registry_of(options)
    schema = values.schema or avro_schema_of(struct_of(values))
    subject = options.subject_of(values.topic, str(parsed(schema).tree["name"]))
    if options.latest:
        found = registry.latest(subject)
        check_same(struct_of(values), avro_struct(found.text), "value")
        return replace(values, schema=found.text, schema_id=found.id)
    text = json.dumps(json.loads(schema), separators=(",", ":"))
    id_ = registry.id_of(subject, text, register=options.register)
    return replace(values, schema=schema, schema_id=id_)


def _registry(values: ValueOptions) -> RegistryOptions:
    assert values.registry is not None
    return values.registry


def confluent_reader(values: ValueOptions, registry: Registry | None = None) -> Reader:
    """What reads a value; it raises BadValueError, and RegistryError where the registry is needed and silent."""
    schema = parsed(values.schema)
    source = registry or registry_of(_registry(values))
    return _reader(source, lambda text: reader_between(parsed(text), schema))


def own_schema_reader(registry: Registry) -> Reader:
    """Return what reads a value as its own schema says; it raises as that of `confluent_reader` does."""
    return _reader(registry, avro_reader)


def _reader(source: Registry, reader_for: Callable[[str], Reader]) -> Reader:
    kept: dict[int, Reader] = {}

    def reader_of(id_: int) -> Reader:
        found = source.schema(id_)
        if found is None:
            return _bad(f"schema {id_} is not in the registry")
        if found.problem:
            return _bad(f"schema {id_} {found.problem}")
        try:
            return reader_for(found.text)
        except (ConfigError, BadValueError) as error:
            return _bad(f"schema {id_}: {error.message}")

    def read(data: bytes) -> dict[str, Any]:
        if len(data) < _HEAD or data[0] != _MAGIC:
            raise BadValueError("it does not begin with a byte 0 and a schema's id")
        id_ = int.from_bytes(data[1:_HEAD], "big")
        reader = kept.get(id_)
        if reader is None:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            reader = kept[id_] = reader_of(id_)
        return reader(data[_HEAD:])

    return read


def _bad(said: str) -> Reader:
    def read(data: bytes) -> dict[str, Any]:
        raise BadValueError(said)

    return read


def confluent_writer(values: ValueOptions) -> Callable[[dict[str, Any]], bytes]:
    """What writes a value with the schema that `registered` found; it raises BadValueError."""
    if values.schema_id is None:
        raise RegistryError("the sink's schema was not registered")
    head = bytes([_MAGIC]) + values.schema_id.to_bytes(4, "big")
    write = avro_writer(values.schema)
    return lambda row: head + write(row)
