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
from barnabas.errors import WireError
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import RequestContext
from barnabas.server.net.network import Network
from barnabas.server.net.route import Route
from barnabas.server.observe import events
from barnabas.wire.frame import RequestHeader
from barnabas.wire.replica_fetch import FetchShape
from barnabas.wire.schemas.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker

__all__ = ["FetchFastPath"]


class FetchFastPath:
    """What the follower on one connection was seen to send.  `take` is the fast path."""

    __slots__ = ("_broker", "_clock", "_connection", "_known", "_network", "_route")
    unwritten = False
    """No bytes of a fetch are needed once it was taken in."""

    def __init__(self, network: Network, broker: Broker, connection: Connection, route: Route) -> None:
        self._network = network
        self._clock = network.runtime.clock
        self._broker = broker
        self._connection = connection
        self._route = route
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
        network, connection, route = self._network, self._connection, self._route
        try:
            answer = fetches.fetch(plain.session_epoch, plain.rows, self._clock.now())
        except Exception as error:  # of ours; its session may be half changed, so the follower begins anew
            events.emit(events.REQUEST_FAILED, reason=route.name, api=route.name, error=error)
            connection.close()
            return True
        if answer is None:
            return False
        network.request_ids += 1
        route.requests.value += 1
        network.step.soon()
        header = RequestHeader(route.key, learned.version, plain.correlation_id, learned.client_id)
        context = RequestContext(learned.client, header, network.request_ids, received, end - position)
        context.between_brokers = True
        handled = monotonic()
        if isinstance(answer, FetchWaiting):
            slot = connection.expect(context, route)
            slot.handled = handled
            slot.waiting = answer
            answer.on_done = slot.complete
        else:
            connection.answer(context, route, answer, handled)
        return True

    def end_of_read(self) -> None:
        """Nothing is counted by the read."""

    def __repr__(self) -> str:
        return f"<FetchFastPath {self._known and self._known[0]!r}>"
