"""Replication over the network: one task and one connection per broker that this node follows.

`broker/replicas/following/fetcher` decides what to ask and how to use an answer; `fetch_line` asks over one
connection; this module has the waiting and the reconnecting.

The leader parks a fetch that finds nothing.  If the request changes meanwhile (another partition, another epoch),
the fetcher drops its connection and connects again, which costs less than the rest of the wait.  It does not do so
too often, because a topic of many partitions arrives in pieces, and each piece would repeat the whole request.
Such a drop says nothing about the leader: only a connection that ends by itself is evidence (`leader_suspicion`).
For the same reason such a change ends the backoff before the next attempt: a node that was dead a moment ago may
lead by now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from barnabas.client.aio import AsyncConnection
from barnabas.client.security.options import Security
from barnabas.controller.image import BrokerEndpoint, MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.server.loop.dialling import dial
from barnabas.server.loop.runtime import Runtime
from barnabas.server.observe import events
from barnabas.server.replication.broker_connections import PeerListener
from barnabas.server.replication.fetch_line import FetchLine
from barnabas.server.replication.leader_suspicion import LeaderSuspicion
from barnabas.wire.schemas.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.following.fetcher import Follower
    from barnabas.wire.schemas.offsets import ListOffsetsRequest

__all__ = ["Fetchers"]

FOLLOWS = events.register("replica.follows", logging.INFO, "this node replicates from another one")
LOST = events.register("replica.leader-lost", logging.WARNING, "the connection to a leader ended")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
_DIALS_APART_S = 0.0003
"""Seconds between two dials for the sake of news, for each partition to be named anew beyond a few."""
_FEW_PARTITIONS = 50
_CONNECT_WITHIN_S = 2.0


class Fetchers:
    """The fetch tasks of a node.  `soon(leader)` whenever a `Follower` may have something to ask."""

    __slots__ = ("_broker", "_fetchers", "_image", "_listener", "_runtime", "_stopped", "_suspicion")

    def __init__(
        self,
        runtime: Runtime,
        broker: Broker,
        image: MetadataImage,
        suspicion: LeaderSuspicion,
        listener: PeerListener,
    ) -> None:
        """`listener` is that by which brokers reach each other."""
        self._runtime = runtime
        self._broker = broker
        self._image = image
        self._suspicion = suspicion
        self._listener = listener
        self._fetchers: dict[NodeId, _Fetcher] = {}
        self._stopped = False

    def soon(self, leader: NodeId) -> None:
        """Look, at the end of this loop step, at what is to be asked of that leader."""
        if self._stopped:
            return
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            follower = self._broker.followers.by_leader.get(leader)
            if follower is None:  # it is being made: looked for again by the end of the loop step
                self._runtime.loop.call_soon(self._again, leader)
                return
            endpoint = partial(self._endpoint, leader)
            fetcher = _Fetcher(self._runtime, follower, self._suspicion, endpoint, self._listener.security)
            self._fetchers[leader] = fetcher
            self._runtime.tasks.start(fetcher.run(), f"fetch from {leader}")
        fetcher.look()

    def _again(self, leader: NodeId) -> None:
        if leader in self._broker.followers.by_leader:
            self.soon(leader)

    def _endpoint(self, leader: NodeId) -> BrokerEndpoint:
        known = self._image.brokers.get(leader)
        endpoint = known.endpoint(self._listener.name) if known is not None else None
        if endpoint is None:
            raise BarnabasError(f"broker {leader} has no listener {self._listener.name}")
        return endpoint

    def stop(self) -> None:
        """Fetch nothing more; what came before is in the logs."""
        self._stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()

    def __repr__(self) -> str:
        return f"<Fetchers {list(self._fetchers)}>"


class _Fetcher:
    """The task that asks one leader, as long as the node runs."""

    __slots__ = (
        "_again",
        "_answered",
        "_connection",
        "_dialled_at",
        "_dropped",
        "_endpoint",
        "_follower",
        "_line",
        "_pause",
        "_runtime",
        "_security",
        "_stopped",
        "_suspicion",
        "_wake",
    )

    def __init__(
        self,
        runtime: Runtime,
        follower: Follower,
        suspicion: LeaderSuspicion,
        endpoint: Callable[[], BrokerEndpoint],
        security: Security,
    ) -> None:
        """`endpoint` says where the metadata has the leader now."""
        self._runtime = runtime
        self._follower = follower
        self._suspicion = suspicion
        self._endpoint = endpoint
        self._security = security
        self._wake = asyncio.Event()
        self._connection: AsyncConnection | None = None
        self._line: FetchLine | None = None
        """What asks over the connection."""
        self._pause = 0.0
        """Seconds before the next dial."""
        self._dialled_at = -inf
        self._again: asyncio.TimerHandle | None = None
        self._dropped = False
        """Whether we ended this connection ourselves."""
        self._answered = False
        """Whether the leader answered since it was lost for the last time."""
        self._stopped = False

    def look(self) -> None:
        line = self._line
        if line is None:
            self._wake.set()
            return
        line.look()
        if line.parked and self._follower.has_news and self._again is None:
            runtime = self._runtime
            many = max(0, len(self._follower.partitions) - _FEW_PARTITIONS)
            now, least = runtime.clock.now().mono, _DIALS_APART_S * many
            if now - self._dialled_at >= least:
                self._drop()  # the parked fetch does not know of it
            else:
                self._again = runtime.loop.call_later(self._dialled_at + least - now, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        self.look()

    def stop(self) -> None:
        self._stopped = True
        if self._again is not None:
            self._again.cancel()
        self._wake.set()
        self._drop()
        if self._line is not None:
            self._line.end()

    def _drop(self) -> None:
        self._dropped = True
        if self._connection is not None:
            self._connection.abort()

    async def run(self) -> None:
        follower = self._follower
        while not self._stopped:
            request = await self._next()
            if request is None:
                return
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = None
                    pause = self._pause * self._runtime.random.uniform(0.8, 1.2) if self._pause else 0.0
                    if pause and await self._cut_short(pause):
                        self._pause = 0.0
                    self._pause = min(_LONGEST_PAUSE_S, self._pause * 2 or _FIRST_PAUSE_S)
                    self._dropped = False
                    self._dialled_at = self._runtime.clock.now().mono
                    self._connection = await self._dial()
                    if follower.has_news:  # what was to be asked before the pause is not all any more
                        follower.failed(self._runtime.clock.now())
                        continue
                await self._serve(self._connection, request)
            except BarnabasError as error:
                if self._connection is not None:
                    self._connection.abort()
                    self._connection = None
                if self._dropped:
                    self._pause = 0.0
                elif self._answered:
                    self._lost(error)
                follower.failed(self._runtime.clock.now())

    def _lost(self, error: BarnabasError) -> None:
        """The leader answered before, and now its connection ended, or it takes no other."""
        self._answered = False
        events.emit(LOST, leader=self._follower.leader, error=error)
        self._suspicion.lost(self._follower.leader)

    async def _cut_short(self, seconds: float) -> bool:
        """Wait before another dial; whether something new to follow ended the wait."""
        try:
            async with asyncio.timeout(seconds):
                while not self._follower.has_news and not self._stopped:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def _next(self) -> FetchRequest | ListOffsetsRequest | None:
        """What to ask next; None when this fetcher stops."""
        while not self._stopped:
            self._wake.clear()
            request = self._follower.next_request(self._runtime.clock.now())
            if request is not None:
                return request
            until = self._follower.next_time()
            if until == inf:
                await self._wake.wait()
                continue
            try:
                async with asyncio.timeout(max(0.0, until - self._runtime.clock.now().mono)):
                    await self._wake.wait()
            except TimeoutError:
                continue
        return None

    async def _dial(self) -> AsyncConnection:
        """Connect to where the metadata says the leader is.  Raises ConnectionFailed."""
        leader = self._follower.leader
        endpoint = self._endpoint()
        connection = await dial(
            endpoint.host,
            endpoint.port,
            client_id=f"replica-{self._runtime.node_id}",
            connect_timeout=_CONNECT_WITHIN_S,
            memory=self._runtime.receive_buffer.frames,  # our log has written them at the end of the step
            security=self._security,
        )
        events.emit(
            FOLLOWS, leader=leader, address=connection.address, partitions=len(self._follower.partitions)
        )
        return connection

    async def _serve(self, connection: AsyncConnection, request: FetchRequest | ListOffsetsRequest) -> None:
        """Ask over this connection until it ends.  Raises BarnabasError."""
        line = FetchLine(self._runtime, self._follower, connection, on_answer=self._heard, drop=self._drop)
        self._line = line
        try:
            line.begin(request)
            await line.over
        finally:
            self._line = None
            line.end()

    def _heard(self) -> None:
        """The leader answered."""
        self._pause = 0.0
        self._answered = True
        self._suspicion.heard(self._follower.leader)
