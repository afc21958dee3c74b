"""Values drawn from the bytes of an input, so that whatever mutates the bytes mutates the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Draw"]

T = TypeVar("T")


class Draw:
    """`draw.below(5)`, `draw.of(words)`, `draw.some(40)`: each takes bytes from the front; the rest is zeros."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        """0 to 255."""
        at, self._at = self._at, self._at + 1
        return self._data[at] if at < len(self._data) else 0

    def below(self, most: int) -> int:
        """0 to most - 1; most is at most 65536."""
        return (self.byte() if most <= 256 else self.byte() << 8 | self.byte()) % most

    def of(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[self.below(len(choices))]

    def some(self) -> bytes:
        """A piece: its length stands before it, in one byte or, from 200 on, in two."""
        size = self.byte()
        if size >= 200:
            size = (size - 200) << 8 | self.byte()
        at, self._at = self._at, self._at + size
        return self._data[at : self._at]

    def rest(self) -> bytes:
        """All that is left."""
        at, self._at = self._at, len(self._data)
        return self._data[at:]


def piece(data: bytes) -> bytes:
    """What `some` reads as `data`."""
    size = len(data)
    return (bytes((size,)) if size < 200 else bytes((200 + (size >> 8), size & 255))) + data
