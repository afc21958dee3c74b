"""Requests whose bytes say a wrong number of elements for one of their arrays."""

from __future__ import annotations

import copy
import socket
import struct
from typing import Any

from barnabas.client.connection import Connection
from barnabas.errors import WireError
from barnabas.wire.codec.message import Message, Struct, encode

__all__ = ["CLOSED", "SILENT", "ask_lying", "falsified"]

CLOSED = "closes the connection"
SILENT = "does not answer"
WITHIN_S = 10.0


def falsified(message: Message, version: int, which: int, count: str) -> bytes | None:
    """The message's bytes with the count of one array wrong; None where it has no array with elements."""
    arrays = list(_arrays(message, ()))
    if not arrays:
        return None
    path = arrays[which % len(arrays)]
    raw = encode(message, version)
    longer = copy.deepcopy(message)
    elements = _at(longer, path)
    elements.append(copy.deepcopy(elements[-1]))
    other = encode(longer, version)
    at = next((place for place, (a, b) in enumerate(zip(raw, other, strict=False)) if a != b), None)
    if at is None:
        return None
    said = {"more": len(elements), "fewer": len(elements) - 2, "huge": 2**31 - 1, "negative": -2, "null": -1}[
        count
    ]
    if version >= type(message).FLEXIBLE:
        return raw[:at] + _varint((said + 1) & 0xFFFFFFFF) + raw[at + 1 :]
    return raw[: at - 3] + struct.pack(">i", said) + raw[at + 1 :]


def _arrays(value: Any, path: tuple[Any, ...]) -> Any:
    """The paths of all arrays with elements, through the first element of each."""
    for field in type(value).FIELDS:
        found = getattr(value, field.name)
        if isinstance(found, list) and found:
            yield (*path, field.name)
            if isinstance(found[0], Struct):
                yield from _arrays(found[0], (*path, field.name, 0))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step] if isinstance(step, int) else getattr(value, step)
    return value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def ask_lying(port: int, message: Message, version: int, raw: bytes) -> Message | str:
    """What a node answers to these bytes over a connection of their own."""
    core = Connection("liar")
    whole = b"".join(map(bytes, core.send(message, version).parts))
    head = whole[4 : len(whole) - len(encode(message, version))]
    with socket.create_connection(("127.0.0.1", port), WITHIN_S) as sock:
        sock.sendall(struct.pack(">i", len(head) + len(raw)) + head + raw)
        try:
            frame = _exactly(sock, core.frame_size(_exactly(sock, 4)))
            answer: Message = core.receive_frame(frame).message
        except ConnectionError:
            return CLOSED
        except TimeoutError:
            return SILENT
        except WireError as error:
            return f"unreadable: {error}"
    return answer


def _exactly(sock: socket.socket, size: int) -> bytearray:
    found = bytearray()
    while len(found) < size:
        more = sock.recv(size - len(found))
        if not more:
            raise ConnectionResetError
        found += more
    return found
