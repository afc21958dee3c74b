"""The index files of a segment, held against its batches while somebody reads these anyway."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.errors import CorruptRecordError
from barnabas.log.segments.index import OffsetIndex, TimeIndex
from barnabas.log.segments.segment import Segment
from barnabas.wire.records import BatchHeader

__all__ = ["TableCheck"]

INDEX, TIME_INDEX = ".index", ".timeindex"


class TableCheck:
    """The rows of `.index` and `.timeindex` as the disk has them.

    `wrong` are those of the two that say something else than the batches that `meet` was shown, one after the
    other from the first on.  A file may end early: a reader begins before where it has to.
    """

    __slots__ = ("_base", "_index", "_row", "_time_row", "_times", "wrong")

    def __init__(self, segment: Segment) -> None:
        """Raises StorageError."""
        self._base = segment.base
        self._index, self._times = OffsetIndex(segment.path(INDEX)), TimeIndex(segment.path(TIME_INDEX))
        self._row = self._time_row = 0
        self.wrong: set[str] = set()
        disk = segment.disk
        loads: dict[str, Callable[[], None]] = {
            INDEX: lambda: self._index.load(disk, segment.end_position),
            TIME_INDEX: lambda: self._times.load(disk),
        }
        for kind, load in loads.items():
            try:
                if disk.exists(segment.path(kind)):  # (else it is in memory yet, or a start misses it)
                    load()
            except CorruptRecordError:
                self.wrong.add(kind)

    def meet(self, position: int, header: BatchHeader) -> None:
        """The next batch lies here."""
        index, times = self._index, self._times
        row, first, last = self._row, header.base_offset - self._base, header.last_offset - self._base
        if row < len(index) and index.positions[row] <= position:
            if index.positions[row] != position or index.offsets[row] != last:
                self.wrong.add(INDEX)
            while row < len(index) and index.positions[row] <= position:
                row += 1
            self._row = row
        row = self._time_row
        while row < len(times) and times.offsets[row] <= last:
            if times.offsets[row] < first or times.timestamps[row] != header.max_timestamp:
                self.wrong.add(TIME_INDEX)
            row += 1
        self._time_row = row

    def end(self) -> None:
        """All batches of a segment that grows no more were met."""
        if self._row < len(self._index):
            self.wrong.add(INDEX)
        if self._time_row < len(self._times):
            self.wrong.add(TIME_INDEX)

    def __repr__(self) -> str:
        return f"<TableCheck {self._index!r} {self._times!r} wrong={sorted(self.wrong)}>"
