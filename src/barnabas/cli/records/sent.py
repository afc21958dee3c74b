"""Which lines of an input are stored, which are not, and where to go on after an error."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from barnabas.client.producer import Delivery, Fate

__all__ = ["Ledger", "Standing"]

WINDOW = 100_000
"""Lines that may be on their way at a time: this bounds what is remembered of each."""

Range = tuple[int, int]


class Standing(NamedTuple):
    """What is known of the lines that were read: ranges of line numbers, both ends included.

    `go_on` is the first line that is not known to be stored; `size` the bytes of the values stored.
    """

    stored: list[Range]
    unknown: list[Range]
    go_on: int
    size: int

    def told(self, unit: str, *, acknowledged: bool) -> list[str]:
        """`standing.told("line", acknowledged=True)` -> what a person reads after an error."""
        done = "stored" if acknowledged else "sent (nobody acknowledged them: --acks 0)"
        said = [f"{done}: {_named(unit, self.stored)}"]
        later = [r for r in self.stored if r[0] > self.go_on]
        if self.unknown:
            said.append(f"unknown, no answer came: {_named(unit, self.unknown)}")
        named = sorted([*later, *self.unknown])
        after = max([self.go_on - 1, *(last for _, last in named)]) + 1
        missing = [*_between(self.go_on, named), (after, None)]
        said.append(f"not stored: {_named(unit, missing)}")
        how = f"with --from-line {self.go_on}"
        if self.unknown:
            how += f", after you looked in the topic which of {_named(unit, self.unknown)} are there"
        if later:
            how += f", without {_named(unit, later)}"
        return [*said, f"go on: {how}"]


class Ledger:
    """`Ledger(first=1)`: add every line with its delivery, then ask for the `standing`."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._settled = first  # every line below is stored
        self._open: deque[tuple[int, int, Delivery]] = deque()
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<Ledger stored to {self._settled - 1}, {len(self._open)} open>"

    def add(self, line: int, size: int, delivery: Delivery) -> None:
        """Note that the line, with a value of `size` bytes, is on its way.

        Waits for the first line that is on its way when there are too many; raises what that one failed with.
        """
        self._open.append((line, size, delivery))
        if len(self._open) >= WINDOW:
            self._open[0][2].result()
            self.settle()

    def settle(self) -> None:
        """Forget the lines from the beginning on that are stored."""
        while self._open and self._open[0][2].fate() is Fate.STORED:
            line, size, _ = self._open.popleft()
            self._settled = line + 1
            self._bytes += size

    def standing(self) -> Standing:
        """What is known now; final once the producer is closed."""
        self.settle()
        fates = [(line, size, delivery.fate()) for line, size, delivery in self._open]
        stored = _ranges(line for line, _, fate in fates if fate is Fate.STORED)
        size = self._bytes + sum(size for _, size, fate in fates if fate is Fate.STORED)
        if self._settled > self._first:
            stored.insert(0, (self._first, self._settled - 1))
        unknown = _ranges(line for line, _, fate in fates if fate is Fate.UNKNOWN)
        return Standing(stored, unknown, self._settled, size)


def _ranges(lines: Iterable[int]) -> list[Range]:
    found: list[Range] = []
    for line in lines:
        if found and found[-1][1] == line - 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
    return found


def _between(first: int, named: list[Range]) -> list[Range]:
    """The lines from `first` on before and between the ranges."""
    gaps: list[Range] = []
    for begin, end in named:
        if begin > first:
            gaps.append((first, begin - 1))
        first = max(first, end + 1)
    return gaps


def _named(unit: str, ranges: list[Any]) -> str:
    """`_named("line", [(1, 4), (9, None)])` -> "lines 1 to 4, line 9 and all after it"."""
    texts = []
    for first, last in ranges[:10]:
        if last is None:
            texts.append(f"{unit} {first} and all after it")
        else:
            texts.append(f"{unit} {first}" if first == last else f"{unit}s {first} to {last}")
    if len(ranges) > 10:
        texts.append(f"{len(ranges) - 10} more ranges (--json lists them)")
    return ", ".join(texts) or "none"
