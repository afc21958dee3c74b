"""Frames: a length, a header, a message.  Sans-I/O: bytes in, values out, and the other way round.

This module decides whose fault an error is: bytes that do not parse are a WireError, and the connection ends.
A header of an unknown API or version still parses, so that the sender gets an answer.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

from barnabas.errors import WireError
from barnabas.ports import Buffer
from barnabas.wire.codec.declaration import Part
from barnabas.wire.codec.message import Message, encode_parts
from barnabas.wire.codec.primitives import read_uvarint
from barnabas.wire.codec.reader import MOST_UNKNOWN_TAGS
from barnabas.wire.registry import API, request_header_version, response_header_version

__all__ = [
    "HEAP",
    "LENGTH",
    "FrameMemory",
    "FrameReader",
    "FrameTooLarge",
    "RequestHeader",
    "read_request_header",
    "read_response_header",
    "write_request",
    "write_response",
]

LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_RESPONSE_V0 = struct.Struct(">ii")
_RESPONSE_V1 = struct.Struct(">iix")


class RequestHeader(NamedTuple):
    """What stands before a request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buf: Buffer, position: int = 0, end: int | None = None) -> tuple[RequestHeader, int]:
    """The header of the frame at `position` (after its length) and where the body begins.

    `end` is where the frame ends, the end of `buf` unless given.  Raises WireError.
    """
    if end is None:
        end = len(buf)
    if end - position < _REQUEST.size:
        raise WireError(f"a request of {end - position} bytes is shorter than its header")
    key, version, correlation, size = _REQUEST.unpack_from(buf, position)
    position += _REQUEST.size
    client_id = None
    if size >= 0:
        if position + size > end:
            raise WireError(f"the client id claims {size} bytes")
        try:
            client_id = str(buf[position : position + size], "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"the client id is no text: {error}") from error
        position += size
    elif size != -1:
        raise WireError(f"the client id has the length {size}")
    api = API.get(key)
    if api is not None and version >= api.flexible:
        position = _skip_tags(buf, position, end)
    return RequestHeader(key, version, correlation, client_id), position


def _skip_tags(buf: Buffer, position: int, end: int) -> int:
    """The position after the tagged fields at `position`."""
    if position < end and buf[position] == 0:
        return position + 1
    count, position = read_uvarint(buf, position)
    if count > MOST_UNKNOWN_TAGS:
        raise WireError(
            f"a header has {count} tagged fields, of which at most {MOST_UNKNOWN_TAGS} may be unknown"
        )
    for _ in range(count):
        _, position = read_uvarint(buf, position)
        size, position = read_uvarint(buf, position)
        position += size
        if position > end:
            break
    if position > end:
        raise WireError("the tagged fields of a header reach beyond its frame")
    return position


def write_request(header: RequestHeader, message: Message) -> list[Part]:
    """The parts of a whole frame, its length included, none of them empty.  Raises WireError."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    size = -1 if header.client_id is None else len(client_id)
    parts: list[Part] = [b""]
    try:
        head = _REQUEST.pack(header.api_key, header.version, header.correlation_id, size) + client_id
    except struct.error as error:
        raise WireError(f"the header of a request cannot be written: {error}") from error
    if request_header_version(header.api_key, header.version) == 2:
        head += b"\0"
    size = encode_parts(parts, message, header.version) + len(head)
    parts[0] = LENGTH.pack(size) + head
    # (asyncio since Python 3.12 tries to send an empty one at the end for as long as the connection is there)
    return [part for part in parts if len(part)]


def write_response(
    parts: list[Part], correlation_id: int, api_key: int, version: int, message: Message
) -> int:
    """Append a whole frame, its length included, to `parts`; returns its bytes.  Raises WireError."""
    at = len(parts)
    parts.append(b"")
    head = _RESPONSE_V1 if response_header_version(api_key, version) else _RESPONSE_V0
    size = encode_parts(parts, message, version) + head.size
    first = head.pack(size - 4, correlation_id)
    if isinstance(parts[at + 1], bytes):
        parts[at] = first + parts.pop(at + 1)  # type: ignore[operator]
    else:
        parts[at] = first
    return size


def read_response_header(buf: Buffer, api_key: int, version: int, position: int = 0) -> tuple[int, int]:
    """Correlation id and where the body begins; `position` is after the length.  Raises WireError."""
    if len(buf) - position < _CORRELATION.size:
        raise WireError(f"a response of {len(buf) - position} bytes is shorter than its header")
    (correlation_id,) = _CORRELATION.unpack_from(buf, position)
    position += _CORRELATION.size
    if response_header_version(api_key, version):
        position = _skip_tags(buf, position, len(buf))
    return correlation_id, position


class FrameMemory(Protocol):
    """Where large frames are received."""

    def take(self, size: int) -> memoryview:
        """At least `size` writable bytes."""
        ...

    def retire(self, buffer: memoryview) -> None:
        """The frame in what `take` gave was handed on; how long its bytes last is for the caller to know."""
        ...


class _Heap:
    """Memory of its own for each frame, for as long as somebody looks at it."""

    def take(self, size: int) -> memoryview:
        return memoryview(bytearray(size))

    def retire(self, buffer: memoryview) -> None:
        pass


HEAP = _Heap()
_SMALL_BYTES = 64 * 1024


class FrameTooLarge(WireError):  # noqa: N818  says what it is
    """A length that no frame has: what follows is no frame."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(f"a frame claims {size} bytes; {most} are allowed")
        self.size = size


class FrameReader:
    """Cuts a stream into frames: receive into `room()`, say how much it was with `received`, `take` until None.

    Small frames share a buffer and are copied out of it; a frame that is larger than that is received where it
    stays, in memory of `memory`.
    """

    __slots__ = ("_buffer", "_end", "_filled", "_large", "_lent", "_memory", "_position", "max_size")

    def __init__(self, max_size: int, memory: FrameMemory = HEAP) -> None:
        self.max_size = max_size
        self._memory = memory
        self._buffer = memoryview(bytearray(_SMALL_BYTES))
        self._position = self._end = 0
        """The bytes of the buffer that are not taken yet."""
        self._large: memoryview | None = None
        """The large frame that comes in, of which `_filled` bytes are there; it is the beginning of `_lent`."""
        self._lent: memoryview | None = None
        self._filled = 0

    def __repr__(self) -> str:
        pending = self._end - self._position if self._large is None else self._filled
        return f"<FrameReader pending={pending} max={self.max_size}>"

    def room(self) -> memoryview:
        """Where the next bytes go; never empty once `take` has returned None."""
        if self._large is not None:
            return self._large[self._filled :]
        if begin := self._position:
            left = self._end - begin
            if left:
                self._buffer[:left] = bytes(self._buffer[begin : self._end])
            self._position, self._end = 0, left
        return self._buffer[self._end :]

    def received(self, size: int) -> None:
        """So many bytes are in the room now."""
        if self._large is None:
            self._end += size
        else:
            self._filled += size

    def feed(self, data: Buffer) -> None:
        """Take bytes that arrived elsewhere, however many."""
        view = memoryview(data)
        if self._large is not None:
            part = min(len(view), len(self._large) - self._filled)
            self._large[self._filled : self._filled + part] = view[:part]
            self._filled += part
            view = view[part:]
        if len(self.room() if self._large is None else self._buffer) < len(view):
            grown = memoryview(bytearray(self._end + len(view)))
            grown[: self._end] = self._buffer[: self._end]
            self._buffer = grown
        self._buffer[self._end : self._end + len(view)] = view
        self._end += len(view)

    def take(self) -> Buffer | None:
        """The next whole frame without its length, or None.

        Raises WireError when its length is negative or above `max_size`: nothing good follows.
        """
        if (large := self._large) is not None:
            if self._filled < len(large):
                return None
            assert self._lent is not None
            self._memory.retire(self._lent)
            self._large = self._lent = None
            return large
        start = self._position + LENGTH.size
        have = self._end - start
        if have < 0:
            return None
        (size,) = LENGTH.unpack_from(self._buffer, self._position)
        if size < 0 or size > self.max_size:
            raise FrameTooLarge(size, self.max_size)
        if have >= size:
            self._position = start + size
            return bytes(self._buffer[start : start + size])
        if LENGTH.size + size > len(self._buffer):
            self._lent = self._memory.take(size)
            self._large = self._lent[:size]
            self._large[:have] = self._buffer[start : self._end]
            self._filled = have
            self._position = self._end = 0
        return None
