"""What a log's batches say of their producers: read again from a snapshot on, and at the end of a transaction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator

from barnabas.errors import CorruptRecordError
from barnabas.log.reading import damaged_at, readable_headers
from barnabas.log.segments.segment import Segment
from barnabas.log.segments.transactions import AbortedTransaction
from barnabas.log.state import LogState
from barnabas.model import NO_OFFSET, Offset
from barnabas.wire.records import CONTROL, HEADER_SIZE, BatchHeader, read_records

__all__ = ["end_transaction", "replay_producers"]

_STEP_BYTES = 1 << 20
_ABORT = 0


def replay_producers(log: LogState, *, rebuild_from: Offset = NO_OFFSET) -> Generator[None, None, None]:
    """Bring the producers to the log end: the newest good snapshot, then the batches after it.

    `rebuild_from` is the base of the first segment whose `.txnindex` is made anew on the way; snapshots
    above it are not trusted (a crash may have brought back one of records that were cut).
    """
    end = log.log_end_offset
    log.snapshots.remove_after(end if rebuild_from < 0 else rebuild_from)
    snapshot = log.snapshots.newest(end)
    start, rows = snapshot if snapshot is not None else (0, [])
    log.producers.replace(rows, up_to=start - 1)
    seen = 0
    for segment in log.segments[max(0, bisect_right(log.bases, start) - 1) :]:
        if segment.base == log.bases[-1] and start >= end:
            break
        rebuilding = 0 <= rebuild_from <= segment.base
        for position, header in readable_headers(log, segment, start):
            seen += HEADER_SIZE
            if seen >= _STEP_BYTES:
                seen = 0
                yield
            if header.producer_id < 0 or header.base_offset < start:
                continue
            if header.attributes & CONTROL:
                batch = segment.file.read_at(position, header.size)
                try:
                    end_transaction(log, segment if rebuilding else None, batch, header, header.last_offset)
                except CorruptRecordError as error:
                    damaged_at(log, header.base_offset, error.message)
            else:
                log.producers.append(header, header.base_offset, header.last_offset)


def end_transaction(
    log: LogState,
    segment: Segment | None,
    batch: memoryview | bytearray | bytes,
    header: BatchHeader,
    offset: Offset,
) -> None:
    """A control batch of a producer is at `offset`: end its transaction, note an abort in `segment`.

    One that compaction left empty says only which epoch the producer had.
    """
    if not header.count:
        log.producers.know(header, offset)
    for record in read_records(batch, 0, header):
        if record.key is None or record.value is None or len(record.key) < 4 or len(record.value) < 6:
            continue
        kind = int.from_bytes(record.key[2:4], "big")
        if kind > 1:
            continue
        ended = log.producers.end_transaction(
            header, offset, int.from_bytes(record.value[2:6], "big", signed=True)
        )
        if ended is not None and kind == _ABORT and segment is not None:
            segment.transactions.append(AbortedTransaction(*ended))
