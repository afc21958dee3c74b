"""Directories whose disk takes too long for a sync: others lead what lies there until it is fast again.

A sync that runs for longer than `barnabas.replica.stall.max.ms` stops every acknowledgement of its partition, and
nobody else can tell: the leader's log end does not move.  The directory stays slow until no sync took that long
for `_FAST_AGAIN_S`.  Time counts from the first look that sees the sync run, not from when it was handed out: many
syncs that wait for a thread make no slow disk.  After a look that comes late it counts anew, because then this
node itself stood still.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas.model import Now

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.log.directories.log_directory import LogDirectory

__all__ = ["SlowDisks"]

_LOOK_EVERY_S = 0.25
_LATE_S = 0.75
_FAST_AGAIN_S = 60.0


class _Sync(Protocol):
    """A sync that was handed to a thread (`broker.SyncRequest`)."""

    running: bool

    @property
    def directory(self) -> LogDirectory | None: ...


class SlowDisks:
    """The syncs in flight, and the directories that are slow.  Times are monotonic seconds."""

    __slots__ = ("_changed", "_in_flight", "_limit", "_looked_at", "_until")

    def __init__(self, limit: float, changed: Callable[[LogDirectory], None]) -> None:
        """`limit`: seconds that a sync may take; `changed` hears of a directory that is `slow` now, or not."""
        self._limit = limit
        self._changed = changed
        self._in_flight: dict[_Sync, float] = {}
        """Since when each was seen to run, inf: not yet."""
        self._until: dict[LogDirectory, float] = {}
        self._looked_at = -inf

    def began(self, sync: _Sync) -> None:
        """Note a sync that was handed out."""
        self._in_flight[sync] = inf

    def ended(self, sync: _Sync) -> None:
        """Note that it came back."""
        self._in_flight.pop(sync, None)

    def next_deadline(self) -> float | None:
        """Return when to look next; None while no sync is in flight and no directory slow."""
        return self._looked_at + _LOOK_EVERY_S if self._in_flight or self._until else None

    def look(self, now: Now) -> None:
        """Mark the directories in which a sync runs for too long, and those that are fast again."""
        if now.mono < self._looked_at + _LOOK_EVERY_S:
            return
        stood_still = now.mono > self._looked_at + _LATE_S
        self._looked_at = now.mono
        for sync, since in self._in_flight.items():
            if sync.running and (since == inf or stood_still):
                self._in_flight[sync] = now.mono
            elif now.mono - since >= self._limit and (directory := sync.directory) is not None:
                self._until[directory] = now.mono + _FAST_AGAIN_S
                self._judge(directory, slow=True)
        for directory in [directory for directory, until in self._until.items() if now.mono >= until]:
            del self._until[directory]
            self._judge(directory, slow=False)

    def _judge(self, directory: LogDirectory, *, slow: bool) -> None:
        if directory.slow != slow:
            directory.slow = slow
            self._changed(directory)

    def __repr__(self) -> str:
        return f"<SlowDisks in_flight={len(self._in_flight)} slow={len(self._until)}>"
