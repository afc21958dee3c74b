"""A bound on the open files of sealed segments: those that were read last stay open, up to a limit per process.

Descriptors are scarce and shared.  The newest segment of each log keeps its file open; an older one opens its
file when it is read.  A file that is dropped here closes as soon as nobody sends from it any more: a slice
holds its file, and the last holder closes it.  Threads that open logs use this at the same time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Protocol

__all__ = ["SEALED", "OpenFiles"]

_USUAL = 1024
_LEAST = 16


class SealedSegment(Protocol):
    """A segment that does not grow."""

    def drop_file(self) -> None:
        """Release its file; senders that use it may continue."""
        ...


class OpenFiles:
    """The segments whose files are open, the one that was read longest ago first."""

    __slots__ = ("_guard", "_opened", "most")

    def __init__(self, most: int = _USUAL) -> None:
        self.most = most
        self._opened: OrderedDict[SealedSegment, None] = OrderedDict()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._opened)

    def __repr__(self) -> str:
        return f"<OpenFiles {len(self._opened)} of {self.most}>"

    def allow(self, descriptors: int) -> None:
        """Of so many descriptors that the process may have, a quarter is for sealed segments."""
        with self._guard:
            self.most = max(_LEAST, descriptors // 4)
            self._shrink()

    def used(self, segment: SealedSegment) -> None:
        """A sealed segment is read, or has just been sealed."""
        opened = self._opened
        with self._guard:
            if segment in opened:
                opened.move_to_end(segment)
            else:
                opened[segment] = None
                if len(opened) > self.most:
                    self._shrink()

    def forget(self, segment: SealedSegment) -> None:
        """Its file was closed, or must stay open because the segment grows again."""
        self._opened.pop(segment, None)

    def forget_all(self) -> None:
        """Whoever had them open is gone, and did not say so: a simulated world that is over."""
        with self._guard:
            self._opened.clear()

    def _shrink(self) -> None:
        while len(self._opened) > self.most:
            segment, _ = self._opened.popitem(last=False)
            segment.drop_file()


SEALED = OpenFiles()
"""The open sealed segments of this process, which has one limit on descriptors."""
