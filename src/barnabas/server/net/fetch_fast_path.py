"""The fetches of a follower that look like the earlier ones of its connection, served without objects for each.

A follower sends the same bytes over and over but for the numbers that move (`wire.replica_fetch`).  A fetch that
the usual way has served teaches what they look like; from then on the bytes are compared, the numbers read, and
the same reader asked (`broker.requests.follower_fetch`).  Whatever is not plain is left to the usual way, before
anything was done.  `barnabas.fetch.memo` turns it off.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.broker.purgatory import Waiting
from barnabas.broker.requests.follower_fetch import FollowerFetches, PlainWaiting
from barnabas.errors import WireError
from barnabas.model import Now
from barnabas.server.net.connection import SENT_AT_ONCE_BYTES, Connection
from barnabas.server.net.context import RequestContext
from barnabas.server.net.network import Network
from barnabas.server.net.route import Route
from barnabas.server.net.slot import NothingAhead
from barnabas.server.observe import events
from barnabas.wire.frame import RequestHeader
from barnabas.wire.replica_fetch import FetchShape, PlainAnswer, write_plain_answer
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["FetchFastPath"]


class FetchFastPath(NothingAhead):
    """What the follower on one connection was seen to send.  `take` is the fast path."""

    __slots__ = ("_broker", "_clock", "_ends_step", "_known", "connection", "network", "route")
    unwritten = False
    """No bytes of a fetch are needed once it was taken in."""

    def __init__(self, network: Network, broker: Broker, connection: Connection, route: Route) -> None:
        self.network = network
        self._clock = network.runtime.clock
        self._broker = broker
        self._ends_step: Now | None = None
        """When a fetch of this read came that lets somebody go on, or is answered."""
        self.connection = connection
        self.route = route
        self._known: tuple[FetchShape, FollowerFetches, RequestContext] | None = None
        """What the last fetch that was learned looked like, who goes on from there, and its context."""

    def learn(self, context: RequestContext, frame: memoryview, request: FetchRequest) -> None:
        """The usual way has taken in this fetch of a session: remember what it looks like."""
        self._known = None
        if request.session_epoch > 0:
            try:
                fetches = FollowerFetches(self._broker, context, request, context.version)
                self._known = FetchShape(frame), fetches, context
            except (WireError, KeyError):  # none of its like is recognized
                return

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end].  False: nothing was done, the usual way has to."""
        if self._known is None:
            return False
        shape, fetches, learned = self._known
        plain = shape.read(data, position, end)
        if plain is None:
            return False
        network, connection = self.network, self.connection
        place = _FetchPlace(self, learned, plain.correlation_id, received, end - position)
        now = self._clock.now()
        try:
            answer = fetches.fetch(plain.session_epoch, plain.rows, now, place)
        except Exception as error:  # of ours; its session may be half changed, so the follower begins anew
            events.emit(events.REQUEST_FAILED, reason=self.route.name, api=self.route.name, error=error)
            connection.close()
            return True
        if answer is None:
            return False
        network.request_ids += 1
        self.route.requests.value += 1
        place.handled = monotonic()
        if isinstance(answer, Waiting):
            if answer is not place:
                place.waiting = answer
                answer.on_done = place.complete
            connection.line.append(place)
            if self._broker.touched or not network.step.looks_at(answer.deadline):
                self._ends_step = now
            return True
        self._ends_step = now
        place.response, place.done = answer, True
        if connection.line:
            connection.line.append(place)
        else:
            place.send(place.handled)
        return True

    def end_of_read(self) -> Now | None:
        """Nothing is counted by the read."""
        ends, self._ends_step = self._ends_step, None
        return ends

    def __repr__(self) -> str:
        return f"<FetchFastPath {self._known and self._known[0]!r}>"


class _FetchPlace(PlainWaiting):
    """The place of one fetch in its connection's line, which also waits; times are monotonic seconds."""

    __slots__ = (
        "_correlation_id",
        "_learned",
        "_path",
        "_received",
        "_request_id",
        "_size",
        "handled",
        "waiting",
    )

    def __init__(
        self, path: FetchFastPath, learned: RequestContext, correlation_id: int, received: float, size: int
    ) -> None:
        """`learned` is the context of the fetch that it looks like."""
        # What the classes above have, without their calls: one is made for every fetch.
        self.deadline = 0.0
        self.on_done = self.response = self.bucket = self.fetches = None
        self.done = False
        self._epoch = 0
        self._path = path
        self._learned = learned
        self._correlation_id = correlation_id
        self._received = received
        self._request_id = path.network.request_ids + 1
        self._size = size
        self.handled = 0.0
        self.waiting: Waiting | None = None
        """Who waits in its stead, where more is to be said than this one can."""

    def complete(self, response: FetchResponse | PlainAnswer | None) -> None:
        """The answer is there.  None: nobody expects it any more."""
        if not self.done:
            self._leave()
            self.waiting = None
            self.response = response
            self._path.connection.slot_done(self)

    def cancel(self) -> None:
        """The connection is gone."""
        if not self.done:
            self._leave()
            if self.waiting is not None:
                self.waiting.cancel()

    def _leave(self) -> None:
        self.done = True
        if self.bucket is not None:
            self.bucket.purgatory.remove(self)
        self.release()

    def send(self, now: float) -> bool:
        """Its turn has come: send the answer if it is there, and say whether it was."""
        if not self.done:
            return False
        route, received, response = self._path.route, self._received, self.response
        connection = self._path.connection
        if not isinstance(response, PlainAnswer) or self.handled - received > route.slow_s:
            connection.encode(self._context(), route, response, self.handled, now)
            return True
        parts: list[Any] = []
        queue, size = connection.send_queue, write_plain_answer(parts, self._correlation_id, response)
        if len(parts) == 1 and len(connection.line) <= 1:
            queue.send_small(parts[0])
        else:
            queue.add(parts, size)
            if queue.pending > SENT_AT_ONCE_BYTES:
                queue.flush()
        connection.look_again()
        route.handled_s.note(self.handled - received)
        route.total_s.note(now - received)
        return True

    def _context(self) -> RequestContext:
        """What the usual way has of each request."""
        learned = self._learned
        header = RequestHeader(learned.api_key, learned.version, self._correlation_id, learned.client_id)
        context = RequestContext(learned.client, header, self._request_id, self._received, self._size)
        context.between_brokers = True
        return context

    def __repr__(self) -> str:
        return f"<_FetchPlace {self._correlation_id}{' done' if self.done else ''}>"
