"""Reads Avro: data of the schema that they were written with, as values of the schema that the reader has.

Strict: a datum is exactly what its schema says, or it is bad.  (fastavro counts a negative branch of a union or
symbol of an enum from the end, takes any byte for true, and numbers of any length: damage would become a row.)

`resolved(writer, reader)` makes a tree of functions (data, at) -> (value, at after it), once for each pair of
schemas; values are what Arrow takes: days and microseconds are numbers, maps are pairs.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.pipeline.values.avro_parts import (
    READ,
    MismatchError,
    Read,
    Step,
    array,
    enum_,
    fields,
    fixed,
    map_,
    never,
    null,
    promoted,
    then,
    union,
)
from barnabas.pipeline.values.avro_schemas import Schema, is_null
from barnabas.pipeline.values.options import BadValueError

__all__ = ["resolved"]

_MILLI = {"timestamp-millis": 1000, "local-timestamp-millis": 1000}
_MICROS = {"timestamp-micros": 1, "local-timestamp-micros": 1} | _MILLI
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""Years 1 to 9999, which Python and Spark can show."""
_DAY_MICROS = 86_400_000_000
_PROMOTED = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}


def resolved(writer: Schema, reader: Schema) -> Read:
    """What reads a datum.  Raises MismatchError where no datum can be read."""
    return _Pair(writer, reader).of(writer.tree, reader.tree, "value")


# -- logical types ---------------------------------------------------------------------------------


def _logical_of(schema: Any) -> str | None:
    return schema.get("logicalType") if isinstance(schema, dict) else None


def _converted(schema: Any, where: str) -> Callable[[Any], Any] | None:
    """What makes a value of the reader's logical type; None: it is there already."""
    logical = _logical_of(schema)
    if logical == "date":
        return lambda days: _within(days, 1, where)
    if logical in _MICROS:
        factor = _MICROS[logical]
        return lambda time: _within(time * factor, _DAY_MICROS, where)
    if logical == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        return lambda raw: _decimal(raw, precision, scale, where)
    return None


def _within(number: int, unit: int, where: str) -> int:
    if not _FIRST_DAY * unit <= number < (_LAST_DAY + 1) * unit:
        raise BadValueError(f"{where} is out of the years 1 to 9999")
    return number


def _decimal(raw: bytes, precision: int, scale: int, where: str) -> decimal.Decimal:
    number = int.from_bytes(raw, "big", signed=True) if len(raw) <= 40 else 1 << 400
    if abs(number) >= 10**precision:
        raise BadValueError(f"{where} is out of the range of decimal({precision},{scale})")
    return decimal.Decimal(number).scaleb(-scale, _WIDE)


_WIDE = decimal.Context(prec=100)


# -- pairs of types --------------------------------------------------------------------------------


def _kind(schema: Any) -> str:
    found = schema if isinstance(schema, str) else "union" if isinstance(schema, list) else schema["type"]
    return "record" if found == "error" else str(found)


def _short(schema: Any) -> str:
    return str(schema["name"]).rpartition(".")[2]


def _same_name(writer: Any, reader: Any) -> bool:
    names = [_short(reader), *(str(alias).rpartition(".")[2] for alias in reader.get("aliases", ()))]
    return _short(writer) in names


class _Pair:
    """The rules of "Schema Resolution" in Avro's specification, for these two schemas."""

    def __init__(self, writer: Schema, reader: Schema) -> None:
        self._writer = writer
        self._reader = reader

    def of(self, writer: Any, reader: Any, where: str) -> Read:
        """What reads one type as another.  Raises MismatchError."""
        writer, reader = self._writer.type_of(writer), self._reader.type_of(reader)
        if isinstance(writer, list):
            return self._branches(writer, reader, where)
        if isinstance(reader, list):
            return self._into_union(writer, reader, where)
        kinds = _kind(writer), _kind(reader)
        if kinds == ("record", "record"):
            return self._record(writer, reader, where)
        if kinds == ("enum", "enum") and _same_name(writer, reader):
            return self._enum(writer, reader, where)
        if kinds == ("array", "array"):
            return array(self.of(writer["items"], reader["items"], f"{where}[]"))
        if kinds == ("map", "map"):
            return map_(self.of(writer["values"], reader["values"], f"{where}{{}}"))
        if kinds == ("fixed", "fixed") and _same_name(writer, reader) and writer["size"] == reader["size"]:
            return self._logically(fixed(writer["size"]), writer, reader, where)
        if kinds[0] == kinds[1] and kinds[0] in READ:
            return self._logically(READ[kinds[0]], writer, reader, where)
        if kinds[1] in _PROMOTED.get(kinds[0], ()):
            return self._logically(promoted(*kinds), writer, reader, where)
        raise MismatchError(f"{where} was written as {kinds[0]}, which cannot be read as {kinds[1]}")

    def _logically(self, read: Read, writer: Any, reader: Any, where: str) -> Read:
        theirs, ours = _logical_of(writer), _logical_of(reader)
        if theirs is not None and ours is not None and theirs != ours:
            raise MismatchError(f"{where} was written as {theirs[:50]}, which cannot be read as {ours[:50]}")
        if theirs == ours == "decimal" and writer.get("scale", 0) != reader.get("scale", 0):
            raise MismatchError(f"{where} was written with another scale of its decimal")
        convert = _converted(reader, where)
        return read if convert is None else then(read, convert)

    def _branches(self, writer: list[Any], reader: Any, where: str) -> Read:
        """A union was written: the datum says which branch it is."""
        branches: list[Read] = []
        failed: list[MismatchError] = []
        for branch in writer:
            try:
                branches.append(self.of(branch, reader, where))
            except MismatchError as error:
                failed.append(error)
                branches.append(never(error.message))
        if len(failed) == len(writer) > 0:
            raise failed[-1]
        return union(branches)

    def _into_union(self, writer: Any, reader: list[Any], where: str) -> Read:
        """The first branch that it can be read as."""
        first: MismatchError | None = None
        for branch in reader:
            if is_null(branch) and not is_null(writer):
                continue
            try:
                return self.of(writer, branch, where)
            except MismatchError as error:
                first = first or error
        raise first or MismatchError(f"{where} was written as {_kind(writer)}, which the union has not")

    def _enum(self, writer: Any, reader: Any, where: str) -> Read:
        known, default = set(reader["symbols"]), reader.get("default")
        return enum_([symbol if symbol in known else default for symbol in writer["symbols"]], where)

    def _record(self, writer: Any, reader: Any, where: str) -> Read:
        """Fields in the order in which they were written; those of nobody are passed over."""
        ours = {name: field for field in reader["fields"] for name in _names_of(field)}
        steps: list[Step] = []
        known: dict[str, Any] = {}
        read: set[str] = set()
        for field in writer["fields"]:
            mine = ours.get(field["name"])
            if mine is None or mine["name"] in read:
                if (skipped := self._skipped(field["type"])) is not None:
                    steps.append((None, skipped))
                continue
            read.add(mine["name"])
            one = self.of(field["type"], mine["type"], f"{where}.{field['name']}")
            if one is null:
                known[mine["name"]] = None
            else:
                steps.append((mine["name"], one))
        for field in reader["fields"]:
            if field["name"] in read:
                continue
            inside = f"{where}.{field['name']}"
            if "default" not in field:
                raise MismatchError(f"{inside} was not written, and has no default")
            known[field["name"]] = self._default(field["type"], field["default"], inside)
        return fields(known, steps)

    def _skipped(self, writer: Any) -> Read | None:
        """What passes over a datum that nobody asks for; None where it has no bytes."""
        type_ = self._writer.type_of(writer)
        kind = _kind(type_)
        if kind == "union":
            return union([self._skipped(branch) or null for branch in type_])
        if kind == "record":
            found = [self._skipped(field["type"]) for field in type_["fields"]]
            steps: list[Step] = [(None, one) for one in found if one is not None]
            return fields({}, steps) if steps else None
        if kind == "enum":
            return enum_(type_["symbols"], "a field")
        if kind == "fixed":
            return fixed(type_["size"]) if type_["size"] else None
        if kind == "array":
            return array(self._skipped(type_["items"]) or null)
        if kind == "map":
            return map_(self._skipped(type_["values"]) or null)
        return None if kind == "null" else READ[kind]

    def _default(self, type_: Any, given: Any, where: str) -> Any:
        """The value that a default in JSON means.  Raises MismatchError."""
        type_ = self._reader.type_of(type_)
        if isinstance(type_, list):
            for branch in type_:
                try:
                    return self._default(branch, given, where)
                except MismatchError:
                    continue
            raise MismatchError(f"{where} has a default that its union has not")
        kind = _kind(type_)
        try:
            found = self._plain_default(type_, kind, given, where)
            convert = _converted(type_, where)
            return found if convert is None else convert(found)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, BadValueError):
            raise MismatchError(f"{where} has a default that is no {kind}") from None

    def _plain_default(self, type_: Any, kind: str, given: Any, where: str) -> Any:
        if kind == "record":
            return {
                field["name"]: self._default(
                    field["type"],
                    given[field["name"]] if field["name"] in given else field["default"],
                    f"{where}.{field['name']}",
                )
                for field in type_["fields"]
            }
        if kind == "array" and isinstance(given, list):
            return [self._default(type_["items"], one, f"{where}[]") for one in given]
        if kind == "map" and isinstance(given, dict):
            return [(key, self._default(type_["values"], one, f"{where}{{}}")) for key, one in given.items()]
        if kind in ("bytes", "fixed") and isinstance(given, str):
            return given.encode("latin-1")
        if kind == "enum" and given not in type_["symbols"]:
            raise ValueError
        wanted: dict[str, type | tuple[type, ...]] = {
            "null": type(None),
            "boolean": bool,
            "int": int,
            "long": int,
            "float": (int, float),
            "double": (int, float),
            "string": str,
            "enum": str,
        }
        if not isinstance(given, wanted[kind]) or (kind != "boolean" and isinstance(given, bool)):
            raise ValueError
        return float(str(given)) if kind in ("float", "double") else given


def _names_of(field: Any) -> Iterator[str]:
    yield field["name"]
    yield from field.get("aliases", ())


def _physical(schema: Schema, type_: Any) -> Any:
    found = schema.type_of(type_)
    if isinstance(found, dict) and "logicalType" in found:
        return {key: value for key, value in found.items() if key != "logicalType"}
    return found
