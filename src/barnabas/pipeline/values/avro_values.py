"""A value that is one Avro datum, there and back, and what its schema is in Spark.

fastavro reads and writes.  Its readers trust the schema, so schemas with which a few bytes become a lot of memory
or a deep stack are refused: recursive ones, and items that take no bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from barnabas.errors import ConfigError
from barnabas.pipeline.extras import to_install
from barnabas.pipeline.values.options import BadValueError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["avro_reader", "avro_schema_of", "avro_struct", "avro_writer", "parsed"]

_SIMPLE: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "bytes": spark.BinaryType(),
    "string": spark.StringType(),
}
_LOGICAL: dict[tuple[str, str], spark.DataType] = {
    ("int", "date"): spark.DateType(),
    ("long", "timestamp-millis"): spark.TimestampType(),
    ("long", "timestamp-micros"): spark.TimestampType(),
    ("long", "local-timestamp-millis"): spark.TimestampNTZType(),
    ("long", "local-timestamp-micros"): spark.TimestampNTZType(),
    ("string", "uuid"): spark.StringType(),
}
_LARGEST_SCHEMA = 1 << 20


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        raise ConfigError("valueFormat=avro needs fastavro", next_step=to_install("spark")) from None
    module: ModuleType = fastavro
    return module


def parsed(text: str) -> Any:
    """The schema as fastavro wants it.  Raises ConfigError."""
    library = _fastavro()
    if len(text) > _LARGEST_SCHEMA:
        raise ConfigError("an Avro schema of more than 1 MiB")
    try:
        return library.parse_schema(json.loads(text))
    except Exception as error:  # what fastavro raises for nonsense is not one class
        said = str(error).splitlines()[0][:200] if str(error) else ""
        raise ConfigError(
            f"not an Avro schema: {type(error).__name__}: {said}", next_step="give its JSON as valueSchema"
        ) from None


def avro_struct(text: str) -> spark.StructType:
    """The struct in Spark for an Avro schema, which is a record.  Raises ConfigError."""
    schema = parsed(text)
    type_, nullable = _Types().of(schema, "value")
    if nullable or not isinstance(type_, spark.StructType):
        raise ConfigError("the Avro schema is no record", next_step="values become structs: give a record")
    return type_


class _Types:
    """Types of Spark out of a parsed schema, whose names it follows."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def of(self, schema: Any, where: str) -> tuple[spark.DataType, bool]:
        """The type, and whether it may be null."""
        if isinstance(schema, list):
            return self._union(schema, where)
        if isinstance(schema, str):
            if schema in _SIMPLE:
                return _SIMPLE[schema], False
            if schema in self._open:
                raise ConfigError(f"{where}: the Avro schema is recursive, and Spark has no such type")
            if schema in self._named:
                return self._complex(self._named[schema], where), False
            raise ConfigError(f"{where} is {schema[:100]} in Avro, for which Spark has no type")
        return self._complex(schema, where), False

    def _union(self, schema: list[Any], where: str) -> tuple[spark.DataType, bool]:
        left = [one for one in schema if one != "null" and one != {"type": "null"}]
        if len(left) != 1:
            raise ConfigError(f"{where} is a union of {len(left)} types, of which Spark has none")
        type_, _ = self.of(left[0], where)
        return type_, len(left) < len(schema)

    def _complex(self, schema: dict[str, Any], where: str) -> spark.DataType:
        kind = schema["type"]
        if "name" in schema:
            self._named[schema["name"]] = schema
        if kind in ("record", "error"):
            return self._record(schema, where)
        if kind == "enum":
            return spark.StringType()
        if kind == "array":
            inner, nullable = self.of(schema["items"], f"{where}[]")
            return spark.ArrayType(inner, nullable)
        if kind == "map":
            inner, nullable = self.of(schema["values"], f"{where}{{}}")
            return spark.MapType(spark.StringType(), inner, nullable)
        logical = schema.get("logicalType")
        if kind in ("bytes", "fixed") and logical == "decimal":
            if schema["precision"] > 38:
                raise ConfigError(f"{where} is a decimal of more than 38 digits, which Spark has not")
            return spark.DecimalType(schema["precision"], schema.get("scale", 0))
        if kind == "fixed":
            if schema["size"] < 1:
                raise ConfigError(f"{where} is fixed of no bytes")
            return spark.BinaryType()
        if logical is not None and (kind, logical) in _LOGICAL:
            return _LOGICAL[kind, logical]
        if logical is not None:
            raise ConfigError(
                f"{where} is {kind} with logicalType {str(logical)[:50]}: Spark has no such type"
            )
        return self.of(kind, where)[0]

    def _record(self, schema: dict[str, Any], where: str) -> spark.StructType:
        if not schema["fields"]:
            raise ConfigError(f"{where}: the record {schema['name']} has no fields")
        self._open.append(schema["name"])
        fields = []
        for field in schema["fields"]:
            type_, nullable = self.of(field["type"], f"{where}.{field['name']}")
            fields.append(spark.StructField(field["name"], type_, nullable))
        self._open.pop()
        return spark.StructType(fields)


def avro_reader(text: str) -> Callable[[bytes], dict[str, Any]]:
    """What reads a datum of this schema; it raises BadValueError."""
    schema = parsed(text)
    read_one = _fastavro().schemaless_reader

    def read(data: bytes) -> dict[str, Any]:
        stream = io.BytesIO(data)
        try:
            found: dict[str, Any] = read_one(stream, schema, None)
        except Exception as error:  # what fastavro raises for hostile bytes is not one class
            raise BadValueError(f"it does not fit the Avro schema ({type(error).__name__})") from None
        if (left := len(data) - stream.tell()) > 0:
            raise BadValueError(f"{left} bytes are left after what the Avro schema says")
        return found

    return read


def avro_schema_of(struct: spark.StructType) -> str:
    """An Avro schema for a struct of Spark."""
    return json.dumps(_avro_of(struct, "value"))


def _avro_of(type_: spark.DataType, name: str) -> Any:
    if isinstance(type_, spark.StructType):
        fields = [
            {"name": field.name, "type": _nullable(field.dataType, field.nullable, f"{name}_{field.name}")}
            for field in type_.fields
        ]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(type_, spark.ArrayType):
        return {"type": "array", "items": _nullable(type_.elementType, type_.containsNull, name)}
    if isinstance(type_, spark.MapType):
        return {"type": "map", "values": _nullable(type_.valueType, type_.valueContainsNull, name)}
    if isinstance(type_, spark.DecimalType):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": type_.precision,
            "scale": type_.scale,
        }
    if isinstance(type_, spark.DateType):
        return {"type": "int", "logicalType": "date"}
    if isinstance(type_, spark.TimestampType):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if isinstance(type_, spark.TimestampNTZType):
        return {"type": "long", "logicalType": "local-timestamp-micros"}
    if isinstance(type_, (spark.ByteType, spark.ShortType)):
        return "int"
    return next(avro for avro, simple in _SIMPLE.items() if type(simple) is type(type_))


def _nullable(type_: spark.DataType, nullable: bool, name: str) -> Any:
    inner = _avro_of(type_, name)
    return ["null", inner] if nullable else inner


def avro_writer(text: str) -> Callable[[dict[str, Any]], bytes]:
    """What writes a datum; it raises BadValueError."""
    schema = parsed(text)
    write_one = _fastavro().schemaless_writer

    def write(row: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        try:
            write_one(stream, schema, row, strict=True)
        except Exception as error:  # what fastavro raises is not one class, and may quote the value
            raise BadValueError(f"it does not fit the Avro schema ({type(error).__name__})") from None
        return stream.getvalue()

    return write
