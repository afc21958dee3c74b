"""Basic types of the simulated cluster: a violated invariant, a line of the story, randomness."""

from __future__ import annotations

import random
from typing import NamedTuple

from barnabas.model import Uuid

__all__ = ["Broken", "Chance", "Line"]


class Broken(Exception):  # noqa: N818 - the name of what happened
    """A promise is broken.  `promise` is its name, `text` what was seen."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise
        self.text = text


class Line(NamedTuple):
    """A line of the story.  `who`: a node, a client, or the world."""

    time: float
    who: str
    text: str


class Chance:
    """`ports.Randomness` over a seeded generator."""

    __slots__ = ("_random",)

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))
