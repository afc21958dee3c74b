"""The producer snapshots beside a log: one where each segment begins, and the newest.

Taken at a roll (synced with the next sync) and at a clean close; a corrupt one is removed and an older one
is used, with more of the log replayed on top.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable

from barnabas.errors import CorruptRecordError
from barnabas.log.producers.snapshot import SnapshotRow, decode_producers, encode_producers
from barnabas.log.segments.names import file_name
from barnabas.model import Offset
from barnabas.ports import Disk

__all__ = ["SUFFIX", "ProducerSnapshots"]

SUFFIX = ".snapshot"


class ProducerSnapshots:
    """Which `NNN.snapshot` files there are in a log's directory."""

    __slots__ = ("_directory", "_disk", "offsets")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets: list[Offset] = []

    def __repr__(self) -> str:
        return f"<ProducerSnapshots {self.offsets}>"

    def __contains__(self, offset: Offset) -> bool:
        return offset in self.offsets

    def moved(self, directory: str) -> None:
        """The log's directory has another name."""
        self._directory = directory

    def found(self, offsets: Iterable[Offset]) -> None:
        """These are there."""
        self.offsets = sorted(offsets)

    def path(self, offset: Offset) -> str:
        return f"{self._directory}/{file_name(offset, SUFFIX)}"

    def take(self, offset: Offset, rows: Iterable[SnapshotRow]) -> str:
        """Write a snapshot, unsynced.  Returns its path, for the next sync."""
        path = self.path(offset)
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            file.append([encode_producers(rows)])
        finally:
            file.close()
        if offset not in self.offsets:
            insort(self.offsets, offset)
        return path

    def newest(self, up_to: Offset) -> tuple[Offset, list[SnapshotRow]] | None:
        """The newest good snapshot at or before `up_to`; corrupt ones met on the way are removed."""
        while place := bisect_right(self.offsets, up_to):
            offset = self.offsets[place - 1]
            try:
                return offset, decode_producers(self._disk.read(self.path(offset)))
            except CorruptRecordError:
                self._remove(offset)
        return None

    def remove_after(self, offset: Offset) -> bool:
        """Remove snapshots of a longer log than one that ends at `offset`; whether there were any."""
        going = [taken for taken in self.offsets if taken > offset]
        for taken in going:
            self._remove(taken)
        return bool(going)

    def prune(self, bases: Iterable[Offset]) -> None:
        """Keep one per segment base, and the newest."""
        keep = {*bases, *self.offsets[-1:]}
        for taken in [taken for taken in self.offsets if taken not in keep]:
            self._remove(taken)

    def _remove(self, offset: Offset) -> None:
        self.offsets.remove(offset)
        self._disk.remove(self.path(offset))
