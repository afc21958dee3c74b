"""Record batches, format 2: what producers send, the log keeps and consumers get, byte for byte.

A broker looks at the header (61 bytes) and the CRC, and patches two fields that the CRC does not cover:
the base offset and the leader epoch.  The records inside are read only where somebody must know them.

    position  0 base offset   8 length of what follows   12 leader epoch   16 magic   17 CRC-32C
             21 attributes   23 last offset delta   27 base timestamp   35 max timestamp
             43 producer id   51 producer epoch   53 base sequence   57 count   61 records

Attributes: bits 0-2 codec, 3 timestamps are the append time, 4 transactional, 5 control, 6 the base
timestamp is the time after which a compacted batch may lose its tombstones (KIP-534).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from barnabas.errors import CorruptRecordError, WireError
from barnabas.model import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP
from barnabas.ports import Buffer
from barnabas.wire.codec.primitives import append_varint, read_uvarint, read_uvarlong
from barnabas.wire.compression import MAX_DECOMPRESSED, compress, decompress

__all__ = [
    "APPEND_TIME",
    "CONTROL",
    "CRC_COUNTS_FROM",
    "HEADER_SIZE",
    "TRANSACTIONAL",
    "BatchHeader",
    "Header",
    "Record",
    "append_value",
    "batches",
    "check_crc",
    "patch",
    "read_batch_header",
    "read_record",
    "read_records",
    "restamp",
    "seal_batch",
    "write_batch",
]

HEADER_SIZE = 61
CRC_COUNTS_FROM = 21
"""Where the part of a batch begins that its CRC counts: its attributes are the first."""
_UNCOUNTED = 12  # what the length field does not count: the base offset and itself
_MAGIC = 2
_SMALLEST_RECORD = 7

_CODEC = 0x07
APPEND_TIME = 0x08
"""The bit in a batch's attributes: its records have the time of the append, which is its largest."""
TRANSACTIONAL = 0x10
"""The bit in a batch's attributes: its records are part of a transaction."""
CONTROL = 0x20
"""The bit in a batch's attributes: it holds a control record, of a transaction or of Raft, not a client's."""
_DELETE_HORIZON = 0x40

_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
_HEADER = struct.Struct(">qiibIhiqqqhii")
_HEAD = struct.Struct(">qiibI")
_TAIL = struct.Struct(">hiqqqhii")
_EPOCH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")

Header = tuple[str, bytes | None]
"""A header of a record: name and value."""


class Record(NamedTuple):
    """One record: absolute offset, timestamp in ms, key, value, headers."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()


class BatchHeader(NamedTuple):
    """The header of a batch, as it stands there."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # tuple.count is not missed

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + _UNCOUNTED

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC

    @property
    def timestamp_type(self) -> int:
        """0: the producer's time, 1: the time of the append."""
        return 1 if self.attributes & APPEND_TIME else 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon(self) -> int | None:
        """The time after which tombstones in here may go (ms), where it is set."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap at 2^31.  -1 without a producer."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_batch_header(buf: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`.

    Raises CorruptRecordError when fewer than 61 bytes are left, the magic is not 2 or the length is
    smaller than a header.  It does not ask whether the whole batch is there, nor for its CRC.
    """
    try:
        header = _new(BatchHeader, _HEADER.unpack_from(buf, position))
    except struct.error:
        left = len(buf) - position
        raise CorruptRecordError(f"a batch needs a header of {HEADER_SIZE} bytes, here are {left}") from None
    if header.magic != _MAGIC or header.batch_length < HEADER_SIZE - _UNCOUNTED:
        raise CorruptRecordError(
            f"no batch of format 2 at {position}: magic {header.magic}, length {header.batch_length}"
        )
    return header


def batches(buf: Buffer, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """The whole batches from `position` to `end`, as (position, header).

    An incomplete last one is left out (a fetch may end in the middle of a batch).  Raises
    CorruptRecordError where no batch begins.
    """
    if end is None:
        end = len(buf)
    while position + HEADER_SIZE <= end:
        header = read_batch_header(buf, position)
        after = position + header.size
        if after > end:
            return
        yield position, header
        position = after


def check_crc(buf: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is all there and its CRC is right."""
    end = position + header.size
    if end > len(buf):
        return False
    found: int = crc32c(memoryview(buf)[position + CRC_COUNTS_FROM : end])
    return found == header.crc


def patch(buf: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in place; the CRC covers neither."""
    _OFFSET.pack_into(buf, position, base_offset)
    _EPOCH.pack_into(buf, position + _UNCOUNTED, leader_epoch)


def restamp(buf: bytearray | memoryview, position: int, header: BatchHeader, append_time_ms: int) -> None:
    """Turn the timestamps into the append time in place: attribute, max timestamp and so the CRC."""
    struct.pack_into(">h", buf, position + CRC_COUNTS_FROM, header.attributes | APPEND_TIME)
    _OFFSET.pack_into(buf, position + 35, append_time_ms)
    body = memoryview(buf)[position + CRC_COUNTS_FROM : position + header.size]
    _CRC.pack_into(buf, position + 17, crc32c(body))


def read_records(
    buf: Buffer, position: int, header: BatchHeader, max_size: int = MAX_DECOMPRESSED
) -> list[Record]:
    """The records of a batch, unpacked to at most `max_size` bytes.

    Raises CorruptRecordError when they are not what the header says.  The CRC is not checked here.
    """
    end = position + header.size
    if end > len(buf):
        raise CorruptRecordError(f"the batch at offset {header.base_offset} is cut off")
    data: Buffer
    if header.codec:
        data = decompress(header.codec, memoryview(buf)[position + HEADER_SIZE : end], max_size)
    else:
        data = bytes(memoryview(buf)[position + HEADER_SIZE : end])
    if header.count < 0 or header.count * _SMALLEST_RECORD > len(data):
        raise CorruptRecordError(f"the batch at offset {header.base_offset} claims {header.count} records")
    append_time = header.max_timestamp if header.attributes & APPEND_TIME else None
    try:
        return _records(data, header.count, header.base_offset, header.base_timestamp, append_time)
    except (IndexError, WireError, CorruptRecordError) as error:
        raise CorruptRecordError(
            f"broken record in the batch at offset {header.base_offset}: {error}"
        ) from error


def read_record(data: bytes, header: BatchHeader) -> Record:
    """The one record that these bytes of a batch, unpacked, are.  Raises CorruptRecordError, IndexError,
    WireError."""
    append_time = header.max_timestamp if header.attributes & APPEND_TIME else None
    return _records(data, 1, header.base_offset, header.base_timestamp, append_time)[0]


def _records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> list[Record]:
    records: list[Record] = []
    p = 0
    for _ in range(count):
        n = data[p]
        p += 1
        if n > 127:
            n, p = _two(data, n, p)
        end = p + (n >> 1)
        if n & 1 or end > len(data):
            raise CorruptRecordError(f"a record claims {(n >> 1) ^ -(n & 1)} bytes")
        p += 1  # its attributes, which mean nothing yet
        t = data[p]
        p += 1
        if t > 127:
            t, p = read_uvarlong(data, p - 1)
        o = data[p]
        p += 1
        if o > 127:
            o, p = _two(data, o, p)
        key = value = None
        n = data[p]
        p += 1
        if n > 127:
            n, p = _two(data, n, p)
        if not n & 1:
            key = data[p : (p := p + (n >> 1))]
        n = data[p]
        p += 1
        if n > 127:
            n, p = _two(data, n, p)
        if not n & 1:
            value = data[p : (p := p + (n >> 1))]
        h = data[p]
        p += 1
        headers: tuple[Header, ...] = ()
        if h:
            headers, p = _headers(data, p - 1, end)
        if p != end:
            raise CorruptRecordError("a record ends elsewhere than its length says")
        timestamp = base_timestamp + ((t >> 1) ^ -(t & 1)) if append_time is None else append_time
        offset = base_offset + ((o >> 1) ^ -(o & 1))
        records.append(_new(Record, (offset, timestamp, key, value, headers)))
    if p != len(data):
        raise CorruptRecordError(f"{len(data) - p} bytes follow the last record")
    return records


def _two(data: bytes, first: int, p: int) -> tuple[int, int]:
    """An unsigned varint of more than one byte, mostly two, whose first byte stands before `p`."""
    second = data[p]
    if second < 128:
        return first & 0x7F | second << 7, p + 1
    return read_uvarint(data, p - 1)


def _sized(data: bytes, p: int, end: int) -> tuple[bytes | None, int]:
    """Nullable bytes after a signed length."""
    n = data[p]
    p += 1
    if n > 127:
        n, p = read_uvarint(data, p - 1)
    if n & 1:
        return None, p
    q = p + (n >> 1)
    if q > end:
        raise CorruptRecordError("a key or value reaches beyond its record")
    return data[p:q], q


def _headers(data: bytes, p: int, end: int) -> tuple[tuple[Header, ...], int]:
    n, p = read_uvarint(data, p)
    if n & 1 or n > 2 * (end - p):
        raise CorruptRecordError("a record claims more headers than it can hold")
    headers = []
    for _ in range(n >> 1):
        name, p = _sized(data, p, end)
        if name is None:
            raise CorruptRecordError("a header has no name")
        value, p = _sized(data, p, end)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), p


def write_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    leader_epoch: int = NO_EPOCH,
    codec: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    append_time: int | None = None,
    delete_horizon: int | None = None,
    last_offset: int | None = None,
) -> bytearray:
    """A batch of these records, which carry absolute, rising offsets.

    `base_offset` is the first record's unless given; `last_offset` the last one's (compaction keeps the
    old one, and `base_offset` with it).  `append_time` (ms): timestamps are the broker's.
    `delete_horizon` (ms): stands in place of the base timestamp (KIP-534).
    """
    records = list(records)
    if base_offset is None:
        base_offset = records[0].offset if records else 0
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    body = bytearray()
    for record in records:
        _append(body, record, record.offset - base_offset, record.timestamp - base_timestamp)
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    attributes = (
        codec
        | (APPEND_TIME if append_time is not None else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (_DELETE_HORIZON if delete_horizon is not None else 0)
    )
    packed = compress(codec, body) if codec else body
    out = bytearray(HEADER_SIZE)
    out += packed
    _TAIL.pack_into(
        out,
        CRC_COUNTS_FROM,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp if append_time is None else append_time,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    crc = crc32c(memoryview(out)[CRC_COUNTS_FROM:])
    _HEAD.pack_into(out, 0, base_offset, len(out) - _UNCOUNTED, leader_epoch, _MAGIC, crc)
    return out


def append_value(body: bytearray, offset_delta: int, value: bytes) -> None:
    """Append a record that is nothing but a value, of the batch's base timestamp."""
    size = len(value)
    head = bytearray(2)  # no attributes, no timestamp delta
    append_varint(head, offset_delta)
    head.append(1)  # no key
    append_varint(head, size)
    append_varint(body, len(head) + size + 1)
    body += head
    body += value
    body.append(0)  # no headers


def seal_batch(body: Buffer, count: int, *, base_offset: int, leader_epoch: int, timestamp: int) -> bytearray:
    """The batch of `count` records that stand in `body` already, offset deltas from 0, all of one time."""
    out = bytearray(HEADER_SIZE)
    out += body
    tail = (0, count - 1, timestamp, timestamp, NO_PRODUCER, -1, -1, count)
    _TAIL.pack_into(out, CRC_COUNTS_FROM, *tail)
    crc = crc32c(memoryview(out)[CRC_COUNTS_FROM:])
    _HEAD.pack_into(out, 0, base_offset, len(out) - _UNCOUNTED, leader_epoch, _MAGIC, crc)
    return out


def _append(body: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    """Append one record: its length, then its parts."""
    if offset_delta < 0:
        raise ValueError(f"record {record.offset} lies before the base offset of its batch")
    one = bytearray(1)
    if 0 <= timestamp_delta < 64:
        one.append(timestamp_delta << 1)
    else:
        append_varint(one, timestamp_delta)
    if offset_delta < 64:
        one.append(offset_delta << 1)
    else:
        append_varint(one, offset_delta)
    _append_sized(one, record.key)
    _append_sized(one, record.value)
    if record.headers:
        append_varint(one, len(record.headers))
        for name, value in record.headers:
            _append_sized(one, name.encode())
            _append_sized(one, value)
    else:
        one.append(0)
    append_varint(body, len(one))
    body += one


def _append_sized(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)
        return
    size = len(data)
    if size < 64:
        out.append(size << 1)
    else:
        append_varint(out, size)
    out += data
