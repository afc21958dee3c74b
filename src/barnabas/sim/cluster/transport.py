"""The transport of a simulated connection: what a protocol reads and writes through, as asyncio has it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from barnabas.sim.cluster.loop import VirtualLoop

__all__ = ["Packet", "Socket", "VirtualTransport"]

_MOST_AT_ONCE = 256 * 1024
"""Bytes that a plain protocol is handed at a time."""
Packet = bytes | str
"""Bytes, or what TCP says of the connection itself."""


class Socket(Protocol):
    """The kernel's end of a connection, as far as its transport needs it."""

    loop: VirtualLoop
    descriptor: int
    on_writable: Callable[[], None] | None

    @property
    def address(self) -> tuple[str, int]: ...
    @property
    def peer_address(self) -> tuple[str, int]: ...
    def send(self, data: bytes) -> int: ...
    def watch(self, action: Callable[[], None]) -> None: ...
    def wake(self) -> None: ...
    def taken(self, size: int) -> None: ...
    def close_socket(self) -> None: ...


class VirtualTransport(asyncio.Transport):
    """What a protocol sees of its end."""

    def __init__(self, end: Socket, protocol: Any) -> None:
        self.end = end
        self.paused = False
        self.closing = False
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)
        self._unsent = bytearray()
        self._told_to_wait = False
        self._eof_after = False

    def __repr__(self) -> str:
        return f"<VirtualTransport {self.end!r}>"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        end = self.end
        if name == "peername":
            return end.peer_address
        if name == "sockname":
            return end.address
        return self if name == "socket" else default

    def fileno(self) -> int:
        """(It is its own socket.)"""
        return self.end.descriptor

    def setsockopt(self, *_: object) -> None: ...

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    # Reading.

    def is_reading(self) -> bool:
        return not self.paused and not self.closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        self.end.wake()

    def receive(self, incoming: deque[Packet]) -> None:
        """Hand on what has come, as much as one read takes."""
        if self._buffered:
            room = self._protocol.get_buffer(-1)
            most = len(room)
            data = _up_to(incoming, most)
            room[: len(data)] = data
            self.end.taken(len(data))
            self._protocol.buffer_updated(len(data))
        else:
            data = _up_to(incoming, _MOST_AT_ONCE)
            self.end.taken(len(data))
            self._protocol.data_received(data)

    def end_of_stream(self) -> None:
        if not self._protocol.eof_received():
            self.close()

    # Writing.

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def write(self, data: Any) -> None:
        if self.closing or not data:
            return
        if not self._unsent:
            try:
                sent = self.end.send(bytes(data))
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.lost(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self.end.watch(self._writable)
        self._unsent += data
        if len(self._unsent) > 64 * 1024 and not self._told_to_wait:
            self._told_to_wait = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def _writable(self) -> None:
        try:
            sent = self.end.send(bytes(self._unsent))
        except BlockingIOError:
            return
        except OSError as error:
            self.lost(error)
            return
        del self._unsent[:sent]
        if self._told_to_wait and len(self._unsent) < 16 * 1024:
            self._told_to_wait = False
            self._protocol.resume_writing()
        if not self._unsent:
            self.end.on_writable = None
            if self.closing:
                self.end.loop.call_soon(self._over, None)

    # Ending.

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            if not self._unsent:
                self.end.loop.call_soon(self._over, None)

    def abort(self) -> None:
        self._end_with(None)

    def lost(self, error: Exception) -> None:
        """The connection broke."""
        self._end_with(error)

    def _end_with(self, error: Exception | None) -> None:
        if self._unsent or not self.closing:
            self._unsent.clear()
            self.closing = True
            self.end.on_writable = None
            self.end.loop.call_soon(self._over, error)

    def _over(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self.end.close_socket()


def _up_to(incoming: deque[Packet], most: int) -> bytes:
    """Take up to so many bytes of what has come."""
    taken: list[bytes] = []
    while incoming and most > 0:
        first = incoming[0]
        if not isinstance(first, bytes):
            break
        if len(first) > most:
            taken.append(first[:most])
            incoming[0] = first[most:]
            break
        taken.append(first)
        most -= len(first)
        incoming.popleft()
    return taken[0] if len(taken) == 1 else b"".join(taken)
