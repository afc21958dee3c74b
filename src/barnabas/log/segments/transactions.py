"""Aborted transactions of a segment (`.txnindex`): what a read_committed consumer must skip.

One 34-byte row per abort marker in the segment: int16 version 0, int64 producer id, first offset, last
offset (the marker), and the last stable offset when the marker was written, by which a search knows that
no later row can matter.  Most segments have none, and then no file.

So a file that is lost looks like none, and readers would see what was aborted.  Therefore a file of ours beside
the log (`barnabas-aborted`: a line for each segment that has rows, and grows no more or was left by a clean stop,
"base checksum") tells which there must be, and what is in them.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from barnabas.errors import CorruptRecordError, StorageError
from barnabas.model import Offset, ProducerId
from barnabas.ports import Disk

__all__ = ["FILE", "AbortedTransaction", "TransactionIndex", "read_sums", "write_sums"]

FILE = "barnabas-aborted"

_ROW = Struct(">hqqqq")
_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted; `last_offset` is its marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """The rows of one segment, by growing last offset."""

    __slots__ = ("path", "rows", "written")

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: list[AbortedTransaction] = []
        self.written = 0

    def __repr__(self) -> str:
        return f"<TransactionIndex rows={len(self.rows)} written={self.written}>"

    def load(self, disk: Disk) -> None:
        """Read the file if there is one.  Raises CorruptRecordError when it is senseless."""
        self.rows, self.written = [], 0
        if not disk.exists(self.path):
            return
        raw = disk.read(self.path)
        if len(raw) % _ROW.size:
            raise CorruptRecordError(f"{self.path}: {len(raw)} bytes are no whole rows")
        last = -1
        for version, producer_id, first, end, stable in _ROW.iter_unpack(raw):
            if version != 0 or first > end or end <= last:
                raise CorruptRecordError(f"{self.path}: row {len(self.rows)} is senseless")
            last = end
            self.rows.append(AbortedTransaction(producer_id, first, end, stable))
        self.written = len(self.rows)

    @property
    def checksum(self) -> int:
        """Return the CRC of all rows."""
        return crc32c(b"".join(_ROW.pack(0, *row) for row in self.rows))

    def append(self, aborted: AbortedTransaction) -> None:
        self.rows.append(aborted)

    def truncate(self, offset: Offset) -> None:
        """Forget transactions whose marker lies at or after `offset`."""
        keep = [row for row in self.rows if row.last_offset < offset]
        if len(keep) < len(self.rows):
            self.rows = keep
            if self.written > len(keep):
                self.written = -1

    def write_behind(self, disk: Disk) -> None:
        """Bring the file up to the rows in memory (not synced); no file while there is nothing to say."""
        if self.written == len(self.rows):
            return
        if not self.rows:
            if disk.exists(self.path):
                disk.remove(self.path)
            self.written = 0
            return
        file = disk.open(self.path, create=True)
        try:
            if self.written < 0:
                file.truncate(0)
                self.written = 0
            file.append([b"".join(_ROW.pack(0, *row) for row in self.rows[self.written :])])
            self.written = len(self.rows)
        finally:
            file.close()

    def collect(self, offset: Offset, end: Offset, into: list[AbortedTransaction]) -> bool:
        """Add the rows that touch [offset, end) to `into`; true when no later segment can add any."""
        rows = self.rows
        for row in islice(rows, bisect_left(rows, offset, key=_last_offset), None):
            if row.first_offset < end:
                into.append(row)
            if row.last_stable_offset >= end:
                return True
        return False


def read_sums(disk: Disk, path: str) -> dict[Offset, int]:
    """Read the file beside the log in the directory `path`: checksums by base; unreadable lines are left out."""
    file = f"{path}/{FILE}"
    found: dict[Offset, int] = {}
    if disk.exists(file):
        for line in disk.read(file).decode("utf-8", "replace").splitlines():
            base, _, checksum = line.partition(" ")
            if base.isdecimal() and checksum.isdecimal():
                found[int(base)] = int(checksum)
    return found


def write_sums(disk: Disk, path: str, sums: dict[Offset, int]) -> None:
    """Write it down in the directory `path`.  Raises StorageError, unless there is only no room."""
    file = f"{path}/{FILE}"
    try:
        if sums:
            disk.replace(file, "".join(f"{base} {sums[base]}\n" for base in sorted(sums)).encode())
        elif disk.exists(file):
            disk.remove(file)
    except StorageError as error:
        if not error.full:  # else those of later segments are written with the next ones
            raise
