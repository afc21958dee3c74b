"""One heap of events, and the true time: of two events the earlier one happens first."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from time import process_time

__all__ = ["EventHeap", "StepLimit"]

STEP_LIMIT = 600_000
CPU_LIMIT = 300.0
IDLE = 0.05
"""Seconds without an event that count as idle."""
_LOOK_EVERY = (1 << 13) - 1


class StepLimit(Exception):  # noqa: N818 - the name of what happened
    """More events than a seed may have: something goes round in circles."""


class EventHeap:
    """Only events make something happen; at the same time, the one scheduled first happens first."""

    def __init__(self) -> None:
        self.time: float = 0.0
        self.events = 0
        self.idle = 0.0
        """Seconds in which nothing happened at all, for a while."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._began = process_time()
        self._looked = -1.0

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.when(self.time + delay, action)

    def when(self, time: float, action: Callable[[], None]) -> None:
        """Do something at that time (now, if it is past)."""
        self._serial += 1
        heappush(self._queue, (time if time > self.time else self.time, self._serial, action))

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass.  True as soon as `until` holds, else whether it holds at the end."""
        end, queue = self.time + seconds, self._queue
        checked = self.events
        while queue and queue[0][0] <= end:
            time, _, action = heappop(queue)
            if time - self.time > IDLE:
                self.idle += time - self.time
            self.time = time
            self.events += 1
            if not self.events & _LOOK_EVERY:
                self._limit()
            action()
            if until is not None and self.events - checked >= 10:
                checked = self.events
                if until():
                    return True
        self.time = end
        return until is None or until()

    def _limit(self) -> None:
        """A seed ends: by its events, by the processor's time, and time must go on."""
        if self.events > STEP_LIMIT:
            raise StepLimit(f"{self.events} events at {self.time:.1f} s")
        if self.time - self._looked < 0.01:
            raise StepLimit(f"time stands still at {self.time:.6f} s: {_LOOK_EVERY} events at once")
        if process_time() - self._began > CPU_LIMIT:
            raise StepLimit(f"{CPU_LIMIT} s of the processor at {self.time:.1f} s")
        self._looked = self.time
