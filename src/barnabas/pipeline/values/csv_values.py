"""A value that is one row of CSV (RFC 4180), there and back.

Python's `csv` and Arrow's cannot tell `""` from nothing, which in Spark are an empty string and null, so the row
is taken apart here.  A quote inside quotes is doubled; this is Spark's CSV with the option escape='"'.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as spark

from barnabas.pipeline.values.options import BadValueError
from barnabas.pipeline.values.texts import reader_of, row_of, written

__all__ = ["csv_reader", "csv_writer"]

_FIELD = re.compile(r'(?:"((?:[^"]|"")*+)"|([^",\r\n]*+))(,|(?:\r?\n)?\Z)')
_QUOTED = re.compile(r'[",\r\n]')


def csv_reader(struct: spark.StructType) -> Callable[[bytes], dict[str, Any]]:
    """What reads a row; it raises BadValueError."""
    fields = [(field.name, reader_of(field.dataType), field.nullable) for field in struct.fields]
    return lambda data: row_of(fields, _fields(_text(data), len(fields)))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadValueError("it is no UTF-8") from None


def _fields(text: str, count: int) -> list[str | None]:
    found: list[str | None] = []
    position = 0
    while True:
        match = _FIELD.match(text, position)
        if match is None:
            raise BadValueError("it is not one row of CSV")
        quoted, bare, end = match.groups()
        found.append((bare or None) if quoted is None else quoted.replace('""', '"'))
        if end != ",":
            break
        if len(found) == count:
            raise BadValueError(f"it has more than {count} fields")
        position = match.end()
    if len(found) != count:
        raise BadValueError(f"it has {len(found)} fields, not {count}")
    return found


def csv_writer(struct: spark.StructType) -> Callable[[dict[str, Any]], bytes]:
    """What writes a row."""
    names = [field.name for field in struct.fields]
    return lambda row: ",".join(_field(row[name]) for name in names).encode()


def _field(value: Any) -> str:
    if value is None:
        return ""
    value = written(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    text = str(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if text == "" or _QUOTED.search(text) else text
