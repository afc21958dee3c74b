"""Compaction: the last value of every key stays (KIP-58, KIP-98, KIP-354, KIP-534).

One `Compaction` is one round over one log, in two passes.  The first reads what was never compacted and notes
the last offset of each key.  The second reads the log from its start and writes what stays into new segments:

    a record              stays if no later one has its key, and it is not an expired tombstone
    a tombstone           gets a time (delete.retention.ms from now) in the first round that finds it
    aborted data          goes at once
    a transaction's end   goes like a tombstone, once no batch of the transaction is left
    an unreadable batch   stays as it is, as do the records before it: a producer may send compressed records
                          with wrong lengths (decision 0027), in which nobody can find keys
    an empty batch        stays if it holds the last sequence of a producer, or the end of a segment: each
                          segment still ends where the next one begins, so that a lost file is noticed

Offsets never change, nor do a batch's base offset, last offset, producer, epoch and codec.

The loop starts a round and swaps its segments in.  Everything between runs in a thread, in pieces of a few
milliseconds: `run`, again and again.  A round reads through files of its own, so that the log may change its
segments at any time: it then cancels the round, which leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.errors import BarnabasError, CorruptRecordError, LostFileError, StorageError, UnreadableError
from barnabas.log.cleaning.aborted import Undecided
from barnabas.log.cleaning.compacted_segment import CompactedSegment, swap_in
from barnabas.log.searching import aborted_transactions
from barnabas.log.segments.index import OFFSET_ROW, TIME_ROW
from barnabas.log.segments.scan import batches_of
from barnabas.model import Epoch, Now, Offset, ProducerId
from barnabas.wire.compression import pieces
from barnabas.wire.large_spans import Hash, marks, rewritten
from barnabas.wire.record_stream import check_stream
from barnabas.wire.records import HEADER_SIZE, BatchHeader, read_records
from barnabas.wire.spans import hollow, spans, thin_out, unpack, with_horizon

if TYPE_CHECKING:
    from barnabas.log.cleaning.dirty_range import DirtyRange
    from barnabas.log.segments.segment import Segment
    from barnabas.log.state import LogState

__all__ = ["BYTES_PER_KEY", "Compaction", "CompactionStatistics"]

BYTES_PER_KEY = 200
"""What a key costs in memory while a round runs: its 16 bytes or fewer as an object, its offset, its row."""
_SHORT_KEY_BYTES = 16
_STEP_BYTES = 1 << 18
_RECORD_COST_BYTES = 150
_RECORDS_PER_STEP = 5_000
"""Records that are looked at in one piece of work."""
_WHOLE_BATCH_BYTES = 2 << 20
"""A batch that unpacks to more bytes is looked at a piece at a time."""
_INT32_MAX = 0x7FFFFFFF
_ABORT, _COMMIT = b"\0\0", b"\0\1"


class CompactionStatistics(NamedTuple):
    """What a round did so far.  Bytes of batches, counts of records."""

    read_bytes: int
    written_bytes: int
    records: int
    kept: int
    keys: int
    utilization: float
    """Which part of the memory for keys was used."""
    unreadable: int
    """Batches that stayed as they are because nobody can read their records,"""
    first_unreadable: Offset
    """and where the first of them begins."""


class _Source(NamedTuple):
    """A segment as it was when the round began."""

    segment: Segment
    base: Offset
    end: Offset
    size: int

    @property
    def path(self) -> str:
        return f"{self.segment.directory}/{self.base:020d}"


class Compaction:
    """One round on one log."""

    __slots__ = (
        "_aborted",
        "_keys",
        "_last_of",
        "_making",
        "_ready",
        "_room",
        "_sources",
        "_steps",
        "_wall_ms",
        "cancelled",
        "end",
        "failure",
        "finished",
        "first_dirty",
        "first_unreadable",
        "kept",
        "limit",
        "log",
        "read_bytes",
        "records",
        "unreadable",
        "written_bytes",
    )

    def __init__(self, log: LogState, part: DirtyRange, now: Now, *, memory: int) -> None:
        """`memory`: bytes that the keys may take.  Raises StorageError, CorruptRecordError."""
        assert part.limit <= log.active.base
        self.log = log
        self.first_dirty = part.first_dirty
        self.limit = part.limit
        self.end: Offset = part.limit
        """Up to here the log is compacted when the round has finished."""
        self.cancelled = False
        self.finished = False
        self.failure: BarnabasError | None = None
        """Why this log cannot be compacted.  The log itself is as it was."""
        self.read_bytes = self.written_bytes = self.records = self.kept = self.unreadable = 0
        self.first_unreadable: Offset = -1
        self._room = max(1, memory // BYTES_PER_KEY)
        self._wall_ms = now.wall_ms
        self._keys: dict[bytes, Offset] = {}
        self._making: CompactedSegment | None = None
        self._ready: tuple[Segment, list[Segment]] | None = None
        ends = [*log.bases[1:], log.log_end_offset]
        self._sources = [
            _Source(segment, segment.base, end, segment.end_position)
            for segment, end in zip(log.segments, ends, strict=True)
            if segment.base < self.limit
        ]
        reach = self._sources[-1].end if self._sources else 0  # markers may lie in later segments
        self._aborted = aborted_transactions(log, log.bases[0], reach)
        self._last_of: dict[ProducerId, tuple[Offset, Epoch]] = {
            state.producer_id: (state.last_offset, state.epoch) for state in log.producers.active()
        }
        self._steps = self._work()
        log.begin_compaction(self)

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled else "finished" if self.finished else "running"
        return f"<Compaction {self.log.topic_partition} {self.first_dirty}..{self.limit} {state}>"

    # --- from the loop --------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether a segment waits to be put in place (`install`)."""
        return self._ready is not None

    def install(self, now: Now) -> None:
        """Put the segment that is ready in place.  Raises StorageError; the log has failed then."""
        ready, self._ready = self._ready, None
        if ready is not None and not self.cancelled:
            self._making = None
            swap_in(self.log, *ready, now)

    def cancel(self) -> None:
        """What it was made for is over; the next `run` clears up and finishes it."""
        self.cancelled = True

    def conclude(self) -> bool:
        """It has finished: remember how far the log is compacted.  False when it was cancelled or failed."""
        good = not self.cancelled and self.failure is None
        self.log.end_compaction(self, self.end if good else None)
        return good

    def statistics(self) -> CompactionStatistics:
        return CompactionStatistics(
            self.read_bytes,
            self.written_bytes,
            self.records,
            self.kept,
            len(self._keys),
            len(self._keys) / self._room,
            self.unreadable,
            self.first_unreadable,
        )

    # --- in a thread ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """One piece.  Then look at `finished`, `ready` and `failure`.

        Raises StorageError when the disk failed; a full one, or a file that is gone, as everything else that is
        wrong with what was read, is a `failure` of this round only.
        """
        try:
            if self.cancelled:
                self._clear_up()
            else:
                next(self._steps)
        except StopIteration:
            self.finished = True
        except StorageError as error:
            if not self.cancelled and not error.full and not isinstance(error, LostFileError):
                raise
            self._fail(error)
        except BarnabasError as error:
            self._fail(error)
        except Exception as error:  # whatever these records did to a codec: the node has others to serve
            self._fail(BarnabasError(f"{self.log.topic_partition} cannot be compacted: {error!r}"))

    def _fail(self, error: BarnabasError) -> None:
        self.failure = error
        self._clear_up()

    def _clear_up(self) -> None:
        self.finished = True
        self._steps.close()
        making, self._making = self._making, None
        if making is not None:
            try:
                making.discard()
            except StorageError:
                if not self.cancelled:
                    raise

    def _work(self) -> Generator[None, None, None]:
        yield from self._note_keys()
        undecided = Undecided(self._aborted, self._sources[0].base if self._sources else 0)
        left = [source for source in self._sources if source.base < self.end]
        while left:
            first = left[0].segment
            making = self._making = CompactedSegment(
                first.disk, first.directory, first.base, self.log.config.index_interval_bytes
            )
            group: list[_Source] = []
            while left and (not group or self._fits(making.segment, left[0])):
                group.append(left.pop(0))
                yield from self._rewrite(group[-1], making, undecided)
            if len(group) == 1 and not making.changed:
                making.discard()
                self._making = None
                continue
            making.finish(first.disk.modified_ms(group[-1].path + ".log"))
            self._ready = making.segment, [source.segment for source in group]
            yield
            first.disk.sync_directory(first.directory)

    def _fits(self, segment: Segment, source: _Source) -> bool:
        """Whether a compacted segment has room for all of another one."""
        config, disk = self.log.config, self.log.disk
        if segment.end_position + source.size > config.segment_bytes:
            return False
        for suffix, rows in (
            (".index", OFFSET_ROW * len(segment.index)),
            (".timeindex", TIME_ROW * len(segment.time_index)),
        ):
            path = source.path + suffix
            if rows + (disk.size(path) if disk.exists(path) else 0) > config.segment_index_bytes:
                return False
        return not source.size or source.end - 1 - segment.base <= _INT32_MAX

    def _batches(self, source: _Source) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches of one segment: CRC checked, offsets that grow.  Raises StorageError,
        CorruptRecordError."""
        file = source.segment.disk.open(source.path + ".log", read_only=True)
        next_ = source.base
        try:
            for _, header, batch in batches_of(file, 0, source.size):
                if not next_ <= header.base_offset <= header.last_offset < source.end:
                    raise CorruptRecordError(f"{file.path}: offset {header.base_offset} comes after {next_}")
                next_ = header.last_offset + 1
                self.read_bytes += len(batch)
                yield header, batch
        finally:
            file.close()

    # --- the first pass ---------------------------------------------------------------------------------------

    def _note_keys(self) -> Generator[None, None, None]:
        """The last offset of each key in what was never compacted; the round ends where the room does."""
        undecided = Undecided(self._aborted, self.first_dirty)
        keys, work = self._keys, 0
        for source in self._sources:
            if source.end <= self.first_dirty:
                continue
            for header, batch in self._batches(source):
                if header.last_offset < self.first_dirty:
                    continue
                if header.last_offset >= self.limit:
                    return
                if header.count + len(keys) > self._room and keys:
                    self.end = header.base_offset
                    return
                if header.is_control:
                    self._end(batch, header, undecided)
                elif not undecided.data(header):
                    base = header.base_offset
                    data, found = (yield from self._spans(batch, header)) or (None, ())
                    for index, span in enumerate(found):
                        if (key := span.key) is not None:
                            short = data is None or len(key) <= _SHORT_KEY_BYTES
                            keys[key if short else _digest(key)] = base + span.offset_delta
                        if index % _RECORDS_PER_STEP == _RECORDS_PER_STEP - 1:
                            yield
                work += len(batch) + _RECORD_COST_BYTES * header.count
                if work >= _STEP_BYTES:
                    work = 0
                    yield

    # --- the second pass --------------------------------------------------------------------------------------

    def _rewrite(
        self, source: _Source, making: CompactedSegment, undecided: Undecided
    ) -> Generator[None, None, None]:
        """Copy what stays of one segment."""
        work = 0
        for header, batch in self._batches(source):
            if header.is_control:
                without_data = self._end(batch, header, undecided, making)
                stays = self._marker(batch, header, without_data, source.end)
            else:
                aborted = undecided.data(header)
                stays = yield from self._records(batch, header, aborted, source.end)
            self.records += header.count
            if stays is None:
                making.changed = True
            else:
                if stays is not batch:
                    making.changed = True
                making.append(stays, header.last_offset, _newest(stays))
                self.written_bytes += len(stays)
                self.kept += int.from_bytes(stays[57:61], "big")
            work += len(batch) + _RECORD_COST_BYTES * header.count
            if work >= _STEP_BYTES:
                work = 0
                yield

    def _end(
        self,
        batch: memoryview,
        header: BatchHeader,
        undecided: Undecided,
        making: CompactedSegment | None = None,
    ) -> bool:
        """The end of a transaction; true when no batch of it was met.  Other control records just stay."""
        for record in read_records(batch, 0, header):
            kind = None if record.key is None else record.key[2:4]
            if kind in (_ABORT, _COMMIT):
                index = making.segment.transactions.rows if making is not None else None
                return undecided.marker(header, abort=kind == _ABORT, index=index)
            return False
        return True  # an empty one ended its transaction in an earlier round

    def _marker(
        self, batch: memoryview, header: BatchHeader, without_data: bool, end: Offset
    ) -> memoryview | bytearray | None:
        """What stays of the end of a transaction."""
        if not without_data or header.base_offset >= self.end or not header.count:
            return batch if header.count or self._holds_on(header, end) else None
        horizon = header.delete_horizon
        if horizon is None:
            return with_horizon(
                batch, header, self._wall_ms + self.log.config.compaction.delete_retention_ms, None
            )
        if horizon > self._wall_ms:
            return batch
        return hollow(header) if self._holds_on(header, end) else None

    def _records(
        self, batch: memoryview, header: BatchHeader, aborted: bool, end: Offset
    ) -> Generator[None, None, memoryview | bytearray | None]:
        """What stays of a batch of records."""
        if header.base_offset >= self.end:
            return batch
        if aborted or not header.count:
            if not self._holds_on(header, end):
                return None
            return hollow(header) if header.count else batch
        keys, base = self._keys, header.base_offset
        expired = header.delete_horizon is not None and header.delete_horizon <= self._wall_ms
        read = yield from self._spans(batch, header)
        if read is None:
            self.first_unreadable = base if not self.unreadable else self.first_unreadable
            self.unreadable += 1
            return batch
        data, found = read
        kept: list[Any] = []
        marks, count = False, 0
        for span in found:
            count += 1
            if count % _RECORDS_PER_STEP == 0:
                yield
            key = span.key
            if key is None:
                continue
            short = data is None or len(key) <= _SHORT_KEY_BYTES
            if keys.get(key if short else _digest(key), -1) > base + span.offset_delta:
                continue
            if not span.has_value:
                if expired:
                    continue
                marks = True
            kept.append(span)
        if not kept:
            return hollow(header) if self._holds_on(header, end) else None
        if marks and header.delete_horizon is None:
            horizon = self._wall_ms + self.log.config.compaction.delete_retention_ms
            deltas = {span.offset_delta for span in kept}
            if data is None:
                return rewritten(batch, header, deltas, self.log.config.max_decompressed_bytes, horizon)
            return with_horizon(batch, header, horizon, deltas)
        if len(kept) == count:
            return batch
        if data is None:
            deltas = {span.offset_delta for span in kept}
            return rewritten(batch, header, deltas, self.log.config.max_decompressed_bytes, None)
        return thin_out(header, data, kept)

    def _spans(
        self, batch: memoryview, header: BatchHeader
    ) -> Generator[None, None, tuple[bytes | None, Iterable[Any]] | None]:
        """The unpacked bytes and the `Span`s in them; no bytes and `Mark`s of a batch too large to unpack
        whole; None where the records cannot be read."""
        most = self.log.config.max_decompressed_bytes
        if header.size <= _WHOLE_BATCH_BYTES:
            try:
                data = unpack(batch, header, min(most, _WHOLE_BATCH_BYTES))
            except UnreadableError:
                return None
            except CorruptRecordError:
                if most <= _WHOLE_BATCH_BYTES or not header.codec:
                    return None
            else:
                try:
                    return data, spans(data, header)
                except CorruptRecordError:
                    return None
        try:
            body = memoryview(batch)[HEADER_SIZE : header.size]
            yield from check_stream(pieces(header.codec, body, most), header.count)
        except CorruptRecordError:
            return None
        return None, marks(batch, header, most, _KeyHash)

    def _holds_on(self, header: BatchHeader, end: Offset) -> bool:
        """Whether the header must stay though its records go: it says the last sequence (or epoch) of a
        producer that is remembered, or where its segment (which ends at `end`) or the round ended."""
        if header.last_offset + 1 in (end, self.limit):
            return True
        last = self._last_of.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        offset, epoch = last
        return (
            header.last_offset == offset
            if offset >= 0
            else header.is_control and header.producer_epoch == epoch
        )


class _KeyHash(Hash):
    """A short key itself, or the digest of a long one."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._key = b""
        self._long = blake2b(digest_size=16) if size > _SHORT_KEY_BYTES else None

    def add(self, some: bytes) -> None:
        if self._long is None:
            self._key += some
        else:
            self._long.update(some)

    def value(self) -> bytes:
        return self._key if self._long is None else self._long.digest() + b"#"


def _digest(key: bytes) -> bytes:
    """17 bytes that stand for a key of more than 16."""
    return blake2b(key, digest_size=16).digest() + b"#"


def _newest(batch: memoryview | bytearray) -> int:
    return int.from_bytes(batch[35:43], "big", signed=True)
