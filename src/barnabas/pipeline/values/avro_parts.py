"""Reads the parts of Avro's binary encoding: functions (data, at) -> (value, at after it), and what they make up.

Past the end of the data they raise IndexError or struct.error, for anything else that is none BadValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from barnabas.pipeline.values.options import BadValueError

__all__ = [
    "READ",
    "MismatchError",
    "Read",
    "Step",
    "array",
    "enum_",
    "fields",
    "fixed",
    "map_",
    "never",
    "null",
    "promoted",
    "then",
    "union",
]

Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
Step: TypeAlias = tuple[str | None, Read]
"""The name of a field (None: nobody asks for it), and what reads it."""

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class MismatchError(BadValueError):
    """What was written with one schema cannot be read with the other."""


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise BadValueError("a number of more than 10 bytes")
    if number >> 64:
        raise BadValueError("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), at


def _int(data: bytes, at: int) -> tuple[int, int]:
    number, at = _long(data, at)
    if not -0x80000000 <= number <= 0x7FFFFFFF:
        raise BadValueError("a number of more than 32 bits")
    return number, at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    if (byte := data[at]) > 1:
        raise BadValueError("a boolean that is neither true nor false")
    return byte == 1, at + 1


def null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    end = at + size
    if size < 0 or end > len(data):
        raise BadValueError("a length that is not there")
    return data[at:end], end


def _string(data: bytes, at: int) -> tuple[str, int]:
    found, at = _bytes(data, at)
    try:
        return found.decode(), at
    except UnicodeDecodeError:
        raise BadValueError("text that is no UTF-8") from None


def _float(data: bytes, at: int) -> tuple[float, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


READ: dict[str, Read] = {
    "null": null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


def fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        end = at + size
        if end > len(data):
            raise BadValueError("fewer bytes than it has")
        return data[at:end], end

    return read


def then(read: Read, convert: Callable[[Any], Any]) -> Read:
    def converted(data: bytes, at: int) -> tuple[Any, int]:
        found, at = read(data, at)
        return convert(found), at

    return converted


def never(said: str) -> Read:
    """What data say that the reader has no place for: seen when a datum says it."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        raise MismatchError(said)

    return read


def promoted(writer: str, reader: str) -> Read:
    read = READ[writer]
    if reader in ("float", "double") and writer in ("int", "long"):
        return then(read, float)
    if reader == "string":
        return _string
    if reader == "bytes":
        return _bytes
    return read


def union(branches: list[Read]) -> Read:
    count = len(branches)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = _long(data, at)
        if not 0 <= index < count:
            raise BadValueError("a branch that the union has not")
        return branches[index](data, at)

    return read


def enum_(symbols: list[Any], where: str) -> Read:
    """None among the symbols: the reader has no such one."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = _long(data, at)
        if not 0 <= index < len(symbols):
            raise BadValueError(f"{where} is a symbol that the enum has not")
        if (symbol := symbols[index]) is None:
            raise MismatchError(f"{where} is a symbol that the reader's enum has not")
        return symbol, at

    return read


def fields(known: dict[str, Any], steps: list[Step]) -> Read:
    """The fields of a record, on top of those whose values are known before."""

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        row = known.copy()
        for name, one in steps:
            if name is None:
                _, at = one(data, at)
            else:
                row[name], at = one(data, at)
        return row, at

    return read


def array(inner: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, end, at = _block(data, at)
            if count == 0:
                return found, at
            for _ in range(count):
                one, at = inner(data, at)
                found.append(one)
            if end is not None and at != end:
                raise BadValueError("a block of items that is not as long as it says")

    return read


def map_(inner: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
        found: dict[str, Any] = {}
        while True:
            count, end, at = _block(data, at)
            if count == 0:
                return list(found.items()), at
            for _ in range(count):
                key, at = _string(data, at)
                found[key], at = inner(data, at)
            if end is not None and at != end:
                raise BadValueError("a block of items that is not as long as it says")

    return read


def _block(data: bytes, at: int) -> tuple[int, int | None, int]:
    """How many items follow (0: none any more), where they end if that is said, and where they begin."""
    count, at = _long(data, at)
    if count >= 0:
        end = None
    else:
        count = -count
        size, at = _long(data, at)
        end = at + size
    if count > len(data) - at:  # (each item takes a byte at least)
        raise BadValueError("more items than there are bytes")
    return count, end, at
