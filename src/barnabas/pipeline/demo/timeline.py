"""What the demo has seen, second by second: for the picture at the end."""

from __future__ import annotations

import time
from typing import NamedTuple

__all__ = ["Down", "Sample", "Timeline"]

EVERY_S = 0.2


class Sample(NamedTuple):
    """Seconds since the start; flights acknowledged, flights through Spark, delays that a reader saw committed."""

    at: float
    delivered: int
    through: int
    written: int


class Down(NamedTuple):
    """Something was dead from one second to another (None: to the end)."""

    what: str
    since: float
    until: float | None


class Timeline:
    """`timeline.sample(10, 5, 0); timeline.begin("Spark is dead"); timeline.end("Spark is dead")`."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self.downs: list[Down] = []
        self._began = time.monotonic()

    def __repr__(self) -> str:
        return f"<Timeline {len(self.samples)} samples, {self.downs}>"

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def sample(self, delivered: int, through: int, written: int) -> None:
        """The numbers now; taken some times in a second."""
        now = self.now
        if not self.samples or now >= self.samples[-1].at + EVERY_S:
            self.samples.append(Sample(now, delivered, through, written))

    def begin(self, what: str) -> None:
        """Something dies."""
        self.downs.append(Down(what, self.now, None))

    def end(self, what: str) -> None:
        """It is back."""
        self.downs = [
            down._replace(until=self.now) if down.what == what and down.until is None else down
            for down in self.downs
        ]
