"""Opens the quorum's disk: reads everything once, and checks it against itself.

The newest snapshot gives an image and the voters; the log after it gives batches that wait to be committed.

What the disk has damaged is set aside where other nodes have it, and the directory is opened without it: the
segments from the first bad batch on (`.damaged`), a snapshot, `quorum-state` or a mark (`.corrupt`).  The log then
ends below its marks: this node votes as if it still had all of it, and does not lead, until a leader gave it that
again.  The only voter has nobody to fetch from: it refuses, and leaves the files as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from barnabas.config import LogConfig
from barnabas.controller.image import MetadataImage
from barnabas.errors import CorruptRecordError, StorageError, WireError
from barnabas.log.files import snapshot as snapshots
from barnabas.log.files.checkpoint import read_epochs
from barnabas.log.files.snapshot import START_ANEW
from barnabas.log.log import Log
from barnabas.log.recovery import MissingEndError
from barnabas.log.segments.aside import keep_aside
from barnabas.log.segments.damage import DamagedError
from barnabas.log.segments.names import base_of
from barnabas.model import METADATA_PARTITION, METADATA_TOPIC_ID, Epoch, Offset
from barnabas.ports import Clock, Disk
from barnabas.raft.core import LAST_EPOCH
from barnabas.raft.entries import Batch, ElectionState, Entry, SnapshotId, SyncedEnd
from barnabas.raft.log_view import LogView
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.discovery.address_book import read_contacts
from barnabas.server.kraft.election_state import QUORUM_STATE, read_election
from barnabas.server.kraft.marks import (
    NO_POINT,
    NO_ROW,
    RECOVERY_POINT,
    SYNCED_END,
    RecoveryPoint,
    SyncedRow,
    read_point,
    read_synced_end,
)
from barnabas.server.kraft.records import decode_batch, read_snapshot
from barnabas.server.kraft.storage import Found, MetadataStore, SetAside, Uncommitted, image_of
from barnabas.wire.records import BatchHeader, batches, check_crc

__all__ = ["metadata_log_config", "open_store"]

_READ_BYTES = 4 << 20
_MOST_SET_ASIDE = 20
"""A directory of which more would have to be set aside is not worth a start."""
_CORRUPT = ".corrupt"
"""The suffix of a whole file that the disk has changed; it is kept for inspection."""

_Mark = TypeVar("_Mark")


class DamagedMetadataError(StorageError):
    """A directory does not hold what was written there.

    `file` is bad as a whole; else the log is, from `end_offset` on (None: from its first bad batch on).
    """

    def __init__(
        self,
        message: str,
        path: str,
        *,
        file: str = "",
        end_offset: Offset | None = None,
        next_step: str = START_ANEW,
    ) -> None:
        super().__init__(message, directory=path, next_step=next_step, fatal=True)
        self.file = file
        self.end_offset = end_offset


def open_store(
    disk: Disk,
    clock: Clock,
    directory: str,
    config: LogConfig,
    *,
    cluster_id: str,
    static_voters: VoterSet,
    clean: bool = False,
    kind: type[MetadataStore] = MetadataStore,
    can_vote: bool | None = None,
) -> MetadataStore:
    """Recover what is in `directory`/__cluster_metadata-0 (made if missing).  Blocks.

    `clean`: the directory was closed cleanly, so its end cannot be torn; every CRC is checked even so.
    `can_vote`: whether this node has the controller role; None: whoever looks sets nothing aside.
    Raises StorageError, fatal where the metadata cannot be trusted.
    """
    path = f"{directory}/{METADATA_PARTITION}"
    disk.make_directories(path)
    disk.sync_directory(directory)
    opening = _Opening(disk, clock, path, config, clean=clean)
    row = opening.mark(SYNCED_END, _known_row, NO_ROW, heals=True)
    opening.heals = can_vote is False or (can_vote is True and _knows_others(row))
    point = opening.mark(RECOVERY_POINT, read_point, NO_POINT, heals=opening.heals)
    saved = opening.mark(QUORUM_STATE, read_election, None, heals=opening.heals)
    end = max(row.end, SyncedEnd(point.epoch, point.offset, row.end.voters)) if opening.heals else row.end
    row = row._replace(end=end)
    if opening.heals:
        opening.newest_epoch = max(row.end.epoch, row.voted, 0 if saved is None else saved.epoch)
    log, log_view, image, waiting = opening.read(row, point, static_voters, cluster_id)
    store = kind(disk, clock, log, log_view, saved, image, waiting)
    store.point = point
    _restore_row(store, row)
    contacts, unread = read_contacts(disk, path, cluster_id)
    store.found = Found(contacts, unread, tuple(opening.set_aside))
    return store


class _Read(NamedTuple):
    """What a directory holds."""

    log: Log
    log_view: LogView
    image: MetadataImage
    waiting: deque[Uncommitted]


class _Opening:
    """A directory that is being opened, and what was set aside of it."""

    def __init__(self, disk: Disk, clock: Clock, path: str, config: LogConfig, *, clean: bool) -> None:
        self.disk = disk
        self.heals = False
        """Whether other nodes have what this disk has not: what is damaged is set aside then."""
        self.set_aside: list[SetAside] = []
        self.newest_epoch: Epoch = LAST_EPOCH
        """The newest epoch that this node has heard of: no batch can be of a later one (no CRC covers that)."""
        self._clock = clock
        self._path = path
        self._config = config
        self._clean = clean
        self._row_offset: Offset = 0

    def mark(self, name: str, read: Callable[[Disk, str], _Mark], none: _Mark, *, heals: bool) -> _Mark:
        """Read a small file; a senseless one is set aside, if that `heals`.  Raises StorageError."""
        try:
            return read(self.disk, self._path)
        except StorageError as error:
            if not (heals and error.fatal):
                raise
            self._put_aside(name, error.message)
            return none

    def read(self, row: SyncedRow, point: RecoveryPoint, static: VoterSet, cluster_id: str) -> _Read:
        """Read log and snapshots, without what is bad of them.  Raises StorageError."""
        required = row.end if self.heals else SyncedEnd(point.epoch, point.offset)
        self._row_offset = row.end.end_offset if self.heals else 0
        while True:
            try:
                return self._read(required, point, static, cluster_id)
            except DamagedMetadataError as damage:
                if not self.heals or len(self.set_aside) >= _MOST_SET_ASIDE:
                    raise
                self._clean = False  # a clean start throws away what was kept
                if isinstance(damage.__cause__, MissingEndError):  # the core tells of it, at each start
                    required = SyncedEnd()
                elif damage.file:
                    self._put_aside(damage.file, damage.message)
                else:
                    self._cut(damage.end_offset, point)
                    self.set_aside.append(SetAside("log", damage.message))
                    required = SyncedEnd()

    def _put_aside(self, name: str, why: str) -> None:
        self.disk.rename(f"{self._path}/{name}", f"{self._path}/{name}{_CORRUPT}")
        self.disk.sync_directory(self._path)
        self.set_aside.append(SetAside(name, why))

    def _cut(self, end_offset: Offset | None, point: RecoveryPoint) -> None:
        """Cut the log there, or where its first bad batch is; segments that lose something are kept before."""
        first = point.offset if end_offset is None else end_offset
        names = sorted(n for n in self.disk.list(self._path) if n.endswith(".log") and base_of(n) >= 0)
        losing = [name for name in names if base_of(name) > first]
        losing += [name for name in names if base_of(name) <= first][-1:]
        for name in losing:
            file = self.disk.open(f"{self._path}/{name}", read_only=True)
            keep_aside(self.disk, file, 0)
            file.close()
        now = self._clock.now()
        log = Log.open(self.disk, self._path, self._config, clean=False, recovery_point=point.offset, now=now)
        if end_offset is not None:
            log.truncate_to(end_offset, now)
        log.sync()
        log.close(now)

    def _read(self, required: SyncedEnd, point: RecoveryPoint, static: VoterSet, cluster_id: str) -> _Read:
        disk, path, now = self.disk, self._path, self._clock.now()
        stored = snapshots.list_snapshots(disk, path)
        start = stored[0].end_offset if stored else 0
        epochs = _known_epochs(disk, path)
        newest = stored[-1] if stored else snapshots.SnapshotId(0, 0)
        counts = required.end > (newest.epoch, newest.end_offset)
        with _fatal_is_damage(path):
            log = Log.open(
                disk,
                path,
                self._config,
                clean=self._clean,
                recovery_point=point.offset,
                log_start=start,
                required=required.end_offset if counts else 0,
                now=now,
            )
        try:
            return self._read_open(log, counts, epochs, point, static, cluster_id)
        except DamagedMetadataError:
            log.abandon()
            raise

    def _read_open(
        self,
        log: Log,
        counts: bool,
        epochs: list[tuple[Epoch, Offset]],
        point: RecoveryPoint,
        static: VoterSet,
        cluster_id: str,
    ) -> _Read:
        """Read what an open log and its snapshots say.  `counts`: the log must reach beyond the newest of them."""
        disk, path = self.disk, self._path
        if log.damage:
            raise _damaged(path, point, log.damage[0].reason, log.damage[0].start)
        if log.topic_id is None:
            log.belongs_to(METADATA_TOPIC_ID)
        with _fatal_is_damage(path, end_offset=0):
            newest = snapshots.clean_snapshots_at_start(disk, path, log.log_start_offset)
        stored = snapshots.list_snapshots(disk, path)
        begin = newest.end_offset if newest is not None else 0
        if newest is not None and begin > 0 and _begins_elsewhere(log, newest):
            if counts:
                raise _damaged(path, point, "its epochs are not those of its snapshot", begin)
            log.truncate_fully_and_start_at(begin, self._clock.now())
        log.sync()
        log_view = LogView(static)
        image = MetadataImage(cluster_id)
        for at in stored:
            entries: tuple[Entry, ...] = ()
            if at == newest:
                entries, image = _load_snapshot(disk, path, at, cluster_id)
            log_view.restore_snapshot(SnapshotId(*at), disk.size(f"{path}/{at.file_name}"), entries)
        try:
            waiting = _read_log(log, log_view, image.offset + 1)
        except DamagedError as error:  # (in a segment that a start does not read again)
            raise _damaged(path, point, error.damage.reason, error.damage.start) from error
        except ValueError as error:
            end, read = log_view.end_offset, log_view.epochs()
            if epochs and read and read[-1] not in epochs:  # the batch before may be the one of a wrong epoch
                end = read[-1][1]
            raise _damaged(path, point, str(error), end) from error
        try:
            log_view.restore_end(log.log_start_offset, log.durable_end_offset)
        except ValueError as error:
            raise _damaged(path, point, str(error), 0) from error
        reaches = point.offset <= log_view.end_offset
        known = begin <= point.offset  # (of what a snapshot took the place of, nobody knows the epochs)
        if counts and reaches and known and log_view.epoch_at(point.offset - 1) != point.epoch:
            wrong = log_view.epoch_at(point.offset - 1)
            raise _damaged(path, point, f"the record before it is of epoch {wrong}, not {point.epoch}", begin)
        sure = max(point.offset, self._row_offset)
        _check_epochs(path, log_view, epochs, point, sure, begin)
        for epoch, since in log_view.epochs():
            if epoch > self.newest_epoch:
                raise _damaged(
                    path, point, f"the batch at {since} is of epoch {epoch}, of which nobody spoke", since
                )
        log_view.known_committed = max(point.offset if reaches else 0, image.offset + 1)
        return _Read(log, log_view, image, waiting)


@contextmanager
def _fatal_is_damage(path: str, end_offset: Offset | None = None) -> Iterator[None]:
    """Have what a log or its snapshots refuse for good be damage, from `end_offset` on."""
    try:
        yield
    except StorageError as error:
        if not error.fatal:
            raise
        raise DamagedMetadataError(error.message, path, end_offset=end_offset) from error


def _damaged(path: str, point: RecoveryPoint, reason: str, end_offset: Offset) -> DamagedMetadataError:
    message = f"{path} is damaged: everything below offset {point.offset} was durable, but {reason}"
    return DamagedMetadataError(message, path, end_offset=end_offset)


def _known_row(disk: Disk, path: str) -> SyncedRow:
    row = read_synced_end(disk, path)
    if row is None:
        raise DamagedMetadataError(f"{path}/{SYNCED_END} has no row that can be read", path, file=SYNCED_END)
    return row


def _knows_others(row: SyncedRow) -> bool:
    """Whether other voters have what this one had: it was not the only one.

    A directory that has heard of no voters yet is not one's that votes alone.  Without a row nobody can tell.
    """
    return row is not NO_ROW and row.end.voters != 1


def _restore_row(store: MetadataStore, row: SyncedRow) -> None:
    """Have the log know where it ended, and no vote given twice where `quorum-state` is older than row or log."""
    log_view, state = store.log_view, store.saved or ElectionState()
    log_view.restore_synced_end(row.end)
    newest = max(log_view.last_epoch, row.end.epoch, row.voted)
    if state.epoch < newest or state.forgets(row.voted):
        log_view.abstains_to = newest
    store.synced_end.begin(SyncedRow(log_view.synced_end, max(row.voted, log_view.abstains_to)))


def _known_epochs(disk: Disk, path: str) -> list[tuple[Epoch, Offset]]:
    try:
        return read_epochs(disk, f"{path}/leader-epoch-checkpoint")
    except StorageError:
        return []  # it is made again from the log


def _load_snapshot(
    disk: Disk, path: str, at: snapshots.SnapshotId, cluster_id: str
) -> tuple[tuple[Entry, ...], MetadataImage]:
    try:
        content = read_snapshot(snapshots.read_snapshot(disk, path, at), at.end_offset)
    except (CorruptRecordError, WireError) as error:
        message = f"the metadata snapshot {path}/{at.file_name} cannot be read: {error.message}"
        if isinstance(error, WireError):
            raise StorageError(message, directory=path, next_step=START_ANEW, fatal=True) from error
        raise DamagedMetadataError(message, path, file=at.file_name) from error
    if not at.end_offset:  # its records are for the first active controller, which may have others, to write
        return content.entries, MetadataImage(cluster_id)
    return content.entries, image_of(content, at, cluster_id)


def _begins_elsewhere(log: Log, newest: snapshots.SnapshotId) -> bool:
    """Whether the log is not the one that the snapshot ends in: a crash undid the cut behind a download."""
    if newest.end_offset > log.log_end_offset:
        return True
    entries, end = log.epochs.entries(), newest.end_offset
    before = [epoch for epoch, start in entries if start < end]
    if before and log.bases[0] < end:
        return before[-1] != newest.epoch
    behind = [epoch for epoch, start in entries if start <= end]
    return log.log_end_offset > end and bool(behind) and behind[-1] < newest.epoch


def _read_log(log: Log, log_view: LogView, first_wanted: Offset) -> deque[Uncommitted]:
    """Give every batch to the log view; keep those from `first_wanted` on."""
    waiting: deque[Uncommitted] = deque()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, begun = log.read(offset, _READ_BYTES, log.log_end_offset).read(), offset
        try:
            for batch, header in _read_batches(data, offset):
                offset = batch.end_offset
                if offset <= log_view.end_offset:
                    continue
                log_view.restore_batch(Batch(batch.base_offset, batch.epoch, batch.entries))
                if batch.end_offset > first_wanted:
                    waiting.append(Uncommitted(batch, header.max_timestamp, header.size))
            if offset <= begun:
                raise CorruptRecordError("no whole batch is there")
        except (CorruptRecordError, WireError) as error:
            message = f"{log.path} holds a batch at offset {offset} that cannot be read: {error.message}"
            step = f"start the release that wrote it; if the disk changed it: {START_ANEW}"
            if isinstance(error, WireError):
                raise StorageError(message, directory=log.path, next_step=step, fatal=True) from error
            raise DamagedMetadataError(message, log.path, end_offset=offset, next_step=step) from error
    return waiting


def _read_batches(data: bytes, offset: Offset) -> Iterator[tuple[Batch, BatchHeader]]:
    for position, header in batches(data):
        if not check_crc(data, position, header):
            raise CorruptRecordError("its CRC is wrong")
        if header.last_offset < offset:
            raise CorruptRecordError(f"it says that it begins at {header.base_offset}")
        batch = decode_batch(data, position, header)
        yield batch, header
        offset = batch.end_offset


def _check_epochs(
    path: str,
    log_view: LogView,
    known: list[tuple[Epoch, Offset]],
    point: RecoveryPoint,
    sure: Offset,
    end_offset: Offset,
) -> None:
    """Hold the epochs of the batches, which no CRC covers, to `leader-epoch-checkpoint`, as far as it is `sure`.

    Raises DamagedMetadataError where they differ: nobody knows which is right, and the log has to end at
    `end_offset`.  The file's first row may only say which epoch was in force where the log began when it was
    written: a crash can bring a forgotten snapshot back, and then the log begins earlier.
    """
    if not known:
        return
    (first_epoch, first), last = known[0], known[-1][1]
    begin, until = max(log_view.log_start, first), min(sure, log_view.end_offset)
    if log_view.log_start <= first < until and log_view.epoch_at(first) != first_epoch:
        raise _damaged(
            path, point, f"a batch says that {first} is of epoch {log_view.epoch_at(first)}", end_offset
        )
    found = [(epoch, start) for epoch, start in log_view.epochs() if begin < start < until]
    for epoch, start in found:
        if start <= last and (epoch, start) not in known:
            raise _damaged(path, point, f"a batch says that epoch {epoch} begins at {start}", end_offset)
    for epoch, start in known:
        if begin < start < until and (epoch, start) not in found:
            raise _damaged(path, point, f"no batch says that epoch {epoch} begins at {start}", end_offset)


def metadata_log_config(segment_bytes: int, segment_ms: int) -> LogConfig:
    """How the metadata log is kept: nothing is deleted by age or size but what a snapshot covers."""
    return LogConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        retention_ms=-1,
        retention_bytes=-1,
        max_message_bytes=(1 << 31) - 1,
        cleanup_policy=frozenset({"delete"}),
        flush_messages=1,
    )
