"""Requests for the active controller, wherever it is.

A node that is the active controller decides them itself; any other sends them to it: its own requests
(registration, heartbeats, producer ids) as they are, those of its clients in envelopes (KIP-590).  Which
node is active is what the quorum says at this moment; where it is, is the address it leads from.

A request that has a field for it names the quorum that this node is of, as soon as it is known: who is taken for
the controller may be of another one, whatever else is the same, and then refuses it (`raft.identity.origin`).

Requests wait for a controller, and look for it again when the one they asked is none any more, until their
time is up.  An answer tells what became of them; without one, a client is told REQUEST_TIMED_OUT or
NOT_CONTROLLER, and the change may have happened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from barnabas.client.aio import AsyncConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.client.security.login import AuthenticationFailed
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, Endpoint, NodeId, Uuid
from barnabas.server.kraft.codec.envelope import open_answer, wrap
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.loop.dialling import dial
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.brokers import EnvelopeResponse

__all__ = ["ControllerChannel"]

_PAUSE_S = 0.02
"""Seconds between two looks for the active controller."""
_OWN_WITHIN_S = 3.0
"""Seconds after which a request of this node is taken for lost: a third of a broker's session, so that a link that
lost some packets costs a heartbeat and not the broker."""


class Leadership(Protocol):
    """Who leads the quorum, as this node knows it."""

    settings: QuorumSettings

    @property
    def is_active_controller(self) -> bool: ...
    @property
    def leader_id(self) -> NodeId: ...
    @property
    def leader_endpoint(self) -> Endpoint | None: ...
    @property
    def origin(self) -> Uuid: ...
    def submit(self, request: Message, version: int | None = None) -> asyncio.Future[Message]: ...


class ControllerChannel:
    """`submit` a request of this node, `forward` one of a client.  `timeout` in seconds bounds each."""

    def __init__(self, quorum: Leadership, timeout: float) -> None:
        self._quorum = quorum
        self._timeout = timeout
        self._lines: dict[str, tuple[Endpoint, AsyncConnection]] = {}
        self._dialling: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[Message]] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"<ControllerChannel to {self._quorum.leader_id} under way={len(self._tasks)}>"

    def submit(self, request: Message) -> asyncio.Future[Message]:
        """A request of this node.  The future raises KafkaError, as `Quorum.submit` does.

        Tried once: who asks repeats it, with what it knows by then.
        """
        if self._quorum.is_active_controller:
            return self._quorum.submit(request)
        limit = min(self._timeout, _OWN_WITHIN_S)
        return self._start(self._ask("own", lambda line: line.request(self._signed(request), None, limit)))

    def forward(
        self, context: RequestContext, request: Message, lane: str, decide: Handler
    ) -> asyncio.Future[Message]:
        """A client's request, over the connection `lane`; `decide` decides it where this node is the controller.

        NOT_CONTROLLER is not for the client: the controller is looked for again.
        """
        return self._start(self._forward(context, request, lane, decide))

    def serves(self) -> dict[int, tuple[int, int]] | None:
        """What the active controller serves, lowest and highest version by API key; None where that is not
        known, or is this node."""
        endpoint = self._quorum.leader_endpoint
        if not self._quorum.is_active_controller:
            for at, connection in self._lines.values():
                if at == endpoint and not connection.closed:
                    return connection.versions
        return None

    def leader_moved(self) -> None:
        """The quorum has another leader: who asked the one before asks again, instead of waiting for one
        that may be dead without a word until the time of a heartbeat, and then its session, is over."""
        endpoint = self._quorum.leader_endpoint
        for lane, (at, connection) in list(self._lines.items()):
            if endpoint is not None and at != endpoint:
                del self._lines[lane]
                connection.abort()

    async def close(self) -> None:
        """Requests that still wait get NOT_CONTROLLER."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        for _, connection in self._lines.values():
            connection.abort()
        self._lines.clear()
        await asyncio.sleep(0)

    def _signed(self, request: Message) -> Message:
        """With the quorum that this node is of, where it is known and the request has a field for it."""
        origin = self._quorum.origin
        return (
            replace(request, origin=origin) if origin != ZERO_UUID and hasattr(request, "origin") else request
        )

    def _start(self, work: Any) -> asyncio.Future[Message]:
        task: asyncio.Task[Message] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _forward(
        self, context: RequestContext, request: Message, lane: str, decide: Handler
    ) -> Message:
        last = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "there is no active controller")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                while not self._closed:
                    try:
                        return await self._forward_once(context, request, lane, decide)
                    except KafkaError as error:
                        if error.code is not ErrorCode.NOT_CONTROLLER:
                            raise
                        last = KafkaError(ErrorCode.REQUEST_TIMED_OUT, error.message)
                    await asyncio.sleep(_PAUSE_S)
        raise last

    async def _forward_once(
        self, context: RequestContext, request: Message, lane: str, decide: Handler
    ) -> Message:
        if self._quorum.is_active_controller:
            decided: Message | asyncio.Future[Message] = decide(context, request)
            return decided if isinstance(decided, Message) else await decided
        answer = await self._ask(lane, lambda line: line.request(self._signed(wrap(context, request))))
        assert isinstance(answer, EnvelopeResponse)
        try:
            return open_answer(context, answer)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                raise
            if error.code is ErrorCode.UNSUPPORTED_VERSION:  # the client asks for versions when it is back
                context.client.hang_up()
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error

    async def _ask(self, lane: str, request: Callable[[AsyncConnection], Awaitable[Message]]) -> Message:
        """One try.  Raises KafkaError NOT_CONTROLLER when nobody could be asked or nobody answered."""
        try:
            return await request(await self._line(lane))
        except (ConnectionFailed, AuthenticationFailed) as error:  # the latter is said where it is dialled
            raise KafkaError(ErrorCode.NOT_CONTROLLER, error.message) from error
        except KafkaError:
            raise
        except BarnabasError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error

    async def _line(self, lane: str) -> AsyncConnection:
        async with self._dialling.setdefault(lane, asyncio.Lock()):
            quorum = self._quorum
            endpoint = quorum.leader_endpoint
            if endpoint is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "no active controller is known")
            old = self._lines.get(lane)
            if old is not None:
                if old[0] == endpoint and not old[1].closed:
                    return old[1]
                old[1].abort()
                del self._lines[lane]
            connection = await dial(
                endpoint.host,
                endpoint.port,
                client_id=f"node-{quorum.settings.key.id}-{lane}",
                timeout=self._timeout,
                connect_timeout=quorum.settings.raft.request_timeout,
                security=quorum.settings.security,
            )
            self._lines[lane] = endpoint, connection
            return connection
