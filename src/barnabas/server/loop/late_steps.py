"""Steps of the loop that took long: nobody else is served meanwhile."""

from __future__ import annotations

from math import inf
from time import monotonic

from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics

__all__ = ["LateSteps"]

LATE_STEP_S = 0.1
"""A step of the loop that took longer (seconds) gets a line."""
LATE_LINES_S = 60.0
"""Seconds between two such lines."""
LONG_STEP_S = 0.01
"""Loop steps that take longer (seconds) are counted."""


class LateSteps:
    """Counts them, and says now and then which was the longest."""

    __slots__ = ("_again", "_late", "count")

    def __init__(self, metrics: Metrics) -> None:
        self._late: list[tuple[float, str]] = []
        self._again = -inf
        self.count = metrics.counter(
            "barnabas:type=Loop,name=LongTurns",
            "Turns, looks at maintenance, slices of metadata and steps of the quorum "
            f"beyond {LONG_STEP_S * 1000:.0f} ms",
        )

    def note(self, what: str, seconds: float) -> None:
        """Something held the loop for so long."""
        if seconds > LONG_STEP_S:
            self.count.value += 1
            if seconds > LATE_STEP_S:
                self._say(what, seconds)

    def _say(self, what: str, seconds: float) -> None:
        """A busy machine makes many steps late: one line a minute has the longest, and how many there were."""
        self._late.append((seconds, what))
        now = monotonic()
        if now < self._again:
            return
        longest, its = max(self._late)
        events.emit(events.LOOP_LATE, what=its, seconds=f"{longest:.3f}", steps=len(self._late))
        self._late.clear()
        self._again = now + LATE_LINES_S

    def __repr__(self) -> str:
        return f"<LateSteps {self.count.value}>"
