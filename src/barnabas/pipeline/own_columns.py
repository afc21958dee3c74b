"""Columns that a user's own `.schema()` gives a source, held against those that the source makes.

Spark hands a reader what `.schema()` says, and believes it: it takes columns by their place, and asks no column
that is NOT NULL whether it is null.  So whatever is not true of the rows is refused before a task runs.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructType

from barnabas.errors import ConfigError
from barnabas.pipeline.options import COLUMNS, SourceOptions

__all__ = ["check_columns"]

_WITHOUT = (
    'leave .schema() out, and cast in the query: .selectExpr("CAST(key AS STRING)"); '
    "valueSchema holds columns as DDL: a INT, b STRING"
)
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")


def check_columns(schema: StructType, options: SourceOptions) -> None:
    """Raise ConfigError where these are not the columns of the source; the struct in `value` is not looked at."""
    values = options.values
    expected = [(name, COLUMNS[name]) for name in options.columns]
    if values is not None:
        expected = [(name, "struct" if name == "value" else type_) for name, type_ in expected]
        if values.corrupt_column is not None:
            expected.append((values.corrupt_column, "binary"))
    found = [(field.name, field.dataType.simpleString()) for field in schema]
    seen = [
        (name, "struct" if (name, type_[:7]) == ("value", "struct<") and values is not None else type_)
        for name, type_ in found
    ]
    if seen != expected:
        raise ConfigError(
            f"the columns are {_said(found)}, and this source makes {_said(expected)}",
            next_step=_next(found, expected),
        )
    if wrong := [name for name in _not_null(schema) if name not in _NEVER_NULL]:
        raise ConfigError(
            f"{wrong[0]} is NOT NULL in .schema(), and that of a record may be null",
            next_step=f'leave .schema() out, and filter in the query: .where("{wrong[0]} IS NOT NULL")',
        )


def _said(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)[:500]


def _next(found: list[tuple[str, str]], expected: list[tuple[str, str]]) -> str:
    """Return the option that makes these columns, if there is one."""
    wanted = [name for name, _ in found]
    if all(COLUMNS.get(name) == type_ for name, type_ in found) and [*dict.fromkeys(wanted)] == [
        name for name in COLUMNS if name in wanted
    ]:
        return f'leave .schema() out, and name the columns: .option("columns", "{",".join(wanted)}")'
    return _WITHOUT


def _not_null(schema: StructType) -> list[str]:
    """Return the columns, and the values of headers, that are said never to be null."""
    found = [field.name for field in schema if not field.nullable]
    if "headers" in schema.names:
        headers = schema["headers"].dataType
        assert isinstance(headers, ArrayType)
        assert isinstance(headers.elementType, StructType)
        found += [
            f"headers.{field.name}"
            for field in headers.elementType
            if field.name == "value" and not field.nullable
        ]
    return found
