"""A compacted segment, from its first byte to its place in the log.

A thread writes it beside the log under names that end in `.cleaned`, and syncs it.  Then, in one loop step,
it is renamed `.swap`, the segments that it replaces are renamed `.deleted`, and it gets its final name.  A
crash leaves a prefix of these renames: the next start removes `.cleaned` files, and puts a whole `.swap` in
place (`recovery`).
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.errors import StorageError
from barnabas.log.segments.segment import Segment
from barnabas.log.state import LogState
from barnabas.model import Now, Offset
from barnabas.ports import Buffer, Disk

__all__ = ["CLEANED", "CompactedSegment", "swap_in"]

CLEANED = ".cleaned"
_WRITE_BYTES = 1 << 18


class CompactedSegment:
    """A segment in the making.  All in one thread."""

    __slots__ = ("_parts", "_unwritten", "changed", "segment")

    def __init__(self, disk: Disk, directory: str, base: Offset, index_interval: int) -> None:
        self.segment = Segment(disk, directory, base, suffix=CLEANED, index_interval=index_interval)
        self.segment.create()
        self.changed = False
        """Whether it differs from what it is made of."""
        self._parts: list[Buffer] = []
        self._unwritten = 0

    def __repr__(self) -> str:
        return f"<CompactedSegment {self.segment.base} size={self.segment.end_position}>"

    def append(self, batch: Buffer, last_offset: Offset, max_timestamp: int) -> None:
        """Add one batch.  Raises StorageError."""
        self._parts.append(batch)
        self.segment.note(last_offset, max_timestamp, len(batch))
        self._unwritten += len(batch)
        if self._unwritten >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self.segment.file.append(self._parts)
        self._parts, self._unwritten = [], 0

    def finish(self, modified_ms: int) -> None:
        """Write and sync everything; `modified_ms` is when the newest of its records were written."""
        segment, disk = self.segment, self.segment.disk
        self._write()
        segment.seal()
        for path in segment.write_tables():
            file = disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
        disk.set_modified_ms(segment.path(".log"), modified_ms)
        segment.file.sync()

    def discard(self) -> None:
        """Remove its files; those that are gone already are no error."""
        segment = self.segment
        segment.close()
        for name in segment.names():
            segment.disk.remove(f"{segment.directory}/{name}")


def swap_in(log: LogState, cleaned: Segment, replaced: Sequence[Segment], now: Now) -> None:
    """Let a compacted segment take the place of those it was made of.

    Raises StorageError; the log has failed then.
    """
    if log.failed is not None:
        raise log.failed
    place = log.segments.index(replaced[0])
    after = place + len(replaced)
    assert log.segments[place:after] == list(replaced) and after < len(log.segments)
    try:
        cleaned.rename(".swap")
        for segment in replaced:
            log.rename_deleted(segment, now)
        cleaned.rename("")
        log.replace_segments(place, len(replaced), cleaned)
    except StorageError as error:
        error.full = False  # half done
        log.fail(error)
        raise
    cleaned.release()
    cleaned.close()  # until somebody reads it
