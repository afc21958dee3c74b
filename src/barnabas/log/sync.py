"""A sync of one log: made on the loop, run in a thread, reported back to the loop.

The rule: a job covers what was written before it was made, and nothing else.  So it is made after the
`writev`, and it carries everything that those records need to be found again: the segment files, the
tables and snapshots of segments that were rolled meanwhile, the leader epochs, the directory entries.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.doors import Disk, DiskFile
from barnabas.errors import StorageError
from barnabas.model import Offset

__all__ = ["SyncJob"]


class SyncJob:
    """What to make durable; `run` may be called in any thread, once."""

    __slots__ = (
        "_cancelled",
        "_directories",
        "_disk",
        "_epochs",
        "_files",
        "_paths",
        "end_offset",
        "generation",
        "path",
        "refused",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        files: list[DiskFile],
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
        self._files = files
        self._paths = paths
        self._directories = directories
        self._epochs = epochs
        self._cancelled = False
        self.refused: StorageError | None = None
        """There was no room for the leader epochs: nothing of this counts, and it may be tried again."""

    def __repr__(self) -> str:
        return f"<SyncJob {self.path} to={self.end_offset} files={len(self._files)}+{len(self._paths)}>"

    def cancel(self) -> None:
        """The log is closed or deleted: whatever happens to its files now is no error."""
        self._cancelled = True

    def run(self) -> None:
        """Sync.

        Raises StorageError; then nothing of this log can be trusted and its directory goes offline.
        """
        try:
            self._run()
        except StorageError:
            if not self._cancelled:
                raise

    def _run(self) -> None:
        for file in self._files:
            file.sync()
        for path in self._paths:
            self._sync_path(path)
        for directory in self._directories:
            self._disk.sync_directory(directory)
        if self._epochs is not None:
            try:
                self._disk.replace(f"{self.path}/leader-epoch-checkpoint", self._epochs)
            except StorageError as error:
                if not error.full:
                    raise
                self.refused = error

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
