"""When the metadata log gets a snapshot, how it is written, and what may be forgotten then (KIP-630).

A snapshot is due after so many bytes of records or so much time.  The image is copied on the loop (its
parts are shared, so that is quick) and written in a thread.  Old snapshots, and the log before the oldest
one kept, go when log and snapshots together are larger or older than `metadata.max.retention.*` allow; one
snapshot always stays.
"""

from __future__ import annotations

from barnabas.controller.image import MetadataImage
from barnabas.controller.snapshot import image_records
from barnabas.log.files import snapshot as files
from barnabas.model import Offset
from barnabas.ports import Clock, Disk
from barnabas.raft.entries import SnapshotId
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import snapshot_batches
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.kraft.storage import MetadataStore

__all__ = ["SnapshotJob", "SnapshotKeeper"]


class SnapshotJob:
    """One snapshot: made on the loop, run in a thread, once."""

    __slots__ = ("_clock", "_disk", "_image", "_kraft_version", "_path", "_voters", "size", "snapshot")

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        path: str,
        image: MetadataImage,
        voters: VoterSet,
        kraft_version: int,
    ) -> None:
        self.snapshot = SnapshotId(image.offset + 1, image.epoch)
        self.size = 0
        self._disk = disk
        self._clock = clock
        self._path = path
        self._image = image
        self._voters = voters
        self._kraft_version = kraft_version

    def __repr__(self) -> str:
        return f"<SnapshotJob {self.snapshot} {self.size} bytes>"

    def run(self) -> None:
        """Write and freeze the file.  Raises StorageError."""
        writer = files.SnapshotWriter(self._disk, self._path, files.SnapshotId(*self.snapshot))
        try:
            for batch in snapshot_batches(
                image_records(self._image),
                epoch=self.snapshot.epoch,
                stamp=lambda: self._clock.now().wall_ms,
                last_contained_ms=self._image.timestamp_ms,
                voters=self._voters,
                kraft_version=self._kraft_version,
                metadata_version=self._image.feature("metadata.version"),
                end_offset=self.snapshot.end_offset,
            ):
                writer.append([batch])
                self.size += len(batch)
        except BaseException:
            writer.abort()
            raise
        writer.freeze()


class SnapshotKeeper:
    """Decides when; the driver asks it after each commit and every now and then."""

    __slots__ = ("_bytes", "_last", "_making", "_settings", "_store", "running", "taken")

    def __init__(self, settings: QuorumSettings, store: MetadataStore) -> None:
        self._settings = settings
        self._store = store
        self._bytes = 0
        self._last = store.clock.now().mono
        self._making: SnapshotId | None = None
        self.running = False
        self.taken = 0

    def __repr__(self) -> str:
        return f"<SnapshotKeeper {self._bytes} bytes since the last of {self.taken}>"

    def committed(self, size: int) -> None:
        """Count `size` bytes of committed records."""
        self._bytes += size

    def due(self, image: MetadataImage) -> bool:
        """Whether a snapshot of this image should be made now.  (The recovery point is kept on the way.)"""
        self._store.keep_point()
        if self.running or not image.features:
            return False
        if self._store.log_view.latest_snapshot in self._store.bad_snapshots:
            return True
        if not self._bytes:
            return False
        if self._bytes >= self._settings.snapshot_bytes:
            return True
        interval = self._settings.snapshot_interval
        return interval > 0 and self._store.clock.now().mono - self._last >= interval

    def begin(self, image: MetadataImage) -> SnapshotJob:
        """The job that writes a snapshot of this image."""
        self.running = True
        self._bytes = 0
        self._last = self._store.clock.now().mono
        end = image.offset + 1
        log_view = self._store.log_view
        self._making = SnapshotId(end, image.epoch)
        return SnapshotJob(
            self._store.disk,
            self._store.clock,
            self._store.path,
            image.copy(),
            log_view.voters_at(end),
            log_view.kraft_version_at(end),
        )

    def finished(self) -> None:
        """The job has ended well."""
        self.running = False
        self.taken += 1
        if self._making is not None:
            self._store.bad_snapshots.pop(self._making, None)  # it was written anew

    def clean(self) -> Offset | None:
        """Forget what is too old, too much or unreadable; the new log start, None when nothing was forgotten."""
        store, settings = self._store, self._settings
        kept = list(store.log_view.snapshots)
        oldest_ms = store.clock.now().wall_ms - settings.retention_ms
        start: Offset | None = None
        while len(kept) > 1:
            size = store.log.size + sum(size for _, size in kept)
            path = f"{store.path}/{files.SnapshotId(*kept[0][0]).file_name}"
            too_much = 0 <= settings.retention_bytes < size
            too_old = settings.retention_ms >= 0 and store.disk.modified_ms(path) < oldest_ms
            spoiled = any(snapshot in store.bad_snapshots for snapshot, _ in kept[:-1])
            if not too_much and not too_old and not spoiled:
                break
            del kept[0]
            start = kept[0][0].end_offset
        if start is None:
            return None
        store.log.increment_log_start(start)
        store.log.retain(store.clock.now())
        self._put_aside(start)
        files.delete_snapshots_below(store.disk, store.path, start)
        return start

    def _put_aside(self, start: Offset) -> None:
        """Keep a file that the disk has changed under another name, for inspection."""
        store = self._store
        for bad in [bad for bad in store.bad_snapshots if bad.end_offset < start]:
            path = f"{store.path}/{files.SnapshotId(*bad).file_name}"
            if store.disk.exists(path):
                store.disk.rename(path, f"{path}.corrupt")
            del store.bad_snapshots[bad]
