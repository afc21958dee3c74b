"""Numbers, dates and the like in text, with the bounds of Spark's types: what JSON and CSV have in common."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import types as spark

from barnabas.pipeline.values.options import BadValueError

__all__ = ["BOUNDS", "Field", "decimal_of", "float_of", "named", "reader_of", "row_of", "whole_of", "written"]

BOUNDS: dict[type[spark.DataType], int] = {
    spark.ByteType: 8,
    spark.ShortType: 16,
    spark.IntegerType: 32,
    spark.LongType: 64,
}
"""Bits of whole numbers."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_REAL = re.compile(r"[+-]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)
_NAMED = {
    "NaN": "nan",
    "Infinity": "inf",
    "+Infinity": "inf",
    "INF": "inf",
    "+INF": "inf",
    "Inf": "inf",
    "-Infinity": "-inf",
    "-INF": "-inf",
    "-Inf": "-inf",
}
"""How Spark spells what is no number."""
_LARGEST_FLOAT = 3.4028235677973366e38
"""From here on a number is none of 32 bits any more."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)

Reader = Callable[[str], Any]
Field = tuple[str, Callable[[Any], Any], bool]
"""A field's name, what makes a value of its type, and whether it may be null."""


def row_of(fields: Iterable[Field], given: Iterable[Any]) -> dict[str, Any]:
    """The fields of what was found for each of them (None: nothing); BadValueError names the field."""
    row: dict[str, Any] = {}
    for (name, convert, nullable), found in zip(fields, given, strict=True):
        if found is None:
            if not nullable:
                raise BadValueError(f"{name} is missing")
            row[name] = None
            continue
        try:
            row[name] = convert(found)
        except BadValueError as error:
            raise BadValueError(f"{name} {error.message}") from None
    return row


def reader_of(type_: spark.DataType) -> Reader:
    """What reads a text as this type; it raises BadValueError."""
    for kind, bits in BOUNDS.items():
        if type(type_) is kind:
            return lambda text: _whole(text, bits)
    if isinstance(type_, (spark.FloatType, spark.DoubleType)):
        narrow = isinstance(type_, spark.FloatType)
        return lambda text: _real(text, narrow=narrow)
    if isinstance(type_, spark.DecimalType):
        precision, scale = type_.precision, type_.scale
        return lambda text: decimal_of(text, precision, scale)
    readers: dict[type[spark.DataType], Reader] = {
        spark.BooleanType: _boolean,
        spark.DateType: _date,
        spark.TimestampType: lambda text: _timestamp(text, zoned=True),
        spark.TimestampNTZType: lambda text: _timestamp(text, zoned=False),
        spark.BinaryType: _base64,
    }
    return readers.get(type(type_), str)


def _whole(text: str, bits: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise BadValueError("is no whole number")
    return whole_of(int(text), bits)


def whole_of(number: int, bits: int) -> int:
    """It, unless so many bits are too few for it."""
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise BadValueError(f"is out of the range of {bits} bits")
    return number


def named(text: str) -> float:
    """What is no number, and yet a value of floating-point types."""
    if text not in _NAMED:
        raise BadValueError("is no number")
    return float(_NAMED[text])


def _real(text: str, *, narrow: bool) -> float:
    if text in _NAMED:
        return named(text)
    if not _REAL.fullmatch(text):
        raise BadValueError("is no number")
    return float_of(float(text), narrow=narrow)


def float_of(number: float, *, narrow: bool) -> float:
    """It, unless it is more than a number of 32 bits can be (Spark makes infinity of it)."""
    if narrow and abs(number) >= _LARGEST_FLOAT:
        return float("inf") if number > 0 else float("-inf") if number < 0 else number
    return number


def decimal_of(number: str | int | decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """A decimal of this precision, rounded half up to its scale as Spark does it."""
    if isinstance(number, str) and not _REAL.fullmatch(number):
        raise BadValueError("is no number")
    with decimal.localcontext(decimal.Context(prec=100)) as context:
        try:
            rounded = decimal.Decimal(number).quantize(
                decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, context
            )
        except decimal.InvalidOperation:
            raise BadValueError(f"is out of the range of decimal({precision},{scale})") from None
        if not rounded.is_finite() or abs(rounded) >= decimal.Decimal(10) ** (precision - scale):
            raise BadValueError(f"is out of the range of decimal({precision},{scale})")
    return rounded


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadValueError("is neither true nor false")
    return text.lower() == "true"


def _date(text: str) -> dt.date:
    if _DATE.fullmatch(text):
        try:
            return dt.date.fromisoformat(text)
        except ValueError:
            pass
    raise BadValueError("is no date (2026-01-31)")


def _timestamp(text: str, *, zoned: bool) -> dt.datetime:
    """ISO 8601; without a zone it is UTC.  What is finer than microseconds is cut off, as in Spark."""
    if (match := _TIMESTAMP.fullmatch(text)) and (zoned or match[3] is None):
        try:
            fraction = (match[2] or "0")[:6].ljust(6, "0")
            stamp = dt.datetime.fromisoformat(f"{match[1]}.{fraction}{match[3] or ''}")
            if not zoned:
                return stamp
            return (stamp if stamp.tzinfo else stamp.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        except (ValueError, OverflowError):
            pass
    zone = "Z" if zoned else ""
    raise BadValueError(f"is no timestamp (2026-01-31T12:00:00{zone})")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise BadValueError("is no base64") from None


def written(value: Any) -> Any:
    """A number as it is where JSON has it, everything else as text."""
    if isinstance(value, float):
        if value != value:
            return "NaN"
        return value if abs(value) != float("inf") else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        utc = value.astimezone(dt.UTC).replace(tzinfo=None)
        return f"{utc.isoformat(timespec='microseconds')}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return value
