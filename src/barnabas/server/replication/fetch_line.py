"""The fetches of one connection to a leader, one after the other, without a task and a future for each.

An answer is used where it arrives, and the next request leaves as soon as there is one: at once, or at the end of
the loop step in which our own log has acknowledged what the last answer brought.

A fetch that differs from the one before only in positions and the session's epoch is written from the bytes of
that one, and its answer read from its own (`wire.plane`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas.client.connection import Reader, RequestTimedOut, Response
from barnabas.errors import BarnabasError, WireError
from barnabas.server.loop.runtime import Runtime
from barnabas.wire.codec.message import Message
from barnabas.wire.frame import RequestHeader, write_request
from barnabas.wire.plane.fetch_asked import AskedRow, FetchWriter
from barnabas.wire.plane.fetch_told import HeardRows
from barnabas.wire.schemas.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.following.fetcher import Follower
    from barnabas.wire.schemas.offsets import ListOffsetsRequest

__all__ = ["FetchLine"]

GRACE_S = 1.5
"""Seconds beyond the longest wait after which a leader that does not answer is dialled again.  What was lost
the kernel sends again after 0.2, 0.4, 0.8, 1.6 ... s: a new connection knows sooner that a link is whole."""


class _Connection(Protocol):
    """A connection that carries requests (`client.aio.AsyncConnection`)."""

    address: str

    @property
    def closed(self) -> bool: ...
    @property
    def logs_in_again(self) -> bool: ...
    @property
    def client_id(self) -> str: ...
    @property
    def next_correlation_id(self) -> int: ...
    def version_of(self, request: type[Message]) -> int: ...
    def ask_frame(
        self,
        frame: bytes,
        request: type[Message],
        version: int,
        read: Reader,
        on_answer: Callable[[Response | BarnabasError], None],
    ) -> None: ...
    def ask(
        self,
        message: FetchRequest | ListOffsetsRequest,
        on_answer: Callable[[Response | BarnabasError], None],
    ) -> None: ...
    def abort(self) -> None: ...


class _Learned:
    """A fetch of a session that was sent, and what its like have in common."""

    __slots__ = ("read", "request", "shape", "version")

    def __init__(self, request: FetchRequest, connection: _Connection) -> None:
        """Raises WireError where its like cannot be recognized."""
        self.version = connection.version_of(FetchRequest)
        header = RequestHeader(FetchRequest.KEY or 0, self.version, 0, connection.client_id)
        parts = write_request(header, request)
        self.shape = FetchWriter(memoryview(b"".join(bytes(part) for part in parts))[4:])  # type: ignore[arg-type]
        self.request = request
        self.read = HeardRows(request.session_id).read


class FetchLine:
    """The fetches over one connection; `over` is done when it is of no more use, with what ended it."""

    __slots__ = (
        "_answer_by",
        "_connection",
        "_drop",
        "_follower",
        "_learned",
        "_learns",
        "_limit",
        "_look_at",
        "_on_answer",
        "_request",
        "_runtime",
        "_watchdog",
        "over",
        "parked",
    )

    def __init__(
        self,
        runtime: Runtime,
        follower: Follower,
        connection: _Connection,
        *,
        on_answer: Callable[[], None],
        drop: Callable[[], None],
    ) -> None:
        """`on_answer` is called after each answer; `drop` ends the connection because there is something new."""
        self._runtime = runtime
        self._follower = follower
        self._connection = connection
        self._on_answer = on_answer
        self._drop = drop
        self._request: FetchRequest | ListOffsetsRequest | None = None
        """The one under way."""
        self._learned: _Learned | None = None
        """The last one that was made of objects, if others may be written like it."""
        self._learns = not connection.logs_in_again
        self._limit = runtime.config.int("replica.fetch.wait.max.ms") / 1000 + GRACE_S
        self._answer_by = inf
        self._watchdog: asyncio.TimerHandle | None = None
        self._look_at: asyncio.TimerHandle | None = None
        """While partitions rest: when the first of them goes on."""
        self.parked = False
        """Whether the leader may let the request under way wait, which a change of it must not."""
        self.over: asyncio.Future[None] = runtime.loop.create_future()

    def __repr__(self) -> str:
        return f"<FetchLine {self._connection.address} {self._request}>"

    def begin(self, request: FetchRequest | ListOffsetsRequest) -> None:
        """Ask this first."""
        runtime = self._runtime
        self._answer_by = runtime.loop.time() + self._limit
        self._watchdog = runtime.loop.call_later(self._limit, self._watch)
        self._ask(request)

    def look(self) -> None:
        """The follower may have something to ask."""
        if self._request is not None or self.over.done():
            return
        if self._connection.closed:
            self.over.set_result(None)  # the next connection begins with what is to be asked then
            return
        if (learned := self._learned) is not None and (rows := self._follower.next_rows()) is not None:
            self._ask_like(learned, rows)
            return
        request = self._follower.next_request(self._runtime.clock.now())
        if request is not None:
            self._answer_by = self._runtime.loop.time() + self._limit
            self._ask(request)
        else:
            self._look_later(self.look)

    def end(self) -> None:
        """Nothing more is asked here."""
        for timer in (self._watchdog, self._look_at):
            if timer is not None:
                timer.cancel()
        if not self.over.done():
            self.over.set_result(None)

    def _ask(self, request: FetchRequest | ListOffsetsRequest) -> None:
        self._look_later(self._drop)  # a partition that rests now must not wait for those that are parked
        self._request = request
        self._learned = None
        self.parked = not isinstance(request, FetchRequest) or request.max_wait_ms > 0
        try:
            if (
                self._learns
                and isinstance(request, FetchRequest)
                and request.session_epoch > 0
                and self.parked
            ):
                self._learned = self._learn(request)
            self._connection.ask(request, self._answered)
        except BarnabasError as error:
            self._fail(error)

    def _learn(self, request: FetchRequest) -> _Learned | None:
        try:
            return _Learned(request, self._connection)
        except WireError:
            return None

    def _ask_like(self, learned: _Learned, rows: list[AskedRow]) -> None:
        """Ask as the last time, but from these positions on."""
        if self._look_at is not None:  # (no partition rests)
            self._look_at.cancel()
            self._look_at = None
        connection, epoch = self._connection, self._follower.session_epoch
        self._request = learned.request
        self._answer_by = self._runtime.loop.time() + self._limit
        self.parked = True
        try:
            frame = learned.shape.write(connection.next_correlation_id, epoch, rows)
            connection.ask_frame(frame, FetchRequest, learned.version, learned.read, self._answered)
        except BarnabasError as error:
            self._fail(error)

    def _look_later(self, look: Callable[[], None]) -> None:
        """Call this when the first partition that rests goes on, and nothing else before."""
        if self._look_at is not None:
            self._look_at.cancel()
            self._look_at = None
        until = self._follower.next_time()
        if until != inf:
            wait = max(0.0, until - self._runtime.clock.now().mono)
            self._look_at = self._runtime.loop.call_later(wait, look)

    def _answered(self, answer: Response | BarnabasError) -> None:
        request = self._request
        if request is None or self.over.done():
            return
        if isinstance(answer, BarnabasError):
            self._fail(answer)
            return
        self.parked = False
        runtime = self._runtime
        now = runtime.clock.now()
        try:
            if isinstance(answer.message, list):
                self._follower.received_rows(answer.message, now)
            else:
                if self._learned is not None and isinstance(request, FetchRequest):
                    request = FetchRequest(session_epoch=self._follower.session_epoch)
                self._follower.received(request, answer.message, now)
            self._on_answer()
        except Exception as error:  # of ours: it ends the task that waits for `over`, and with it the node
            self._fail(error)
            return
        self._request = None
        runtime.step.end_now(now)
        if self._request is None:  # (the end of the step asks where our log has all of it)
            self.look()

    def _watch(self) -> None:
        """Whether the leader keeps the request under way for too long."""
        runtime = self._runtime
        left = self._answer_by - runtime.loop.time()
        if self._request is None:
            left = self._limit
        if left > 0:
            self._watchdog = runtime.loop.call_later(left, self._watch)
            return
        address = self._connection.address
        self._fail(RequestTimedOut(f"{address} did not answer in {self._limit:g} s", address=address))

    def _fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)
