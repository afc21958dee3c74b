"""The core's view of the log: everything that it needs for its decisions, and none of the records.

This is: where each epoch starts, where the log starts and ends, how far it is synced, which snapshots exist, and
which voter set, kraft.version and notes were in force at which offset.  The last three are histories, because
an entry counts from the moment it is appended, committed or not.  If a new leader makes this node truncate the
entry, the previous value is in force again (KIP-853; KIP-642 asked for the same).

    log start <= persisted <= end offset,      cut = how often the log was truncated

A disk can lose what was synced.  `synced_end` is where this log ended when it was last synced, as far as the disk
knows; the log `lacks` entries while it ends before that, in Raft's order (epoch, offset).  This replica may have
acknowledged them, so it votes by what its log was.  Entries of a leader bring the log up to it again: those of the
same epoch are the same, and the leader of a later epoch had all that was committed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import inf
from typing import Generic, TypeVar

from barnabas.model import Epoch, Offset
from barnabas.raft.entries import (
    BOOTSTRAP,
    Batch,
    Entry,
    EpochEnd,
    KraftVersionEntry,
    Note,
    Opaque,
    SnapshotId,
    SyncedEnd,
    VotersEntry,
)
from barnabas.raft.messages import SyncTicket
from barnabas.raft.voters import VoterSet

__all__ = ["History", "LogView"]

Value = TypeVar("Value")


class History(Generic[Value]):
    """Values by the offset from which they count; the last one is in force."""

    __slots__ = ("_offsets", "_values", "default")

    def __init__(self, default: Value) -> None:
        self.default = default
        self._offsets: list[Offset] = []
        self._values: list[Value] = []

    def add(self, offset: Offset, value: Value) -> None:
        if self._offsets and offset <= self._offsets[-1]:
            raise ValueError(f"a history goes forward: {offset} after {self._offsets[-1]}")
        self._offsets.append(offset)
        self._values.append(value)

    @property
    def latest(self) -> Value:
        return self._values[-1] if self._values else self.default

    @property
    def latest_offset(self) -> Offset | None:
        """Where the latest was written: -1 by the bootstrap snapshot, None nowhere (the default)."""
        return self._offsets[-1] if self._offsets else None

    def at(self, end_offset: Offset) -> Value:
        """What the entries below `end_offset` say."""
        index = bisect_left(self._offsets, end_offset)
        return self._values[index - 1] if index else self.default

    def items(self) -> list[tuple[Offset, Value]]:
        return list(zip(self._offsets, self._values, strict=True))

    def truncate(self, end_offset: Offset) -> bool:
        """Forget what stands at or after `end_offset`; whether that changed anything."""
        index = bisect_left(self._offsets, end_offset)
        changed = index < len(self._offsets)
        del self._offsets[index:], self._values[index:]
        return changed

    def forget_before(self, start_offset: Offset) -> None:
        """Drop what a snapshot at `start_offset` made unnecessary; what was in force there stays."""
        index = bisect_left(self._offsets, start_offset)
        del self._offsets[: max(0, index - 1)], self._values[: max(0, index - 1)]

    def clear(self) -> None:
        self._offsets.clear()
        self._values.clear()


class LogView:
    """See the module.  The driver restores it at start; after that only the core changes it."""

    __slots__ = (
        "_base_epoch",
        "_epochs",
        "_note_base",
        "_note_tail",
        "_starts",
        "abstains_to",
        "cut",
        "end_offset",
        "known_committed",
        "kraft_versions",
        "log_start",
        "persisted",
        "snapshots",
        "synced_end",
        "voter_sets",
    )

    def __init__(self, static_voters: VoterSet = VoterSet.EMPTY) -> None:
        self.log_start: Offset = 0
        self.end_offset: Offset = 0
        self.persisted: Offset = 0
        self.cut = 0
        self.known_committed: Offset = 0
        """What was committed before this start, as far as the disk knows."""
        self.synced_end = SyncedEnd()
        """Where the log ended when it was last synced, if that was not cut since at a leader's word."""
        self.abstains_to: Epoch = 0
        """No vote in the epochs up to this one: it was perhaps given, and the election state forgot it."""
        self.snapshots: list[tuple[SnapshotId, int]] = []
        self.voter_sets: History[VoterSet] = History(static_voters)
        self.kraft_versions: History[int] = History(0)
        self._base_epoch: Epoch = 0
        self._epochs: list[Epoch] = []
        self._starts: list[Offset] = []
        self._note_base: dict[str, str] = {}
        self._note_tail: list[tuple[Offset, Note]] = []

    def __repr__(self) -> str:
        return (
            f"<LogView {self.log_start}..{self.end_offset} synced={self.persisted} "
            f"epoch={self.last_epoch} voters={self.voters}>"
        )

    # ------------------------------------------------------------ restoring at start

    def restore_snapshot(self, snapshot: SnapshotId, size: int, entries: Iterable[Entry] = ()) -> None:
        """Every snapshot on disk, the oldest first; of the last one with what the quorum reads in it."""
        self.snapshots.append((snapshot, size))
        if len(self.snapshots) == 1:
            self.log_start = self.end_offset = self.persisted = snapshot.end_offset
            self._base_epoch = snapshot.epoch
        self._load(snapshot, entries)

    def restore_batch(self, batch: Batch) -> None:
        """Every batch of the log, in order.  Raises ValueError where one is missing.

        The log may begin before its oldest snapshot: a snapshot is taken first, the log cut later.
        """
        if not self._epochs and self.end_offset == self.log_start > batch.base_offset:
            self.log_start = self.end_offset = batch.base_offset
            self._base_epoch = 0 if batch.base_offset == 0 else batch.epoch
        if batch.base_offset != self.end_offset:
            raise ValueError(f"the log has a hole: {batch} where {self.end_offset} was due")
        self.append(batch)

    def restore_end(self, log_start: Offset, persisted: Offset) -> None:
        """What recovery found: all that was read is on disk, and so much of it synced.

        Raises ValueError when the log begins after 0 without a snapshot that covers what is missing.
        """
        if log_start > 0 and not any(s.end_offset >= log_start for s, _ in self.snapshots):
            raise ValueError(f"the log starts at {log_start}, and no snapshot covers what is before it")
        if self.snapshots and self.snapshots[-1][0].end_offset > self.end_offset:
            # Downloaded and frozen, then we crashed: the log begins anew after it (K138).
            snapshot, size = self.snapshots[-1]
            self._begin_at(snapshot, size)
        self.persisted = max(self.log_start, min(persisted, self.end_offset))

    def restore_synced_end(self, known: SyncedEnd) -> None:
        """What the disk knows beside the log, after `restore_end`."""
        self.synced_end = max(known, self.after_sync(self.persisted))

    def _load(self, snapshot: SnapshotId, entries: Iterable[Entry]) -> None:
        self.voter_sets.clear()
        self.kraft_versions.clear()
        self._note_base.clear()
        self._note_tail.clear()
        for entry in entries:
            self._read(snapshot.end_offset - 1, entry)
        self.fold_notes(snapshot.end_offset)

    # ------------------------------------------------------------ reading

    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last record (of the snapshot where the log is empty; 0 where nothing is)."""
        return self._epochs[-1] if self._epochs else self._base_epoch

    @property
    def lacks(self) -> bool:
        """Whether the log ends before where it was synced once: entries are lost."""
        return (self.last_epoch, self.end_offset) < self.synced_end.end

    @property
    def vote_end(self) -> tuple[Epoch, Offset]:
        """What the log of a candidate must reach for this replica's vote: the end of the log, now or before."""
        return max((self.last_epoch, self.end_offset), self.synced_end.end)

    def after_sync(self, end_offset: Offset) -> SyncedEnd:
        """What `synced_end` is once a sync up to there has ended (and the log was not cut meanwhile)."""
        here = SyncedEnd(self.epoch_at(end_offset - 1), end_offset, len(self.voters_at(end_offset)))
        return max(self.synced_end, here)

    @property
    def voters(self) -> VoterSet:
        """The set in force: the last one in log or snapshot, committed or not."""
        return self.voter_sets.latest

    @property
    def kraft_version(self) -> int:
        return self.kraft_versions.latest

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1][0] if self.snapshots else None

    @property
    def ticket(self) -> SyncTicket:
        """What a sync that begins now will have made durable."""
        return SyncTicket(self.end_offset, self.cut)

    def snapshot_size(self, snapshot: SnapshotId) -> int | None:
        """Bytes of a stored snapshot; None: not stored, or never to be replicated (the bootstrap one)."""
        if snapshot == BOOTSTRAP:
            return None
        for stored, size in self.snapshots:
            if stored == snapshot:
                return size
        return None

    def voters_at(self, end_offset: Offset) -> VoterSet:
        """The set that a snapshot ending there must hold."""
        return self.voter_sets.at(end_offset)

    def kraft_version_at(self, end_offset: Offset) -> int:
        return self.kraft_versions.at(end_offset)

    @property
    def notes(self) -> dict[str, str]:
        """The notes in force, by key."""
        notes = dict(self._note_base)
        for _, note in self._note_tail:
            if note.value is None:
                notes.pop(note.key, None)
            else:
                notes[note.key] = note.value
        return notes

    def note(self, key: str, before: float = inf) -> str | None:
        """The note in force under this key, or the one that was before this (uncommitted) offset."""
        for offset, note in reversed(self._note_tail):
            if note.key == key and offset < before:
                return note.value
        return self._note_base.get(key)

    @property
    def committed_notes(self) -> dict[str, str]:
        """The notes that can never be taken back."""
        return dict(self._note_base)

    def epoch_at(self, offset: Offset) -> Epoch:
        """Epoch of the record at `offset` (of the one before log start: the snapshot's)."""
        index = len(self._starts)
        while index and self._starts[index - 1] > offset:
            index -= 1
        return self._epochs[index - 1] if index else self._base_epoch

    def epochs(self) -> list[tuple[Epoch, Offset]]:
        """Each epoch in the log, and where it begins."""
        return list(zip(self._epochs, self._starts, strict=True))

    def end_of_epoch(self, epoch: Epoch) -> EpochEnd:
        """The largest epoch here that is not above `epoch`, and the offset after its last record."""
        end = self.end_offset
        for known, start in zip(reversed(self._epochs), reversed(self._starts), strict=True):
            if known <= epoch:
                return EpochEnd(known, end)
            end = start
        if self._base_epoch <= epoch:
            return EpochEnd(self._base_epoch, end)
        return EpochEnd(0, 0)

    def check_fetch(self, offset: Offset, last_epoch: Epoch) -> EpochEnd | SnapshotId | None:
        """Whether a log that ends at (offset, last_epoch) is a prefix of this one (None), else what to say.

        An EpochEnd says where the two may still agree, a SnapshotId that our log begins too late.
        """
        latest = self.latest_snapshot
        if offset == 0:
            return latest if latest is not None and latest != BOOTSTRAP else None
        if latest is not None and (
            offset < self.log_start
            or (offset == self.log_start and last_epoch != self._base_epoch)
            or last_epoch < self._base_epoch
        ):
            return latest
        known = self.end_of_epoch(last_epoch)
        if known.epoch != last_epoch or known.end_offset < offset:
            return known
        return None

    def divergence(self, leader: EpochEnd) -> Offset:
        """Where to cut this log when the leader's newest epoch that may agree ends there."""
        if leader.epoch == 0:
            return min(leader.end_offset, self.end_offset)
        mine = self.end_of_epoch(leader.epoch)
        if mine.epoch == leader.epoch:
            return min(mine.end_offset, leader.end_offset)
        return mine.end_offset

    @property
    def first_voters(self) -> tuple[Offset, VoterSet] | None:
        """The first voter set in the log, and where it stands; None where a snapshot hides which was the first.

        (A snapshot that ends before any set is one of a quorum whose voters were fixed until then.)
        """
        for offset, voters in self.voter_sets.items():
            if offset >= 0:
                hidden = any(snapshot.end_offset > offset for snapshot, _ in self.snapshots)
                return None if hidden else (offset, voters)
        return None

    # ------------------------------------------------------------ changing

    def append(self, batch: Batch) -> None:
        """Take note of a batch that was appended.  Raises ValueError when it cannot follow the log."""
        if batch.base_offset != self.end_offset or batch.epoch < self.last_epoch:
            raise ValueError(f"{batch} of epoch {batch.epoch} cannot follow {self!r}")
        if batch.epoch > self.last_epoch or (not self._epochs and batch.epoch != self._base_epoch):
            self._epochs.append(batch.epoch)
            self._starts.append(batch.base_offset)
        offset = batch.base_offset
        for entry in batch.entries:
            if isinstance(entry, Opaque):
                offset += entry.count
                continue
            self._read(offset, entry)
            offset += 1
        self.end_offset = batch.end_offset

    def _read(self, offset: Offset, entry: Entry) -> None:
        if self.snapshots and offset < self.snapshots[-1][0].end_offset - 1:
            return  # the snapshot, read before, already says what came of it
        if isinstance(entry, VotersEntry):
            if self.voter_sets.latest_offset != offset:
                self.voter_sets.add(offset, entry.voters)
        elif isinstance(entry, KraftVersionEntry):
            if self.kraft_versions.latest_offset != offset:
                self.kraft_versions.add(offset, entry.version)
        elif isinstance(entry, Note):
            self._note_tail.append((offset, entry))

    def persisted_to(self, end_offset: Offset, cut: int) -> bool:
        """A sync ended.  Returns whether it says anything new; one that began before a truncation does not."""
        if cut != self.cut or end_offset <= self.persisted:
            return False
        self.persisted = end_offset
        self.synced_end = self.after_sync(end_offset)
        return True

    def truncate(self, end_offset: Offset) -> None:
        """Forget everything from `end_offset` on; the histories go back with it.

        What is cut at a leader's word is not lost.  A log that lacks entries still does after it.
        """
        if end_offset >= self.end_offset:
            return
        lacked = self.lacks
        self.cut += 1
        self.end_offset = end_offset
        self.persisted = min(self.persisted, end_offset)
        keep = bisect_left(self._starts, end_offset)
        del self._starts[keep:], self._epochs[keep:]
        self.voter_sets.truncate(end_offset)
        self.kraft_versions.truncate(end_offset)
        self._note_tail = [(offset, note) for offset, note in self._note_tail if offset < end_offset]
        if self.lacks and not lacked:
            self.synced_end = SyncedEnd(self.last_epoch, end_offset, len(self.voters))

    def install(self, snapshot: SnapshotId, size: int, entries: Iterable[Entry]) -> None:
        """The log begins anew after a snapshot that was downloaded."""
        self.snapshots.clear()
        self.snapshots.append((snapshot, size))
        self._begin_at(snapshot, size)
        self._load(snapshot, entries)
        self.synced_end = self.after_sync(snapshot.end_offset)

    def _begin_at(self, snapshot: SnapshotId, size: int) -> None:
        self.cut += 1
        self.snapshots[:] = [(snapshot, size)]
        self.log_start = self.end_offset = self.persisted = snapshot.end_offset
        self._base_epoch = snapshot.epoch
        self._epochs.clear()
        self._starts.clear()

    def snapshot_taken(self, snapshot: SnapshotId, size: int) -> None:
        others = [(stored, size) for stored, size in self.snapshots if stored != snapshot]
        self.snapshots[:] = sorted([*others, (snapshot, size)])  # (it may have been written anew)

    def log_start_moved(self, log_start: Offset) -> None:
        """The records before `log_start` are gone; snapshots before it too."""
        if log_start <= self.log_start:
            return
        self._base_epoch = self.epoch_at(log_start - 1)
        keep = [i for i, start in enumerate(self._starts) if start >= log_start]
        self._epochs = [self._epochs[i] for i in keep]
        self._starts = [self._starts[i] for i in keep]
        self.log_start = log_start
        self.persisted = max(self.persisted, log_start)  # the snapshot is, whatever the log was
        self.snapshots[:] = [(s, size) for s, size in self.snapshots if s.end_offset >= log_start]
        self.voter_sets.forget_before(log_start)
        self.kraft_versions.forget_before(log_start)

    def fold_notes(self, committed: Offset) -> None:
        """Keep only the outcome of notes below `committed`: no truncation reaches them."""
        tail = []
        for offset, note in self._note_tail:
            if offset >= committed:
                tail.append((offset, note))
            elif note.value is None:
                self._note_base.pop(note.key, None)
            else:
                self._note_base[note.key] = note.value
        self._note_tail = tail
