"""Where each record of a batch lies, without making records of them: what compaction looks at.

A record that stays in its batch stays byte for byte: its offset and its timestamp are relative to the
header.  So compaction copies slices, and only what must get another base timestamp is written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from barnabas.errors import CorruptRecordError, WireError
from barnabas.model import NO_TIMESTAMP
from barnabas.ports import Buffer
from barnabas.wire.codec.primitives import read_uvarint, read_varlong
from barnabas.wire.compression import MAX_DECOMPRESSED, compress, decompress
from barnabas.wire.record_check import after_headers
from barnabas.wire.records import (
    APPEND_TIME,
    CRC_COUNTS_FROM,
    HEADER_SIZE,
    BatchHeader,
    read_records,
    write_batch,
)

__all__ = ["Span", "assemble", "hollow", "spans", "thin_out", "unpack", "with_horizon"]

_SMALLEST_RECORD = 7
_UNCOUNTED = 12
_KEPT_WHEN_EMPTY = 0x38
_HEAD = Struct(">qiibI")
_TAIL = Struct(">hiqqqhii")


class Span(NamedTuple):
    """One record: its bytes in the unpacked batch, its deltas, its key, whether it has a value."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


_new = tuple.__new__


def unpack(batch: Buffer, header: BatchHeader, max_size: int = MAX_DECOMPRESSED) -> bytes:
    """The bytes of the records of one whole batch.  Raises CorruptRecordError."""
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    data = decompress(header.codec, packed, max_size) if header.codec else bytes(packed)
    if header.count < 0 or header.count * _SMALLEST_RECORD > len(data):
        raise CorruptRecordError(f"the batch at offset {header.base_offset} claims {header.count} records")
    return data


def spans(data: bytes, header: BatchHeader) -> list[Span]:
    """The records in the bytes that `unpack` returned.  Raises CorruptRecordError."""
    try:
        return _spans(data, header.count)
    except (IndexError, WireError) as error:
        raise CorruptRecordError(f"broken record in the batch at {header.base_offset}: {error}") from error


def _spans(data: bytes, count: int) -> list[Span]:
    found: list[Span] = []
    p = 0
    whole = len(data)
    for _ in range(count):
        start = p
        n = data[p]
        p += 1
        if n > 127:
            n, p = read_uvarint(data, p - 1)
        end = p + (n >> 1)
        if n & 1 or end > whole:
            raise CorruptRecordError(f"a record claims {(n >> 1) ^ -(n & 1)} bytes")
        p += 1  # its attributes, which mean nothing yet
        t = data[p]
        p += 1
        if t > 127:
            t, p = read_varlong(data, p - 1)
        else:
            t = (t >> 1) ^ -(t & 1)
        o = data[p]
        p += 1
        if o > 127:
            o, p = read_uvarint(data, p - 1)
        key = None
        n = data[p]
        p += 1
        if n > 127:
            n, p = read_uvarint(data, p - 1)
        if not n & 1:
            key = data[p : (p := p + (n >> 1))]
        n = data[p]
        p += 1
        if n > 127:
            n, p = read_uvarint(data, p - 1)
        if not n & 1:
            p += n >> 1
        p = after_headers(data, p, end) if data[p] else p + 1
        if p != end:
            raise CorruptRecordError("a record ends elsewhere than its length says")
        found.append(_new(Span, (start, end, (o >> 1) ^ -(o & 1), t, key, not n & 1)))
    if p != whole:
        raise CorruptRecordError(f"{whole - p} bytes follow the last record")
    return found


def thin_out(header: BatchHeader, data: bytes, kept: Sequence[Span]) -> bytearray:
    """The batch with only these of its records (at least one): offsets, producer and base timestamp stay."""
    body: Buffer = b"".join([data[span.start : span.end] for span in kept])
    if header.codec:
        body = compress(header.codec, body)
    newest = header.max_timestamp
    if not header.attributes & APPEND_TIME:
        newest = header.base_timestamp + max(span.timestamp_delta for span in kept)
    return assemble(header, header.attributes, header.base_timestamp, newest, len(kept), body)


def hollow(header: BatchHeader) -> bytearray:
    """The header of a batch whose records are all gone: it still says which offsets and sequences they had."""
    attributes = header.attributes & _KEPT_WHEN_EMPTY
    return assemble(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def with_horizon(batch: Buffer, header: BatchHeader, delete_horizon: int, kept: set[int] | None) -> bytearray:
    """The batch with a delete horizon (ms) in place of its base timestamp, and the records at these offset
    deltas (None: all).  Raises CorruptRecordError."""
    records = read_records(batch, 0, header)
    if kept is not None:
        records = [record for record in records if record.offset - header.base_offset in kept]
    return write_batch(
        records,
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        codec=header.codec,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        append_time=header.max_timestamp if header.timestamp_type else None,
        delete_horizon=delete_horizon,
        last_offset=header.last_offset,
    )


def assemble(
    header: BatchHeader, attributes: int, base_timestamp: int, newest: int, count: int, body: Buffer
) -> bytearray:
    """A batch with this body, and what of its header stays."""
    out = bytearray(HEADER_SIZE)
    out += body
    _TAIL.pack_into(
        out,
        CRC_COUNTS_FROM,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        newest,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    crc = crc32c(memoryview(out)[CRC_COUNTS_FROM:])
    _HEAD.pack_into(out, 0, header.base_offset, len(out) - _UNCOUNTED, header.leader_epoch, header.magic, crc)
    return out
