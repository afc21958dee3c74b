"""What a test sends to a socket and takes from it, whole frame by whole frame."""

from __future__ import annotations

import socket
import struct

from barnabas.wire.codec.message import Message
from barnabas.wire.frame import RequestHeader, write_request

__all__ = ["frame", "framed", "read_frame"]


def frame(message: Message, version: int, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    """A request as it travels."""
    assert message.KEY is not None
    header = RequestHeader(message.KEY, version, correlation_id, client_id)
    return b"".join(bytes(part) for part in write_request(header, message))  # type: ignore[arg-type]


def framed(body: bytes | bytearray) -> bytes:
    """A body with its length in front."""
    return struct.pack(">i", len(body)) + body


def read_frame(source: socket.socket) -> bytes:
    """The body of the next frame.  Raises EOFError where the other side hangs up before its end."""
    (size,) = struct.unpack(">i", _exactly(source, 4))
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError(f"{len(data)} of {size} bytes came")
        data += more
    return data
