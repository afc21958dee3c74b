"""Record batches to Arrow, in bulk: what a Spark task does with the bytes that a fetch brought.

The rows have the columns of Spark's own Kafka connector.  Batches are collected (`add`) until there is
enough for one Arrow batch, then turned into columns together (`take`): the numbers of all records are read
with numpy (see `varints`), keys and values become an Arrow *binary view* array, sixteen bytes per value
pointing into the fetched bytes, which Arrow's C++ then copies into the plain binary array that Spark wants.
No Python object is made per record, other than the integer that says where it begins.

Offsets may have gaps (compaction, transaction markers): every record says its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.model import Offset
from barnabas.pipeline.varints import Bytes, Positions, int32s, record_starts, zigzags
from barnabas.ports import Buffer
from barnabas.wire.compression import decompress
from barnabas.wire.records import APPEND_TIME, HEADER_SIZE, BatchHeader

__all__ = ["ARROW_SCHEMA", "ARROW_SCHEMA_WITH_HEADERS", "ArrowDecoder", "DecoderStatistics", "arrow_batches"]

LARGEST_BATCH = 1 << 30
"""What one batch may be decompressed to; beyond it, it is taken for a bomb."""
ENOUGH_BYTES = 15 << 17
"""Below the 4 MiB of memory that the allocator of Spark's JVM keeps for the next Arrow batch."""
ENOUGH_ROWS = 128 * 1024
SHORT = 8
"""Values of so many bytes on average, as keys have them, are as cheap to gather byte by byte."""
INLINE = 12
"""Arrow's binary views hold values up to this length themselves."""
END_OF_LOG = 2**63 - 1
LARGEST_TIMESTAMP_MS = (2**63 - 1) // 1000
"""The largest time of an Arrow timestamp in microseconds, and so of Spark's: the year 294247."""

_NUMBERS = np.dtype(
    {
        "names": ["base_offset", "attributes", "base_timestamp", "max_timestamp", "count"],
        "formats": [">i8", ">i2", ">i8", ">i8", ">i4"],
        "offsets": [0, 21, 27, 35, 57],
        "itemsize": HEADER_SIZE,
    }
)
"""What `_decode` wants to know of the headers of all batches."""
_HEADER_STRUCT = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_COLUMNS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
ARROW_SCHEMA = pa.schema(_COLUMNS)
"""key, value, topic, partition, offset, timestamp (µs, UTC), timestampType (0 created, 1 appended)."""
_HEADERS_TYPE = pa.list_(pa.field("element", _HEADER_STRUCT))
ARROW_SCHEMA_WITH_HEADERS = pa.schema([*_COLUMNS, pa.field("headers", _HEADERS_TYPE)])
"""The same with headers: list of (key, value); null where a record has none, as in Spark's own connector."""


class DecoderStatistics(NamedTuple):
    """What a decoder has done: batches taken in, rows given out, bytes of records after decompression."""

    batches: int
    rows: int
    record_bytes: int


class _Section(NamedTuple):
    """The records of one batch, uncompressed."""

    records: Buffer
    header: BatchHeader
    head: Buffer
    """The bytes of the header."""


class ArrowDecoder:
    """Turns the batches of one partition into Arrow batches of rows with start <= offset < end."""

    __slots__ = ("_bytes", "_done", "_partition", "_range", "_rows", "_schema", "_sections", "_topic")

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        start: Offset = 0,
        end: Offset = END_OF_LOG,
        columns: Sequence[str] | None = None,
        include_headers: bool = False,
    ) -> None:
        """`columns`: only these, in this order; all without it, headers if `include_headers`."""
        self._topic = topic
        self._partition = partition
        self._range = (start, end)
        every = ARROW_SCHEMA_WITH_HEADERS if include_headers or columns else ARROW_SCHEMA
        self._schema = every if columns is None else pa.schema([every.field(name) for name in columns])
        self._sections: list[_Section] = []
        self._bytes = self._rows = 0
        self._done = DecoderStatistics(0, 0, 0)

    def __repr__(self) -> str:
        return f"<ArrowDecoder {self._topic}-{self._partition} {self._range} waiting={self._rows}>"

    @property
    def full(self) -> bool:
        """Whether there is enough for one Arrow batch."""
        return self._bytes >= ENOUGH_BYTES or self._rows >= ENOUGH_ROWS

    def statistics(self) -> DecoderStatistics:
        """What was decoded so far."""
        return self._done

    def add(self, batch: Buffer, header: BatchHeader) -> None:
        """Take in one whole batch, whose CRC was checked.  Control batches are left out.

        Raises CorruptRecordError when it cannot be decompressed, WireError for an unknown codec.
        """
        if header.is_control or header.count <= 0:
            return
        records: Buffer = memoryview(batch)[HEADER_SIZE : header.size]
        if header.codec:
            try:
                records = decompress(header.codec, records, LARGEST_BATCH)
            except CorruptRecordError as error:
                raise self._unreadable(header, error) from error
        self._sections.append(_Section(records, header, batch[:HEADER_SIZE]))
        self._bytes += len(records)
        self._rows += header.count

    def take(self) -> pa.RecordBatch | None:
        """The rows of everything added since the last call, or None when there are none in the range.

        Raises CorruptRecordError, which names the batch whose records are not what it says, and BarnabasError,
        which names the record whose timestamp Spark cannot hold.
        """
        sections, size = self._sections, self._bytes
        self._sections, self._bytes, self._rows = [], 0, 0
        if not sections:
            return None
        try:
            table = self._decode(sections)
        except CorruptRecordError:
            for section in sections:
                try:
                    self._decode([section])
                except CorruptRecordError as error:
                    raise self._unreadable(section.header, error) from error
            raise
        done = self._done
        self._done = DecoderStatistics(
            done.batches + len(sections), done.rows + table.num_rows, done.record_bytes + size
        )
        return table if table.num_rows else None

    def _decode(self, sections: list[_Section]) -> pa.RecordBatch:
        return _decode(sections, self._range, self._topic, self._partition, self._schema)

    def _unreadable(self, header: BatchHeader, error: CorruptRecordError) -> CorruptRecordError:
        return CorruptRecordError(
            f"{self._topic}-{self._partition}: the batch at offset {header.base_offset} cannot be read: "
            f"{error.message}",
            next_step=f"to go on after it, start at offset {header.last_offset + 1}",
        )


def arrow_batches(
    decoder: ArrowDecoder, batches: Iterable[tuple[Buffer, BatchHeader]]
) -> Iterator[pa.RecordBatch]:
    """Feed whole batches to a decoder; yields Arrow batches of about 2 MiB or 131,072 rows."""
    for batch, header in batches:
        decoder.add(batch, header)
        if decoder.full and (rows := decoder.take()) is not None:
            yield rows
    if (rows := decoder.take()) is not None:
        yield rows


def _decode(
    sections: list[_Section], wanted: tuple[Offset, Offset], topic: str, partition: int, schema: pa.Schema
) -> pa.RecordBatch:
    whole: Any = (
        sections[0].records if len(sections) == 1 else b"".join(section.records for section in sections)
    )
    data: Bytes = np.frombuffer(whole, dtype=np.uint8)
    starts: list[int] = []
    position = 0
    for section in sections:
        end = position + len(section.records)
        record_starts(whole, position, end, section.header.count, starts)
        position = end
    record = np.array(starts, dtype=np.int64)
    heads = np.frombuffer(b"".join([section.head for section in sections]), _NUMBERS)
    heads = heads.astype(_NUMBERS.newbyteorder("="))
    counts = heads["count"].astype(np.int64)
    ends = np.append(record[1:], len(data))

    length, at = int32s(data, record)
    if (at + length != ends).any():
        raise CorruptRecordError("the length of a record is not the distance to the next one")
    timestamp, at = zigzags(data, at + 1)  # one byte of attributes, unused
    delta, at = int32s(data, at)
    offset = delta + np.repeat(heads["base_offset"], counts)
    timestamp, timestamp_type = _timestamps(heads, counts, timestamp)

    if int(offset.min()) < wanted[0] or int(offset.max()) >= wanted[1]:
        keep = (offset >= wanted[0]) & (offset < wanted[1])
        offset, timestamp, timestamp_type = offset[keep], timestamp[keep], timestamp_type[keep]
        at, ends = at[keep], ends[keep]
    key_length, key_at = int32s(data, at)  # below zero: null
    value_length, value_at = int32s(data, key_at + np.maximum(key_length, 0))
    after = value_at + np.maximum(value_length, 0)
    if (after > ends - 1).any():
        raise CorruptRecordError("a key or value is longer than its record")

    rows = len(offset)
    made: dict[str, Callable[[], pa.Array]] = {
        "key": lambda: _binary(data, key_at, key_length),
        "value": lambda: _binary(data, value_at, value_length),
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), rows),
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), rows),
        "offset": lambda: pa.array(offset),
        "timestamp": lambda: _microseconds(timestamp, offset, topic, partition),
        "timestampType": lambda: pa.array(timestamp_type),
        "headers": lambda: _headers(data, after, ends),
    }
    return pa.RecordBatch.from_arrays([made[name]() for name in schema.names], schema=schema)


def _timestamps(
    heads: npt.NDArray[Any], counts: Positions, delta: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Milliseconds and type of each record: its own, or the one of the append (in the batch header)."""
    created = delta + np.repeat(heads["base_timestamp"], counts)
    of_append = (heads["attributes"] & APPEND_TIME) != 0
    if not of_append.any():
        return created, np.zeros(len(created), np.int32)
    appended = np.repeat(of_append, counts)
    stamp = np.repeat(heads["max_timestamp"], counts)
    return np.where(appended, stamp, created), appended.astype(np.int32)


def _microseconds(
    stamps: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], topic: str, partition: int
) -> pa.Array:
    """Return the column `timestamp` for stamps in milliseconds.  Raises BarnabasError for one out of range."""
    strange = (stamps > LARGEST_TIMESTAMP_MS) | (stamps < -LARGEST_TIMESTAMP_MS)
    if strange.any():
        first = int(np.argmax(strange))
        raise BarnabasError(
            f"{topic}-{partition}: the record at offset {offsets[first]} has the timestamp {stamps[first]} ms, "
            f"more than Spark can hold ({LARGEST_TIMESTAMP_MS} ms)",
            next_step='name the columns without it: .option("columns", "key,value,topic,partition,offset")',
        )
    return pa.array(stamps * 1000).view(pa.timestamp("us", tz="UTC"))


def _binary(data: Bytes, at: Positions, length: npt.NDArray[np.int64]) -> pa.Array:
    """An Arrow binary array of the values data[at : at + length]; a length of -1 is null."""
    rows = len(at)
    null = length < 0
    nulls = int(np.count_nonzero(null))
    if nulls == rows:
        return pa.nulls(rows, pa.binary())
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if nulls else None
    size = np.maximum(length, 0)
    total = int(size.sum())
    if total <= rows * SHORT:
        offsets = np.concatenate(([0], np.cumsum(size))).astype(np.int32)
        taken = data[np.repeat(at - offsets[:-1], size) + np.arange(total)]
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(taken)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=nulls)
    views = np.zeros((rows, 4), dtype=np.int32)
    views[:, 0] = length
    views[:, 3] = at
    short = np.flatnonzero(length <= INLINE)
    if short.size:
        views[short, 0] = size[short]
        column = np.arange(INLINE)
        inline = data[np.minimum(at[short, None] + column, len(data) - 1)]
        inline[column >= size[short, None]] = 0
        views[short, 1:] = inline.view(np.int32)
    buffers = [validity, pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), rows, buffers, null_count=nulls).cast(pa.binary())


def _headers(data: Bytes, at: Positions, ends: Positions) -> pa.Array:
    """The headers of each record: the first of all records, then the second of those that have one, ..."""
    count, at = int32s(data, at)
    if (count < 0).any() or (count > ends - at).any():
        raise CorruptRecordError("the number of headers of a record is impossible")
    first = np.concatenate(([0], np.cumsum(count)))
    total = int(first[-1])
    key_at, value_at = np.zeros(total, np.int64), np.zeros(total, np.int64)
    key_length, value_length = np.zeros(total, np.int64), np.zeros(total, np.int64)
    left = np.flatnonzero(count)
    nth = 0
    while left.size:
        slot = first[left] + nth
        key_length[slot], key_at[slot] = int32s(data, at[left])
        value_length[slot], value_at[slot] = int32s(data, key_at[slot] + np.maximum(key_length[slot], 0))
        at[left] = value_at[slot] + np.maximum(value_length[slot], 0)
        if (at[left] > ends[left]).any():
            raise CorruptRecordError("the headers of a record are longer than the record")
        nth += 1
        left = left[count[left] > nth]
    if (key_length < 0).any() or (at != ends).any():
        raise CorruptRecordError("the headers of a record do not end where it ends")
    keys = _text(_binary(data, key_at, key_length))
    items = pa.StructArray.from_arrays(
        [keys, _binary(data, value_at, value_length)], fields=list(_HEADER_STRUCT)
    )
    offsets = pa.array(first.astype(np.int32), mask=np.append(count == 0, False))
    return pa.ListArray.from_arrays(offsets, items, type=_HEADERS_TYPE)


def _text(keys: pa.Array) -> pa.Array:
    """Binary as text; what is no UTF-8 gets replacement marks, as Java's String does it."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
