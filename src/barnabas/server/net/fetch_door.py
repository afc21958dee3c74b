"""The fetches of one connection, from the bytes of a frame to its answer's place in the line.

A client's fetches mostly say the same but for the numbers that move: their bytes are compared with those of the
last one, and the same `Fetches` serves them.  Those on other terms, and those that are not plain, are read anew.

An answer leaves when the requests of the same read are served, not at the end of the loop step: it depends on
nothing that happened in it.  The step ends with the read only where a fetch lets somebody go on.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.broker.requests.fetch import Fetches, FetchWaiting
from barnabas.model import Now
from barnabas.server.net.connection import SENT_AT_ONCE_BYTES
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import events
from barnabas.wire.codec.message import decode_whole
from barnabas.wire.frame import RequestHeader
from barnabas.wire.plane.fetch_asked import Asked, FetchFrames
from barnabas.wire.plane.fetch_told import FetchAnswer, write_fetch_answer
from barnabas.wire.plane.objects import asked_by
from barnabas.wire.schemas.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.server.net.connection import Connection
    from barnabas.server.net.network import Network
    from barnabas.server.net.route import Route

__all__ = ["FetchDoor"]


class FetchDoor:
    """The way in for the fetches of one connection."""

    __slots__ = (
        "_answered",
        "_broker",
        "_clock",
        "_ends_step",
        "_fetches",
        "_frames",
        "_learned",
        "connection",
        "network",
        "route",
    )

    def __init__(self, network: Network, broker: Broker, connection: Connection, route: Route) -> None:
        self.network = network
        self.connection = connection
        self.route = route
        self._broker = broker
        self._clock = network.runtime.clock
        self._frames = FetchFrames(network.limits.max_elements)
        self._fetches: Fetches | None = None
        self._learned: RequestContext | None = None
        """The context of the last one that was read anew."""
        self._answered = False
        """True if an answer of this read is still to be sent."""
        self._ends_step: Now | None = None
        """Time at which a fetch of this read came that lets somebody go on."""

    def take(self, frame: memoryview, received: float) -> bool:
        """Serve a frame on the same terms as the last one.  False: nothing was done, it has to be read anew."""
        fetches, learned = self._fetches, self._learned
        if fetches is None or learned is None or fetches.terms is not self._frames.terms:
            return False
        asked = self._frames.read(frame, 0, len(frame))
        if asked is None:
            return False
        if (throttle := self.connection.throttle) is not None and throttle.is_limited(learned):
            return False
        self.network.request_ids += 1
        self.route.requests.value += 1
        self._serve(fetches, learned, asked, received, len(frame))
        return True

    def read_anew(self, context: RequestContext, frame: memoryview, body: int) -> None:
        """Serve a frame whose header was read, and counted; its body begins at `body`.

        Raises WireError where it is no fetch.
        """
        asked = self._frames.learn(frame)
        terms = self._frames.terms
        if asked is None or terms is None:
            most = self.network.limits.max_elements
            request = decode_whole(FetchRequest, frame, context.version, body, most=most)
            terms, asked = asked_by(context.header, request)
        context.between_brokers = terms.replica >= 0
        connection, clock = self.connection, self.network.platform.monotonic
        begun, throttle = 0.0, connection.throttle
        if throttle is not None:
            begun = clock()
            terms = throttle.shrunk(context, terms)
        fetches = self._fetches
        if fetches is None or fetches.terms != terms or fetches.context.client_id != context.client_id:
            fetches = self._fetches = Fetches(self._broker, context, terms)
        self._learned = context
        self._serve(fetches, context, asked, context.received, len(frame))
        if throttle is not None:
            throttle.handled(connection, context, clock() - begun)

    def _serve(
        self, fetches: Fetches, learned: RequestContext, asked: Asked, received: float, size: int
    ) -> None:
        """Answer a request of so many bytes, or let it wait in its connection's line.

        `learned` is its context, or that of the last one that was read anew.
        """
        connection, now = self.connection, self._clock.now()
        try:
            answer = fetches.serve(asked, now)
        except Exception as error:  # of ours; its session may be half changed, so the client begins anew
            events.emit(events.REQUEST_FAILED, reason=self.route.name, api=self.route.name, error=error)
            connection.close()
            return
        handled = monotonic()
        if not isinstance(answer, FetchWaiting):
            if self._broker.touched:
                self._ends_step = now
            if not connection.line:
                self._answered = True
                self.send(answer, learned, asked.correlation_id, received, handled, handled, size)
                return
        place = _Place(self, learned, asked.correlation_id, received, handled, size)
        connection.line.append(place)
        if isinstance(answer, FetchWaiting):
            place.waiting = answer
            answer.on_done = place.complete
            if self._broker.touched or not self.network.step.looks_at(answer.deadline):
                self._ends_step = now
        else:
            place.response, place.done = answer, True

    def send(
        self,
        answer: FetchAnswer,
        learned: RequestContext,
        correlation_id: int,
        received: float,
        handled: float,
        now: float,
        size: int,
    ) -> None:
        """Send an answer, whose turn has come; times are monotonic seconds, `size` the bytes of its request."""
        connection, route = self.connection, self.route
        if connection.throttle is not None or handled - received > route.slow_s:
            header = RequestHeader(learned.api_key, learned.version, correlation_id, learned.client_id)
            context = RequestContext(learned.client, header, self.network.request_ids, received, size)
            context.between_brokers = learned.between_brokers
            connection.encode(context, route, answer, handled, now)
            return
        parts: list[Any] = []
        queue = connection.send_queue
        bytes_ = write_fetch_answer(parts, correlation_id, learned.version, answer)
        if len(parts) == 1 and len(connection.line) <= 1:
            queue.send_small(parts[0])
        else:
            queue.add(parts, bytes_)
            if queue.pending > SENT_AT_ONCE_BYTES:
                queue.flush()
        if not self._answered:
            connection.look_again()
        route.handled_s.note(handled - received)
        route.total_s.note(now - received)

    def end_of_read(self) -> Now | None:
        """Send what was answered.  Return when fetches came that let somebody go on: the step must end then."""
        if self._answered:
            self._answered = False
            queue = self.connection.send_queue
            if queue.pending:
                queue.flush()
                if queue.pending:
                    self.connection.look_again()
        ends, self._ends_step = self._ends_step, None
        return ends

    def __repr__(self) -> str:
        return f"<FetchDoor {self._frames!r}>"


class _Place:
    """The place of one fetch in its connection's line; times are monotonic seconds."""

    __slots__ = (
        "_correlation_id",
        "_door",
        "_handled",
        "_learned",
        "_received",
        "_size",
        "done",
        "response",
        "waiting",
    )

    def __init__(
        self,
        door: FetchDoor,
        learned: RequestContext,
        correlation_id: int,
        received: float,
        handled: float,
        size: int,
    ) -> None:
        self._door = door
        self._learned = learned
        self._correlation_id = correlation_id
        self._received = received
        self._handled = handled
        self._size = size
        self.done = False
        self.response: FetchAnswer | None = None
        self.waiting: FetchWaiting | None = None

    def complete(self, response: FetchAnswer | None) -> None:
        """Take the answer, which is there now.  None: nobody expects it any more."""
        if not self.done:
            self.done = True
            self.waiting = None
            self.response = response
            self._door.connection.slot_done(self)

    def cancel(self) -> None:
        """Forget the fetch: its connection is gone."""
        self.done = True
        if self.waiting is not None:
            self.waiting.cancel()

    def send(self, now: float) -> bool:
        """Send the answer, whose turn has come, if it is there; say whether it was."""
        if self.done and self.response is not None:
            times = self._received, self._handled, now
            self._door.send(self.response, self._learned, self._correlation_id, *times, self._size)
        return self.done

    def __repr__(self) -> str:
        return f"<_Place {self._correlation_id}{' done' if self.done else ''}>"
