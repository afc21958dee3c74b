"""One request, from the bytes of its frame to its place in the line of answers.

Every request takes the same steps: header, row of the table, version, body, permission, handler.  What
goes wrong is answered where the protocol has an answer for it, and ends the connection where it has none;
it never ends the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from barnabas.broker.ports import Operation
from barnabas.errors import ErrorCode, KafkaError, StorageError, WireError
from barnabas.security.scram import LoginRefused
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import NoAnswerError, RequestContext
from barnabas.server.net.fetch_door import FetchDoor
from barnabas.server.net.network import Network
from barnabas.server.net.produce_door import ProduceDoor
from barnabas.server.net.route import Route
from barnabas.server.net.secure.refusing import say_refused
from barnabas.server.net.slot import Line, Slot
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.frame import read_request_header
from barnabas.wire.registry import API_NAMES
from barnabas.wire.schemas.cluster import ApiVersion, ApiVersionsResponse

__all__ = ["Requests"]

API_VERSIONS_KEY = 18
PRODUCE_KEY, FETCH_KEY = 0, 1


METADATA_KEY = 3


def _padded(api_key: int, frame: memoryview, end: int) -> bool:
    """librdkafka asks for all topics of a cluster that has none with a count of four bytes where one is due.

    Three bytes are too many then; Apache Kafka reads no further than the request, and answers.
    """
    return api_key == METADATA_KEY and len(frame) - end == 3


class Requests:
    """What one kind of listener serves.

    `produces` and `fetches` make the doors for a connection's requests of these kinds; None: they have handlers
    like the rest.  Rights are asked for by the routes' own handlers (`server/rights`).
    """

    __slots__ = ("_fetches", "_network", "_produces", "routes")

    def __init__(
        self,
        network: Network,
        routes: Iterable[Route],
        *,
        produces: Callable[[Connection, Route], ProduceDoor] | None = None,
        fetches: Callable[[Connection, Route], FetchDoor] | None = None,
    ) -> None:
        self._network = network
        self._produces = produces
        self._fetches = fetches
        self.routes = {route.key: route for route in routes}

    def take(
        self, connection: Connection, data: memoryview, begin: int, end: int, total: int, received: float
    ) -> tuple[int, bool]:
        """Serve the frame data[begin:end], and maybe those behind it up to `total`, with their lengths in front.

        Returns where the last of them ends, and whether their bytes must stay untouched until the end of the step.
        """
        produces = connection.produces
        if produces is not None and not data[begin + 1]:  # (the key of Produce; others are left alone, too)
            served = produces.take(data, begin, end, total, received)
            if served[0]:
                return served
        frame = data[begin:end]
        if (door := connection.fetches) is not None and door.take(frame, received):
            return end, False
        return end, self._read(connection, frame, received)

    def _read(self, connection: Connection, frame: memoryview, received: float) -> bool:
        """Serve one frame of any kind.  Returns whether its bytes must stay untouched until the step's end."""
        session = connection.client.login
        if session is not None and session.login.takes_raw_token:
            session.take_raw(bytes(frame))
            return False
        try:
            header, position = read_request_header(frame)
        except WireError as error:
            return self._malformed(connection, "?", error)
        route = self.routes.get(header.api_key)
        network = self._network
        network.request_ids += 1
        context = RequestContext(connection.client, header, network.request_ids, received, len(frame))
        if route is None or not route.row.low <= header.version <= route.row.high:
            return self._unsupported(connection, route, context)
        if session is not None and (why := session.login.refusal(header.api_key, route.name)) is not None:
            return self._not_logged_in(connection, why)
        route.requests.value += 1
        try:
            if header.api_key == PRODUCE_KEY and self._produces is not None:
                if (produces := connection.produces) is None:
                    produces = connection.produces = self._produces(connection, route)
                return produces.read_anew(context, frame, position)
            if header.api_key == FETCH_KEY and self._fetches is not None:
                if (fetches := connection.fetches) is None:
                    fetches = connection.fetches = self._fetches(connection, route)
                fetches.read_anew(context, frame, position)
                return False
            most = network.limits.max_elements
            request, end = decode(route.request_class, frame, header.version, position, most=most)
            if end != len(frame) and not _padded(header.api_key, frame, end):
                raise WireError(f"{len(frame) - end} bytes too many")
        except WireError as error:
            return self._malformed(connection, f"{route.name} v{header.version}", error)
        if (throttle := connection.throttle) is not None:
            throttle.arrived(connection, context)
        self._serve(connection, route, context, request)
        return header.api_key == PRODUCE_KEY

    def _serve(self, connection: Connection, route: Route, context: RequestContext, request: Any) -> Any:
        """Have a request that was read answered, now or later.  Returns what its handler returned."""
        row = route.row
        throttle, clock = connection.throttle, self._network.platform.monotonic
        begun = 0.0 if throttle is None else clock()
        context.between_brokers = row.operation is Operation.CLUSTER_ACTION
        try:
            answer = route.handler(context, request)
        except KafkaError as error:
            answer = self._refused(connection, route, context, error)
        except NoAnswerError as error:
            events.emit(
                events.REQUEST_REFUSED,
                reason=route.name,
                api=route.name,
                client=context.client_host,
                error=error,
            )
            connection.close()
            return None
        except StorageError as error:
            _say_failed(route, context, error)
            answer = self._refused(connection, route, context, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
        except Exception as error:
            _say_failed(route, context, error)
            answer = self._refused(connection, route, context, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
        self._network.step.soon()
        handled = monotonic()
        if throttle is not None and answer is not None:
            throttle.handled(connection, context, clock() - begun)
        if isinstance(answer, Message):
            connection.answer(context, route, answer, handled)
        elif answer is None:
            route.finished(context, handled, handled)
        else:
            slot = connection.expect(context, route)
            slot.handled = handled
            slot.waiting = answer
            if isinstance(answer, asyncio.Future):
                answer.add_done_callback(lambda future: self._future_done(slot, future))
            elif answer.done:
                slot.complete(answer.response)
            else:
                answer.on_done = slot.complete
        return answer

    def _future_done(self, slot: Slot, future: asyncio.Future[Any]) -> None:
        """A handler that waited for other parts of the node has come to an end."""
        route, context = slot.route, slot.context
        if future.cancelled():
            if not slot.done:
                slot.connection.abort()
            return
        error = future.exception()  # read also where nobody waits any more: asyncio would report it as lost
        if slot.done:
            return
        if error is None:
            slot.complete(future.result())
            return
        if not isinstance(error, KafkaError):
            if not isinstance(error, NoAnswerError):
                _say_failed(route, context, error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        slot.complete(self._refused(slot.connection, route, context, error))

    def _refused(
        self, connection: Line, route: Route, context: RequestContext, error: KafkaError
    ) -> Message | None:
        """The answer that carries `error`; where the API cannot carry one, the connection ends."""
        route.errors.value += 1
        answer = route.error_answer(error)
        if answer is None:
            events.emit(
                events.REQUEST_REFUSED,
                reason=f"{route.name} {error.code.name}",
                api=route.name,
                request=context.request_id,
                code=error.code.name,
                error=error,
            )
            connection.close()
        return answer

    def _malformed(self, connection: Connection, what: str, error: WireError) -> bool:
        client = f"{connection.client.host}:{connection.client.port}"
        events.emit(events.REQUEST_MALFORMED, reason=what, client=client, request=what, error=error)
        connection.listener.malformed.value += 1
        connection.close()
        return False

    def _not_logged_in(self, connection: Connection, why: str) -> bool:
        say_refused(connection.client, LoginRefused(why))
        connection.close()
        return False

    def _unsupported(self, connection: Connection, route: Route | None, context: RequestContext) -> bool:
        """An API or a version that is not served: ApiVersions is told what is (KIP-511), others hang up."""
        if route is not None and route.key == API_VERSIONS_KEY:
            context.version = 0
            connection.answer(context, route, _unsupported_version(route), monotonic())
            self._network.step.soon()
            return False
        events.emit(
            events.REQUEST_UNKNOWN if route is None else events.REQUEST_VERSION,
            reason=str(context.api_key),
            api=API_NAMES.get(context.api_key, context.api_key),
            version=context.version,
            client=f"{context.client_host}:{context.client_port}",
            client_id=context.client_id,
        )
        connection.listener.malformed.value += 1
        connection.close()
        return False

    def __repr__(self) -> str:
        return f"<Requests {len(self.routes)} APIs>"


def _unsupported_version(route: Route) -> ApiVersionsResponse:
    """The answer, in version 0, to an ApiVersions whose version we do not know (KIP-511)."""
    row = route.row
    served = [ApiVersion(api_key=row.key, min_version=row.low, max_version=row.high)]
    return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=served)


def _say_failed(route: Route, context: RequestContext, error: BaseException) -> None:
    events.emit(
        events.REQUEST_FAILED, reason=route.name, api=route.name, request=context.request_id, error=error
    )
