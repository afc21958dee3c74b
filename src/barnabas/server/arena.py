"""The receive buffer that all connections share.

What a turn of the loop reads from all sockets lies one behind the other in here, and stays until the end
of the turn: record batches are checked, patched and written to their logs from where they were received.
Then the arena is empty again.  An idle connection holds nothing.
"""

from __future__ import annotations

__all__ = ["LEAST_ROOM", "Arena"]

CHUNK = 512 * 1024
LEAST_ROOM = 128 * 1024
"""A read is never offered less than this many bytes."""
KEPT_CHUNKS = 4
"""Chunks kept from turn to turn; more were needed only by a burst."""


class Arena:
    """`room()` to receive into, `keep(n)` for what must stay until `reset()`."""

    __slots__ = ("_chunks", "_index", "_position", "lent", "turns")

    def __init__(self) -> None:
        self._chunks = [memoryview(bytearray(CHUNK))]
        self._index = 0
        self._position = 0
        self.lent = self._chunks[0]
        """What `room` handed out last."""
        self.turns = 0

    def room(self) -> memoryview:
        """Free memory, at least LEAST_ROOM bytes; handed out again by the next call unless kept."""
        if CHUNK - self._position < LEAST_ROOM:
            self._index += 1
            self._position = 0
            if self._index == len(self._chunks):
                self._chunks.append(memoryview(bytearray(CHUNK)))
        self.lent = self._chunks[self._index][self._position :]
        return self.lent

    def keep(self, size: int) -> None:
        """The first `size` bytes of the room lent last stay untouched until `reset`."""
        self._position += size

    def reset(self) -> None:
        """Everything received in this turn is done with."""
        self.turns += 1
        self._index = self._position = 0
        if len(self._chunks) > KEPT_CHUNKS:
            del self._chunks[KEPT_CHUNKS:]

    @property
    def size(self) -> int:
        """Bytes of memory held."""
        return CHUNK * len(self._chunks)

    def __repr__(self) -> str:
        return f"<Arena {self.size} bytes, chunk {self._index} at {self._position}>"
