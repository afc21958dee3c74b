"""The beginning of a frame that is not whole yet: where it lies, and what it costs.

A small one is put in front of the next read.  A large one gets a buffer of its own, which grows with what
really arrives and is received into directly: a client that announces 100 MB and sends a byte a second holds
kilobytes.
"""

from __future__ import annotations

from struct import Struct

from barnabas.server.loop.memory import Account
from barnabas.server.loop.receive_buffer import LARGEST_KEPT_BYTES, ReceiveBuffer

__all__ = ["LOW_MEMORY_READ_BYTES", "MUCH_BYTES", "SMALL_FRAME_BYTES", "Receiving"]

_LENGTH = Struct(">i")
SMALL_FRAME_BYTES = 64 * 1024
"""A partly received frame up to this size goes back in front of the next read."""
LOW_MEMORY_READ_BYTES = 4096
"""What is read at most while memory is short (then reading pauses), and of a frame that will be large."""
MUCH_BYTES = 64 * 1024
"""After a read of so much there may be more at once, and the event loop reads on before it asks for others."""
FIRST_BUFFER_BYTES = 64 * 1024
"""Least first size of a large frame's own buffer; it grows to four times what has come."""


class Receiving:
    """What one connection has received and not handed on."""

    __slots__ = (
        "_began",
        "_have",
        "_receive_buffer",
        "_served",
        "_size",
        "account",
        "buffer",
        "large",
        "rest",
    )

    def __init__(self, receive_buffer: ReceiveBuffer, account: Account) -> None:
        self._receive_buffer = receive_buffer
        self.account = account
        self.rest: bytes | bytearray = b""
        """Small beginnings, or frames that must wait."""
        self.buffer: memoryview | None = None
        """Where a large frame is received."""
        self._have = 0
        self._size = 0
        self.large = 0
        """Size of the last frame, if it was a large one: the next one is expected to be like it."""
        self._began = self._served = 0.0
        """When the reads began that brought much, one after the other, and when the last was served."""

    def room(self) -> memoryview:
        """Where the next read goes."""
        if self.buffer is not None:
            return self.buffer[self._have : self._size]
        room = self._receive_buffer.lent or self._receive_buffer.room()
        if rest := self.rest:
            size = len(rest)
            room[:size] = rest
            room = room[size:]
        if self.large:
            return room[:LOW_MEMORY_READ_BYTES]
        account = self.account
        budget = account.budget
        if budget.used < budget.open_to_all:  # (it is asked for each read: `tight`, without a call)
            return room
        return room[: max(LOW_MEMORY_READ_BYTES, account.left)]

    def had_its_share(self, now: float, share: float) -> bool:
        """A read that brought much was served: whether such reads, one after the other, have taken more than
        `share` (seconds).  Then others have their turn, and it counts anew."""
        if now - self._served > 2 * share:
            self._began = now
        self._served = now
        if now - self._began <= share:
            return False
        self._began = now
        return True

    def took(self) -> None:
        """Whole frames were found: what is left is the beginning of another one, which need not be large."""
        self.large = 0
        if self.account.received:
            self.account.finish()

    def keep(self, data: memoryview) -> None:
        """Copy out what is left of a read: the beginning of a frame, or frames that must wait."""
        have, account = len(data), self.account
        size = _LENGTH.unpack_from(data, 0)[0] if have >= 4 else SMALL_FRAME_BYTES
        account.begin(size)
        account.received = have
        if have < 4 or size + 4 <= max(SMALL_FRAME_BYTES, have):
            self.set_rest(bytearray(data))
            return
        self._size = size
        if size > self.large or not account.may_hold(size):
            size = min(size, max(4 * have, FIRST_BUFFER_BYTES))
            if not account.may_hold(size):
                size = have - 4
        self.buffer = self._receive_buffer.frames.take(size)
        account.take(len(self.buffer))
        self.buffer[: have - 4] = data[4:]
        self._have = have - 4

    def fill(self, nbytes: int) -> bool:
        """`nbytes` more of a large frame arrived.  Whether it is whole: then `whole` gives it."""
        self._have = self.account.received = self._have + nbytes
        return self._have == self._size

    @property
    def full(self) -> bool:
        """Whether the buffer must grow before more can be received."""
        return self.buffer is not None and self._have == len(self.buffer)

    def grow(self) -> bool:
        """Make room for more of a large frame, four times what has come; False: memory is short."""
        buffer, have, frames = self.buffer, self._have, self._receive_buffer.frames
        assert buffer is not None
        size = frames.size_for(min(self._size, 4 * have))
        if not self.account.may_hold(size - len(buffer)):
            return False
        self.buffer = frames.take(size)
        self.buffer[:have] = buffer[:have]
        self.account.take(len(self.buffer) - len(buffer))
        frames.release(buffer)
        return True

    def whole(self) -> tuple[memoryview, int]:
        """The buffer of the frame that is whole, and the frame's size.  Hand it back with `done`."""
        buffer, size = self.buffer, self._size
        assert buffer is not None
        self.buffer = None
        self.large = size if 4 * SMALL_FRAME_BYTES <= size <= LARGEST_KEPT_BYTES else 0
        self.account.give(len(buffer))
        self.account.finish()
        return buffer, size

    def done(self, buffer: memoryview, keep: bool) -> None:
        """A whole frame was handed on; `keep`: its bytes are needed until the end of the loop step."""
        if keep:
            self._receive_buffer.frames.retire(buffer)
        else:
            self._receive_buffer.frames.release(buffer)

    def set_rest(self, rest: bytes | bytearray) -> None:
        if rest or self.rest:
            self.account.take(len(rest) - len(self.rest))
            self.rest = rest

    def drop(self) -> None:
        """The connection is gone."""
        self.set_rest(b"")
        if self.buffer is not None:
            self.account.give(len(self.buffer))
            self._receive_buffer.frames.release(self.buffer)
            self.buffer = None

    def __repr__(self) -> str:
        return f"<Receiving {self._have if self.buffer is not None else len(self.rest)} bytes>"
