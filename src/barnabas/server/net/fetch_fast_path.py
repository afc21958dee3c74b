"""The fetches of a follower that look like the earlier ones of its connection, served without objects for each.

A follower sends the same bytes over and over but for the numbers that move (`wire.replica_fetch`).  A fetch that
the usual way has served teaches what they look like; from then on the bytes are compared, the numbers read, and
the same reader asked (`broker.requests.follower_fetch`).  Whatever is not plain is left to the usual way, before
anything was done.  `barnabas.fetch.memo` turns it off.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from barnabas.broker.requests.fetch import FetchWaiting
from barnabas.broker.requests.follower_fetch import FollowerFetches
from barnabas.errors import StorageError, WireError
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import RequestContext
from barnabas.server.net.network import Network
from barnabas.server.net.route import Route
from barnabas.server.observe import events
from barnabas.wire.codec.declaration import Part
from barnabas.wire.frame import write_response
from barnabas.wire.replica_fetch import FetchShape, PlainAnswer, write_plain_answer
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["FetchFastPath"]


class FetchFastPath:
    """What the follower on one connection was seen to send.  `take` is the fast path."""

    __slots__ = ("_broker", "_clock", "_context", "_fetches", "_network", "_shape", "connection", "route")
    unwritten = False
    """No bytes of a fetch are needed once it was taken in."""

    def __init__(self, network: Network, broker: Broker, connection: Connection, route: Route) -> None:
        self._network = network
        self._clock = network.runtime.clock
        self._broker = broker
        self.connection = connection
        self.route = route
        self._context: RequestContext | None = None
        self._shape: FetchShape | None = None
        self._fetches: FollowerFetches | None = None

    def learn(self, context: RequestContext, frame: memoryview, request: FetchRequest) -> None:
        """The usual way has taken in this fetch of a session: remember what it looks like."""
        self._shape = self._fetches = None
        if request.session_epoch <= 0:
            return
        try:
            shape = FetchShape(frame)
            self._fetches = FollowerFetches(self._broker, context, request, context.version)
        except (WireError, KeyError):
            return
        self._shape, self._context = shape, context

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end].  False: nothing was done, the usual way has to."""
        shape, fetches = self._shape, self._fetches
        if shape is None or fetches is None:
            return False
        plain = shape.read(data, position, end)
        if plain is None:
            return False
        try:
            answer = fetches.fetch(plain.session_epoch, plain.rows, self._clock.now())
        except Exception as error:  # of ours; its session may be half changed, so the follower begins anew
            events.emit(events.REQUEST_FAILED, reason=self.route.name, api=self.route.name, error=error)
            self.connection.close()
            return True
        if answer is None:
            return False
        network = self._network
        network.request_ids += 1
        self.route.requests.value += 1
        network.step.soon()
        place = _Place(self, plain.correlation_id, received)
        self.connection.line.append(place)
        if isinstance(answer, FetchWaiting):
            place.waiting = answer
            answer.on_done = place.complete
        else:
            place.complete(answer)
        return True

    def end_of_read(self) -> None:
        """Nothing is counted by the read."""

    def send(self, correlation_id: int, answer: FetchResponse | PlainAnswer) -> None:
        """Queue an answer."""
        connection, route, context = self.connection, self.route, self._context
        parts: list[Part] = []
        if isinstance(answer, PlainAnswer):
            size = write_plain_answer(parts, correlation_id, answer)
        else:
            assert context is not None
            try:
                size = write_response(parts, correlation_id, route.key, context.version, answer)
            except (WireError, StorageError) as error:
                events.emit(events.REQUEST_FAILED, api=route.name, version=context.version, error=error)
                connection.close()
                return
        connection.queue(parts, size)

    def __repr__(self) -> str:
        return f"<FetchFastPath {self._shape!r}>"


class _Place:
    """A fetch in the line of its connection; times are monotonic seconds."""

    __slots__ = ("_answer", "_correlation_id", "_done", "_handled", "_path", "_received", "waiting")

    def __init__(self, path: FetchFastPath, correlation_id: int, received: float) -> None:
        self._path = path
        self._correlation_id = correlation_id
        self._received = received
        self._handled = monotonic()
        self._done = False
        self._answer: FetchResponse | PlainAnswer | None = None
        self.waiting: FetchWaiting | None = None
        """What will complete it."""

    def complete(self, answer: FetchResponse | PlainAnswer) -> None:
        """The answer is there."""
        if not self._done:
            self._done = True
            self.waiting = None
            self._answer = answer
            self._path.connection.slot_done(self)

    def send(self, now: float) -> bool:
        """Its turn in the line has come: send the answer if it is there, and say whether it was."""
        if self._done and self._answer is not None:
            path = self._path
            path.send(self._correlation_id, self._answer)
            path.route.count(self._handled - self._received, now - self._received)
        return self._done

    def cancel(self) -> None:
        """The connection is gone."""
        self._done = True
        if self.waiting is not None:
            self.waiting.cancel()

    def __repr__(self) -> str:
        return f"<Place of a fetch {self._correlation_id}{' done' if self._done else ''}>"
