"""Snapshots of the metadata log: `NNN-EEE.checkpoint` beside its segments.

A snapshot stands for every record below its end offset; the name says that offset (20 digits) and the
epoch of the last record in it (10 digits).  It is written to a `.part` file, synced, renamed and never
changed again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.errors import StorageError
from barnabas.model import Epoch, Offset
from barnabas.ports import Buffer, Disk, DiskFile

__all__ = [
    "START_ANEW",
    "SnapshotId",
    "SnapshotWriter",
    "clean_snapshots_at_start",
    "delete_snapshots_below",
    "list_snapshots",
    "open_snapshot",
    "read_snapshot",
]

START_ANEW = (
    "keep a copy of the directory, empty it, `barnabas storage format -c FILE -t CLUSTER_ID -N`, start this node, "
    "then `barnabas quorum replace --node ID`: the other controllers have these records (if most of them do not "
    "run: docs/controllers.md, 'A damaged directory')"
)
"""The next step of a controller whose metadata is damaged."""
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SUFFIX = ".checkpoint"
_UNFINISHED = re.compile(r"\d{20}-\d{10}.*\.checkpoint\.(part|deleted)")


class SnapshotId(NamedTuple):
    """Everything below `end_offset`, the last of it written in `epoch`."""

    end_offset: Offset
    epoch: Epoch

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    def __str__(self) -> str:
        return f"{self.end_offset}-{self.epoch}"


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The finished snapshots, oldest first."""
    if not disk.is_directory(directory):
        return []
    found = [_NAME.fullmatch(name) for name in disk.list(directory)]
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


def open_snapshot(disk: Disk, directory: str, snapshot: SnapshotId) -> DiskFile:
    """Open a finished snapshot for reading at positions (FetchSnapshot).

    Raises StorageError if it is gone.
    """
    return disk.open(f"{directory}/{snapshot.file_name}", read_only=True)


def read_snapshot(disk: Disk, directory: str, snapshot: SnapshotId) -> bytes:
    """All bytes of a finished snapshot: record batches whose offsets count from 0."""
    return disk.read(f"{directory}/{snapshot.file_name}")


class SnapshotWriter:
    """Writes one snapshot; nobody sees it before `freeze`.

    Who writes the same snapshot at another time, or at the same time, needs another `mark`: a download that
    was given up must not be in the way of a snapshot of our own.
    """

    __slots__ = ("_directory", "_disk", "_file", "part", "snapshot")

    def __init__(self, disk: Disk, directory: str, snapshot: SnapshotId, mark: str = "") -> None:
        self.snapshot = snapshot
        self._disk = disk
        self._directory = directory
        self.part = f"{directory}/{snapshot.file_name.removesuffix(_SUFFIX)}{mark}{_SUFFIX}.part"
        """Where it is written."""
        self._file: DiskFile | None = disk.open(self.part, create=True)
        self._file.truncate(0)

    def __repr__(self) -> str:
        return f"<SnapshotWriter {self.snapshot} {self.size} bytes{'' if self._file else ' closed'}>"

    @property
    def size(self) -> int:
        """Bytes so far: the position from which a download goes on."""
        return self._file.size() if self._file is not None else 0

    def append(self, parts: Sequence[Buffer]) -> None:
        """Add bytes at the end.  Raises StorageError, also after `freeze` or `abort`."""
        self._open().append(parts)

    def freeze(self) -> SnapshotId:
        """Sync, rename to the final name, sync the directory.  Raises StorageError."""
        file = self._open()
        file.sync()
        file.close()
        self._file = None
        self._disk.rename(self.part, f"{self._directory}/{self.snapshot.file_name}")
        self._disk.sync_directory(self._directory)
        return self.snapshot

    def abort(self) -> None:
        """Throw away what was written; nothing happens after `freeze`."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._disk.remove(self.part)

    def _open(self) -> DiskFile:
        if self._file is None:
            raise StorageError(f"snapshot {self.snapshot} is finished")
        return self._file


def delete_snapshots_below(disk: Disk, directory: str, offset: Offset) -> list[SnapshotId]:
    """Remove snapshots that end below `offset`, but never the newest.  Returns those removed."""
    gone = [snapshot for snapshot in list_snapshots(disk, directory)[:-1] if snapshot.end_offset < offset]
    for snapshot in gone:
        disk.remove(f"{directory}/{snapshot.file_name}")
    return gone


def clean_snapshots_at_start(disk: Disk, directory: str, log_start: Offset) -> SnapshotId | None:
    """Remove unfinished and deleted files and snapshots older than the log start.  Returns the newest left.

    Raises StorageError (fatal) when the log starts above 0 and no snapshot covers what is missing.
    """
    if disk.is_directory(directory):
        for name in disk.list(directory):
            if _UNFINISHED.fullmatch(name):
                disk.remove(f"{directory}/{name}")
    snapshots = list_snapshots(disk, directory)
    for snapshot in snapshots:
        if snapshot.end_offset < log_start:
            disk.remove(f"{directory}/{snapshot.file_name}")
    left = [snapshot for snapshot in snapshots if snapshot.end_offset >= log_start]
    if log_start > 0 and not left:
        raise StorageError(
            f"{directory} begins at offset {log_start} and has no snapshot of what came before",
            directory=directory,
            next_step=START_ANEW,
            fatal=True,
        )
    return left[-1] if left else None
