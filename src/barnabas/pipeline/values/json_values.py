"""A value that is one JSON object, there and back, by the rules of Spark's from_json and to_json.

Fields that the schema does not name are passed over, those that are missing are null.  Where Spark would make
null of a field that it cannot read, the value is bad.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as spark

from barnabas.pipeline.values.options import BadValueError
from barnabas.pipeline.values.texts import (
    BOUNDS,
    decimal_of,
    float_of,
    named,
    reader_of,
    row_of,
    whole_of,
    written,
)

__all__ = ["json_reader", "json_writer"]

Convert = Callable[[Any], Any]


def json_reader(struct: spark.StructType) -> Callable[[bytes], dict[str, Any]]:
    """What reads an object; it raises BadValueError."""
    convert = _struct(struct)
    exact = decimal.Decimal if _has_decimals(struct) else None
    decoder = json.JSONDecoder(parse_float=exact)

    def read(data: bytes) -> dict[str, Any]:
        try:
            found = decoder.decode(data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise BadValueError("it is no UTF-8") from None
        except json.JSONDecodeError as error:
            raise BadValueError(f"it is no JSON from character {error.pos} on") from None
        except RecursionError:
            raise BadValueError("it is nested too deep") from None
        except (ValueError, ArithmeticError):
            raise BadValueError("it has a number that is too long") from None
        if not isinstance(found, dict):
            raise BadValueError("it is no JSON object")
        row: dict[str, Any] = convert(found)
        return row

    return read


def _has_decimals(type_: spark.DataType) -> bool:
    if isinstance(type_, spark.StructType):
        return any(_has_decimals(field.dataType) for field in type_.fields)
    if isinstance(type_, spark.ArrayType):
        return _has_decimals(type_.elementType)
    if isinstance(type_, spark.MapType):
        return _has_decimals(type_.valueType)
    return isinstance(type_, spark.DecimalType)


def _of(type_: spark.DataType) -> Convert:
    """What makes a value of this type out of what `json` has read; null never comes here."""
    if isinstance(type_, spark.StructType):
        return _struct(type_)
    if isinstance(type_, spark.ArrayType):
        return _array(type_.elementType, nulls=type_.containsNull)
    if isinstance(type_, spark.MapType):
        return _map(type_.valueType, nulls=type_.valueContainsNull)
    if type(type_) in BOUNDS:
        return _whole(BOUNDS[type(type_)])
    if isinstance(type_, (spark.FloatType, spark.DoubleType)):
        return _real(narrow=isinstance(type_, spark.FloatType))
    if isinstance(type_, spark.DecimalType):
        return _decimal(type_.precision, type_.scale)
    if isinstance(type_, spark.BooleanType):
        return _boolean
    if isinstance(type_, spark.StringType):
        return _string
    read = reader_of(type_)

    def text(value: Any) -> Any:
        if not isinstance(value, str):
            raise BadValueError("is no text")
        return read(value)

    return text


def _struct(type_: spark.StructType) -> Convert:
    fields = [(field.name, _of(field.dataType), field.nullable) for field in type_.fields]
    names = type_.names

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise BadValueError("is no object")
        return row_of(fields, map(value.get, names))

    return convert


def _array(element: spark.DataType, *, nulls: bool) -> Convert:
    inner = _or_null(element, nulls=nulls)

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise BadValueError("is no array")
        return [inner(one) for one in value]

    return convert


def _map(values: spark.DataType, *, nulls: bool) -> Convert:
    inner = _or_null(values, nulls=nulls)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise BadValueError("is no object")
        return [(_string(key), inner(one)) for key, one in value.items()]

    return convert


def _or_null(type_: spark.DataType, *, nulls: bool) -> Convert:
    inner = _of(type_)

    def convert(value: Any) -> Any:
        if value is not None:
            return inner(value)
        if not nulls:
            raise BadValueError("has an element that is null")
        return None

    return convert


def _whole(bits: int) -> Convert:
    def convert(value: Any) -> int:
        if type(value) is not int:
            raise BadValueError("is no whole number")
        return whole_of(value, bits)

    return convert


def _real(*, narrow: bool) -> Convert:
    def convert(value: Any) -> float:
        if isinstance(value, str):
            return named(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
            raise BadValueError("is no number")
        try:
            return float_of(float(value), narrow=narrow)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    def convert(value: Any) -> decimal.Decimal:
        if isinstance(value, bool) or not isinstance(value, (str, int, decimal.Decimal)):
            raise BadValueError("is no number")
        return decimal_of(value, precision, scale)

    return convert


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValueError("is neither true nor false")
    return value


def _string(value: Any) -> str:
    """Text as it is; anything else as the JSON that it is, as in Spark."""
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=float)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadValueError("has half a character (a lone surrogate)") from None
    return text


def json_writer(struct: spark.StructType) -> Callable[[dict[str, Any]], bytes]:
    """What writes an object; fields that are null are left out, as in Spark's to_json."""
    write = _writes(struct)
    return lambda row: write(row).encode()


def _writes(type_: spark.DataType) -> Callable[[Any], str]:
    """What writes a value of this type, which is not null.  (`json` itself has no decimals.)"""
    if isinstance(type_, spark.StructType):
        fields = [(field.name, _quoted(field.name), _writes(field.dataType)) for field in type_.fields]

        def object_(row: Any) -> str:
            there = (
                f"{quoted}:{write(row[name])}" for name, quoted, write in fields if row[name] is not None
            )
            return f"{{{','.join(there)}}}"

        return object_
    if isinstance(type_, spark.ArrayType):
        inner = _writes(type_.elementType)
        return lambda value: f"[{','.join('null' if one is None else inner(one) for one in value)}]"
    if isinstance(type_, spark.MapType):
        inner = _writes(type_.valueType)

        def map_(value: Any) -> str:
            pairs = (f"{_quoted(key)}:{'null' if one is None else inner(one)}" for key, one in value)
            return f"{{{','.join(pairs)}}}"

        return map_
    if isinstance(type_, spark.DecimalType):
        return lambda value: f"{value:f}"
    return lambda value: json.dumps(written(value), ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
