"""Timers of a coordinator.  A timer that is cancelled keeps nothing alive until its time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from barnabas.model import Now

__all__ = ["Timer", "Timers"]

_FEW = 64
"""Cancelled timers that are not worth a look at all of them."""


class Timer:
    """One call to come.  `cancel` it when whom it is for is gone."""

    __slots__ = ("_timers", "wake")

    def __init__(self, timers: Timers, wake: Callable[[Now], None]) -> None:
        self._timers = timers
        self.wake: Callable[[Now], None] | None = wake

    def cancel(self) -> None:
        """Call nobody, and let go of what the call would have needed."""
        if self.wake is not None:
            self.wake = None
            self._timers.one_cancelled()

    def __repr__(self) -> str:
        return f"<Timer {'is over' if self.wake is None else 'waits'}>"


class Timers:
    """All of one coordinator.  Times are monotonic seconds."""

    __slots__ = ("_cancelled", "_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._cancelled = 0

    def at(self, when: float, wake: Callable[[Now], None]) -> Timer:
        """Call `wake` at `when`."""
        timer = Timer(self, wake)
        heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    def one_cancelled(self) -> None:
        """Drop the cancelled ones once they are most of all: members come and go faster than sessions end."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].wake is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_deadline(self) -> float | None:
        """Return when the next one is due."""
        return self._heap[0][0] if self._heap else None

    def tick(self, now: Now) -> None:
        """Make the calls that are due."""
        while self._heap and self._heap[0][0] <= now.mono:
            timer = heappop(self._heap)[2]
            wake, timer.wake = timer.wake, None
            if wake is None:
                self._cancelled = max(0, self._cancelled - 1)
            else:
                wake(now)

    def __len__(self) -> int:
        return len(self._heap)

    def __repr__(self) -> str:
        return f"<Timers {len(self._heap)}>"
