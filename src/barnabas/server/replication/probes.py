"""Questions over the network whether a node is alive; callers that ask at the same time share one.

    await probes.ask([2, 3])

A connection that is kept for this alone carries one small request at a time (Metadata of no topic). A caller
needs a question that was sent after its call, because an answer that was already on its way may come from a
node that died since.  So all callers that come while a question is out share the next one.

`LeaderSuspicion` learns the outcome: the node answered, or its address refuses or drops connections.  A silent
node is neither, and nobody waits for it longer than `LONGEST_WAIT_S`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from barnabas.client.aio import AsyncConnection
from barnabas.client.connection import RequestTimedOut
from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.replication.broker_connections import PeerListener, dial_broker
from barnabas.server.replication.leader_suspicion import LeaderSuspicion
from barnabas.wire.schemas.cluster import MetadataRequest

__all__ = ["LONGEST_WAIT_S", "Probes"]

LONGEST_WAIT_S = 0.1
"""Seconds that a caller waits at most: a node that lives answers in a round trip, a busy one after its turn."""
_ANSWER_WITHIN_S = 2.0
"""Seconds after which the connection to a silent node is given up."""
_QUESTION = MetadataRequest(topics=[], allow_auto_topic_creation=False)


class Probes:
    """The questions of one node; `suspicion` hears what they come to.

    `listener` is that by which brokers reach each other, `image` says where.
    """

    __slots__ = ("_image", "_listener", "_probes", "_runtime", "_suspicion")

    def __init__(
        self, runtime: Runtime, image: MetadataImage, suspicion: LeaderSuspicion, listener: PeerListener
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._suspicion = suspicion
        self._listener = listener
        self._probes: dict[NodeId, _Probe] = {}

    async def ask(self, leaders: Iterable[NodeId]) -> None:
        """Returns when each of them has answered, is known not to live, or is silent for `LONGEST_WAIT_S`."""
        answers = [answer for leader in leaders if (answer := self._probe(leader).answer()) is not None]
        if answers:
            await asyncio.wait(answers, timeout=LONGEST_WAIT_S)

    def _probe(self, leader: NodeId) -> _Probe:
        probe = self._probes.get(leader)
        if probe is None:
            client_id = f"probe-{self._runtime.node_id}"
            dial = partial(dial_broker, self._image, leader, self._listener, client_id)
            probe = self._probes[leader] = _Probe(self._runtime, self._suspicion, leader, dial)
        return probe

    def stop(self) -> None:
        """Ask nothing more."""
        for probe in self._probes.values():
            probe.stop()

    def __repr__(self) -> str:
        return f"<Probes {list(self._probes)}>"


class _Probe:
    """Questions to one node."""

    __slots__ = (
        "_asked_at",
        "_asking",
        "_connection",
        "_dial",
        "_leader",
        "_next",
        "_runtime",
        "_stopped",
        "_suspicion",
    )

    def __init__(
        self,
        runtime: Runtime,
        suspicion: LeaderSuspicion,
        leader: NodeId,
        dial: Callable[[], Awaitable[AsyncConnection]],
    ) -> None:
        self._runtime = runtime
        self._suspicion = suspicion
        self._leader = leader
        self._dial = dial
        self._connection: AsyncConnection | None = None
        self._asking = False
        self._asked_at = 0.0
        self._next: asyncio.Future[None] | None = None
        """Done when the question that is sent next has been answered."""
        self._stopped = False

    def answer(self) -> asyncio.Future[None] | None:
        """Done with a question that is still to be sent; None: not worth waiting for."""
        runtime = self._runtime
        if self._stopped or (self._asking and runtime.clock.now().mono - self._asked_at > LONGEST_WAIT_S):
            return None
        if self._next is None:
            self._next = runtime.loop.create_future()
            if not self._asking:
                self._asking = True
                runtime.tasks.start(self._ask_all(), f"probe of {self._leader}")
        return self._next

    async def _ask_all(self) -> None:
        try:
            while (asked := self._next) is not None:
                self._next = None
                self._asked_at = self._runtime.clock.now().mono
                try:
                    await self._ask()
                finally:
                    asked.set_result(None)
        finally:
            self._asking = False

    async def _ask(self) -> None:
        """One question.  A kept connection that ends says little: another is made to know."""
        kept = self._connection is not None and not self._connection.closed
        suspicion, leader = self._suspicion, self._leader
        for _ in range(2 if kept else 1):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await self._dial()
                await self._connection.request(_QUESTION, timeout=_ANSWER_WITHIN_S)
            except RequestTimedOut:
                return
            except BarnabasError:
                continue
            suspicion.heard(leader)
            return
        if not self._stopped:
            suspicion.lost(leader)

    def stop(self) -> None:
        self._stopped = True
        if self._connection is not None:
            self._connection.abort()

    def __repr__(self) -> str:
        return f"<_Probe {self._leader} {'asking' if self._asking else 'idle'}>"
