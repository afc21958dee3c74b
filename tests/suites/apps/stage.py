"""What an application is run with, and what it comes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.suites.apps import numbers
from tests.suites.apps.numbers import Tally

BEAT_SECONDS = 0.5


@dataclass(frozen=True)
class Stage:
    """A cluster that runs, a folder for files and logs, and how long and how fast numbers go in."""

    bootstrap: str
    folder: Path
    seconds: float
    rate: int
    copies: int
    calm: Callable[[], object] = lambda: None
    """Ends the kills: called when no more numbers go in."""

    def create(self, *topics: str, partitions: int = 4) -> None:
        numbers.create(self.bootstrap, *topics, partitions=partitions, copies=self.copies)

    def beats(self) -> Iterator[float]:
        """The share of the time that is over, twice a second until it is over."""
        began = time.monotonic()
        while (passed := (time.monotonic() - began) / self.seconds) < 1.0:
            yield passed
            time.sleep(BEAT_SECONDS)

    def tally(self, topic: str, written: int) -> Tally:
        """How often each number is committed in the topic."""
        values = [value for _, _, value in numbers.committed(self.bootstrap, topic)]
        return numbers.tally(values, written)


@dataclass
class Outcome:
    """What was counted, what else was seen, and what is wrong."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    """By what was counted: a topic, a file."""
    seen: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
