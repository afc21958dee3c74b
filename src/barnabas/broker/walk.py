"""A walk over many things in slices, so that no step of the loop takes long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

__all__ = ["Walk"]

_Thing = TypeVar("_Thing")


class Walk(Generic[_Thing]):
    """`begin`, then a `slice` per step until it is not `running` any more."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: Iterator[_Thing] | None = None

    @property
    def running(self) -> bool:
        """Whether something may be left, so that the next step should not wait for long."""
        return self._left is not None

    def begin(self, things: Iterable[_Thing]) -> None:
        """Walk over these."""
        self._left = iter(things)

    def slice(self, most: int) -> Iterator[_Thing]:
        """The next `most` of them; the walk is over when there are fewer."""
        count = 0
        for thing in islice(self._left or (), most):
            count += 1
            yield thing
        if count < most:
            self._left = None

    def __repr__(self) -> str:
        return f"<Walk {'running' if self.running else 'over'}>"
