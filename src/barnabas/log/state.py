"""What a log consists of, and the few ways to change it.

Each offset has its invariant:

    log start <= durable end <= written end <= log end,    log start <= high watermark <= log end,
    recovery point <= durable end

Recovery, truncation, retention, reading, searching and compaction work on a `LogState`.  `Log` adds what appends,
writes and syncs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.errors import StorageError
from barnabas.log.epochs import EpochCache
from barnabas.log.files.sync import ends_before
from barnabas.log.producers.files import ProducerSnapshots
from barnabas.log.producers.producers import ProducerStates
from barnabas.log.results import Recovery
from barnabas.log.segments.damage import Damage, clipped, merged, read_damage, write_damage
from barnabas.log.segments.deletion import DeletedFiles
from barnabas.log.segments.segment import NEVER, Segment
from barnabas.log.segments.transactions import read_sums, write_sums
from barnabas.log.unsynced import Unsynced
from barnabas.model import Epoch, Now, Offset, TopicId, TopicPartition
from barnabas.ports import Disk

if TYPE_CHECKING:
    from barnabas.config import LogConfig

__all__ = ["CompactionRound", "LogState"]

_INT32_MAX = 0x7FFFFFFF
_READS_KEPT = 32
"""Offsets of reads that are remembered, to know who reads again what others read past."""


class CompactionRound(Protocol):
    """A round of compaction that is under way."""

    def cancel(self) -> None:
        """Stop, and leave no files."""
        ...


class LogState:
    """The segments of one partition, its offsets, and what is remembered besides records."""

    __slots__ = (
        "_high_watermark",
        "_read_before",
        "active",
        "bases",
        "compacted_offset",
        "compaction",
        "config",
        "damage",
        "deleted",
        "disk",
        "epochs",
        "failed",
        "log_end_offset",
        "log_start_offset",
        "path",
        "positions",
        "producers",
        "recovery",
        "recovery_point",
        "segments",
        "snapshots",
        "topic_id",
        "topic_partition",
        "unsynced",
        "written_end_offset",
    )

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
        """`cleaned`: up to where the log is compacted."""
        self.disk = disk
        self.path = path
        self.config = config
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.segments: list[Segment] = []
        self.bases: list[Offset] = []
        self.active: Segment
        self.log_start_offset: Offset = 0
        self.recovery_point: Offset = 0
        """Up to here everything was synced; after a crash the log is read again from there on."""
        self.written_end_offset: Offset = 0
        self.log_end_offset: Offset = 0
        self.epochs = EpochCache()
        self.producers = ProducerStates(expiration_ms)
        self.snapshots = ProducerSnapshots(disk, path)
        self.failed: StorageError | None = None
        """The file error after which this log refuses everything."""
        self.recovery = Recovery([], gaps_below=cleaned)
        """What opening found."""
        self.damage: list[Damage] = []
        """What cannot be read of it, in order."""
        self.compacted_offset: Offset = cleaned
        """Up to here the log is compacted."""
        self.compaction: CompactionRound | None = None
        """The round of compaction that is under way."""
        self.positions: dict[Offset, int] = {}
        """Where, in the file of the active segment, batches begin that were written lately."""
        self.deleted = DeletedFiles()
        self.unsynced = Unsynced()
        self._high_watermark: Offset = 0
        self._read_before: dict[Offset, int] = {}
        """The offsets of the last reads, and how often each was read before."""

    # --- offsets ------------------------------------------------------------------------------------------

    @property
    def durable_end_offset(self) -> Offset:
        """No crash takes records below it: they are synced, or deleted already (`log_start_offset`).

        Records that were deleted unsynced count here, and not for the recovery point: a power cut may bring
        their files back without what was in them.
        """
        synced, start = self.recovery_point, self.log_start_offset
        return synced if synced > start else start

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
        if self.producers.ended:
            self.producers.advance(offset)

    def adjust_high_watermark(self) -> None:
        """Offsets moved, or the producers were read again: keep the high watermark within the log, and let
        transactions that end below it be decided."""
        self.high_watermark = self._high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here read_committed consumers may read: every transaction below it is decided."""
        unstable = self.producers.first_unstable_offset
        if unstable < 0 or unstable > self._high_watermark:
            return self._high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def latest_epoch(self) -> Epoch:
        """The leader epoch of the last record, NO_EPOCH in an empty log."""
        return self.epochs.latest

    @property
    def is_short(self) -> bool:
        """Tell if the active segment's file lacks something that was appended.  Raises StorageError."""
        return ends_before(self.active.file, self.active.end_position)

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(segment.end_position for segment in self.segments)

    @property
    def needs_sync(self) -> bool:
        """Whether anything written is not durable yet."""
        return (
            self.written_end_offset > self.recovery_point
            or self.unsynced.directory
            or bool(self.unsynced.files)
            or self.epochs.dirty
        )

    @property
    def rolled_unsynced(self) -> bool:
        """Whether a finished segment waits for a sync (page-cache mode: sync soon, as Kafka does then)."""
        return bool(self.unsynced.files)

    @property
    def syncing(self) -> bool:
        """Whether a job of this log is in flight."""
        return self.unsynced.in_flight is not None

    def fits(self, size: int, count: int, timestamp: int) -> bool:
        """Whether a batch may follow without a new segment, and nothing has failed."""
        segment = self.active
        return (
            self.failed is None
            and segment.end_position + size <= segment.byte_limit
            and timestamp <= segment.roll_at
            and self.log_end_offset + count - segment.base <= _INT32_MAX
        )

    def has_room(self, size: int, count: int, timestamp: int) -> bool:
        """Whether batches of so many bytes and records fit, however many they are: no table becomes full."""
        segment = self.active
        end = segment.end_position + size
        return (
            end <= segment.byte_limit
            and timestamp <= segment.roll_at
            and self.log_end_offset + count - segment.base <= _INT32_MAX
            and end // (segment.index_interval + 1) < segment.max_rows
            and self.failed is None
        )

    def epoch_at(self, offset: Offset) -> Epoch:
        return self.epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """(largest known epoch up to `epoch`, its end offset); (-1, -1) when unknown (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def start_at(self, offset: Offset) -> None:
        """Recovery found where the log starts."""
        self.log_start_offset = offset

    def end_at(self, offset: Offset) -> None:
        """Recovery found where the log ends; so much is written."""
        self.log_end_offset = self.written_end_offset = offset

    def know_durable(self) -> None:
        """Everything that is written is durable."""
        self.recovery_point = self.written_end_offset

    def forget_unwritten(self) -> None:
        """The log ends where it is written."""
        self.log_end_offset = self.written_end_offset

    def found(self, recovery: Recovery) -> None:
        """Opening found this."""
        self.recovery = recovery

    def cut(self, end: Offset) -> None:
        """The segments were cut: bring the offsets down to `end` and let no earlier sync count."""
        self.stop_compaction()
        self.compacted_offset = min(self.compacted_offset, end)
        self.unsynced.cut()
        self.positions.clear()
        self.log_end_offset = self.written_end_offset = end
        self.recovery_point = min(self.recovery_point, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.adjust_high_watermark()
        if self.damage:
            self.forget_damage()

    def restart_at(self, offset: Offset, now: Now) -> None:
        """All segments are gone: the log starts and ends at `offset`, with an empty one."""
        self.add_segment(offset, now)
        self.log_start_offset = offset
        self.cut(offset)
        self.recovery_point = 0  # a crash may leave none of its files before its directory is synced
        self.log_start_offset = offset
        self.high_watermark = offset

    def start_empty(self, offset: Offset, now: Now) -> None:
        """Nothing was found: the log starts and ends at `offset`, with an empty segment."""
        self.log_start_offset = offset
        self.end_at(offset)
        self.add_segment(offset, now)

    # --- segments -----------------------------------------------------------------------------------------

    def add_segment(self, base: Offset, now: Now) -> Segment:
        """Make an empty segment the active one."""
        segment = Segment(self.disk, self.path, base, created_ms=now.wall_ms)
        segment.create()
        if self.segments and self.segments[-1].base == base:
            self.drop_last()
        self.note_aborted(self.segments[-1:])
        self.take_segment(segment)
        self.activate()
        self.unsynced.directory = True
        return segment

    def take_segment(self, segment: Segment) -> None:
        """A segment follows the others."""
        if self.segments:
            self.segments[-1].ended(segment.base)
        segment.remade = self.remade
        self.segments.append(segment)
        self.bases.append(segment.base)

    def open_what_is_left(self) -> None:
        """Somebody cut or deleted the newest file: what waits is written behind its whole batches.

        A file that is open stays as it is.  Raises StorageError.
        """
        if self.active.open_again():
            self.active.cut_file(self.active.whole_until(0))
            self.unsynced.directory = True

    def drop_last(self) -> Segment:
        """The last segment goes."""
        self.bases.pop()
        return self.segments.pop()

    def drop_first(self, count: int) -> list[Segment]:
        """The first segments go."""
        going = self.segments[:count]
        del self.segments[:count], self.bases[:count]
        return going

    def replace_segments(self, first: int, count: int, other: Segment) -> None:
        """One segment takes the place of `count` from the one at `first` on."""
        other.ended(self.segments[first + count - 1].limit)
        other.remade = self.remade
        self.segments[first : first + count] = [other]
        self.bases[first : first + count] = [other.base]
        self.snapshots.prune(self.bases)
        self.note_aborted([other])

    def activate(self) -> None:
        """The last segment is the one that grows."""
        self.active = self.segments[-1]
        self.active.grow()
        self.positions = {self.log_end_offset: self.active.end_position}
        self.reconfigure(self.config)

    def reconfigure(self, config: LogConfig) -> None:
        """Take other topic settings; they hold from now on, for the active segment too."""
        self.config = config
        age = min(config.segment_ms, config.compaction.max_lag_ms) if config.compact else config.segment_ms
        after = age - min(config.segment_jitter_ms, age)
        self.active.configure(
            config.segment_bytes, min(after, NEVER), config.index_interval_bytes, config.segment_index_bytes
        )

    def mark_deleted(self, segment: Segment, now: Now) -> None:
        """A segment is deleted; a round of compaction ends with it."""
        self.stop_compaction()
        self.rename_deleted(segment, now)

    def rename_deleted(self, segment: Segment, now: Now) -> None:
        """Rename the segment's files to `.deleted`; `tick` gives them out after file.delete.delay.ms."""
        path = segment.path(".log")
        renamed = segment.rename_deleted()
        self.unsynced.directory = True
        self.unsynced.files = [file for file in self.unsynced.files if file.path != path]
        self.deleted.add(now.mono + self.config.file_delete_delay_ms / 1000, renamed, segment)

    def read_again(self, offset: Offset) -> int:
        """Return how many of the last reads were at `offset` too."""
        before = self._read_before
        again = before.get(offset, -1) + 1
        if not again and len(before) >= _READS_KEPT:
            before.clear()
        before[offset] = again
        return again

    def take_reads(self) -> list[Offset]:
        """Return the offsets of the last reads, once."""
        offsets = list(self._read_before)
        self._read_before = {}
        return offsets

    @property
    def remade(self) -> list[str]:
        """The index files that were made again, and nobody was told of yet."""
        return self.recovery.remade

    def take_remade(self) -> list[str]:
        """Return the index files that were made again, once."""
        found = self.remade[:]
        del self.remade[: len(found)]
        return found

    # --- damage, compaction, failure ----------------------------------------------------------------------

    def load_damage(self) -> None:
        """Take what is written down beside the log."""
        self.damage = read_damage(self.disk, self.path)

    def note_damage(self, found: list[Damage]) -> tuple[Damage, ...]:
        """Remember it, on the disk too.  Returns what was not known.  Raises StorageError."""
        kept, news = merged(self.damage, found, self.log_start_offset)
        if kept != self.damage:
            self.damage = kept
            write_damage(self.disk, self.path, kept)
        return news

    def forget_damage(self) -> None:
        """Forget what lies outside of the log.  Raises StorageError."""
        kept = clipped(self.damage, self.log_start_offset, self.log_end_offset)
        if kept != self.damage:
            self.damage = kept
            write_damage(self.disk, self.path, kept)

    def note_aborted(self, segments: Iterable[Segment]) -> None:
        """Write down which aborted transactions these segments have.  Raises StorageError."""
        known, written = set(self.bases), read_sums(self.disk, self.path)
        sums = {base: checksum for base, checksum in written.items() if base in known}
        for segment in segments:
            if segment.transactions.rows:
                sums[segment.base] = segment.transactions.checksum
            else:
                sums.pop(segment.base, None)
        if sums != written:
            write_sums(self.disk, self.path, sums)

    def may_have_gaps(self, offset: Offset) -> bool:
        """Return whether compaction, by this node or before, may have left out what lay at an offset."""
        return offset < max(self.compacted_offset, self.recovery.gaps_below) or self.config.compact

    def begin_compaction(self, round_: CompactionRound) -> None:
        """A round of compaction is under way."""
        self.compaction = round_

    def end_compaction(self, round_: CompactionRound, end: Offset | None) -> None:
        """A round is over; the log is compacted up to `end` (None: it was cancelled, or failed)."""
        if self.compaction is round_:
            self.compaction = None
        if end is not None:
            self.compacted_offset = end

    def stop_compaction(self) -> None:
        """Segments are about to go: cancel the round that is under way."""
        round_, self.compaction = self.compaction, None
        if round_ is not None:
            round_.cancel()

    def forget_compaction(self) -> None:
        """Up to where the log was compacted is not known any more."""
        self.compacted_offset = 0

    def fail(self, error: StorageError) -> None:
        """A file operation failed: refuse everything from now on, unless there was only no room."""
        if self.failed is None and not error.full:
            self.failed = error
            self.stop_compaction()

    # --- moving to another directory ----------------------------------------------------------------------

    def know_epochs(self, epochs: EpochCache) -> None:
        """Take the leader epochs."""
        self.epochs = epochs

    def take_name(self, path: str) -> None:
        """Its directory was renamed to `path`: use that name from now on.

        No sync of it is in flight.  The new name is durable with its next sync.
        """
        old, self.path = self.path, path
        self.snapshots.moved(path)
        for segment in self.segments:
            segment.moved(path)

        def name(one: str) -> str:
            return path + one.removeprefix(old) if one.startswith(f"{old}/") else one

        self.unsynced.moved(path, name)
        self.deleted.moved(name)

    def take_over(self, log: LogState) -> None:
        """It holds the records of `log`: take over what that log knows besides them."""
        self.epochs = EpochCache(log.epochs.entries())
        self.epochs.dirty = True
        self.producers = log.producers
        self.compacted_offset = log.compacted_offset
        self.high_watermark = log.high_watermark
