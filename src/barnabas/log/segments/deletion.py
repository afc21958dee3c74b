"""Files of segments that were deleted: renamed `.deleted` now, removed later."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.log.segments.names import base_of
from barnabas.log.segments.segment import MAX_OFFSET, Segment
from barnabas.model import Now, Offset

__all__ = ["DeletedFiles"]


class _Files(NamedTuple):
    due: float
    paths: list[str]
    segment: Segment | None
    """The segment of these files, if a reader may still use it."""
    end: Offset
    """What was in them lies below this offset."""


class DeletedFiles:
    """The deleted files of one log, oldest first."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: list[_Files] = []

    def __repr__(self) -> str:
        return f"<DeletedFiles {len(self._files)}>"

    def __len__(self) -> int:
        return len(self._files)

    def add(
        self, due: float, paths: list[str], segment: Segment | None = None, *, end: Offset = MAX_OFFSET
    ) -> None:
        """To be removed at `due` (monotonic seconds); they hold offsets below `end`, or the segment's limit."""
        self._files.append(_Files(due, paths, segment, end if segment is None else segment.limit))

    def take(self, now: Now, known_start: Offset, first: Offset) -> list[str]:
        """Close those whose time has come; their paths.

        `known_start` is where the log starts for who opens it next, `first` where its first segment begins.
        Before that knows that a segment at the start was deleted, its files stay, to tell: else it is missed.
        """
        due: list[str] = []
        while self._files and self._files[0].due <= now.mono:
            paths, end = self._files[0].paths, self._files[0].end
            if paths and max(known_start, base_of(paths[0])) < min(first, end):
                break
            segment = self._files.pop(0).segment
            if segment is not None:
                segment.close()
            due += paths
        return due

    def moved(self, name: Callable[[str], str]) -> None:
        """The directory of the log has another name: `name` gives what lies in it its new path."""
        self._files = [files._replace(paths=[name(one) for one in files.paths]) for files in self._files]

    def close(self) -> None:
        """Close them, and leave them where they are."""
        for files in self._files:
            if files.segment is not None:
                files.segment.close()
