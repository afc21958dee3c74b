"""Serves envelopes: opens a client's request that a broker forwarded, has it decided, wraps the answer (KIP-590).

The controller asks again whether the client's principal may do that.  Only what the table marks as
forwardable may travel so.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from functools import partial

from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.server.kraft.codec.envelope import came_by_token, principal_of, wrap_answer
from barnabas.server.kraft.driver import Quorum
from barnabas.server.kraft.proposals import STRANGER
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Route
from barnabas.server.replication.applier import Applier
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.frame import RequestHeader, read_request_header
from barnabas.wire.schemas.brokers import EnvelopeRequest

__all__ = ["EnvelopeApi"]


class EnvelopeApi:
    """Serves what is in an envelope; `routes` are those that may be forwarded."""

    __slots__ = ("_applier", "_loop", "_most_elements", "_quorum", "_routes")

    def __init__(
        self,
        runtime: Runtime,
        quorum: Quorum,
        applier: Applier,
        routes: Mapping[int, Route],
    ) -> None:
        self._loop = runtime.loop
        self._most_elements = runtime.config.int("barnabas.request.max.elements")
        self._quorum = quorum
        self._applier = applier
        self._routes = routes

    def serve(self, context: RequestContext, request: EnvelopeRequest) -> Message | asyncio.Future[Message]:
        """Envelope (key 58): open it, decide what is in it, wrap the answer."""
        if not self._quorum.is_active_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self._check_sender(request)
        try:
            header, position = read_request_header(request.request_data)
            route = self._routes.get(header.api_key)
            if route is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "that request cannot be forwarded")
            if not route.row.low <= header.version <= route.row.high:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            data, most = request.request_data, self._most_elements
            inner, end = decode(route.request_class, data, header.version, position, most=most)
            if end != len(request.request_data):
                raise WireError("bytes too many")
            address = str(ipaddress.ip_address(bytes(request.client_host_address)))
        except (WireError, ValueError) as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        principal = request.request_principal
        client = context.client.for_another(principal_of(principal), address, came_by_token(principal))
        forwarded = RequestContext(client, header, context.request_id, context.received)
        try:
            answer = self._decide(route, forwarded, inner)
        except KafkaError as error:
            return wrap_answer(header, _refusal(route, inner, error))
        if isinstance(answer, Message):
            return wrap_answer(header, answer)
        later: asyncio.Future[Message] = self._loop.create_future()
        finish = partial(_finish, route, header, inner, partial(self._check_sender, request), later)
        answer.add_done_callback(finish)
        return later

    def _check_sender(self, request: EnvelopeRequest) -> None:
        if self._quorum.is_stranger(request):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, STRANGER)

    def _decide(
        self, route: Route, context: RequestContext, request: Message
    ) -> Message | asyncio.Future[Message]:
        answer: Message | asyncio.Future[Message] = route.decide(context, request)
        if route.row.applied and not isinstance(answer, Message):
            return self._applier.after(answer)
        return answer

    def __repr__(self) -> str:
        return f"<EnvelopeApi {len(self._routes)} APIs>"


def _finish(
    route: Route,
    header: RequestHeader,
    request: Message,
    check_sender: Callable[[], None],
    later: asyncio.Future[Message],
    future: asyncio.Future[Message],
) -> None:
    error = None if future.cancelled() else future.exception()  # read also where nobody waits any more
    if later.done() or future.cancelled():
        return
    try:
        check_sender()  # again: what was decided may have told this node of which quorum it is
        if error is None:
            later.set_result(wrap_answer(header, future.result()))
        elif isinstance(error, KafkaError):
            later.set_result(wrap_answer(header, _refusal(route, request, error)))
        else:
            later.set_exception(error)
    except Exception as failure:  # the caller must hear of it
        later.set_exception(failure)


def _refusal(route: Route, request: Message, error: KafkaError) -> Message:
    if error.code is ErrorCode.NOT_CONTROLLER:
        raise error  # the broker looks for the controller again; its client never sees this
    answer = route.error_answer(error)
    if answer is None and route.row.refused is not None:
        answer = route.row.refused(request, error)
    if answer is None:
        raise error
    return answer
