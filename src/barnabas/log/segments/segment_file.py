"""The `.log` file of a segment: it is opened when it is used, and let go of when others need its descriptor.

A file that holds bytes which are not known to be durable stays open, or is synced first.  The kernel tells of a
write that failed later on to those who have the file open then.  Where nobody has, it may forget that together
with the file, and the sync of somebody who opens it afterwards succeeds although records are gone.
"""

from __future__ import annotations

from typing import Final

from barnabas.errors import ShortFileError, StorageError
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import Offset
from barnabas.ports import Disk, DiskFile

__all__ = ["MAX_OFFSET", "SegmentFile"]

MAX_OFFSET: Final = (1 << 63) - 1
_ALL: Final = 1 << 62
"""More bytes than any file has."""
_UNKNOWN: Final = -1
_LAST: Final = 1 << 62
"""For the number of a descriptor that somebody else has given back: it was the only one."""


class SegmentFile:
    """Where a segment lies, and its open file."""

    __slots__ = ("_file", "base", "directory", "disk", "durable", "end_position", "limit", "suffix", "used")

    def __init__(self, disk: Disk, directory: str, base: Offset, suffix: str) -> None:
        self.disk = disk
        self.directory = directory
        self.base = base
        self.suffix = suffix
        """An additional suffix of its files' names; "" once it is part of a log."""
        self.limit: Offset = MAX_OFFSET
        """Where the next segment begins: all its offsets are smaller."""
        self.end_position = 0
        """Bytes appended, including those not written yet."""
        self.durable = _ALL
        """The size that its file had when all of it was durable.  A file in which there is more stays open."""
        self.used = False
        """Whether its file was used since somebody looked for one to close."""
        self._file: DiskFile | None = None

    def path(self, kind: str) -> str:
        return f"{self.directory}/{self.base:020d}{kind}{self.suffix}"

    @property
    def file(self) -> DiskFile:
        """Its file, open.  Raises StorageError."""
        file = self._file
        if file is None:
            return self._open()
        self.used = True
        return file

    @property
    def unsynced_file(self) -> DiskFile | None:
        """Its file; None where it is closed, which it is only when all of it is durable.  Raises StorageError."""
        return self.file if self.durable < 0 else self._file

    def _open(self, *, create: bool = False) -> DiskFile:
        path = self.path(".log")
        file, descriptor = self._descriptor_for(path, create=create)
        if 0 <= self.durable < _ALL and (size := file.size()) != self.durable:
            file.close()
            if size < self.durable:
                raise ShortFileError(path, self.durable)
            raise StorageError(
                f"{path} has {size} bytes, and had {self.durable}: somebody else has changed it",
                next_step="let nothing but this node touch its directories",
            )
        self._file = file
        if self.limit == MAX_OFFSET:
            OPEN_FILES.grows(self, descriptor)
        else:
            OPEN_FILES.used(self)  # which may let go of any file, in any thread
            OPEN_FILES.took(descriptor, self)
        return file

    def _descriptor_for(self, path: str, *, create: bool = False) -> tuple[DiskFile, int]:
        """Open a file, even if others must let go of theirs for that.  Its number tells how many are left."""
        others_gave = False
        while True:
            try:
                file = self.disk.open(path, create=create)
            except StorageError as error:
                if not error.descriptors or not OPEN_FILES.give_way(to_growth=self.limit == MAX_OFFSET):
                    raise
                others_gave = True
            else:
                return file, _LAST if others_gave else file.fileno()

    def create_file(self) -> None:
        """Make it, empty (the caller makes the directory entry durable)."""
        file, _ = self._descriptor_for(self.path(".log"), create=True)
        file.truncate(0)
        self._file, self.durable = file, 0

    def open_again(self) -> bool:
        """Open what is left of a file that somebody cut or deleted while it was closed; false: it is open."""
        if self._file is not None:
            return False
        self.durable = _UNKNOWN
        self._open(create=True)
        return True

    # --- who may close it ---------------------------------------------------------------------------------

    def grow(self) -> None:
        """It is the last one of its log, and has no limit."""
        self.limit = MAX_OFFSET
        if self.durable == _ALL:
            self.durable = self.end_position
        OPEN_FILES.forget(self)
        if self._file is not None:
            OPEN_FILES.grows(self, self._file.fileno())

    def ended(self, limit: Offset) -> None:
        """Another one follows it, from `limit` on.  It is durable, or whoever will sync it holds its file."""
        self.limit = limit
        self.durable = _ALL
        OPEN_FILES.forget(self)
        if self._file is not None:
            OPEN_FILES.used(self)

    def distrust(self) -> None:
        """What it holds was written by a process that is gone, and perhaps is in the page cache alone."""
        self.durable = _UNKNOWN

    def trust(self) -> None:
        """What it holds is durable, or its file is held by whoever will sync it."""
        self.durable = self.end_position if self.limit == MAX_OFFSET else _ALL

    def is_durable(self, file: DiskFile, size: int) -> None:
        """A sync of its file, which had so many bytes then, has ended well."""
        if self._file is file:
            self.durable = size

    def cut_file(self, size: int) -> None:
        """Cut it; what is left is durable with its next sync."""
        file = self.file
        self.durable = _UNKNOWN
        file.truncate(size)

    def drop_file(self) -> bool:
        """Let go of it, if all of it is durable; senders that use it may continue."""
        if self.end_position > self.durable:
            return False
        self._file = None
        return True

    def sync_and_drop(self) -> bool:
        """Sync it and let go of it.  False: that failed, as its log's next sync will say, or bytes wait for it."""
        file = self._file
        if file is not None:
            size = file.size()
            try:
                file.sync()
            except StorageError:
                return False
            self.durable = size
        return self.drop_file()

    def rest(self) -> None:
        """Its thread is done with it: let go of the file, if that may be."""
        if self.drop_file():
            OPEN_FILES.forget(self)

    def close(self) -> None:
        OPEN_FILES.forget(self)
        file, self._file = self._file, None
        if file is not None:
            file.close()
