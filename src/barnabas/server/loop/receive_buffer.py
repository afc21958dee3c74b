"""The receive buffer that all connections share.

Whatever a loop step reads from all sockets lies here, one frame after the other, until the step ends: record
batches are checked, patched and written to their logs from where they were received.  Then the receive buffer
is empty again.  An idle connection holds nothing.

A large frame that comes in pieces gets a buffer of its own, from a small pool: memory that is fresh from the
kernel costs more than copying into it.
"""

from __future__ import annotations

from mmap import mmap

__all__ = ["LEAST_ROOM_BYTES", "FrameBuffers", "ReceiveBuffer"]

CHUNK_BYTES = 512 * 1024
LEAST_ROOM_BYTES = 128 * 1024
"""A read is never offered less than this many bytes."""
KEPT_CHUNKS = 4
"""Chunks kept from step to step; more were needed only by a burst."""


class ReceiveBuffer:
    """`room()` to receive into, `keep(n)` for what must stay until `reset()`."""

    __slots__ = ("_chunks", "_index", "_position", "frames", "lent", "steps")

    def __init__(self) -> None:
        self._chunks = [memoryview(bytearray(CHUNK_BYTES))]
        self._index = 0
        self._position = 0
        self.lent = self._chunks[0]
        """Where the next read goes; empty where `room` has to find more first."""
        self.steps = 0
        self.frames = FrameBuffers()

    def room(self) -> memoryview:
        """Free memory, at least LEAST_ROOM_BYTES bytes; handed out again by the next call unless kept."""
        if not self.lent:
            self._index += 1
            self._position = 0
            if self._index == len(self._chunks):
                self._chunks.append(memoryview(bytearray(CHUNK_BYTES)))
            self.lent = self._chunks[self._index]
        return self.lent

    def keep(self, size: int) -> None:
        """The first `size` bytes of the room lent last stay untouched until `reset`."""
        self._position = position = self._position + size
        if CHUNK_BYTES - position < LEAST_ROOM_BYTES:
            position = CHUNK_BYTES
        self.lent = self._chunks[self._index][position:]

    def reset(self) -> None:
        """Everything received in this loop step is done with."""
        self.steps += 1
        self._index = self._position = 0
        self.lent = self._chunks[0]
        if self.frames.retired:
            self.frames.reset()
        if len(self._chunks) > KEPT_CHUNKS:
            del self._chunks[KEPT_CHUNKS:]

    @property
    def size(self) -> int:
        """Bytes of memory held."""
        return CHUNK_BYTES * len(self._chunks)

    def __repr__(self) -> str:
        return f"<ReceiveBuffer {self.size} bytes, chunk {self._index} at {self._position}>"


SMALLEST_FRAME_BYTES = 64 * 1024
FROM_THE_KERNEL_BYTES = 256 * 1024
LARGEST_KEPT_BYTES = 4 * 1024 * 1024
MOST_KEPT_BYTES = 8 * 1024 * 1024
"""Buffers up to LARGEST_KEPT_BYTES are kept for the next frame, MOST_KEPT_BYTES bytes of them."""


class FrameBuffers:
    """Buffers for large frames, in sizes of 64 KiB times a power of four.

    `retire` when the frame was handed on: the buffer is free again after the end of the loop step.
    """

    __slots__ = ("_free", "_kept", "retired")

    def __init__(self) -> None:
        self._free: dict[int, list[memoryview]] = {}
        self.retired: list[memoryview] = []
        """Those that are needed until the end of this loop step."""
        self._kept = 0

    @staticmethod
    def size_for(size: int) -> int:
        """The size of the buffer that `take(size)` gives."""
        found = SMALLEST_FRAME_BYTES
        while found < size and found < LARGEST_KEPT_BYTES:
            found *= 4
        return max(found, size)

    def take(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes (content: whatever was in it)."""
        size = self.size_for(size)
        free = self._free.get(size)
        if free:
            self._kept -= size
            return free.pop()
        # (The kernel has large ones back at once when they go; the heap would keep them, and its holes.)
        return memoryview(mmap(-1, size) if size >= FROM_THE_KERNEL_BYTES else bytearray(size))

    def retire(self, buffer: memoryview) -> None:
        """Its bytes are needed until the end of the loop step, not longer."""
        self.retired.append(buffer)

    def release(self, buffer: memoryview) -> None:
        """Nobody looks at it any more."""
        size = len(buffer)
        if size <= LARGEST_KEPT_BYTES and self._kept + size <= MOST_KEPT_BYTES:
            self._free.setdefault(size, []).append(buffer)
            self._kept += size

    def reset(self) -> None:
        """The end of a loop step."""
        retired, self.retired = self.retired, []
        for buffer in retired:
            self.release(buffer)

    def __repr__(self) -> str:
        return f"<FrameBuffers {self._kept} bytes free>"
