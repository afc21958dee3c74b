"""Avro schemas: which are taken, and what they are in Spark.

A schema may come from a registry that many people write to, and a few words of it can mean a lot of memory, time
or stack: names that expand, items that take no bytes, a type within itself.  `parsed` refuses those, with bounds
far above what schemas of people have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark

from barnabas.errors import ConfigError
from barnabas.extras import library

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Schema", "avro_schema_of", "avro_struct", "fastavro", "is_null", "parsed"]

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
_LARGEST_TEXT = 1 << 20
_DEEPEST_JSON = 320
_DEEPEST = 64
_MOST_TYPES = 10_000
"""Types of a schema, each counted where it is used: names that stand for names expand."""
_MOST_BRANCHES = 256
_MOST_SYMBOLS = 10_000
_LONGEST_NAME = 1_000
_LARGEST_FIXED = 1 << 20
_LARGEST_DEFAULT = 1 << 16
_NAMED = ("record", "error", "enum", "fixed")


class Schema:
    """A schema that was checked: `tree` as fastavro parsed it, and the types that have `names`."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.names: dict[str, Any] = {}
        self._count = 0
        self._least_size(tree, "the schema", (), 0)

    def __repr__(self) -> str:
        return f"<Schema {self._count} types>"

    def type_of(self, schema: Any) -> Any:
        """The definition behind a name; everything else as it is."""
        return self.names.get(schema, schema) if isinstance(schema, str) else schema

    def _least_size(self, schema: Any, where: str, above: tuple[str, ...], depth: int) -> int:
        """The bytes that such a datum has at least.  Raises ConfigError for what goes beyond a bound."""
        self._count += 1
        if self._count > _MOST_TYPES:
            raise ConfigError(f"an Avro schema of more than {_MOST_TYPES} types")
        if depth > _DEEPEST:
            raise ConfigError(f"an Avro schema that is nested more than {_DEEPEST} levels deep")
        if isinstance(schema, list):
            if len(schema) > _MOST_BRANCHES:
                raise ConfigError(f"{where[:200]} is a union of more than {_MOST_BRANCHES} types")
            for branch in schema:
                self._least_size(branch, where, above, depth + 1)
            return 1
        if isinstance(schema, str):
            if schema in above:
                raise ConfigError(f"{where[:200]}: the Avro schema is recursive, and Spark has no such type")
            if schema not in self.names:
                return 0 if schema == "null" else 8 if schema == "double" else 4 if schema == "float" else 1
        definition = self.type_of(schema)
        kind = definition["type"]
        if kind in _NAMED:
            self.names[definition["name"]] = definition
            above = (*above, definition["name"])
        if kind in ("record", "error"):
            return sum(
                self._least_size(field["type"], f"{where}.{field['name']}", above, depth + 1)
                for field in definition["fields"]
            )
        if kind == "array":
            if self._least_size(definition["items"], f"{where}[]", above, depth + 1) == 0:
                raise ConfigError(f"{where[:200]} is an array of items that take no bytes")
            return 1
        if kind == "map":
            self._least_size(definition["values"], f"{where}{{}}", above, depth + 1)
            return 1
        if kind == "fixed":
            return int(definition["size"])
        return 0 if kind == "null" else 1


def fastavro() -> ModuleType:
    """The library.  Raises ConfigError that says how to install it."""
    return library("fastavro", of="Avro", extra="spark")


def parsed(text: str) -> Schema:
    """Raises ConfigError for what is no schema, and for one that goes beyond our bounds."""
    avro = fastavro()
    if len(text) > _LARGEST_TEXT:
        raise ConfigError("an Avro schema of more than 1 MiB")
    try:
        tree = json.loads(text)
        for inner in _inside(tree):
            _check(inner)
        return Schema(avro.parse_schema(tree))
    except ConfigError:
        raise
    except Exception as error:  # what fastavro raises for nonsense is not one class
        said = str(error).splitlines()[0][:200] if str(error) else ""
        raise ConfigError(
            f"not an Avro schema: {type(error).__name__}: {said}", next_step="give its JSON as valueSchema"
        ) from None


def _inside(tree: Any) -> Iterator[Any]:
    """Everything in a tree of JSON, without recursion."""
    left = [(tree, 0)]
    while left:
        one, depth = left.pop()
        if depth > _DEEPEST_JSON:
            raise ConfigError(f"an Avro schema that is nested more than {_DEEPEST} levels deep")
        yield one
        if isinstance(one, (dict, list)):
            left += [(inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one)]


def _check(tree: Any) -> None:
    """One object of a schema's JSON, before fastavro sees it."""
    if not isinstance(tree, dict):
        return
    if marks := [key for key in tree if key.startswith("__")]:  # by such keys fastavro takes it as checked
        raise ConfigError(f"an Avro schema with the key {marks[0][:50]}")
    for key in ("name", "namespace"):
        if len(str(tree.get(key, ""))) > _LONGEST_NAME:
            raise ConfigError(f"an Avro schema with a {key} of more than {_LONGEST_NAME} characters")
    if isinstance(symbols := tree.get("symbols"), list) and len(symbols) > _MOST_SYMBOLS:
        raise ConfigError(f"an enum of more than {_MOST_SYMBOLS} symbols")
    if any(len(str(symbol)) > _LONGEST_NAME for symbol in tree.get("symbols") or ()):
        raise ConfigError(f"an enum with a symbol of more than {_LONGEST_NAME} characters")
    if "size" in tree and tree.get("type") == "fixed":
        if type(size := tree["size"]) is not int or not 0 <= size <= _LARGEST_FIXED:
            raise ConfigError(f"a fixed type has 0 to {_LARGEST_FIXED} bytes")
    if tree.get("logicalType") == "decimal":
        precision, scale = tree.get("precision"), tree.get("scale", 0)
        if (
            type(precision) is not int
            or type(scale) is not int
            or not 0 <= scale <= precision
            or precision < 1
        ):
            raise ConfigError("a decimal whose precision and scale are no such numbers")
    if "default" in tree and len(json.dumps(tree["default"])) > _LARGEST_DEFAULT:
        raise ConfigError(f"a default of more than {_LARGEST_DEFAULT >> 10} KiB")


def is_null(schema: Any) -> bool:
    """Whether it is the type of nothing."""
    return schema == "null" or (isinstance(schema, dict) and schema.get("type") == "null")


# -- types of Spark --------------------------------------------------------------------------------


def avro_struct(text: str) -> spark.StructType:
    """The struct in Spark for an Avro schema, which is a record.  Raises ConfigError."""
    schema = parsed(text)
    type_, nullable = _Types(schema).of(schema.tree, "value")
    if nullable or not isinstance(type_, spark.StructType):
        raise ConfigError("the Avro schema is no record", next_step="values become structs: give a record")
    return type_


class _Types:
    """Types of Spark out of a schema, whose names it follows."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def of(self, schema: Any, where: str) -> tuple[spark.DataType, bool]:
        """The type, and whether it may be null."""
        if isinstance(schema, list):
            return self._union(schema, where)
        if isinstance(schema, str) and schema in _SIMPLE:
            return _SIMPLE[schema], False
        found = self._schema.type_of(schema)
        if isinstance(found, str):
            raise ConfigError(f"{where} is {found[:100]} in Avro, for which Spark has no type")
        return self._complex(found, where), False

    def _union(self, schema: list[Any], where: str) -> tuple[spark.DataType, bool]:
        left = [one for one in schema if not is_null(one)]
        if len(left) != 1:
            raise ConfigError(f"{where} is a union of {len(left)} types, of which Spark has none")
        type_, _ = self.of(left[0], where)
        return type_, len(left) < len(schema)

    def _complex(self, schema: dict[str, Any], where: str) -> spark.DataType:
        kind = schema["type"]
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
        fields = []
        for field in schema["fields"]:
            type_, nullable = self.of(field["type"], f"{where}.{field['name']}")
            fields.append(spark.StructField(field["name"], type_, nullable))
        return spark.StructType(fields)


def avro_schema_of(struct: spark.StructType) -> str:
    """An Avro schema for a struct of Spark; the same struct has the same one."""
    return json.dumps(_Written().of(struct, "value"))


class _Written:
    """Avro of types of Spark.  Records are named by where they are, each name once."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def of(self, type_: spark.DataType, where: str) -> Any:
        if isinstance(type_, spark.StructType):
            name, number = where, 1
            while name in self._names:
                number += 1
                name = f"{where}_{number}"
            self._names.add(name)
            fields = [
                {
                    "name": field.name,
                    "type": self._nullable(field.dataType, field.nullable, f"{where}_{field.name}"),
                }
                for field in type_.fields
            ]
            return {"type": "record", "name": name, "fields": fields}
        if isinstance(type_, spark.ArrayType):
            return {"type": "array", "items": self._nullable(type_.elementType, type_.containsNull, where)}
        if isinstance(type_, spark.MapType):
            return {"type": "map", "values": self._nullable(type_.valueType, type_.valueContainsNull, where)}
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

    def _nullable(self, type_: spark.DataType, nullable: bool, where: str) -> Any:
        inner = self.of(type_, where)
        return ["null", inner] if nullable else inner
