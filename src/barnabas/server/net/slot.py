"""The places in a connection's line of answers: they leave in the order of their requests.

And what may take requests that look like earlier ones, before they are read.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from barnabas.model import Now
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Route

__all__ = ["Door", "FastPath", "Line", "Place", "Slot"]


class Place(Protocol):
    """A place in the line of answers: of one request, or of neighbouring ones."""

    def send(self, now: float) -> bool:
        """Its turn has come: send what is there.  Returns whether that was all."""
        ...

    def cancel(self) -> None:
        """The connection is gone."""
        ...


class FastPath(Protocol):
    """What the client of a connection was seen to send (`produce_fast_path`)."""

    @property
    def ahead(self) -> int:
        """How many frames of a read `take_ahead` may look at; 0: it takes none."""
        ...

    @property
    def unwritten(self) -> bool:
        """Whether the bytes that `take` took last are needed until the end of the step."""
        ...

    def take_ahead(self, data: memoryview, total: int, received: float, room: int) -> int:
        """Serve the frames that stand first in data[:total], `room` at most, if they are all alike.

        Returns where the first other one begins; the bytes before it are needed until the end of the step.
        """
        ...

    def take(self, data: memoryview, position: int, end: int, received: float) -> bool:
        """Serve the frame data[position:end] if it is like an earlier one."""
        ...

    def end_of_read(self) -> Now | None:
        """Every frame of one read was handed on.  Returns when they were served if the loop step must end because
        of them."""
        ...


class Door(Protocol):
    """The way in for the fetches of a connection (`fetch_door`)."""

    def take(self, frame: memoryview, received: float) -> bool:
        """Serve a frame on the same terms as the last one.  False: nothing was done, it has to be read anew."""
        ...

    def end_of_read(self) -> Now | None:
        """Every frame of one read was handed on.  Returns when they were served if the loop step must end because
        of them."""
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
