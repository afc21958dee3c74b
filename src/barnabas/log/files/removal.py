"""Removal of deleted files: files that nobody uses any more, unlinked in a thread.

To unlink a gigabyte takes a third of a second; the loop has a thousandth.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.errors import StorageError
from barnabas.ports import Disk

__all__ = ["Removal"]


class Removal:
    """Files, and directories with all that is in them; `run` may be called in any thread, once."""

    __slots__ = ("_disk", "_settle", "cancelled", "directory", "files", "trees")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        files: Sequence[str],
        trees: Sequence[str] = (),
        *,
        settle: bool = False,
    ) -> None:
        self.directory = directory
        """The log directory that these lie in."""
        self.files = files
        self.trees = trees
        self.cancelled = False
        """Set to leave the rest to the next start of the node."""
        self._disk = disk
        self._settle = settle
        """Whether what was renamed in the directory is to be made durable first."""

    def __repr__(self) -> str:
        return f"<Removal {self.directory} files={len(self.files)} trees={len(self.trees)}>"

    def run(self) -> None:
        """Remove them.  What is gone already is no error: a whole directory may have been renamed meanwhile.

        Raises StorageError.
        """
        if self._settle:
            self._disk.sync_directory(self.directory)
        for path in self.files:
            self._remove(path)
        for tree in self.trees:
            for name in self._disk.list(tree):
                self._remove(f"{tree}/{name}")
            if not self.cancelled:
                self._disk.remove_tree(tree)

    def _remove(self, path: str) -> None:
        if self.cancelled or self._disk.is_directory(path):
            return
        try:
            if self._disk.exists(path):
                self._disk.remove(path)
        except StorageError:
            if self._disk.exists(path):
                raise
