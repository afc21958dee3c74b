"""Envelopes: a client's request on its way from the broker that got it to the active controller (KIP-590).

The broker wraps the bytes of the request, the client's principal and its address; the controller wraps the
answer (`server.api.envelope` opens it there).
"""

from __future__ import annotations

import ipaddress
from typing import Any

from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.frame import RequestHeader, read_response_header, write_request, write_response
from barnabas.wire.registry import response_class
from barnabas.wire.schemas.brokers import EnvelopeRequest, EnvelopeResponse

__all__ = ["came_by_token", "open_answer", "principal_bytes", "principal_of", "wrap", "wrap_answer"]

_LENGTH = 4
"""Bytes of a frame's length, which an envelope does not hold."""


def wrap(context: RequestContext, request: Message) -> EnvelopeRequest:
    """The envelope for a client's request."""
    header = RequestHeader(context.api_key, context.version, context.correlation_id, context.client_id)
    frame = _joined(write_request(header, request))
    try:
        address = ipaddress.ip_address(context.client_host.partition("%")[0]).packed
    except ValueError:  # a client without an address (a socket of this machine)
        address = ipaddress.ip_address("127.0.0.1").packed
    return EnvelopeRequest(
        request_data=frame[_LENGTH:],
        request_principal=principal_bytes(context.principal, context.client.by_token),
        client_host_address=address,
    )


def open_answer(context: RequestContext, answer: EnvelopeResponse) -> Message:
    """The answer for the client.  Raises KafkaError with the envelope's own error, or WireError."""
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), "the active controller did not take the request")
    data = answer.response_data or b""
    key, version = context.api_key, context.version
    _, position = read_response_header(data, key, version)
    message, _ = decode(response_class(key), data, version, position)
    return message


def wrap_answer(header: RequestHeader, answer: Message) -> EnvelopeResponse:
    """The envelope for the answer to the request with that header."""
    parts: list[Any] = []
    write_response(parts, header.correlation_id, header.api_key, header.version, answer)
    return EnvelopeResponse(response_data=_joined(parts)[_LENGTH:])


def _joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(p) if isinstance(p, bytes | bytearray | memoryview) else p.read() for p in parts)


def principal_bytes(principal: str, by_token: bool = False) -> bytes:
    """`User:alice` as Kafka's brokers write it: a version, then type, name and "by token?"."""
    kind, _, name = principal.partition(":")
    return b"\0\0" + _compact(kind) + _compact(name) + bytes((by_token, 0))


def _compact(text: str) -> bytes:
    raw = text.encode()
    return bytes(uvarint(len(raw) + 1)) + raw


def principal_of(data: bytes | None) -> str:
    """The principal in an envelope.  Raises KafkaError PRINCIPAL_DESERIALIZATION_FAILURE."""
    return _read_principal(data)[0]


def came_by_token(data: bytes | None) -> bool:
    """Whether the principal in an envelope came by a delegation token.  Raises KafkaError."""
    return _read_principal(data)[1]


def _read_principal(data: bytes | None) -> tuple[str, bool]:
    try:
        if data is None or data[:2] != b"\0\0":
            raise ValueError("no principal of version 0")
        position, parts = 2, []
        for _ in range(2):
            size, position = read_uvarint(data, position)
            end = position + size - 1
            if size < 1 or end > len(data):
                raise ValueError("it ends too early")
            parts.append(data[position:end].decode())
            position = end
        return ":".join(parts), data[position : position + 1] not in (b"", b"\0")
    except (ValueError, IndexError, WireError) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
