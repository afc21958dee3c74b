"""One partition's log: its state (`state`), and what appends, writes and syncs.

`append_*` moves the log end and touches no file; `write` moves the written end; `begin_sync` and
`finish_sync` move the durable end.  Readers never see beyond the written end.  A file error is final: the log
refuses everything afterwards and its directory goes offline.  A full disk is not such an error: what was not
written is rolled back, and the log continues when there is room.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from struct import Struct
from typing import Unpack

from barnabas.config import NO_FLUSH, LogConfig
from barnabas.errors import ErrorCode, KafkaError, LostFileError, StorageError
from barnabas.log import reading, recovery, retention, searching, truncation
from barnabas.log.ending import leave_tables
from barnabas.log.files.log_names import identify
from barnabas.log.files.meta_properties import write_partition_metadata
from barnabas.log.files.sync import SyncJob
from barnabas.log.producers.producers import DEFAULT_EXPIRATION_MS
from barnabas.log.producers.replay import end_transaction
from barnabas.log.replicating import take_batches
from barnabas.log.results import Appended, Known, finished
from barnabas.log.segments.names import file_name
from barnabas.log.segments.scan import FileSlice
from barnabas.log.segments.segment import MAX_OFFSET
from barnabas.log.segments.transactions import AbortedTransaction
from barnabas.log.state import LogState
from barnabas.log.unsynced import parent_of
from barnabas.model import NO_OFFSET, Epoch, Now, Offset, TopicId, TopicPartition
from barnabas.ports import Buffer, Disk
from barnabas.wire.records import CONTROL, BatchHeader

__all__ = ["Appended", "Log"]

_PATCH = Struct(">qii")
_PREFIX = 12
_INT32_MAX = 0x7FFFFFFF
_POSITIONS_KEPT, _TABLES_KEPT = 512, 4
_EXPIRY_EVERY_S = 600.0


class Log(LogState):
    """The log of one partition.  Make one with `Log.open`."""

    __slots__ = ("_next_expiry", "_pending", "lower_recovery_point", "page_cache")

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        expiration_ms: int,
        cleaned: Offset,
    ) -> None:
        super().__init__(disk, path, config, topic_partition, topic_id, expiration_ms, cleaned)
        self.lower_recovery_point = _ignore
        """Called, before a cut, with what the recovery point and the log start are to be at most (persisted)."""
        self.page_cache = config.flush_messages == NO_FLUSH
        """Whether acknowledgements do not wait for a sync (`flush.messages` = 9223372036854775807)."""
        self._pending: list[Buffer] = []
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
        topic_partition, topic_id = identify(disk, path)
        log = cls(disk, path, config, topic_partition, topic_id, expiration_ms, cleaned)
        needs_sync = yield from recovery.load(
            log,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            first=first,
            required=required,
            synced=max(recovery_point, high_watermark or 0) if config.sync_before_ack else recovery_point,
            now=now,
        )
        if needs_sync:
            log.sync()
        log.high_watermark = log.log_start_offset if high_watermark is None else high_watermark
        return log

    # --- offsets ------------------------------------------------------------------------------------------

    @property
    def acknowledged_end_offset(self) -> Offset:
        """Up to here an append counts as done: the durable end, or the written end in page-cache mode.

        (Where each record passes, the second is asked for without this call.)
        """
        return self.written_end_offset if self.page_cache else self.durable_end_offset

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
        self.append_fitting(batch, header.last_offset_delta + 1, timestamp, epoch)
        if header.producer_id >= 0:
            if header.attributes & CONTROL:
                end_transaction(self, segment, batch, header, last)
            else:
                self.producers.append(header, first, last)
        return tuple.__new__(Appended, (first, last))

    def append_fitting(
        self, batch: memoryview | bytearray, count: int, timestamp: int, epoch: Epoch
    ) -> Offset:
        """`append_as_leader` of a batch that `fits`; returns its first offset.  What its producer sent is noted
        by the caller."""
        first = self.log_end_offset
        end, size = first + count, len(batch)
        _PATCH.pack_into(batch, 0, first, size - _PREFIX, epoch)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, first)
        segment = self.active
        position = segment.end_position
        if 0 < position <= segment.last_index_position + segment.index_interval:  # (else the tables get rows)
            if timestamp > segment.max_timestamp:
                segment.max_timestamp, segment.max_timestamp_offset = timestamp, end - 1
            segment.end_position = position + size
        else:
            segment.note(end - 1, timestamp, size)
        self._pending.append(batch)
        self.log_end_offset = end
        return first

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
        return tuple.__new__(Appended, (taken[0][1].base_offset, self.log_end_offset - 1))

    def _append_replica(self, batch: memoryview, header: BatchHeader, now: Now) -> None:
        last, segment = header.base_offset + header.last_offset_delta, self.active
        if segment.must_roll(last, header.max_timestamp, len(batch), now.wall_ms):
            self._roll(self.log_end_offset, now)
            segment = self.active
        if header.leader_epoch != self.epochs.latest:
            self.epochs.assign(header.leader_epoch, header.base_offset)
        segment.note(last, header.max_timestamp, len(batch))
        self._pending.append(batch)
        self.log_end_offset = last + 1
        if header.producer_id >= 0:
            if header.attributes & CONTROL:
                end_transaction(self, segment, batch, header, last)
            else:
                self.producers.append(header, header.base_offset, last)

    def write(self, *, keep: bool = False) -> None:
        """Write everything appended since the last call, in one gathered write.  Buffers are free afterwards.

        `keep`: the caller takes it out of `active.fresh` before.  Raises StorageError; the log has failed then.
        """
        pending = self._pending
        if not pending:
            return
        if self.failed is not None:
            raise self.failed
        try:
            self.active.file.append(pending)
        except StorageError as error:
            if error.full:
                truncation.roll_back_unwritten(self, pending)
            if not isinstance(error, LostFileError):  # (nothing was written, and `open_what_is_left` helps)
                self.fail(error)
            raise
        self._pending, end = [], self.log_end_offset
        self.active.fresh = (self.written_end_offset, end, pending) if keep else None
        self.written_end_offset = end
        positions = self.positions
        if len(positions) >= _POSITIONS_KEPT:
            positions.clear()
        positions[end] = self.active.end_position

    def fail(self, error: StorageError) -> None:
        """A file operation failed: refuse everything from now on, unless there was only no room."""
        if self.failed is None and not error.full:
            self._pending.clear()
        super().fail(error)

    # --- syncing ------------------------------------------------------------------------------------------

    def begin_sync(self) -> SyncJob | None:
        """A job that covers what is written at this moment.

        None when there is nothing to sync, or while another job of this log is in flight.
        """
        if self.failed is not None:
            raise self.failed
        if self.unsynced.in_flight is not None or not self.needs_sync:
            return None
        self.unsynced.in_flight = job = self._make_job()
        return job

    def _make_job(self) -> SyncJob:
        end, size = self.written_end_offset, self.active.end_position - sum(map(len, self._pending))
        return self.unsynced.job(self.disk, self.path, self.active, self.epochs, end, size)

    def finish_sync(self, job: SyncJob) -> None:
        """`job` has run: its records are durable, unless it was refused or the log was cut meanwhile."""
        unsynced = self.unsynced
        if unsynced.in_flight is job:
            unsynced.in_flight = None
        if job.refused is not None:
            self.epochs.dirty = True
            unsynced.refused(job, self.path)
        elif job.generation == unsynced.generation:
            if job.active is not None:
                self.active.is_durable(job.active, job.active_bytes)
            if job.end_offset > self.recovery_point:
                self.recovery_point = job.end_offset

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

    # --- reading ------------------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, end: Offset, *, at_least_one: bool = True) -> FileSlice:
        """Whole batches from the one that holds `offset`, all below `end`, in at most `max_bytes`.

        `at_least_one`: the first batch is given even if it alone is larger.  `end` beyond the written end
        means the written end.  The slice is empty when there is nothing.  Raises KafkaError
        OFFSET_OUT_OF_RANGE outside of [log start, log end], DamagedError where a batch must be and is not,
        StorageError when this log has failed.
        """
        return reading.read(self, offset, max_bytes, end, at_least_one=at_least_one)

    def offset_for_timestamp(self, timestamp: int, end: Offset) -> searching.TimestampOffset | None:
        """The first record below `end` at or after `timestamp` (ms), None if there is none."""
        return searching.offset_for_timestamp(self, timestamp, min(end, self.written_end_offset))

    def max_timestamp_offset(self, end: Offset) -> searching.TimestampOffset | None:
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
        self.write()
        try:
            old = self.active
            old.seal()
            self.unsynced.paths += old.write_tables()
            self.unsynced.paths.append(self.snapshots.take(base, self.producers.rows()))
            file = old.unsynced_file
            self.add_segment(base, now)
            if file is not None:
                self.unsynced.files.append(file)
            self.snapshots.prune(self.bases)
            if len(self.segments) > _TABLES_KEPT:
                self.segments[-_TABLES_KEPT - 1].release()
        except StorageError as error:
            self.fail(error)
            raise

    def reconfigure(self, config: LogConfig) -> None:
        """Take other topic settings; they hold from now on, for the active segment too."""
        super().reconfigure(config)
        self.page_cache = config.flush_messages == NO_FLUSH

    def retain(self, now: Now, may: retention.Retention = retention.EVERYTHING) -> list[str]:
        """Delete what the retention settings say, oldest first, as far as this node decides it.

        Returns the names of the segments deleted.
        """
        if self.failed:
            raise self.failed
        counts = retention.expired(self, now, may)
        return [name for count in counts for name in self._delete_first(count, now)]

    def _delete_first(self, count: int, now: Now) -> list[str]:
        """Delete the oldest segments.  If that is all, a new one starts first.

        The log start is raised before any file is renamed.
        """
        if not count:
            return []
        if count == len(self.segments):
            self.roll(now)
        self.increment_log_start(self.bases[count])
        try:
            going = self.drop_first(count)
            for segment in going:
                self.mark_deleted(segment, now)
            self.snapshots.prune(self.bases)
        except StorageError as error:
            self.fail(error)
            raise
        return [file_name(segment.base, ".log") for segment in going]

    def has_chores(self, now: Now) -> bool:
        """Tell if `tick` may find something to do, or there is something to tell of (`take_remade`)."""
        return now.mono >= self._next_expiry or len(self.deleted) > 0 or bool(self.remade)

    def tick(self, now: Now, known_start: Offset = MAX_OFFSET) -> list[str]:
        """Forget silent producers, and close deleted files whose time has come.

        Returns their paths, for a thread to remove.  `known_start`: see `DeletedFiles.take`.
        """
        if now.mono >= self._next_expiry:
            self._next_expiry = now.mono + _EXPIRY_EVERY_S
            self.producers.expire(now)
        if self.unsynced.in_flight is not None:
            return []
        return self.deleted.take(now, known_start, self.bases[0])

    # --- cutting ------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset, now: Now) -> bool:
        """Cut the log so that `offset` is (at most) its end; false when it ends there or earlier already."""
        self.write()
        if self.failed is not None:
            raise self.failed
        if offset >= self.log_end_offset:
            return False
        if offset <= self.bases[0]:
            self.truncate_fully_and_start_at(offset, now)
        else:
            end = truncation.end_after(self, offset)
            self.lower_recovery_point(end, end)
            truncation.truncate_to(self, offset, now)
        return True

    def truncate_fully_and_start_at(self, offset: Offset, now: Now) -> None:
        """Forget every record; the log starts and ends at `offset`."""
        self.write()
        if self.failed is not None:
            raise self.failed
        self.lower_recovery_point(0, min(offset, self.log_start_offset))
        truncation.truncate_fully_and_start_at(self, offset, now)

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
        self.epochs.truncate_from_start(offset)
        return True

    def belongs_to(self, topic_id: TopicId) -> None:
        """Write down whose log this is; durable, with the directory's own entry, before the first record is."""
        self.unsynced.paths.append(write_partition_metadata(self.disk, self.path, topic_id))
        self.unsynced.parents = [parent_of(self.path)]
        self.unsynced.directory = True
        self.topic_id = topic_id

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
        if paths := leave_tables(self):
            self.unsynced.paths += paths
            self.unsynced.directory = True
        return self._make_job() if self.needs_sync else None

    def abandon(self) -> None:
        """Close the files and nothing else (the directory is offline or about to be deleted)."""
        self.retire()
        self.deleted.close()
        for segment in self.segments:
            segment.close()

    def retire(self) -> None:
        """Refuse everything from now on; present readers of its files may continue until `abandon`."""
        self.fail(StorageError(f"the log of {self.topic_partition} is closed"))
        if self.unsynced.in_flight is not None:
            self.unsynced.in_flight.cancel()

    def batches(self) -> Iterator[BatchHeader]:
        """The header of every batch that is written, oldest first (dump, tests)."""
        for segment in self.segments:
            for _, header in segment.headers():
                yield header


def _ignore(point: Offset, start: Offset) -> None:
    """Nobody keeps a recovery point for this log."""
