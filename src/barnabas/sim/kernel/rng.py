"""The randomness of a simulated node: `ports.Randomness` over a generator with a seed."""

from __future__ import annotations

import random

from barnabas.model import Uuid

__all__ = ["SeededRandomness"]


class SeededRandomness:
    """The same seed draws the same numbers, in any process."""

    __slots__ = ("_random",)

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def uuid(self) -> Uuid:
        return Uuid(self._random.randbytes(16))
