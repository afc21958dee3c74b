"""Integers of variable length, as Kafka writes them: base 128, low bits first; signed ones zigzag.

Readers take (buffer, position) and return (value, position after).  They raise WireError when the bytes
end too soon or the number takes more bytes than its type can need.  Bits of the last byte that are too high
for the type do not count, as for Apache Kafka.
"""

from __future__ import annotations

from barnabas.errors import WireError
from barnabas.ports import Buffer

__all__ = [
    "append_varint",
    "read_uvarint",
    "read_uvarlong",
    "read_varint",
    "read_varlong",
    "uvarint",
    "varint",
    "varint_size",
    "varlong",
]

_UINT32_MAX, _UINT64_MAX = (1 << 32) - 1, (1 << 64) - 1
_SMALL = tuple(bytes([n]) for n in range(128))


def read_uvarint(buf: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 32-bit integer (1 to 5 bytes)."""
    try:  # (most have one byte or two)
        if (first := buf[position]) < 0x80:
            return first, position + 1
        if (second := buf[position + 1]) < 0x80:
            return first & 0x7F | second << 7, position + 2
    except IndexError:
        raise WireError("the bytes end inside a varint") from None
    value, position = _read(buf, position, 35)
    return value & _UINT32_MAX, position


def read_varint(buf: Buffer, position: int) -> tuple[int, int]:
    """A signed 32-bit integer (1 to 5 bytes)."""
    value, position = _read(buf, position, 35)
    value &= _UINT32_MAX
    return (value >> 1) ^ -(value & 1), position


def read_uvarlong(buf: Buffer, position: int) -> tuple[int, int]:
    """An unsigned 64-bit integer (1 to 10 bytes)."""
    value, position = _read(buf, position, 70)
    return value & _UINT64_MAX, position


def read_varlong(buf: Buffer, position: int) -> tuple[int, int]:
    """A signed 64-bit integer (1 to 10 bytes)."""
    value, position = _read(buf, position, 70)
    value &= _UINT64_MAX
    return (value >> 1) ^ -(value & 1), position


def _read(buf: Buffer, position: int, limit: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = buf[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
            shift += 7
            if shift >= limit:
                raise WireError("a varint does not end")
    except IndexError:
        raise WireError("the bytes end inside a varint") from None


def uvarint(value: int) -> bytes:
    """An unsigned integer; `value` >= 0."""
    if value < 128:
        return _SMALL[value]
    if value < 16384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A signed 32-bit integer."""
    return uvarint((value << 1) ^ (value >> 31))


def varlong(value: int) -> bytes:
    """A signed 64-bit integer."""
    return uvarint((value << 1) ^ (value >> 63))


def append_varint(out: bytearray, value: int) -> None:
    """Append a signed integer (32 or 64 bits: the bytes are the same)."""
    value = (value << 1) ^ (value >> 63)
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint_size(value: int) -> int:
    """How many bytes a signed integer takes."""
    return (max((value << 1) ^ (value >> 63), 1).bit_length() + 6) // 7
