"""The two sparse tables of a segment: from offset to file position, and from time to offset.

Kafka's formats, big endian: `.index` rows are (int32 offset relative to the segment, int32 position),
`.timeindex` rows (int64 largest timestamp so far, int32 relative offset of the batch that has it), both
growing.  Rows live in arrays in memory and are written after the log, never before it; a table that is
missing, torn or senseless is rebuilt from the log, so losing one costs time and nothing else.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct

from barnabas.errors import CorruptRecordError
from barnabas.model import NO_TIMESTAMP
from barnabas.ports import Disk

__all__ = ["OFFSET_ROW", "TIME_ROW", "OffsetIndex", "TimeIndex", "write_behind"]

OFFSET_ROW = 8
TIME_ROW = 12
_TIME = Struct(">qi")
_SWAP = sys.byteorder == "little"


class OffsetIndex:
    """Rows (relative offset of a batch's last record, position of that batch), both strictly growing."""

    __slots__ = ("offsets", "path", "positions", "written")

    def __init__(self, path: str) -> None:
        self.path = path
        self.offsets = array("i")
        self.positions = array("i")
        self.written = 0
        """Rows that are in the file already."""

    def __repr__(self) -> str:
        return f"<OffsetIndex rows={len(self.offsets)} written={self.written}>"

    def __len__(self) -> int:
        return len(self.offsets)

    def load(self, disk: Disk, log_size: int) -> None:
        """Read the file.  Raises CorruptRecordError when its rows are senseless for a log of this size.

        Zero rows at the end (a preallocated file after a crash) are dropped.
        """
        raw = disk.read(self.path)
        rows = array("i", raw[: len(raw) - len(raw) % OFFSET_ROW])
        if _SWAP:
            rows.byteswap()
        count = len(rows) // 2
        while count > 1 and rows[2 * count - 1] == 0:
            count -= 1
        if count == 1 and rows[0] == 0 and rows[1] == 0 and len(raw) > OFFSET_ROW:
            count = 0
        self.offsets = rows[0 : 2 * count : 2]
        self.positions = rows[1 : 2 * count : 2]
        self.written = count if len(raw) == count * OFFSET_ROW else -1
        if not (_grows(self.offsets) and _grows(self.positions)):
            raise CorruptRecordError(f"{self.path}: rows do not grow")
        if count and (self.positions[-1] >= log_size or self.offsets[0] < 0 or self.positions[0] < 0):
            raise CorruptRecordError(f"{self.path}: points outside its log")

    def floor(self, relative: int) -> int:
        """Position of the last row whose offset is at most `relative`; 0 when there is none."""
        row = bisect_right(self.offsets, relative)
        return self.positions[row - 1] if row else 0

    def boundary(self, position: int) -> int:
        """The last known batch start at or before `position`; 0 when there is none."""
        row = bisect_right(self.positions, position)
        return self.positions[row - 1] if row else 0

    def at_or_after(self, position: int) -> int | None:
        """The relative offset of the first row whose batch begins there or later; None when there is none."""
        row = bisect_left(self.positions, position)
        return self.offsets[row] if row < len(self.offsets) else None

    def truncate(self, relative: int) -> None:
        """Forget rows at or after this relative offset."""
        self.keep(bisect_left(self.offsets, relative))

    def keep(self, rows: int) -> None:
        """Keep this many rows; the file is written anew next time if it had more."""
        if rows < len(self.offsets):
            del self.offsets[rows:]
            del self.positions[rows:]
        if self.written > rows:
            self.written = -1

    def encode(self, first: int = 0) -> bytes:
        """The rows from `first` on, as the file has them."""
        rows = array("i", bytes(4 * 2 * (len(self.offsets) - first)))
        rows[0::2] = self.offsets[first:]
        rows[1::2] = self.positions[first:]
        if _SWAP:
            rows.byteswap()
        return rows.tobytes()


class TimeIndex:
    """Rows (largest timestamp so far in ms, relative offset of the batch that has it)."""

    __slots__ = ("offsets", "path", "timestamps", "written")

    def __init__(self, path: str) -> None:
        self.path = path
        self.timestamps = array("q")
        self.offsets = array("i")
        self.written = 0

    def __repr__(self) -> str:
        return f"<TimeIndex rows={len(self.timestamps)} written={self.written}>"

    def __len__(self) -> int:
        return len(self.timestamps)

    def load(self, disk: Disk) -> None:
        """Read the file.  Raises CorruptRecordError when its rows do not grow."""
        raw = disk.read(self.path)
        timestamps, offsets = array("q"), array("i")
        for timestamp, relative in _TIME.iter_unpack(raw[: len(raw) - len(raw) % TIME_ROW]):
            timestamps.append(timestamp)
            offsets.append(relative)
        if len(timestamps) > 1:
            while timestamps and not timestamps[-1] and not offsets[-1]:  # preallocated, never used
                timestamps.pop()
                offsets.pop()
        self.timestamps, self.offsets = timestamps, offsets
        self.written = len(timestamps) if len(raw) == len(timestamps) * TIME_ROW else -1
        if not _grows(timestamps) or any(a > b for a, b in pairwise(offsets)):
            raise CorruptRecordError(f"{self.path}: rows do not grow")

    @property
    def last_timestamp(self) -> int:
        return self.timestamps[-1] if self.timestamps else NO_TIMESTAMP

    def note(self, timestamp: int, relative: int) -> None:
        """Add a row unless the largest timestamp is what it was."""
        if timestamp > self.last_timestamp:
            self.timestamps.append(timestamp)
            self.offsets.append(relative)

    def floor(self, timestamp: int) -> int:
        """Relative offset from which to scan for the first record at or after `timestamp` ms."""
        row = bisect_left(self.timestamps, timestamp)
        return self.offsets[row - 1] if row else 0

    def truncate(self, relative: int) -> None:
        self.keep(bisect_left(self.offsets, relative))

    def keep(self, rows: int) -> None:
        if rows < len(self.timestamps):
            del self.timestamps[rows:]
            del self.offsets[rows:]
        if self.written > rows:
            self.written = -1

    def encode(self, first: int = 0) -> bytes:
        pack = _TIME.pack
        rows = zip(self.timestamps[first:], self.offsets[first:], strict=True)
        return b"".join([pack(timestamp, relative) for timestamp, relative in rows])


def write_behind(disk: Disk, index: OffsetIndex | TimeIndex) -> None:
    """Bring the file up to the rows in memory (not synced): append what is new, or write all of it anew."""
    if index.written == len(index):
        return
    file = disk.open(index.path, create=True)
    try:
        if index.written < 0:
            file.truncate(0)
            index.written = 0
        file.append([index.encode(index.written)])
        index.written = len(index)
    finally:
        file.close()


def _grows(rows: array[int]) -> bool:
    return all(a < b for a, b in pairwise(rows))
