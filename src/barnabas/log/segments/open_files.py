"""A bound on the open files of segments: those that were used last stay open, up to a limit per process.

Descriptors are scarce, and sockets need them too.  A segment opens its file when it is used, and lets go of it
here when others need the room.  A file closes as soon as nobody sends from it any more: a slice holds its file,
and the last holder closes it.

A sealed segment lets go at once; threads that read and compact use this at the same time.  The last segment of a
log lets go only of what is durable (`segment_file`).  That is decided in the thread that works on the log: each
thread has a list of its own, and threads that open or settle logs let go of everything when they are done.

Where acknowledgements do not wait for syncs, most open files may hold what is not durable.  Then a few are named
to whoever syncs logs in other threads (`take_unsynced`), and meanwhile half as many again may be open.  Only
beyond that one is synced at once, which the thread that opens a file waits for.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Protocol

__all__ = ["OPEN_FILES", "OpenFiles", "descriptors_for", "enough_for"]

_USUAL = 2048
_LEAST = 16
_BRIM = 64
_NO_BRIM = 1 << 30
_SHARE = 4
"""One of so many descriptors is for a segment that grows."""
_FOR_OTHERS = 1024
_LOOKED_AT = 64
"""So many files at most are considered when one is opened."""
_NAMED = 4
"""So many of them at most are named to be synced."""


def enough_for(partitions: int, descriptors: int) -> bool:
    """Whether so many partitions may all have a file open at the same time."""
    return partitions <= descriptors // _SHARE


def descriptors_for(partitions: int) -> int:
    """How many a node with so many partitions should have (a power of two)."""
    return 1 << (_SHARE * partitions + _FOR_OTHERS - 1).bit_length()


class OpenSegment(Protocol):
    """A segment whose file is open."""

    used: bool
    directory: str

    def drop_file(self) -> bool:
        """Release its file; senders that use it may continue.  False: it must stay open."""
        ...

    def sync_and_drop(self) -> bool:
        """The same after a sync, which takes its time."""
        ...


class _Growing(threading.local):
    """The last segments of logs that this thread has opened, the one that was opened longest ago first."""

    def __init__(self) -> None:
        self.files: OrderedDict[OpenSegment, None] = OrderedDict()


class OpenFiles:
    """The segments whose files are open."""

    __slots__ = ("_brim", "_crowded", "_growing", "_guard", "_sealed", "_spare", "most", "short", "unsynced")

    def __init__(self, most: int = _USUAL) -> None:
        self.most = most
        """Segments that grow and have their file open; half as many sealed ones may."""
        self.short = False
        """Many descriptors were taken when the last file was opened: who reads should hold none for long."""
        self.unsynced: dict[str, None] = {}
        """The directories of logs whose file would be closed if all of it were durable (`take_unsynced`)."""
        self._crowded = _NO_BRIM
        """The system gives out the lowest number that is free: from here on there are many already."""
        self._brim = _NO_BRIM
        """From here on there are only a few left."""
        self._spare = -1
        """A descriptor to be given back when none is left and no segment can let go of one."""
        self._sealed: OrderedDict[OpenSegment, None] = OrderedDict()
        self._growing = _Growing()
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._sealed) + len(self._growing.files)

    def __repr__(self) -> str:
        return f"<OpenFiles {len(self)} of {self.most}>"

    def allow(self, descriptors: int) -> None:
        """Of so many descriptors that the process may have, a quarter is for segments that grow.

        Sealed ones have an eighth.  Files whose sync is awaited may be an eighth more, and so may those that are
        open only because a sync or a reader holds them.  The last few are for files that are opened only to be
        read or written at once.
        """
        with self._guard:
            self.most = max(_LEAST, descriptors // _SHARE)
            self._crowded = descriptors * 5 // 8
            self._brim = descriptors - min(_BRIM, descriptors // 8)
            self._shrink(self.most // 2)
        self._take_spare()

    def _take_spare(self) -> None:
        if self._spare < 0:
            with suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    # --- sealed segments ----------------------------------------------------------------------------------

    def used(self, segment: OpenSegment) -> None:
        """A sealed segment is read, or has just been sealed."""
        opened = self._sealed
        with self._guard:
            if segment in opened:
                opened.move_to_end(segment)
            else:
                opened[segment] = None
                self._shrink(self.most // 2)

    def _shrink(self, most: int) -> None:
        while len(self._sealed) > most:
            segment, _ = self._sealed.popitem(last=False)
            segment.drop_file()

    # --- the last ones of their logs ----------------------------------------------------------------------

    def grows(self, segment: OpenSegment, descriptor: int) -> None:
        """The file of a segment that grows is open, in the thread that works on its log."""
        files = self._growing.files
        segment.used = True
        files[segment] = None
        files.move_to_end(segment)
        self.took(descriptor, segment)
        over = len(files) - self.most
        if over > 0:
            self._close_some(over, segment, urgent=over > self.most // 2)

    def took(self, descriptor: int, by: OpenSegment) -> None:
        """A segment has opened its file: if this was one of the last descriptors, others let go of theirs."""
        self.short = descriptor >= self._crowded
        if descriptor >= self._brim:
            with self._guard:
                self._shrink(max(1, len(self._sealed) - 2))
            self._close_some(2, by, urgent=True)
        elif self._spare < 0 and self._brim < _NO_BRIM:
            self._take_spare()

    def _close_some(self, wanted: int, kept: OpenSegment | None, *, urgent: bool) -> bool:
        """Let so many go, those first that nobody used since they were looked at here last.

        Some that cannot, because they hold what is not durable, are named to be synced.  `urgent`: if none can,
        one is synced here.  Returns whether any let go.
        """
        files, closed, named = self._growing.files, 0, 0
        for _ in range(min(2 * len(files), _LOOKED_AT)):
            if not files:
                break
            segment, _ = files.popitem(last=False)
            again = segment.used and not urgent
            segment.used = False
            if segment is kept or again:
                files[segment] = None
            elif segment.drop_file():
                closed += 1
                if closed == wanted:
                    return True
            else:
                files[segment] = None
                if named < _NAMED:
                    named += 1
                    self.unsynced[segment.directory] = None
        if not urgent or closed:
            return closed > 0
        for _ in range(min(len(files), _LOOKED_AT)):
            segment, _ = files.popitem(last=False)
            if segment is not kept and segment.sync_and_drop():
                return True
            files[segment] = None
        return False

    def take_unsynced(self) -> list[str]:
        """The directories of logs that should be synced soon, each named once."""
        named, self.unsynced = self.unsynced, {}
        return list(named)

    # --- both ---------------------------------------------------------------------------------------------

    def give_way(self, *, to_growth: bool) -> bool:
        """No descriptor is left: let go of a few files.  False when there is nothing to let go of.

        A reader of sealed segments gets what others of them had: writers keep theirs.
        """
        self.short = True
        with self._guard:
            before = len(self._sealed)
            self._shrink(max(0, before - 2))
        if before or (to_growth and self._close_some(2, None, urgent=True)):
            return True
        spare, self._spare = self._spare, -1
        if spare >= 0:
            os.close(spare)
        return spare >= 0

    def forget(self, segment: OpenSegment) -> None:
        """Its file was closed, or it begins or ceases to grow."""
        self._sealed.pop(segment, None)
        self._growing.files.pop(segment, None)

    def forget_all(self) -> None:
        """Whoever had them open is gone, and did not say so: a simulated world that is over."""
        with self._guard:
            self._sealed.clear()
        self._growing.files.clear()
        self.unsynced.clear()


OPEN_FILES = OpenFiles()
"""The open files of this process, which has one limit on descriptors."""
