"""The work of `spans` for a batch that decompresses to more than a node should hold: one piece at a time.

Compaction reads such a batch once for its keys, and once more to copy what stays.  It holds no more than a
piece of a record, and a digest of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from barnabas.errors import CorruptRecordError, WireError
from barnabas.ports import Buffer
from barnabas.wire.codec.primitives import read_uvarint, varint, varlong
from barnabas.wire.compression import packer, pieces
from barnabas.wire.record_stream import Stream, start_of_record
from barnabas.wire.records import APPEND_TIME, HEADER_SIZE, BatchHeader
from barnabas.wire.spans import assemble

__all__ = ["Hash", "Mark", "marks", "rewritten"]

_CODED = 0x07
_DELETE_HORIZON = 0x40


class Hash:
    """The digest of a key: fed with its bytes, then asked."""

    def __init__(self, size: int) -> None:
        self.size = size

    def add(self, some: bytes) -> None:
        raise NotImplementedError

    def value(self) -> bytes:
        raise NotImplementedError


class Mark(NamedTuple):
    """One record: its deltas, the digest of its key, whether it has a value."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def marks(batch: Buffer, header: BatchHeader, max_size: int, hashed: Callable[[int], Hash]) -> Iterator[Mark]:
    """The records of a batch.  Raises CorruptRecordError."""
    stream = _opened(batch, header, max_size)
    try:
        for index in range(header.count):
            later, offset, rest = start_of_record(stream, index)
            n, used = _number(stream)
            rest -= used
            key: bytes | None = None
            if not n & 1:
                rest -= n >> 1
                key_hash = hashed(n >> 1)
                for some in _taken(stream, n >> 1):
                    key_hash.add(some)
                key = key_hash.value()
            n, used = _number(stream)
            yield Mark((offset >> 1) ^ -(offset & 1), later, key, not n & 1)
            for _ in stream.skip(max(0, rest - used)):
                pass
    except (IndexError, WireError) as error:
        raise CorruptRecordError(f"broken record in the batch at {header.base_offset}: {error}") from error


def rewritten(
    batch: Buffer, header: BatchHeader, kept: set[int], max_size: int, horizon: int | None
) -> bytearray:
    """The batch with only the records at these offset deltas (at least one).

    `horizon` (ms) takes the place of the base timestamp, unless None.  Raises CorruptRecordError.
    """
    base = header.base_timestamp if horizon is None else horizon
    stream, out, body = _opened(batch, header, max_size), packer(header.codec), bytearray()
    newest = -(1 << 63)
    try:
        for index in range(header.count):
            later, offset, rest = start_of_record(stream, index)
            if (offset >> 1) ^ -(offset & 1) not in kept:
                for _ in stream.skip(rest):
                    pass
                continue
            newest = max(newest, header.base_timestamp + later)
            start = (
                b"\0" + varlong(header.base_timestamp + later - base) + varint((offset >> 1) ^ -(offset & 1))
            )
            body += out.add(varint(len(start) + rest) + start)
            for some in _taken(stream, rest):
                body += out.add(some)
    except (IndexError, WireError) as error:
        raise CorruptRecordError(f"broken record in the batch at {header.base_offset}: {error}") from error
    body += out.end()
    attributes = header.attributes if horizon is None else header.attributes | _DELETE_HORIZON
    if header.attributes & APPEND_TIME:
        newest = header.max_timestamp
    return assemble(header, attributes, base, newest, len(kept), body)


def _opened(batch: Buffer, header: BatchHeader, max_size: int) -> Stream:
    return Stream(pieces(header.codec, memoryview(batch)[HEADER_SIZE : header.size], max_size))


def _number(stream: Stream) -> tuple[int, int]:
    stream.want(5)
    value, p = read_uvarint(stream.data, stream.p)
    used, stream.p = p - stream.p, p
    return value, used


def _taken(stream: Stream, size: int) -> Iterator[bytes]:
    """The next `size` bytes, in pieces.  Raises CorruptRecordError when there are fewer."""
    while size:
        if not stream.left() and not stream.more():
            raise CorruptRecordError("a record is not whole")
        some = stream.data[stream.p : stream.p + size]
        stream.p += len(some)
        size -= len(some)
        yield some
