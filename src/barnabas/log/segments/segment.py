"""One segment: a `.log` of record batches and the tables beside it.

Write, then say what is durable; on opening trust nothing after the last good CRC (`recovery`).  The file
of an old segment is opened and its tables are loaded when somebody reads them; a table that is missing or
senseless is rebuilt from the headers in the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from barnabas.errors import CorruptRecordError
from barnabas.log.segments.index import OFFSET_ROW, TIME_ROW, OffsetIndex, TimeIndex, write_behind
from barnabas.log.segments.names import file_name
from barnabas.log.segments.scan import headers_of
from barnabas.log.segments.segment_file import MAX_OFFSET, SegmentFile
from barnabas.log.segments.transactions import TransactionIndex
from barnabas.model import NO_OFFSET, NO_TIMESTAMP, Offset
from barnabas.ports import Buffer, Disk
from barnabas.wire.records import BatchHeader

__all__ = ["MAX_OFFSET", "NEVER", "Segment"]

NEVER: Final = 1 << 62
"""A timestamp that no record reaches."""
_INT32_MAX = 0x7FFFFFFF
_HINTS_KEPT = 64
_ROWS_TRIED = 64
_KINDS = (".log", ".index", ".timeindex", ".txnindex")


class Segment(SegmentFile):
    """The records from `base` on, up to the base of the next segment."""

    __slots__ = (
        "_hints",
        "_index",
        "_time_index",
        "_transactions",
        "byte_limit",
        "created_ms",
        "first_timestamp",
        "fresh",
        "index_interval",
        "last_index_position",
        "max_rows",
        "max_timestamp",
        "max_timestamp_offset",
        "remade",
        "roll_after_ms",
        "roll_at",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base: Offset,
        *,
        created_ms: int = 0,
        suffix: str = "",
        index_interval: int = 4096,
    ) -> None:
        super().__init__(disk, directory, base, suffix)
        self.created_ms = created_ms
        self.last_index_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset: Offset = NO_OFFSET
        """Last offset of the batch that has the largest timestamp."""
        self.first_timestamp = NO_TIMESTAMP
        self.roll_at = NEVER
        """A batch with a larger timestamp (ms) begins a new segment."""
        self.byte_limit = _INT32_MAX
        self.index_interval = index_interval
        self.roll_after_ms = NEVER
        self.max_rows = _INT32_MAX
        self.fresh: tuple[Offset, Offset, list[Buffer] | bytes] | None = None
        """What was written last (from, to, batches), while their buffers hold it and the writer keeps it here."""
        self.remade: list[str] = []
        """Files of tables that were gone or wrong, and are made again (a log has one list for all)."""
        self._hints: dict[Offset, int] = {}
        """Where batches begin at which a reader stopped and will continue."""
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transactions: TransactionIndex | None = None

    def __repr__(self) -> str:
        return f"<Segment {self.base} size={self.end_position} max_timestamp={self.max_timestamp}>"

    def moved(self, directory: str) -> None:
        """Its directory has another name; open files stay open."""
        self.directory = directory
        self._say_paths()

    def _say_paths(self) -> None:
        for table, kind in zip((self._index, self._time_index, self._transactions), _KINDS[1:], strict=True):
            if table is not None:
                table.path = self.path(kind)
        if self._file is not None:
            self._file.path = self.path(".log")

    # --- the files ----------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make an empty segment (the caller makes the directory entry durable)."""
        self.create_file()
        for suffix in (".index", ".timeindex", ".txnindex"):
            if self.disk.exists(self.path(suffix)):
                self.disk.remove(self.path(suffix))
        self.fresh_tables()

    def start_over(self) -> None:
        """Forget the tables and the size; `note` builds them again."""
        self.fresh_tables()
        self.end_position = 0

    def place_again(self) -> None:
        """Build the tables for where its batches lie in a file that somebody has cut."""
        transactions, headers = self._transactions, [header for _, header in self.headers()]
        self.start_over()
        self._transactions = transactions
        self._hints.clear()
        for header in headers:
            self.note(header.last_offset, header.max_timestamp, header.size)
        self.cut_file(self.end_position)

    def fresh_tables(self) -> None:
        """Forget the tables; their files are written anew."""
        self._index = OffsetIndex(self.path(".index"))
        self._time_index = TimeIndex(self.path(".timeindex"))
        self._transactions = TransactionIndex(self.path(".txnindex"))
        self._index.written = self._time_index.written = self._transactions.written = -1
        self.last_index_position = 0
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, NO_OFFSET
        self.first_timestamp = NO_TIMESTAMP

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._load_tables()
            assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_tables()
            assert self._time_index is not None
        return self._time_index

    @property
    def transactions(self) -> TransactionIndex:
        """Aborted transactions.

        Raises CorruptRecordError: only a replay of the log can rebuild this table.
        """
        if self._transactions is None:
            table = TransactionIndex(self.path(".txnindex"))
            table.load(self.disk)
            self._transactions = table
        return self._transactions

    def _load_tables(self) -> None:
        index, times = OffsetIndex(self.path(".index")), TimeIndex(self.path(".timeindex"))
        reads = {
            index.path: lambda: index.load(self.disk, self.end_position),
            times.path: lambda: times.load(self.disk),
        }
        wrong = [path for path, read in reads.items() if not self._is_read(path, read)]
        if not wrong:
            self._index, self._time_index = index, times
            return
        if len(wrong) == 1 or self.limit < MAX_OFFSET:  # (a clean stop leaves none of a short log)
            self.remade += wrong
        self.rebuild_tables()

    def _is_read(self, path: str, read: Callable[[], None]) -> bool:
        """Read the file of a table; false where it is gone or senseless."""
        with suppress(CorruptRecordError):
            if self.disk.exists(path):
                read()
                return True
        return False

    def load(self) -> None:
        """Open an old or cleanly closed segment: its size now, everything else at first use."""
        self.end_position = self.disk.size(self.path(".log"))

    def load_tail(self) -> None:
        """What appending needs to know: the largest timestamp and where the last index row points."""
        times = self.time_index
        self.max_timestamp = times.last_timestamp
        self.max_timestamp_offset = self.base + times.offsets[-1] if len(times) else NO_OFFSET
        self.last_index_position = self.index.positions[-1] if len(self.index) else 0
        for _, header in headers_of(self.file, self.last_index_position, self.end_position):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset
        self.first_timestamp = self.read_first_timestamp()
        self._set_roll_at()

    def read_first_timestamp(self) -> int:
        """Largest timestamp of the first batch (what rolling by time counts from); -1 in an empty segment."""
        for _, header in headers_of(self.file, 0, self.end_position):
            return header.max_timestamp
        return NO_TIMESTAMP

    def oldest_timestamp(self) -> int:
        """`first_timestamp`, read where it is not known yet.  Raises StorageError."""
        if self.first_timestamp < 0 and self.end_position:
            self.first_timestamp = self.read_first_timestamp()
        return self.first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """Largest record timestamp in ms, NO_TIMESTAMP where records have none."""
        if self.max_timestamp < 0 and self.end_position:
            times = self.time_index
            self.max_timestamp = times.last_timestamp
            if len(times):
                self.max_timestamp_offset = self.base + times.offsets[-1]
        return self.max_timestamp

    def rebuild_tables(self) -> None:
        """Make `.index` and `.timeindex` anew from the batch headers (`.txnindex` is left alone).

        They end where there is no batch in a file that is damaged.
        """
        transactions = self._transactions
        self.fresh_tables()
        self._transactions = transactions
        end, self.end_position = self.end_position, 0
        next_, limit = self.base, min(self.limit, self.base + _INT32_MAX + 1)
        with suppress(CorruptRecordError):
            for position, header in headers_of(self.file, 0, end):
                if not next_ <= header.base_offset <= header.last_offset < limit:
                    break
                next_ = header.last_offset + 1
                self.end_position = position
                self.note(header.last_offset, header.max_timestamp, header.size)
        self.end_position = end
        self.seal()

    # --- appending ----------------------------------------------------------------------------------------

    def configure(
        self, segment_bytes: int, roll_after_ms: int, index_interval: int, index_bytes: int
    ) -> None:
        self.byte_limit = segment_bytes
        self.roll_after_ms = roll_after_ms
        self.index_interval = index_interval
        self.max_rows = min(index_bytes // OFFSET_ROW, index_bytes // TIME_ROW) or 1
        self._set_roll_at()

    def _set_roll_at(self) -> None:
        if self.end_position:
            self.roll_at = self.first_timestamp + self.roll_after_ms if self.first_timestamp >= 0 else -2
        else:
            self.roll_at = NEVER

    def note(self, last_offset: Offset, max_timestamp: int, size: int) -> None:
        """A batch of `size` bytes is appended at the end position: keep the tables up with it."""
        position = self.end_position
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position - self.last_index_position > self.index_interval:
            self._add_rows(last_offset, position)
        elif not position:
            self.first_timestamp = max_timestamp
            self.end_position = size
            self._set_roll_at()
            return
        self.end_position = position + size

    def _add_rows(self, last_offset: Offset, position: int) -> None:
        index, times = self.index, self.time_index
        index.offsets.append(last_offset - self.base)
        index.positions.append(position)
        if self.max_timestamp_offset >= 0:
            times.note(self.max_timestamp, self.max_timestamp_offset - self.base)
        self.last_index_position = position
        if len(index) >= self.max_rows:
            self.byte_limit = -1  # a full table ends the segment

    def must_roll(self, last_offset: Offset, max_timestamp: int, size: int, wall_ms: int) -> bool:
        """Whether this batch begins a new segment: by size, time, a full table, or the int32 of a row."""
        if not self.end_position:
            return last_offset - self.base > _INT32_MAX
        if self.end_position + size > self.byte_limit or last_offset - self.base > _INT32_MAX:
            return True
        if self.first_timestamp >= 0:
            return max_timestamp - self.first_timestamp > self.roll_after_ms
        return wall_ms - self.created_ms > self.roll_after_ms

    def seal(self) -> None:
        """The segment grows no more (or is closed): the last time row says its largest timestamp."""
        if self.max_timestamp_offset >= 0:
            self.time_index.note(self.max_timestamp, self.max_timestamp_offset - self.base)

    def write_tables(self) -> list[str]:
        """Bring the files of the tables up to the rows in memory, unsynced.  Returns the paths to sync."""
        paths = []
        if self._index is not None and self._index.written != len(self._index):
            write_behind(self.disk, self._index)
            paths.append(self._index.path)
        if self._time_index is not None and self._time_index.written != len(self._time_index):
            write_behind(self.disk, self._time_index)
            paths.append(self._time_index.path)
        table = self._transactions
        if table is not None and table.written != len(table.rows):
            table.write_behind(self.disk)
            if table.rows:
                paths.append(table.path)
        return paths

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of every written batch from this boundary on.  Raises CorruptRecordError."""
        return headers_of(self.file, position, self.file.size())

    def batch_size(self, position: int) -> int:
        """Bytes of the batch at this boundary, 0 at the end."""
        for _, header in headers_of(self.file, position, self.file.size()):
            return header.size
        return 0

    # --- finding ------------------------------------------------------------------------------------------

    def locate(self, offset: Offset, start: int = 0) -> int:
        """Position of the first batch whose last offset is at least `offset`; the end of the file if none.

        `start` is a batch boundary known to lie at or before it.  Raises CorruptRecordError where the way
        there does not lead over batches whose offsets grow.
        """
        if not start and (hint := self._hints.get(offset)) is not None:
            return hint
        try:
            return self._walk(offset, max(start, self.index.floor(offset - self.base)))
        except CorruptRecordError:
            with suppress(CorruptRecordError):  # the row may be wrong, and the records right
                return self._walk(offset, max(start, self.row_before(offset)[0]))
            resumed = self.sound_row(start, offset, most=1)
            if resumed is None or resumed[1] > offset:
                raise
            return resumed[0]

    def _walk(self, offset: Offset, position: int) -> int:
        last = self.base - 1
        for at, header in self.headers(position):
            if not last < header.base_offset <= header.last_offset < self.limit:
                raise CorruptRecordError(
                    f"{self.path('.log')}: offset {header.base_offset} at {at} does not follow {last}"
                )
            last, position = header.last_offset, at + header.size
            if last >= offset:
                if header.base_offset > offset:  # compaction left nothing there, or it is not what it says
                    for _, after in self.headers(position):
                        if after.base_offset <= last:
                            raise CorruptRecordError(f"{self.path('.log')}: offset {last} is there twice")
                        break
                return at
        if position != self.file.size():
            raise CorruptRecordError(f"{self.path('.log')} has no whole batch at {position}")
        return position

    def row_before(self, offset: Offset) -> tuple[int, Offset]:
        """A batch boundary well before an offset (by two rows), and an offset below which nothing lies there."""
        index = self.index
        last = bisect_right(index.offsets, offset - self.base) - 2
        for row in range(last, max(-1, last - _ROWS_TRIED), -1):
            if self._is_sound(row):
                return index.positions[row], self.base + index.offsets[row - 1] + 1 if row else self.base
        return 0, self.base

    def _is_sound(self, row: int) -> bool:
        """Whether a row of the offset index leads to the batch that it names."""
        try:
            for _, header in self.headers(self.index.positions[row]):
                return header.last_offset == self.base + self.index.offsets[row]
        except CorruptRecordError:
            pass
        return False

    def sound_row(
        self, position: int, offset: Offset = 0, *, most: int = _ROWS_TRIED
    ) -> tuple[int, Offset] | None:
        """The first row after `position`, and for offsets from `offset` on, that leads to the batch that it
        names: where that is, and its base offset.  Where `most` rows in a row do not, ever more are left out.
        """
        index = self.index
        row = max(bisect_right(index.positions, position), bisect_left(index.offsets, offset - self.base))
        tried = 0
        while row < len(index) and tried < 2 * most:
            if self._is_sound(row):
                at = index.positions[row]
                return at, next(self.headers(at))[1].base_offset
            tried += 1
            row += 1 if tried < most else 1 << (tried - most + 1)
        return None

    def whole_until(self, start: int) -> int:
        """The end of the whole batches that follow each other from the boundary `start` on."""
        last = self.base - 1
        with suppress(CorruptRecordError):
            for at, header in self.headers(start):
                if not last < header.base_offset <= header.last_offset < self.limit:
                    break
                last, start = header.last_offset, at + header.size
        return start

    def boundary(self, start: int, limit: int) -> int:
        """The last batch boundary in [start, limit], both being positions; `start` is a boundary."""
        try:
            return self._boundary(max(start, self.index.boundary(limit)), limit)
        except CorruptRecordError:
            try:
                return self._boundary(start, limit)
            except CorruptRecordError:
                return min(self.whole_until(start), limit)

    def _boundary(self, position: int, limit: int) -> int:
        for at, header in self.headers(position):
            position = at + header.size
            if position > limit:
                if len(self._hints) >= _HINTS_KEPT:
                    self._hints.clear()
                self._hints[header.base_offset] = at
                return at
        return position

    def place_of_cut(self, offset: Offset, *, gaps: bool = False) -> tuple[int, Offset]:
        """Where a cut at `offset` falls: the position of the batch that holds it, and where the segment ends then.

        If no batch holds it, that is where the batch before ends, unless compaction may have left `gaps`: the
        batch behind may claim offsets that are not its own, and then records are missing here.  What cannot be
        read ends the segment before `offset`.
        """
        for begin in {self.index.floor(offset - self.base): None, 0: None}:
            position, end = begin, self.base
            try:
                for at, header in self.headers(position):
                    if header.last_offset >= offset:
                        beyond = header.base_offset > offset
                        if beyond and at == begin > 0:
                            break  # the row names a batch that is gone: none before this one is known yet
                        return position, (offset if gaps else end) if beyond else header.base_offset
                    position, end = at + header.size, header.last_offset + 1
                    if end == offset:
                        return position, offset  # what follows goes, and need not be readable
                else:
                    return position, offset
            except CorruptRecordError:
                if position > begin:  # (else the index may be wrong)
                    break
        return position, end

    def truncate(self, offset: Offset, *, gaps: bool = False) -> Offset:
        """Cut from the batch that holds `offset` on.  Returns the new end offset of the segment."""
        position, end = self.place_of_cut(offset, gaps=gaps)
        self._hints.clear()
        self.cut_file(position)
        self.end_position = position
        self.index.truncate(end - self.base)
        self.time_index.truncate(end - self.base)
        self.transactions.truncate(offset)
        self.load_tail()
        return end

    # --- ending -------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Files of this segment that exist."""
        found = (file_name(self.base, kind + self.suffix) for kind in _KINDS)
        return [name for name in found if self.disk.exists(f"{self.directory}/{name}")]

    def rename(self, suffix: str) -> None:
        """Let the names of its files end in `suffix` from now on, records first; an open file stays open."""
        old, self.suffix = self.suffix, suffix
        for kind in _KINDS:
            was = f"{self.directory}/{self.base:020d}{kind}{old}"
            if kind == ".log" or self.disk.exists(was):
                self.disk.rename(was, self.path(kind))
        self._say_paths()

    def rename_deleted(self) -> list[str]:
        """Rename every file to `.deleted`.  Returns the new paths; an open file stays readable."""
        renamed = []
        for name in self.names():
            target = f"{self.directory}/{name}.deleted"
            self.disk.rename(f"{self.directory}/{name}", target)
            renamed.append(target)
        return renamed

    def release(self) -> None:
        """Drop the tables from memory; they are loaded again when needed (all rows are in the files)."""
        if self._index is not None and self._index.written == len(self._index):
            self._index = None
        if self._time_index is not None and self._time_index.written == len(self._time_index):
            self._time_index = None
