"""A sync of one log: made on the loop, run in a thread, reported back to the loop.

A job covers what was written before it was made, and nothing else.  So it is made after the `writev`, and it
carries everything needed to find those records again: the segment files, the indexes and snapshots of
segments that were rolled meanwhile, the leader epochs, the directory entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.errors import ShortFileError, StorageError
from barnabas.model import Offset
from barnabas.ports import Disk, DiskFile

__all__ = ["Job", "RunJobs", "SyncJob", "ends_before", "run_in_turn"]


def ends_before(file: DiskFile, size: int) -> bool:
    """Return whether somebody has cut a file to which `size` bytes were written.  Raises StorageError."""
    return size > 0 and not file.read_at(size - 1, 1)


class SyncJob:
    """What to make durable; `run` may be called in any thread, once."""

    __slots__ = (
        "_cancelled",
        "_disk",
        "_epochs",
        "active",
        "active_bytes",
        "directories",
        "end_offset",
        "files",
        "generation",
        "path",
        "paths",
        "refused",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        files: list[DiskFile],
        active: DiskFile | None,
        active_bytes: int,
        paths: list[str],
        directories: Sequence[str],
        epochs: bytes | None,
        end_offset: Offset,
        generation: int,
    ) -> None:
        self.path = path
        """The directory of the log."""
        self.end_offset = end_offset
        self.generation = generation
        self._disk = disk
        self.files = files
        self.active = active
        """That of `files` which is the last segment's."""
        self.active_bytes = active_bytes
        """Bytes in it that are synced."""
        self.paths = paths
        self.directories = directories
        self._epochs = epochs
        self._cancelled = False
        self.refused: StorageError | None = None
        """There was no room for the leader epochs, or no descriptor, or somebody has cut the file: nothing of this
        counts, and it may be tried again."""

    def __repr__(self) -> str:
        return f"<SyncJob {self.path} to={self.end_offset} files={len(self.files)}+{len(self.paths)}>"

    def cancel(self) -> None:
        """The log is closed or deleted: whatever happens to its files now is no error."""
        self._cancelled = True

    def run(self) -> None:
        """Sync.

        Raises StorageError; then nothing of this log can be trusted and its directory goes offline.
        """
        try:
            self._run()
        except StorageError as error:
            if self._cancelled:
                return
            if not error.full and not isinstance(error, ShortFileError):
                raise
            self.refused = error

    def _run(self) -> None:
        for file in self.files:
            file.sync()
        if self.active is not None and ends_before(self.active, self.active_bytes):
            # (what was written since lies where other records belong)
            raise ShortFileError(self.active.path, self.active_bytes)
        for path in self.paths:
            self._sync_path(path)
        for directory in self.directories:
            self._disk.sync_directory(directory)
        if self._epochs is not None:
            self._disk.replace(f"{self.path}/leader-epoch-checkpoint", self._epochs)

    def _sync_path(self, path: str) -> None:
        try:
            file = self._disk.open(path)
        except StorageError:
            if self._disk.exists(path):
                raise
            return  # retention or a truncation took it meanwhile
        try:
            file.sync()
        finally:
            file.close()


class Job(Protocol):
    """Work on one log, for any thread."""

    def run(self) -> None:
        """Do it.  Raises StorageError."""
        ...


RunJobs = Callable[[Sequence[Job]], None]
"""Runs jobs of different logs, in threads perhaps; returns when all have ended.  Raises StorageError."""


def run_in_turn(jobs: Sequence[Job]) -> None:
    """One after the other."""
    for job in jobs:
        job.run()
