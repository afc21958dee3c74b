"""Opens the quorum's disk: reads everything once, and checks it against itself.

The newest snapshot gives an image and the voters; the log after it gives batches that wait to be committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from barnabas.config import LogConfig
from barnabas.controller.image import MetadataImage
from barnabas.errors import CorruptRecordError, StorageError, WireError
from barnabas.log.log import Log
from barnabas.log.recovery import START_ANEW
from barnabas.log.storage import snapshot as snapshots
from barnabas.log.storage.checkpoint import read_epochs
from barnabas.model import METADATA_PARTITION, METADATA_TOPIC_ID, Epoch, Offset
from barnabas.ports import Clock, Disk
from barnabas.raft.entries import Batch, ElectionState, Entry, SnapshotId
from barnabas.raft.log_view import LogView
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.discovery.address_book import read_contacts
from barnabas.server.kraft.election_state import read_election
from barnabas.server.kraft.marks import NO_ROW, RecoveryPoint, SyncedRow, read_point, read_synced_end
from barnabas.server.kraft.records import decode_batch, read_snapshot
from barnabas.server.kraft.storage import Found, MetadataStore, Waiting, image_of
from barnabas.wire.records import BatchHeader, batches, check_crc

__all__ = ["metadata_log_config", "open_store"]

_READ_BYTES = 4 << 20


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
) -> MetadataStore:
    """Recover what is in `directory`/__cluster_metadata-0 (made if missing).  Blocks.

    `clean`: the directory was closed cleanly, so its end cannot be torn; every CRC is checked even so.
    Raises StorageError, fatal where the metadata cannot be trusted.
    """
    path = f"{directory}/{METADATA_PARTITION}"
    now = clock.now()
    disk.make_directories(path)
    disk.sync_directory(directory)
    stored = snapshots.list_snapshots(disk, path)
    start = stored[0].end_offset if stored else 0
    point = read_point(disk, path)
    row = read_synced_end(disk, path) or NO_ROW
    epochs = _known_epochs(disk, path)
    required = point.offset if not stored or point.offset > stored[-1].end_offset else 0
    log = Log.open(
        disk,
        path,
        config,
        clean=clean,
        recovery_point=point.offset,
        log_start=start,
        required=required,
        now=now,
    )
    if log.damage:
        raise _damaged(path, point, log.damage[0].reason)
    if log.topic_id is None:
        log.belongs_to(METADATA_TOPIC_ID)
    newest = snapshots.clean_snapshots_at_start(disk, path, log.log_start_offset)
    stored = snapshots.list_snapshots(disk, path)
    if newest is not None and newest.end_offset > 0 and _begins_elsewhere(log, newest):
        if required:
            raise _damaged(path, point, "its epochs are not those of its snapshot")
        log.truncate_fully_and_start_at(newest.end_offset, now)
    log.sync()
    log_view = LogView(static_voters)
    image = MetadataImage(cluster_id)
    for at in stored:
        entries: tuple[Entry, ...] = ()
        if at == newest:
            entries, image = _load_snapshot(disk, path, at, cluster_id)
        log_view.restore_snapshot(SnapshotId(*at), disk.size(f"{path}/{at.file_name}"), entries)
    try:
        waiting = _read_log(log, log_view, image.offset + 1)
        log_view.restore_end(log.log_start_offset, log.durable_end_offset)
    except ValueError as error:
        raise _damaged(path, point, str(error)) from error
    if required and log_view.epoch_at(point.offset - 1) != point.epoch:
        wrong = log_view.epoch_at(point.offset - 1)
        raise _damaged(path, point, f"the record before it is of epoch {wrong}, not {point.epoch}")
    _check_epochs(path, log_view, epochs, point)
    log_view.known_committed = max(point.offset, image.offset + 1)
    store = kind(disk, clock, log, log_view, read_election(disk, path), image, waiting)
    store.point = point
    _restore_row(store, row)
    store.found = Found(*read_contacts(disk, path, cluster_id))
    return store


def _damaged(path: str, point: RecoveryPoint, reason: str) -> StorageError:
    return StorageError(
        f"{path} is damaged: everything below offset {point.offset} was durable, but {reason}",
        directory=path,
        next_step=START_ANEW,
        fatal=True,
    )


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
        content = read_snapshot(snapshots.read_snapshot(disk, path, at))
    except (CorruptRecordError, WireError) as error:
        raise StorageError(
            f"the metadata snapshot {path}/{at.file_name} cannot be read: {error.message}",
            directory=path,
            next_step=START_ANEW,
            fatal=True,
        ) from error
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


def _read_log(log: Log, log_view: LogView, first_wanted: Offset) -> deque[Waiting]:
    """Give every batch to the log view; keep those from `first_wanted` on."""
    waiting: deque[Waiting] = deque()
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
                    waiting.append(Waiting(batch, header.max_timestamp, header.size))
            if offset <= begun:
                raise CorruptRecordError("no whole batch is there")
        except (CorruptRecordError, WireError) as error:
            raise StorageError(
                f"{log.path} holds a batch at offset {offset} that cannot be read: {error.message}",
                directory=log.path,
                next_step=f"start the release that wrote it; if the disk changed it: {START_ANEW}",
                fatal=True,
            ) from error
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
    path: str, log_view: LogView, known: list[tuple[Epoch, Offset]], point: RecoveryPoint
) -> None:
    """Hold the epochs of the batches, which no CRC covers, to `leader-epoch-checkpoint`, below the point.

    Its first row may only say which epoch was in force where the log began when it was written: a crash can
    bring a forgotten snapshot back, and then the log begins earlier.
    """
    if not known:
        return
    (first_epoch, first), last = known[0], known[-1][1]
    begin = max(log_view.log_start, first)
    if log_view.log_start <= first < point.offset and log_view.epoch_at(first) != first_epoch:
        raise _damaged(path, point, f"a batch says that {first} is of epoch {log_view.epoch_at(first)}")
    found = [(epoch, start) for epoch, start in log_view.epochs() if begin < start < point.offset]
    for epoch, start in found:
        if start <= last and (epoch, start) not in known:
            raise _damaged(path, point, f"a batch says that epoch {epoch} begins at {start}")
    for epoch, start in known:
        if begin < start < point.offset and (epoch, start) not in found:
            raise _damaged(path, point, f"no batch says that epoch {epoch} begins at {start}")


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
