"""The send queue of a connection: it sends answers with few system calls and little memory.

At the end of a loop step one gathered send takes all answers of the step.  Records that are in a file stay
there until the socket takes them: small ones are read into the gathered send, large ones go by sendfile.  A
peer that does not read costs only the few bytes that it has not taken, whatever it asked for.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.errors import ShortFileError, StorageError
from barnabas.ports import Buffer, DiskFile

if TYPE_CHECKING:
    from barnabas.server.loop.memory import Account

__all__ = ["FilePart", "SendQueue"]

MOST_PARTS = 512
"""Parts of one gathered send (the kernel takes 1,024)."""
_MORE = getattr(socket, "MSG_MORE", 0)
"""More follows at once: the kernel sends what stands before a file together with it."""
LARGEST_SEND_BYTES = 8 * 1024 * 1024
"""Bytes of a large part sent in one go, even to a reader that takes them as fast as they come: the others
have their turn in between."""
FILE_PIECE_BYTES = 256 * 1024
"""Bytes read from a file at a time where sendfile cannot be used."""


class FilePart(Protocol):
    """Bytes in a file, as the log hands them out (`log.FileSlice`)."""

    @property
    def file(self) -> DiskFile: ...
    @property
    def position(self) -> int: ...
    def __len__(self) -> int: ...
    def read(self) -> bytes: ...


class SendQueue:
    """What one socket still has to be sent.

    `add` parts, then `flush` at the end of the loop step; an answer that is alone may leave before (`send_small`).
    What the kernel does not take waits here until the socket is writable; `on_progress` is called when some of it
    has gone.  `pending` counts all bytes to send, `held` those that are in memory.
    """

    __slots__ = (
        "_budget",
        "_descriptor",
        "_fd",
        "_loop",
        "_on_error",
        "_on_progress",
        "_parts",
        "_sendfile_from",
        "_sent_of_first",
        "_small",
        "_socket",
        "blocked",
        "held",
        "pending",
        "sent",
    )

    files_go_by_the_kernel = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        descriptor: int,
        budget: Account,
        *,
        sendfile_from: int,
        on_progress: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._fd = -1
        """A duplicate of the socket's descriptor: event loops refuse to watch a transport's own."""
        self._socket: socket.socket | None = None
        """The owner of that duplicate."""
        self._budget = budget
        self._sendfile_from = sendfile_from
        self._on_progress = on_progress
        self._on_error = on_error
        self._parts: deque[Buffer | FilePart] = deque()
        self._small: list[bytes] = []
        self._sent_of_first = 0
        self.blocked = False
        self.held = 0
        self.pending = 0
        self.sent = 0

    @property
    def descriptor(self) -> int:
        """The socket's, -1 once it is closed."""
        return self._descriptor

    def add(self, parts: list[Buffer | FilePart], size: int) -> None:
        """Queue parts of `size` bytes together."""
        if self._small:
            self._gather_small()
        queued = self._parts
        for part in parts:
            if len(part):
                queued.append(part)
        self.pending += size
        if self.blocked:
            self._hold(sum(len(part) for part in parts if isinstance(part, (bytes, bytearray, memoryview))))

    def add_small(self, answer: bytes) -> None:
        """Queue a whole answer of a few bytes; neighbours leave as one part."""
        self._small.append(answer)
        self.pending += len(answer)
        if self.blocked:
            self._hold(len(answer))

    def send_small(self, answer: Buffer) -> None:
        """Send a whole answer of a few bytes now; queue it behind what has to leave before, and what the socket
        does not take of it."""
        size = len(answer)
        if self.pending or self.blocked or self._descriptor < 0:
            return self.add([answer], size)
        try:
            sent = self._write([answer])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except Exception as error:
            return self._on_error(error)
        self.sent += sent
        if sent != size:
            self._parts.append(answer)
            self._sent_of_first = sent
            self.pending = size - sent
        return None

    def _hold(self, size: int) -> None:
        """Bytes more wait in memory for the socket."""
        self.held += size
        self._budget.take(size)

    def _gather_small(self) -> None:
        small = self._small
        self._parts.append(b"".join(small) if len(small) > 1 else small[0])
        small.clear()

    def flush(self) -> None:
        """Send what the socket takes now."""
        if not self.blocked and self._descriptor >= 0:
            self._send()

    def _send(self) -> None:
        if self._small:
            self._gather_small()
        parts = self._parts
        try:
            if parts and self.pending < self._sendfile_from and len(parts) <= MOST_PARTS:
                self._send_all_gathered()
            while parts:
                if not isinstance(parts[0], (bytes, bytearray, memoryview)) and (
                    len(parts[0]) >= self._sendfile_from
                ):
                    if not self._send_file(parts[0]):
                        return self._wait()
                elif not self._send_gathered():
                    return self._wait()
        except (BlockingIOError, InterruptedError):
            return self._wait()
        except Exception as error:
            self._on_error(error)
            return None
        if self.held:
            self._budget.give(self.held)
            self.held = 0
        return None

    def _send_all_gathered(self) -> None:
        """Send all parts in one call, none of which is large; what the socket does not take stays."""
        parts, skip = self._parts, self._sent_of_first
        gathered: list[Buffer] = []
        for part in parts:
            if not isinstance(part, (bytes, bytearray, memoryview)):
                part = part.read()
            gathered.append(part)
        if skip:
            gathered[0] = memoryview(gathered[0])[skip:]
        sent = self._write(gathered)
        if sent == self.pending:
            self.sent += sent
            self._sent_of_first = self.pending = 0
            parts.clear()
        else:
            self._went(len(gathered), sent)

    def _send_gathered(self) -> bool:
        """Send parts in memory, and small ones of files, up to the first large one; False: not all went."""
        parts = self._parts
        gathered: list[Buffer] = []
        read, before_file = 0, False
        for index, part in enumerate(parts):
            if len(gathered) == MOST_PARTS or read > FILE_PIECE_BYTES:
                break
            if not isinstance(part, (bytes, bytearray, memoryview)):
                if len(part) >= self._sendfile_from:
                    before_file = True
                    break
                if gathered and self._budget.exhausted:
                    break
                parts[index] = part = part.read()
                read += len(part)
            gathered.append(part)
        if skip := self._sent_of_first:
            gathered[0] = memoryview(gathered[0])[skip:]
        if before_file:
            sent = self._write_before_file(gathered)
        else:
            sent = self._write(gathered)
        return self._went(len(gathered), sent)

    def _went(self, count: int, sent: int) -> bool:
        """The socket took so many bytes of the first `count` parts; False: not all of them."""
        parts = self._parts
        self.pending -= sent
        self.sent += sent
        left = sent + self._sent_of_first
        for _ in range(count):
            size = len(parts[0])
            if left < size:
                self._sent_of_first = left
                return False
            left -= size
            parts.popleft()
        self._sent_of_first = 0
        return True

    def _send_file(self, part: FilePart) -> bool:
        """Send a large part from its file; False: the socket is full, or it is the turn of others."""
        size = len(part)
        enough = self._sent_of_first + LARGEST_SEND_BYTES
        descriptor = part.file.fileno() if self.files_go_by_the_kernel else -1
        while (done := self._sent_of_first) < size:
            if done >= enough:
                return False
            at = part.position + done
            if descriptor >= 0:
                sent = _send(self._descriptor, part.file, descriptor, at, min(size, enough) - done)
                if not sent:
                    raise ShortFileError(part.file.path, part.position + size)
            else:
                piece = part.file.read_at(at, min(size - done, FILE_PIECE_BYTES))
                if not piece:
                    raise ShortFileError(part.file.path, part.position + size)
                sent = self._write([piece])
            self._sent_of_first += sent
            self.pending -= sent
            self.sent += sent
        self._sent_of_first = 0
        self._parts.popleft()
        return True

    def _write(self, parts: list[Buffer]) -> int:
        """Have the socket take what it can; raises BlockingIOError where that is nothing."""
        if len(parts) == 1:
            return os.write(self._descriptor, parts[0])
        return os.writev(self._descriptor, parts)

    def _write_before_file(self, parts: list[Buffer]) -> int:
        return self._duplicate().sendmsg(parts, (), _MORE)

    def _duplicate(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(fileno=os.dup(self._descriptor))
            self._socket.setblocking(False)
            self._fd = self._socket.fileno()
        return self._socket

    def _wait(self) -> None:
        """The socket is full: go on when it is writable."""
        held = 0
        for part in self._parts:
            if isinstance(part, (bytes, bytearray, memoryview)):
                held += len(part)
        self._budget.take(held - self.held)
        self.held = held
        if not self.blocked:
            self.blocked = True
            self._watch()

    def _watch(self) -> None:
        """Have `_writable` called when the socket takes more."""
        self._duplicate()
        self._loop.add_writer(self._fd, self._writable)

    def _unwatch(self) -> None:
        self._loop.remove_writer(self._fd)

    def _writable(self) -> None:
        before = self.pending
        self._send()
        if self._descriptor < 0:
            return
        if not self._parts:
            self.blocked = False
            self._unwatch()
        if self.pending != before:
            self._on_progress()

    def close(self) -> None:
        """Forget everything unsent; the socket is going away."""
        self._descriptor = -1
        if self._socket is not None:
            self._loop.remove_writer(self._fd)
            self._socket.close()
            self._socket = None
            self._fd = -1
        if self.held:
            self._budget.give(self.held)
        self._parts.clear()
        self._small.clear()
        self.held = self.pending = 0

    def __repr__(self) -> str:
        return f"<SendQueue pending={self.pending} held={self.held}{' blocked' if self.blocked else ''}>"


def _send(descriptor: int, file: DiskFile, source: int, at: int, size: int) -> int:
    """Have the kernel send from a file.  Raises OSError of the socket; StorageError if the disk is at fault."""
    try:
        return os.sendfile(descriptor, source, at, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise StorageError(f"cannot read {file.path}: {error.strerror}") from error
