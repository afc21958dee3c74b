"""Reads a partition of __consumer_offsets in steps that do not hold the loop.

A client with an admin client's name may write anything there, also a few bytes that decompress to very many.
So nothing is decompressed as a whole: a step takes one piece from a codec, or replays a few hundred records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.replicas.partition import Partition
from barnabas.errors import CorruptRecordError, WireError
from barnabas.model import Now, Offset
from barnabas.wire.codec.primitives import read_uvarint
from barnabas.wire.compression import pieces
from barnabas.wire.record_check import Stream
from barnabas.wire.records import HEADER_SIZE, BatchHeader, Record, batches, read_record

__all__ = ["LOAD_BYTES", "LOAD_RECORDS", "MOST_RECORD", "Loading"]

LOAD_BYTES = 64 * 1024
"""How much of a log is read at a time."""
LOAD_RECORDS = 500
"""Records of one step; a batch costs as much as a few of them."""
MOST_RECORD = 4 << 20
"""A larger record is left out: a coordinator's may be as large as a batch unpacked, but none comes near."""
_BATCH = 5
_LONGEST_LENGTH = 5
_OVER = object()

Replay = Callable[[Record, Now], None]


class Loading:
    """One partition that is being read."""

    __slots__ = ("_steps", "partition", "position", "unreadable")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.position: Offset = partition.log_start_offset
        self.unreadable = 0
        """Records that were left out since somebody last asked."""
        self._steps: Iterator[None] | None = None

    def step(self, replay: Replay, now: Now) -> bool:
        """Replay some records; false when there are no more.

        `replay` raises WireError or CorruptRecordError for a record that means nothing.  Raises StorageError
        and CorruptRecordError where the log cannot be read.
        """
        if self._steps is None:
            partition = self.partition
            self.position = max(self.position, partition.log_start_offset)
            if self.position >= partition.log.log_end_offset:
                return False
            raw = partition.read(self.position, LOAD_BYTES).read()
            if not raw and partition.log.written_end_offset >= partition.log.log_end_offset:
                return False  # nothing is left up to the end
            self._steps = self._replay(raw, replay, now)
        if next(self._steps, _OVER) is _OVER:
            self._steps = None
        return True  # (nothing read: the rest is written at the end of this loop step)

    def _replay(self, raw: bytes, replay: Replay, now: Now) -> Iterator[None]:
        """Everything in `raw`; yields after each step."""
        work = 0
        for position, header in batches(raw):
            if not header.is_control and header.last_offset >= self.position:
                left = header.count
                try:
                    for record in _records(memoryview(raw)[position:], header):
                        if record is None:
                            work = LOAD_RECORDS
                        else:
                            work += 1
                            left -= _means_something(replay, record, now)
                        if work >= LOAD_RECORDS:
                            work = 0
                            yield
                except (IndexError, WireError, CorruptRecordError):
                    pass
                self.unreadable += left
            self.position = header.last_offset + 1
            work += _BATCH


def _means_something(replay: Replay, record: Record, now: Now) -> bool:
    try:
        replay(record, now)
    except (WireError, CorruptRecordError):
        return False
    return True


def _records(batch: memoryview, header: BatchHeader) -> Iterator[Record | None]:
    """The records of a batch up to the first that cannot be read, without those that are too large; None after
    each piece that was unpacked.  Raises IndexError, WireError, CorruptRecordError."""
    stream = Stream(pieces(header.codec, batch[HEADER_SIZE : header.size]))
    for _ in range(header.count):
        while stream.left() < _LONGEST_LENGTH and stream.more():
            yield None
        n, start = read_uvarint(stream.data, stream.p)
        size = start - stream.p + (n >> 1)
        if n & 1:
            raise CorruptRecordError("a record has a negative length")
        if size > MOST_RECORD:
            for _ in stream.skip(size):
                yield None
            continue
        while stream.left() < size and stream.more():
            yield None
        yield read_record(stream.data[stream.p : stream.p + size], header)
        stream.p += size
