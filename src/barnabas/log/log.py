"""One partition's log: append, write, sync, read, truncate.

Each offset has its invariant:

    log start <= durable end <= written end <= log end,    log start <= high watermark <= log end

`append_*` moves the log end and touches no file; `write` moves the written end; `begin_sync` and
`finish_sync` move the durable end.  Readers never see beyond the written end.  A file error is final: the log
refuses everything afterwards and its directory goes offline.  A full disk is not such an error: what was not
written is rolled back, and the log continues when there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from struct import Struct
from typing import TYPE_CHECKING, Unpack

from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log import reading, recovery, retention, searching
from barnabas.log import truncation as cutting
from barnabas.log.cleaning.compacted_segment import stop_cleaning
from barnabas.log.epochs import EpochCache
from barnabas.log.producer_files import ProducerSnapshots
from barnabas.log.producers import DEFAULT_EXPIRATION_MS, ProducerStates
from barnabas.log.recovery import Recovery
from barnabas.log.replicating import take_batches
from barnabas.log.results import Appended, Known, finished
from barnabas.log.searching import TimestampOffset
from barnabas.log.segments.damage import Damage, forget_damage
from barnabas.log.segments.deletion import Doomed
from barnabas.log.segments.open_files import SEALED
from barnabas.log.segments.scan import FileSlice
from barnabas.log.segments.segment import MAX_OFFSET, NEVER, Segment
from barnabas.log.segments.transactions import AbortedTransaction
from barnabas.log.storage.checkpoint import epoch_rows
from barnabas.log.storage.meta_properties import write_partition_metadata
from barnabas.log.storage.sync import SyncJob
from barnabas.model import NO_OFFSET, Epoch, Now, Offset, TopicId, TopicPartition
from barnabas.ports import Buffer, Disk, DiskFile
from barnabas.wire.records import BatchHeader

if TYPE_CHECKING:
    from barnabas.config import LogConfig
    from barnabas.log.cleaning.compaction import Cleaning

__all__ = ["Appended", "Log"]

_PATCH = Struct(">qii")
_PREFIX = 12
_CONTROL = 0x20
_INT32_MAX = 0x7FFFFFFF
_NO_FLUSH = (1 << 63) - 1
_POSITIONS_KEPT = 512
_TABLES_KEPT = 4
_EXPIRY_EVERY = 600.0


class Log:
    """The log of one partition.  Make one with `Log.open`."""

    __slots__ = (
        "_active_file",
        "_directory_changed",
        "_empty",
        "_generation",
        "_high_watermark",
        "_in_flight",
        "_next_expiry",
        "_page_cache",
        "_pending",
        "_unsynced_files",
        "_unsynced_parents",
        "_unsynced_paths",
        "active",
        "bases",
        "cleaned_offset",
        "cleaning",
        "config",
        "damage",
        "damaged_at_start",
        "disk",
        "doomed",
        "durable_end_offset",
        "epochs",
        "failed",
        "gaps_below",
        "log_end_offset",
        "log_start_offset",
        "lower_recovery_point",
        "path",
        "positions",
        "producers",
        "read_before",
        "recovery",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
        "written_end_offset",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> None:
        self.disk = disk
        self.path = path
        self.config = config
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments: list[Segment] = []
        self.bases: list[Offset] = []
        self.active: Segment
        self.log_start_offset: Offset = 0
        self.durable_end_offset: Offset = 0
        self.written_end_offset: Offset = 0
        self.log_end_offset: Offset = 0
        self.epochs = EpochCache()
        self.producers = ProducerStates(expiration_ms)
        self.snapshots = ProducerSnapshots(disk, path)
        self.failed: StorageError | None = None
        """The file error after which this log refuses everything."""
        self.recovery = Recovery()
        """What opening found."""
        self.damage: list[Damage] = []
        """What cannot be read of it, in order."""
        self.cleaned_offset: Offset = 0
        """Up to here the log is compacted."""
        self.damaged_at_start = False
        """Whether some of that was known when it was opened."""
        self.gaps_below: Offset = 0
        """Segments that begin below may end before the next one begins: Apache Kafka may have compacted them."""
        self.cleaning: Cleaning | None = None
        """The round of compaction that is under way."""
        self.lower_recovery_point = _ignore
        """Called with an offset before the log is cut below it (the directory persists its checkpoint)."""
        self._page_cache = config.flush_messages == _NO_FLUSH
        self._high_watermark: Offset = 0
        self._pending: list[Buffer] = []
        self.positions: dict[Offset, int] = {}
        """Where, in the file of the active segment, batches begin that were written lately."""
        self.read_before: Offset = -1
        """Where a sealed segment was read last."""
        self._generation = 0
        self._in_flight: SyncJob | None = None
        self._directory_changed = False
        self._unsynced_files: list[DiskFile] = []
        self._unsynced_paths: list[str] = []
        self._unsynced_parents: list[str] = []
        self.doomed = Doomed()
        self._next_expiry = 0.0

    def __repr__(self) -> str:
        failed = " failed" if self.failed else ""
        return (
            f"<Log {self.topic_partition} start={self.log_start_offset} durable={self.durable_end_offset} "
            f"written={self.written_end_offset} end={self.log_end_offset} hw={self._high_watermark}{failed}>"
        )

    @classmethod
    def open(
        cls, disk: Disk, path: str, config: LogConfig, *, clean: bool, now: Now, **known: Unpack[Known]
    ) -> Log:
        """Open the log in directory `path` (made if missing), recovering it unless it was closed cleanly.

        Raises StorageError.
        """
        return finished(cls.open_in_steps(disk, path, config, clean=clean, now=now, **known))

    @classmethod
    def open_in_steps(
        cls,
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        clean: bool,
        now: Now,
        recovery_point: Offset = 0,
        log_start: Offset = 0,
        first: Offset = NO_OFFSET,
        high_watermark: Offset | None = None,
        cleaned: Offset = 0,
        required: Offset = 0,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> Generator[None, None, Log]:
        """`open`, yielding every now and then (about every MiB read) so that a loop can breathe."""
        topic_partition, topic_id = recovery.identify(disk, path)
        log = cls(
            disk,
            path,
            config,
            topic_partition=topic_partition,
            topic_id=topic_id,
            expiration_ms=expiration_ms,
        )
        yield from recovery.load(
            log,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            first=first,
            cleaned=cleaned,
            required=required,
            now=now,
        )
        log.high_watermark = log.log_start_offset if high_watermark is None else high_watermark
        return log

    # --- offsets ------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> Offset:
        """Up to here consumers may read; set by the partition, kept between log start and log end."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: Offset) -> None:
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self._high_watermark = offset
        self.producers.advance(offset)

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here read_committed consumers may read: every transaction below it is decided."""
        unstable = self.producers.first_unstable_offset
        if unstable < 0 or unstable > self._high_watermark:
            return self._high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def acknowledged_end_offset(self) -> Offset:
        """Up to here an append counts as done: the durable end, or the written end in page-cache mode."""
        return self.written_end_offset if self._page_cache else self.durable_end_offset

    @property
    def page_cache(self) -> bool:
        """Whether acknowledgements do not wait for a sync (`flush.messages` = 9223372036854775807)."""
        return self._page_cache

    @property
    def latest_epoch(self) -> Epoch:
        """The leader epoch of the last record, NO_EPOCH in an empty log."""
        return self.epochs.latest

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(segment.end_position for segment in self.segments)

    def epoch_at(self, offset: Offset) -> Epoch:
        return self.epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """(largest known epoch up to `epoch`, its end offset); (-1, -1) when unknown (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # --- appending ----------------------------------------------------------------------------------------

    def append_as_leader(
        self, batch: memoryview | bytearray, header: BatchHeader, epoch: Epoch, now: Now
    ) -> Appended:
        """Give one batch its offsets and put it after the log end, in memory.

        `batch` is writable and holds exactly one v2 batch whose CRC, size, timestamps and producer were
        checked; its base offset and leader epoch are written in place (both lie outside the CRC), and it
        must stay as it is until `write`.  Raises StorageError when this log has failed.
        """
        if self.failed is not None:
            raise self.failed
        first = self.log_end_offset
        last = first + header.last_offset_delta
        timestamp = header.max_timestamp
        size = len(batch)
        segment = self.active
        if (
            segment.end_position + size > segment.byte_limit
            or timestamp > segment.roll_at
            or last - segment.base > _INT32_MAX
        ) and segment.must_roll(last, timestamp, size, now.wall_ms):
            self._roll(first, now)
            segment = self.active
        _PATCH.pack_into(batch, 0, first, size - _PREFIX, epoch)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, first)
        segment.note(last, timestamp, size)
        self._pending.append(batch)
        self.log_end_offset = last + 1
        if header.producer_id >= 0:
            if header.attributes & _CONTROL:
                recovery.end_transaction(self, segment, batch, header, last)
            else:
                self.producers.append(header, first, last)
        return tuple.__new__(Appended, (first, last))

    def append_as_follower(
        self, records: Buffer, now: Now, *, leader_epoch: Epoch | None = None
    ) -> Appended | None:
        """Put batches that a leader sent after the log end, as they are.

        Nothing is appended unless all is well: CRC, magic, offsets at or after our log end and growing,
        epochs that never fall.  A partial last batch is left out, and so are batches of an epoch above
        `leader_epoch` (the leader changed while it answered).  Returns None when nothing is left.
        Raises CorruptRecordError, or StorageError when this log has failed.
        """
        if self.failed is not None:
            raise self.failed
        taken = take_batches(
            records,
            log_end=self.log_end_offset,
            latest_epoch=self.epochs.latest,
            leader_epoch=leader_epoch,
            topic_partition=self.topic_partition,
        )
        if not taken:
            return None
        for batch, header in taken:
            self._append_replica(batch, header, now)
        return Appended(taken[0][1].base_offset, self.log_end_offset - 1)

    def _append_replica(self, batch: memoryview, header: BatchHeader, now: Now) -> None:
        last = header.last_offset
        segment = self.active
        if segment.must_roll(last, header.max_timestamp, len(batch), now.wall_ms):
            self._roll(self.log_end_offset, now)
            segment = self.active
        if header.leader_epoch != self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        segment.note(last, header.max_timestamp, len(batch))
        self._pending.append(batch)
        self.log_end_offset = last + 1
        if header.producer_id >= 0:
            if header.attributes & _CONTROL:
                recovery.end_transaction(self, segment, batch, header, last)
            else:
                self.producers.append(header, header.base_offset, last)

    def write(self) -> None:
        """Write everything appended since the last call, in one gathered write.  Buffers are free afterwards.

        Raises StorageError; the log has failed then.
        """
        pending = self._pending
        if not pending:
            return
        if self.failed is not None:
            raise self.failed
        try:
            self._active_file.append(pending)
        except StorageError as error:
            if error.full:
                cutting.take_back(self, pending)
            self.fail(error)
            raise
        pending.clear()
        end = self.log_end_offset
        self.written_end_offset = end
        positions = self.positions
        if len(positions) >= _POSITIONS_KEPT:
            positions.clear()
        positions[end] = self.active.end_position

    def fail(self, error: StorageError) -> None:
        """A file operation failed: refuse everything from now on, unless there was only no room."""
        if self.failed is None and not error.full:
            self.failed = error
            self._pending.clear()
            stop_cleaning(self)

    # --- syncing ------------------------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob | None:
        """A job that covers what is written at this moment.

        None when there is nothing to sync, or while another job of this log is in flight.
        """
        if self.failed is not None:
            raise self.failed
        if self._in_flight is not None or not self.needs_sync:
            return None
        self._in_flight = job = self._make_job()
        return job

    @property
    def needs_sync(self) -> bool:
        """Whether anything written is not durable yet."""
        return (
            self.written_end_offset > self.durable_end_offset
            or self._directory_changed
            or bool(self._unsynced_files)
            or self.epochs.dirty
        )

    @property
    def rolled_unsynced(self) -> bool:
        """Whether a finished segment waits for a sync (page-cache mode: sync soon, as Kafka does then)."""
        return bool(self._unsynced_files)

    def _make_job(self) -> SyncJob:
        files = [*self._unsynced_files, self._active_file]
        job = SyncJob(
            self.disk,
            self.path,
            files=files,
            paths=self._unsynced_paths,
            directories=[self.path] * self._directory_changed + self._unsynced_parents,
            epochs=epoch_rows(self.epochs.entries()) if self.epochs.dirty else None,
            end_offset=self.written_end_offset,
            generation=self._generation,
        )
        self._unsynced_files, self._unsynced_paths, self._unsynced_parents = [], [], []
        self._directory_changed = False
        self.epochs.dirty = False
        return job

    def finish_sync(self, job: SyncJob) -> None:
        """`job` has run: its records are durable, unless it was refused or the log was cut meanwhile."""
        if self._in_flight is job:
            self._in_flight = None
        if job.refused is not None:  # all of it is due again
            self.epochs.dirty = True
            self._unsynced_files = [*job.files[:-1], *self._unsynced_files]
            self._unsynced_paths = [*job.paths, *self._unsynced_paths]
            self._unsynced_parents += [one for one in job.directories if one != self.path]
            self._directory_changed |= self.path in job.directories
        elif job.generation == self._generation and job.end_offset > self.durable_end_offset:
            self.durable_end_offset = job.end_offset

    def sync(self) -> None:
        """Write and sync, blocking.  Raises StorageError; the log has failed then."""
        self.write()
        if self.failed is not None:
            raise self.failed
        if self.needs_sync:
            self._run(self._make_job())

    def _run(self, job: SyncJob) -> None:
        try:
            job.run()
        except StorageError as error:
            self.fail(error)
            raise
        self.finish_sync(job)
        if job.refused is not None:
            raise job.refused

    def sync_recovered(self, synced: Offset) -> None:
        """After a recovery: make durable what was read again, unless all of it lies below `synced`."""
        for segment in self.segments[:-1]:
            self._unsynced_paths += segment.write_tables()
        first = len(self.segments) - max(1, self.recovery.segments)
        if first < len(self.segments) - 1:
            self._unsynced_paths.append(self.snapshots.take(self.log_end_offset, self.producers.rows()))
        if first and self.bases[first] >= synced:
            first -= 1  # the process may have cut it to where it ends, and died before it synced that
        self._unsynced_files += [segment.file for segment in self.segments[first:-1]]
        self._directory_changed = self.log_end_offset > synced or self.log_end_offset == 0
        if self.log_end_offset > synced or self.recovery.cut_at >= 0 or self._unsynced_files:
            self.sync()
        self.durable_end_offset = self.written_end_offset

    # --- reading ------------------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, end: Offset, *, at_least_one: bool = True) -> FileSlice:
        """Whole batches from the one that holds `offset`, all below `end`, in at most `max_bytes`.

        `at_least_one`: the first batch is given even if it alone is larger.  `end` beyond the written end
        means the written end.  The slice is empty when there is nothing.  Raises KafkaError
        OFFSET_OUT_OF_RANGE outside of [log start, log end], DamagedError where a batch must be and is not,
        StorageError when this log has failed.
        """
        return reading.read(self, offset, max_bytes, end, at_least_one=at_least_one)

    def offset_for_timestamp(self, timestamp: int, end: Offset) -> TimestampOffset | None:
        """The first record below `end` at or after `timestamp` (ms), None if there is none."""
        return searching.offset_for_timestamp(self, timestamp, min(end, self.written_end_offset))

    def max_timestamp_offset(self, end: Offset) -> TimestampOffset | None:
        """The first record with the largest timestamp in the log (KIP-734), None without timestamps."""
        return searching.max_timestamp_offset(self, min(end, self.written_end_offset))

    def aborted_transactions(self, offset: Offset, end: Offset) -> list[AbortedTransaction]:
        """Aborted transactions with records in [offset, end), for a read_committed fetch."""
        return searching.aborted_transactions(self, offset, end)

    # --- segments -----------------------------------------------------------------------------------------

    def roll(self, now: Now) -> None:
        """Begin a new segment at the log end (nothing happens while the active one is empty)."""
        if self.failed is not None:
            raise self.failed
        if self.active.end_position:
            self._roll(self.log_end_offset, now)

    def _roll(self, base: Offset, now: Now) -> None:
        try:
            self.write()
            old = self.active
            old.seal()
            self._unsynced_paths += old.write_tables()
            self._unsynced_paths.append(self.snapshots.take(base, self.producers.rows()))
            file = self._active_file
            self.add_segment(base, now)
            self._unsynced_files.append(file)
            self.snapshots.prune(self.bases)
            if len(self.segments) > _TABLES_KEPT:
                self.segments[-_TABLES_KEPT - 1].release()
        except StorageError as error:
            self.fail(error)
            raise

    def add_segment(self, base: Offset, now: Now) -> Segment:
        """Make an empty segment the active one."""
        segment = Segment(self.disk, self.path, base, created_ms=now.wall_ms)
        segment.create()
        if self.segments and self.segments[-1].base == base:
            self.segments.pop()
            self.bases.pop()
        if self.segments:
            self.segments[-1].limit = base
            SEALED.used(self.segments[-1])
        self.segments.append(segment)
        self.bases.append(base)
        self.activate()
        self._directory_changed = True
        return segment

    def activate(self) -> None:
        """The last segment is the one that grows."""
        self.active = self.segments[-1]
        self.active.limit = MAX_OFFSET
        self._active_file = self.active.file
        SEALED.forget(self.active)
        self.positions = {self.log_end_offset: self.active.end_position}
        self.reconfigure(self.config)

    def reconfigure(self, config: LogConfig) -> None:
        """Take other topic settings; they hold from now on, for the active segment too."""
        self.config = config
        self._page_cache = config.flush_messages == _NO_FLUSH
        age = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
        after = age - min(config.segment_jitter_ms, age)
        self.active.configure(
            config.segment_bytes, min(after, NEVER), config.index_interval_bytes, config.segment_index_bytes
        )

    def retain(self, now: Now) -> list[str]:
        """Delete what the retention settings say, oldest first.

        Returns the names of the segments deleted.
        """
        return retention.retain(self, now)

    def doom(self, segment: Segment, now: Now) -> None:
        """Rename the segment's files to `.deleted`; `tick` gives them out after file.delete.delay.ms."""
        stop_cleaning(self)
        path = segment.path(".log")
        doomed = segment.rename_deleted()
        self._directory_changed = True
        self._unsynced_files = [file for file in self._unsynced_files if file.path != path]
        self.doomed.add(now.mono + self.config.file_delete_delay_ms / 1000, doomed, segment)

    def tick(self, now: Now, known_start: Offset = MAX_OFFSET) -> list[str]:
        """Forget silent producers, and close doomed files whose time has come.

        Returns their paths: they are to be removed (in a thread; that takes long).  `known_start`: `doomed`.
        """
        if now.mono >= self._next_expiry:
            self._next_expiry = now.mono + _EXPIRY_EVERY
            self.producers.expire(now)
        return [] if self._in_flight is not None else self.doomed.take(now, known_start, self.bases[0])

    # --- cutting ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset, now: Now) -> bool:
        """Cut the log so that `offset` is (at most) its end; false when it ends there or earlier already."""
        return cutting.truncate_to(self, offset, now)

    def truncate_fully_and_start_at(self, offset: Offset, now: Now) -> None:
        """Forget every record; the log starts and ends at `offset`."""
        cutting.truncate_fully_and_start_at(self, offset, now)

    def increment_log_start(self, offset: Offset) -> bool:
        """Raise the log start (DeleteRecords, a snapshot); segments go with the next `retain`.

        Returns whether it moved.  Raises KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self._high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is above the high watermark {self._high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.write()
        self.log_start_offset = offset
        self.durable_end_offset = max(self.durable_end_offset, offset)
        self.epochs.truncate_from_start(offset)
        return True

    def cut(self, end: Offset) -> None:
        """The segments were cut: bring the offsets down to `end` and let no earlier sync count."""
        stop_cleaning(self)
        self.cleaned_offset = min(self.cleaned_offset, end)
        self._generation += 1
        self._directory_changed = True
        self.positions.clear()
        self.log_end_offset = self.written_end_offset = end
        self.durable_end_offset = min(self.durable_end_offset, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.high_watermark = self._high_watermark
        if self.damage:
            forget_damage(self, self.log_start_offset, end)

    def belongs_to(self, topic_id: TopicId) -> None:
        """Write down whose log this is; durable, with the directory's own entry, before the first record is."""
        self._unsynced_paths.append(write_partition_metadata(self.disk, self.path, topic_id))
        self._unsynced_parents = [self.path.rpartition("/")[0] or "."]
        self._directory_changed = True
        self.topic_id = topic_id

    @property
    def syncing(self) -> bool:
        """Whether a job of this log is in flight."""
        return self._in_flight is not None

    def moved(self, path: str, name: Callable[[str], str]) -> None:
        """Its directory is called `path` now; `name` gives what lies in it its new path (`future.take_name`)."""
        self.path = path
        self._unsynced_paths = [name(one) for one in self._unsynced_paths]
        self._unsynced_parents = [path.rpartition("/")[0] or "."]
        self.doomed.moved(name)
        self._directory_changed = True

    # --- ending -------------------------------------------------------------------------------------------

    def close(self, now: Now) -> None:
        """Write, sync, leave tables and a producer snapshot that the next start can trust.

        The caller has let every sync of this log end.  Raises StorageError.
        """
        if (job := self.settle()) is not None:
            self._run(job)
        self.abandon()

    def settle(self) -> SyncJob | None:
        """The first half of `close`: write; what is to be synced then, None if nothing.  Raises StorageError."""
        if self.failed is not None:
            return None
        self.write()
        self.active.seal()
        paths = [path for segment in self.segments for path in segment.write_tables()]
        if self.log_end_offset > self.bases[0] and self.log_end_offset not in self.snapshots:
            paths.append(self.snapshots.take(self.log_end_offset, self.producers.rows()))
            self.snapshots.prune(self.bases)
        if paths:
            self._unsynced_paths += paths
            self._directory_changed = True
        return self._make_job() if self.needs_sync else None

    def abandon(self) -> None:
        """Close the files and nothing else (the directory is offline or about to be deleted)."""
        self.retire()
        self.doomed.close()
        for segment in self.segments:
            segment.close()

    def retire(self) -> None:
        """Refuse everything from now on; present readers of its files may continue until `abandon`."""
        self.fail(StorageError(f"the log of {self.topic_partition} is closed"))
        if self._in_flight is not None:
            self._in_flight.cancel()

    def batches(self) -> Iterator[BatchHeader]:
        """The header of every batch that is written, oldest first (dump, tests)."""
        for segment in self.segments:
            for _, header in segment.headers():
                yield header


def _ignore(offset: Offset) -> None:
    """Nobody keeps a recovery point for this log."""
