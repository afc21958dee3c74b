"""The send queue of a connection with TLS: what leaves is sealed in records of TLS first.

Records of a log cannot go by sendfile; they are read piece by piece.  A piece that was sealed is sent before
anything else is, so at most `PIECE_BYTES` of each connection are held twice.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.ports import Buffer
from barnabas.server.net.send_queue import LARGEST_SEND_BYTES, SendQueue

if TYPE_CHECKING:
    from barnabas.server.loop.memory import Account

__all__ = ["SealedQueue"]

RECORD_BYTES = 16 * 1024
"""The most that one record of TLS carries."""
PIECE_BYTES = 3 * RECORD_BYTES
"""Sealed and sent at a time."""


class SealedQueue(SendQueue):
    """A SendQueue whose bytes pass through `seal` (which writes into `sealed`)."""

    __slots__ = ("_rest", "_rest_size", "_rest_stands_for", "_seal", "_sealed")

    files_go_by_the_kernel = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        budget: Account,
        *,
        sendfile_from: int,
        on_progress: Callable[[], None],
        on_error: Callable[[Exception], None],
        seal: ssl.SSLObject,
        sealed: ssl.MemoryBIO,
    ) -> None:
        super().__init__(
            loop,
            descriptor,
            budget,
            sendfile_from=sendfile_from,
            on_progress=on_progress,
            on_error=on_error,
        )
        self._seal = seal
        self._sealed = sealed
        self._rest: memoryview | None = None
        """What the socket did not take of a sealed piece."""
        self._rest_size = 0
        self._rest_stands_for = 0
        """Bytes of the queue that are in that piece: they count as sent when all of it is."""

    def _write(self, parts: list[Buffer]) -> int:
        done = 0
        if self._rest is not None:
            self._send_rest()
            done, self._rest_stands_for = self._rest_stands_for, 0
        write, read = self._seal.write, self._sealed.read
        for piece in _pieces(parts, done):
            records, size = [], 0
            for record in piece:
                write(record)
                records.append(read())  # at once: the memory between would stay as large as it was filled
                size += len(record)
            if not self._push(b"".join(records), size):
                if done:
                    return done
                raise BlockingIOError
            done += size
            if done >= LARGEST_SEND_BYTES:
                break
        return done

    def _write_before_file(self, parts: list[Buffer]) -> int:
        return self._write(parts)

    def _push(self, sealed: bytes, stands_for: int) -> bool:
        """Send a sealed piece; False: some of it has to wait."""
        try:
            sent = os.write(self._descriptor, sealed)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent == len(sealed):
            return True
        self._rest, self._rest_stands_for = memoryview(sealed)[sent:], stands_for
        self._rest_size = len(sealed)
        self._budget.take(self._rest_size)
        return False

    def _send_rest(self) -> None:
        rest = self._rest
        assert rest is not None
        sent = os.write(self._descriptor, rest)
        if sent < len(rest):
            self._rest = rest[sent:]
            raise BlockingIOError
        self._budget.give(self._rest_size)
        self._rest = None

    def send_own(self) -> bool:
        """Send what TLS itself has to say; False: the peer does not take it."""
        if self._rest is not None or self._descriptor < 0:
            return True  # it leaves behind the next piece
        said = self._sealed.read()
        return not said or self._push(said, 0)

    def close(self) -> None:
        """Forget everything unsent; the socket is going away."""
        if self._rest is not None:
            self._budget.give(self._rest_size)
            self._rest = None
        super().close()


def _pieces(parts: list[Buffer], skip: int) -> Iterator[list[bytes | memoryview]]:
    """The bytes after the first `skip`, in records, and these in pieces to be sent at a time."""
    piece: list[bytes | memoryview] = []
    small: list[bytes | memoryview] = []
    size = gathered = 0
    for part in parts:
        view = memoryview(part)
        if skip:
            if skip >= len(view):
                skip -= len(view)
                continue
            view, skip = view[skip:], 0
        while len(view):
            taken = view[: RECORD_BYTES - gathered]
            small.append(taken)
            gathered += len(taken)
            view = view[len(taken) :]
            if gathered == RECORD_BYTES:
                piece.append(small[0] if len(small) == 1 else b"".join(small))
                small, gathered = [], 0
                size += RECORD_BYTES
                if size == PIECE_BYTES:
                    yield piece
                    piece, size = [], 0
    if small:
        piece.append(small[0] if len(small) == 1 else b"".join(small))
    if piece:
        yield piece
