"""Types of Spark: written as DDL, and those that values can hold."""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.sql import types as spark

from barnabas.errors import ConfigError
from barnabas.pipeline.values.avro_schemas import avro_struct
from barnabas.pipeline.values.options import CONFLUENT, ValueOptions

__all__ = ["check_same", "check_type", "check_unchanged", "ddl_of", "struct_ddl", "struct_of"]

_SCALARS = (
    spark.StringType,
    spark.BooleanType,
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.FloatType,
    spark.DoubleType,
    spark.DecimalType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.BinaryType,
)
_DEEPEST = 64
"""Levels of a schema; no sensible one has more, and each level is a level of recursion in every reader."""


def struct_ddl(values: ValueOptions) -> str:
    """The type of the column value, for Spark to read.  Raises ConfigError."""
    text = values.schema
    if values.format in ("avro", CONFLUENT):
        return ddl_of(avro_struct(text))
    if not text.startswith("{"):
        _columns(text)
        return f"struct<{text}>"
    try:
        type_ = spark.StructType.fromJson(json.loads(text))
        return ddl_of(type_)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, AssertionError) as error:
        raise ConfigError(
            f"valueSchema is no schema in Spark's JSON: {type(error).__name__}",
            next_step="give what df.schema.json() prints, or DDL",
        ) from None


_DDL = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[<>(),:]|[^\s<>(),:`']+|.", re.DOTALL)
"""Words of DDL: a quoted name, a comment, a sign, a bare word."""


def _columns(text: str) -> list[str]:
    """Return the names of the columns of DDL.

    Raises ConfigError for DDL that is no list of columns: Spark would blame what stands around it.
    """
    depth, column, columns = 0, list[str](), list[list[str]]()
    for word in _DDL.findall(text):
        depth += (word in "<(") - (word in ">)")
        if depth < 0:
            break
        if word == "," and depth == 0:
            columns.append(column)
            column = []
        elif not word.isspace() and word != ":":
            column.append(word)
    columns.append(column)
    bad = next((words for words in columns if len(words) < 2), None)
    if depth != 0 or bad is not None:
        said = "its brackets do not match" if bad is None else f"{bad[0] if bad else 'nothing'} is no column"
        raise ConfigError(
            f"valueSchema={text[:200]}: {said}", next_step="give columns with their types: a INT, b STRING"
        )
    return [_unquoted(words[0]) for words in columns]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def check_unchanged(values: ValueOptions, type_: spark.DataType, *, newest: bool) -> None:
    """Raise ConfigError where the column value is another struct than the schema makes.

    `newest`: the schema is a registry's, and may be newer than the DataFrame; else `.schema()` gave the struct.
    (Of DDL only the names are compared: Spark alone reads its types, and then those of `.schema()` count.)
    """
    wanted = struct_ddl(values)
    if values.format in ("avro", CONFLUENT) or values.schema.startswith("{"):
        same = ddl_of(type_) == wanted
    else:
        same = getattr(type_, "names", None) == _columns(values.schema)
    if not same and newest:
        raise ConfigError(
            "the newest schema in the registry is another one than when the DataFrame was made",
            next_step="load it again, or give valueSchema",
        )
    if not same:
        raise ConfigError(
            f"the column value is {ddl_of(type_)[:300]} in .schema(), and {wanted[:300]} in valueSchema",
            next_step="leave .schema() out: valueSchema says what the struct is",
        )


def struct_of(values: ValueOptions) -> spark.StructType:
    """The struct that Spark has read out of the schema."""
    return spark.StructType.fromJson(json.loads(values.type_json))


def ddl_of(type_: spark.DataType) -> str:
    """The type as Spark's parser reads it, with every name quoted."""
    if isinstance(type_, spark.StructType):
        return f"struct<{', '.join(_field(field) for field in type_.fields)}>"
    if isinstance(type_, spark.ArrayType):
        return f"array<{ddl_of(type_.elementType)}>"
    if isinstance(type_, spark.MapType):
        return f"map<{ddl_of(type_.keyType)}, {ddl_of(type_.valueType)}>"
    return type_.simpleString()


def _field(field: spark.StructField) -> str:
    name = field.name.replace("`", "``")
    return f"`{name}`: {ddl_of(field.dataType)}{'' if field.nullable else ' not null'}"


def check_type(type_: Any, format_: str, where: str = "value", depth: int = 0) -> None:
    """Whether values of this format can hold such a thing.  Raises ConfigError that names the field."""
    if depth > _DEEPEST:
        raise ConfigError(f"{where[:100]}... is nested more than {_DEEPEST} levels deep")
    if isinstance(type_, spark.StructType) and (depth == 0 or format_ != "csv"):
        if not type_.fields:
            raise ConfigError(f"{where} has no fields")
        if len({field.name for field in type_.fields}) < len(type_.fields):
            raise ConfigError(f"{where} has two fields of one name", next_step="rename one")
        for field in type_.fields:
            check_type(field.dataType, format_, f"{where}.{field.name}", depth + 1)
    elif isinstance(type_, spark.ArrayType) and format_ != "csv":
        check_type(type_.elementType, format_, f"{where}[]", depth + 1)
    elif isinstance(type_, spark.MapType) and format_ != "csv":
        if not isinstance(type_.keyType, spark.StringType):
            raise ConfigError(f"{where} is a map whose keys are no strings: {format_} has no such thing")
        check_type(type_.valueType, format_, f"{where}{{}}", depth + 1)
    elif depth == 0 or not isinstance(type_, _SCALARS):
        said = type_.simpleString() if isinstance(type_, spark.DataType) else str(type_)
        if depth == 0:
            raise ConfigError(
                f"valueFormat={format_}: the column value is {said[:100]}, not a struct",
                next_step='select one, for example with selectExpr("struct(*) AS value")',
            )
        raise ConfigError(f"{where} is {said[:100]}: valueFormat={format_} has no such thing")


def check_same(given: spark.DataType, wanted: spark.DataType, where: str) -> None:
    """Whether a struct has the fields of the Avro schema.  (Whether one may be null is seen when one is.)"""
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        fields = {field.name: field for field in given.fields}
        for field in wanted.fields:
            if field.name not in fields:
                raise ConfigError(f"{where} has no field {field.name}, which the Avro schema has")
            check_same(fields.pop(field.name).dataType, field.dataType, f"{where}.{field.name}")
        if fields:
            raise ConfigError(f"{where} has a field {next(iter(fields))}, which the Avro schema has not")
    elif isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        check_same(given.elementType, wanted.elementType, f"{where}[]")
    elif isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        check_same(given.valueType, wanted.valueType, f"{where}{{}}")
    elif given != wanted:
        said = ddl_of(wanted)
        raise ConfigError(
            f"{where} is {ddl_of(given)}, and {said} in the Avro schema", next_step=f"CAST it AS {said}"
        )
