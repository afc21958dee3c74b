"""The fetches of a consumer that look like the earlier ones of its connection, served without objects for each.

A consumer sends the same bytes over and over but for the numbers that move (`wire.consumer_fetch`).  A fetch that
the usual way has served teaches what they look like; from then on the bytes are compared, the rows read, and the
same logs asked (`broker.requests.consumer_fetch`).  Whatever is not plain is left to the usual way, before
anything was done: a client that has a quota, an answer that must wait behind another one, an error in any
partition.  `barnabas.fetch.memo` turns it off.

The answer leaves when the requests of the same read are served, not at the end of the loop step: it depends on
nothing that happened in it.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.broker.requests.consumer_fetch import ConsumerFetches, fetches_like
from barnabas.errors import WireError
from barnabas.server.net.connection import SENT_AT_ONCE_BYTES, Connection
from barnabas.server.net.context import RequestContext
from barnabas.server.net.network import Network
from barnabas.server.net.route import Route
from barnabas.server.net.slot import NothingAhead, Slot
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message
from barnabas.wire.consumer_fetch import (
    ConsumerAnswer,
    ConsumerShape,
    response_of,
    write_consumer_answer,
)
from barnabas.wire.frame import RequestHeader
from barnabas.wire.schemas.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["ConsumerFastPath"]


class ConsumerFastPath(NothingAhead):
    """What the consumer on one connection was seen to send.  `take` is the fast path."""

    __slots__ = ("_answered", "_broker", "_clock", "_connection", "_known", "_network", "_route")
    unwritten = False
    """No bytes of a fetch are needed once it was taken in."""

    def __init__(self, network: Network, broker: Broker, connection: Connection, route: Route) -> None:
        self._network = network
        self._clock = network.runtime.clock
        self._broker = broker
        self._connection = connection
        self._route = route
        self._known: tuple[ConsumerShape, ConsumerFetches, RequestContext] | None = None
        """What the last fetch that was learned looked like, who goes on from there, and its context."""
        self._answered = False
        """Whether an answer of this read is still to be sent."""

    def learn(self, context: RequestContext, frame: memoryview, request: FetchRequest) -> None:
        """The usual way has taken in this fetch: remember what it looks like."""
        self._known = None
        fetches = fetches_like(self._broker, context, request, context.version)
        if fetches is not None:
            try:
                shape = ConsumerShape(frame, self._network.limits.max_elements)
            except WireError:  # none of its like is recognized
                return
            self._known = shape, fetches, context

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end].  False: nothing was done, the usual way has to."""
        connection = self._connection
        if self._known is None or connection.line:
            return False
        shape, fetches, learned = self._known
        plain = shape.read(data, position, end)
        if plain is None:
            return False
        if (throttle := connection.throttle) is not None and throttle.is_limited(learned):
            return False
        correlation_id, epoch, rows = plain
        try:
            answer = fetches.fetch(epoch, rows, self._clock.now())
        except Exception as error:  # of ours; its session may be half changed, so the consumer begins anew
            events.emit(events.REQUEST_FAILED, reason=self._route.name, api=self._route.name, error=error)
            connection.close()
            return True
        if answer is None:
            return False
        network, route = self._network, self._route
        network.request_ids += 1
        route.requests.value += 1
        handled = monotonic()
        slow = handled - received > route.slow_s
        if slow or not isinstance(answer, ConsumerAnswer):
            header = RequestHeader(learned.api_key, learned.version, correlation_id, learned.client_id)
            context = RequestContext(learned.client, header, network.request_ids, received, end - position)
            if not isinstance(answer, ConsumerAnswer):
                self._answer_later(context, answer, handled)
                return True
            route.finished(context, handled, handled)
        else:
            route.handled_s.note(handled - received)
            route.total_s.note(handled - received)
        parts: list[Any] = []
        queue = connection.send_queue
        queue.add(parts, write_consumer_answer(parts, correlation_id, learned.version, answer))
        if queue.pending > SENT_AT_ONCE_BYTES:
            queue.flush()
        self._answered = True
        return True

    def _answer_later(self, context: RequestContext, answer: Any, handled: float) -> None:
        """Do as the usual way does with what has to wait, or is more than records and offsets."""
        connection, network = self._connection, self._network
        if isinstance(answer, Message):
            connection.answer(context, self._route, answer, handled)
            network.step.soon()
            return
        slot = _ConsumerSlot(connection, context, self._route)
        connection.line.append(slot)
        slot.handled = handled
        slot.waiting = answer
        answer.on_done = slot.complete
        if self._broker.touched or not network.step.looks_at(answer.deadline):
            network.step.soon()

    def end_of_read(self) -> None:
        """Send what was answered; the step need not end for that."""
        if self._answered:
            self._answered = False
            queue = self._connection.send_queue
            queue.flush()
            if queue.pending:
                self._connection.look_again()

    def __repr__(self) -> str:
        return f"<ConsumerFastPath {self._known and self._known[0]!r}>"


class _ConsumerSlot(Slot):
    """The place of a fetch that waits."""

    __slots__ = ()
    connection: Connection

    def send(self, now: float) -> bool:
        """See Slot."""
        response = self.response
        if not self.done or not isinstance(response, ConsumerAnswer):
            return super().send(now)
        connection, context, route = self.connection, self.context, self.route
        if connection.throttle is not None:  # a quota is new, perhaps
            self.response = response_of(context.version, response)
            return super().send(now)
        parts: list[Any] = []
        size = write_consumer_answer(parts, context.correlation_id, context.version, response)
        connection.send_queue.add(parts, size)
        if connection.send_queue.pending > SENT_AT_ONCE_BYTES:
            connection.send_queue.flush()
        connection.look_again()
        route.finished(context, self.handled, now)
        return True
