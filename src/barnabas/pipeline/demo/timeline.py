"""What the demo has seen, second by second: for the picture at the end."""

from __future__ import annotations

import time
from typing import NamedTuple

__all__ = ["Period", "Sample", "Timeline"]

EVERY_S = 0.2


class Sample(NamedTuple):
    """Seconds since the start; flights acknowledged, flights through Spark, delays that a reader saw committed."""

    at: float
    delivered: int
    through: int
    written: int


class Period(NamedTuple):
    """Something was so from one second to another (None: to the end).  `killed`: it was dead."""

    what: str
    since: float
    until: float | None
    killed: bool


class Timeline:
    """`timeline.sample(10, 5, 0); timeline.begin("Spark is dead", killed=True); timeline.end("Spark is dead")`."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.periods: list[Period] = []
        self._began = time.monotonic()

    def __repr__(self) -> str:
        return f"<Timeline {len(self.samples)} samples, {self.periods}>"

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def sample(self, delivered: int, through: int, written: int) -> None:
        """The numbers now; taken some times in a second."""
        now = self.now
        if not self.samples or now >= self.samples[-1].at + EVERY_S:
            self.samples.append(Sample(now, delivered, through, written))

    def begin(self, what: str, *, killed: bool) -> None:
        """Something dies, or changes."""
        self.periods.append(Period(what, self.now, None, killed))

    def end(self, what: str) -> None:
        """It is back, or has changed."""
        self.periods = [
            period._replace(until=self.now) if period.what == what and period.until is None else period
            for period in self.periods
        ]
