"""Envelopes: a client's request on its way from the broker that got it to the active controller (KIP-590).

The broker wraps the bytes of the request, the client's principal and its address; the controller opens it,
asks again whether that principal may do that, does it, and wraps the answer.  Only what the table marks as
forwardable may travel so.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import Any, Protocol

from barnabas.broker.ports import Authorizer, ResourceType
from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.server.api.item_errors import refusal
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Route
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.codec.primitives import read_uvarint, uvarint
from barnabas.wire.frame import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request,
    write_response,
)
from barnabas.wire.registry import response_class
from barnabas.wire.schemas.brokers import EnvelopeRequest, EnvelopeResponse

__all__ = ["EnvelopeApi", "ForwardedContext", "open_answer", "principal_bytes", "principal_of", "wrap"]

_LENGTH = 4
"""Bytes of a frame's length, which an envelope does not hold."""


class ForwardedContext(RequestContext):
    """A request that came in an envelope: its sender is the client, not the broker that forwarded it."""

    __slots__ = ("_address", "_principal")

    def __init__(self, outer: RequestContext, header: RequestHeader, principal: str, address: str) -> None:
        super().__init__(outer.client, header, outer.request_id, outer.received)
        self._principal = principal
        self._address = address

    @property
    def principal(self) -> str:
        return self._principal

    @property
    def client_host(self) -> str:
        return self._address


# ------------------------------------------------------------------ the broker's side


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
        request_principal=principal_bytes(context.principal),
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


# ------------------------------------------------------------------ the controller's side


class ActiveController(Protocol):
    """Whether this node is it."""

    @property
    def is_active_controller(self) -> bool: ...


class EnvelopeApi:
    """Serves what is in an envelope; `routes` are those that may be forwarded."""

    __slots__ = ("_authorizer", "_loop", "_quorum", "_routes")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        quorum: ActiveController,
        routes: Mapping[int, Route],
        authorizer: Authorizer | None,
    ) -> None:
        self._loop = loop
        self._quorum = quorum
        self._routes = routes
        self._authorizer = authorizer

    def serve(self, context: RequestContext, request: EnvelopeRequest) -> Message | asyncio.Future[Message]:
        """Envelope (key 58): open it, serve what is in it, wrap the answer."""
        if not self._quorum.is_active_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        try:
            header, position = read_request_header(request.request_data)
            route = self._routes.get(header.api_key)
            if route is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "that request cannot be forwarded")
            if not route.row.low <= header.version <= route.row.high:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            inner, end = decode(route.request_class, request.request_data, header.version, position)
            if end != len(request.request_data):
                raise WireError("bytes too many")
            address = str(ipaddress.ip_address(bytes(request.client_host_address)))
        except (WireError, ValueError) as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        forwarded = ForwardedContext(context, header, principal_of(request.request_principal), address)
        try:
            answer = self._serve(route, forwarded, inner)
        except KafkaError as error:
            return _wrapped(route, header, _error(route, inner, error))
        if isinstance(answer, Message):
            return _wrapped(route, header, answer)
        later: asyncio.Future[Message] = self._loop.create_future()
        answer.add_done_callback(lambda future: _finish(route, header, inner, future, later))
        return later

    def _serve(self, route: Route, context: ForwardedContext, request: Message) -> Any:
        row = route.row
        name = "kafka-cluster" if row.resource == ResourceType.CLUSTER else ""
        if self._authorizer is not None and not self._authorizer.authorize(
            context, row.operation, row.resource, name
        ):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return route.handler(context, request)


def _finish(
    route: Route,
    header: RequestHeader,
    request: Message,
    future: asyncio.Future[Message],
    later: asyncio.Future[Message],
) -> None:
    error = None if future.cancelled() else future.exception()  # read also where nobody waits any more
    if later.done() or future.cancelled():
        return
    try:
        if error is None:
            later.set_result(_wrapped(route, header, future.result()))
        elif isinstance(error, KafkaError):
            later.set_result(_wrapped(route, header, _error(route, request, error)))
        else:
            later.set_exception(error)
    except Exception as failure:  # the caller must hear of it
        later.set_exception(failure)


def _error(route: Route, request: Message, error: KafkaError) -> Message:
    if error.code is ErrorCode.NOT_CONTROLLER:
        raise error  # the broker looks for the controller again; its client never sees this
    answer = route.error_answer(error) or refusal(request, error)
    if answer is None:
        raise error
    return answer


def _wrapped(route: Route, header: RequestHeader, answer: Message) -> EnvelopeResponse:
    parts: list[Any] = []
    write_response(parts, header.correlation_id, header.api_key, header.version, answer)
    return EnvelopeResponse(response_data=_joined(parts)[_LENGTH:])


def _joined(parts: list[Any]) -> bytes:
    return b"".join(bytes(p) if isinstance(p, bytes | bytearray | memoryview) else p.read() for p in parts)


# ------------------------------------------------------------------ principals


def principal_bytes(principal: str) -> bytes:
    """`User:alice` as Kafka's brokers write it: a version, then type, name and "by token?"."""
    kind, _, name = principal.partition(":")
    return b"\0\0" + _compact(kind) + _compact(name) + b"\0\0"


def _compact(text: str) -> bytes:
    raw = text.encode()
    return bytes(uvarint(len(raw) + 1)) + raw


def principal_of(data: bytes | None) -> str:
    """The principal in an envelope.  Raises KafkaError PRINCIPAL_DESERIALIZATION_FAILURE."""
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
        return ":".join(parts)
    except (ValueError, IndexError, WireError) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
