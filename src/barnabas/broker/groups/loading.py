"""Reads a partition of __consumer_offsets in steps that do not hold the loop.

A client with an admin client's name may write anything there, also a few bytes that decompress to very many.
So nothing is decompressed as a whole: a step takes one piece from a codec, or replays a few hundred records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.replicas.partition import Partition
from barnabas.errors import CorruptRecordError, WireError
from barnabas.model import NO_PRODUCER, Now, Offset, ProducerId
from barnabas.wire.codec.primitives import read_uvarint
from barnabas.wire.compression import Codec, pieces
from barnabas.wire.control import ControlType, control_type
from barnabas.wire.record_stream import Stream
from barnabas.wire.records import HEADER_SIZE, BatchHeader, Record, batches, read_record, read_records

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
Ended = Callable[[ProducerId, bool], None]
"""A marker says that a producer's transaction ended; true: committed."""


class Loading:
    """One partition that is being read."""

    __slots__ = ("_ended", "_steps", "partition", "position", "producer_id", "unreadable")

    def __init__(self, partition: Partition, ended: Ended | None = None) -> None:
        """`ended` hears of markers."""
        self.partition = partition
        self._ended = ended
        self.producer_id: ProducerId = NO_PRODUCER
        """Whose transaction the record that is replayed belongs to."""
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
            if header.is_control:
                self._end(raw, position, header)
            elif header.last_offset >= self.position:
                left = header.count
                self.producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
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

    def _end(self, raw: bytes, position: int, header: BatchHeader) -> None:
        """A marker; one that compaction left empty says nothing."""
        if self._ended is None or header.last_offset < self.position:
            return
        try:
            for record in read_records(raw, position, header, MOST_RECORD):
                type_ = control_type(record.key)
                if type_ in (ControlType.COMMIT, ControlType.ABORT):
                    self._ended(header.producer_id, type_ is ControlType.COMMIT)
        except (WireError, CorruptRecordError):
            self.unreadable += header.count


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
    if header.codec == Codec.NONE:
        stream.more()  # it is all there: nothing is unpacked
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
