"""The places in a connection's line of answers, which leave in the order of their requests, and the ways in."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from barnabas.model import Now
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Route

__all__ = ["FetchesIn", "Line", "Place", "ProducesIn", "Slot"]


class Place(Protocol):
    """A place in the line of answers: of one request, or of neighbouring ones."""

    def send(self, now: float) -> bool:
        """Its turn has come: send what is there.  Returns whether that was all."""
        ...

    def cancel(self) -> None:
        """The connection is gone."""
        ...


class Door(Protocol):
    """A way in for requests of one kind of a connection."""

    def end_of_read(self) -> Now | None:
        """Every frame of one read was handed on.  Returns when they were served if the loop step must end because
        of them."""
        ...


class ProducesIn(Door, Protocol):
    """The way in for its requests to produce (`produce_door`)."""

    def take(self, data: memoryview, begin: int, end: int, total: int, received: float) -> tuple[int, bool]:
        """Serve the request data[begin:end], and those behind it, up to `total`, that begin alike."""
        ...

    def read_anew(self, context: RequestContext, frame: memoryview, body: int) -> bool:
        """Serve a frame whose header was read; its body begins at `body`.  Raises WireError."""
        ...


class FetchesIn(Door, Protocol):
    """The way in for its fetches (`fetch_door`)."""

    def take(self, frame: memoryview, received: float) -> bool:
        """Serve a frame on the same terms as the last one.  False: nothing was done, it has to be read anew."""
        ...

    def read_anew(self, context: RequestContext, frame: memoryview, body: int) -> None:
        """Serve a frame whose header was read; its body begins at `body`.  Raises WireError."""
        ...


class Line(Protocol):
    """The connection whose line it is."""

    def slot_done(self, slot: Place) -> None:
        """A place of the line was completed: encode what can go now."""
        ...

    def encode(
        self, context: RequestContext, route: Route, response: Any, handled: float, done: float
    ) -> None:
        """Write an answer (None: nothing) to what is to be sent, and count it."""
        ...

    def close(self) -> None:
        """Send what is ready and hang up."""
        ...

    def abort(self) -> None:
        """Hang up at once."""
        ...


class Slot:
    """The place of one unanswered request in its connection's line.

    Times are monotonic seconds: when it was received, and when its handler returned.
    """

    __slots__ = ("connection", "context", "done", "handled", "response", "route", "waiting")

    def __init__(self, connection: Line, context: RequestContext, route: Route) -> None:
        self.connection = connection
        self.context = context
        self.route = route
        self.response: Any = None
        self.done = False
        self.handled = 0.0
        self.waiting: Any = None
        """What will complete it (a broker's Waiting, a Future), or None."""

    def complete(self, response: Any) -> None:
        """The answer is there.  None: there is none to be sent."""
        if not self.done:
            self.done = True
            self.waiting = None
            self.response = response
            self.connection.slot_done(self)

    def cancel(self) -> None:
        """The connection is gone."""
        self.done = True
        if self.waiting is not None and not isinstance(self.waiting, asyncio.Future):
            self.waiting.cancel()

    def send(self, now: float) -> bool:
        """Its turn in the line has come: send the answer if it is there, and say whether it was."""
        if self.done:
            self.connection.encode(self.context, self.route, self.response, self.handled, now)
        return self.done

    def __repr__(self) -> str:
        return f"<Slot {self.route.name} {self.context.correlation_id}{' done' if self.done else ''}>"
