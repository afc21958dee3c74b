"""What a simulated client knows of the cluster, and its connections.

A client accepts a new leader only with a leader epoch that is not older than the one it knows (KIP-320), so
that a node with old metadata cannot send it back there.

Connections are kept by node, as real clients keep them: requests to a node leave in order over one
connection, whatever address the node has meanwhile.  Connections to bootstrap addresses are separate.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.aio import AsyncConnection
from barnabas.errors import BarnabasError
from barnabas.model import ZERO_UUID, Epoch, NodeId, TopicPartition, Uuid
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from barnabas.sim.cluster.world import ClientHost
    from barnabas.wire.codec.message import Message

__all__ = ["Contact", "Leader", "Timing"]

_CONNECT_WITHIN = 1.5
_LEAST_PAUSE = 0.1
"""Seconds between two requests for metadata."""


Place = NodeId | tuple[str, int]
"""A node by its id, or a bootstrap address."""


class Timing(NamedTuple):
    """How patient a client is, in seconds."""

    request: float
    backoff: float
    delivery: float

    @classmethod
    def of(cls, rng: random.Random) -> Timing:
        return cls(
            request=rng.choice((1.0, 2.5, 6.0)),
            backoff=rng.choice((0.05, 0.1, 0.3)),
            delivery=rng.choice((4.0, 12.0, 30.0)),
        )


class Leader(NamedTuple):
    """Who leads a partition, as far as this client knows."""

    node: NodeId
    epoch: Epoch


class Contact:
    """One client's metadata and connections.  Errors are BarnabasErrors, as everywhere in client/."""

    def __init__(self, machine: ClientHost, topics: list[str], timing: Timing) -> None:
        self.machine = machine
        self.name = machine.name
        self.rng = machine.rng
        self.timing = timing
        self.topics = topics
        self.ids: dict[str, Uuid] = {}
        self._addresses: dict[NodeId, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._connections: dict[Place, AsyncConnection] = {}
        self._dialling: dict[Place, asyncio.Future[AsyncConnection]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._asked_at = -1.0

    def __repr__(self) -> str:
        return f"<Contact {self.name} leaders={len(self._leaders)}>"

    @property
    def time(self) -> float:
        """True seconds: what the history is written in."""
        return self.machine.world.time

    # ---- metadata ----------------------------------------------------------------------------------------

    def leader(self, where: TopicPartition) -> Leader | None:
        """Who leads it; None: nobody, or not known."""
        known = self._leaders.get(where)
        return known if known is not None and known.node in self._addresses else None

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has, as far as this client knows."""
        return sum(where.topic == topic for where in self._leaders)

    def learn(self, where: TopicPartition, node: NodeId, epoch: Epoch) -> None:
        """Take note of who leads a partition; ignore what is older than what is known."""
        known = self._leaders.get(where)
        if known is None or epoch > known.epoch or (epoch == known.epoch and node >= 0):
            self._leaders[where] = Leader(node, epoch)

    def learn_address(self, node: NodeId, host: str, port: int) -> None:
        """Somebody says where a broker is."""
        self._addresses[node] = (host, port)

    async def refresh(self) -> None:
        """Ask anybody for metadata; requests at the same time are one, and there is a pause between two."""
        if self._refreshing is None:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(), name="metadata")
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        try:
            pause = self._asked_at + _LEAST_PAUSE - self.time
            if pause > 0:
                await asyncio.sleep(pause)
            self._asked_at = self.time
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in self.topics],
                allow_auto_topic_creation=False,
            )
            places: list[Place] = [*self._addresses] or [*self.machine.world.bootstrap]
            places.append(self.rng.choice(self.machine.world.bootstrap))
            try:
                connection = await self._connect(self.rng.choice(places))
                self._take(await connection.request(request, timeout=self.timing.request))
            except BarnabasError:
                return
        finally:
            self._refreshing = None

    def _take(self, metadata: MetadataResponse) -> None:
        if metadata.brokers:
            self._addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        for topic in metadata.topics:
            name = topic.name
            if name is None or topic.topic_id == ZERO_UUID:
                continue
            self.ids[name] = topic.topic_id
            for row in topic.partitions:
                self.learn(TopicPartition(name, row.partition_index), row.leader_id, row.leader_epoch)

    async def find(self, where: TopicPartition) -> Leader:
        """Wait until somebody leads it."""
        while True:
            known = self.leader(where)
            if known is not None and where.topic in self.ids:
                return known
            await self.refresh()
            if self.leader(where) is None:
                await self.pause()

    async def pause(self) -> None:
        """retry.backoff.ms, more or less."""
        await asyncio.sleep(self.timing.backoff * self.rng.uniform(0.8, 1.6))

    # ---- connections -------------------------------------------------------------------------------------

    async def connection(self, node: NodeId) -> AsyncConnection:
        """To a broker.  Raises BarnabasError when it cannot be had."""
        return await self._connect(node)

    async def request(self, node: NodeId, message: Message, **how: Any) -> Any:
        """Ask a broker.  Raises BarnabasError."""
        connection = await self.connection(node)
        return await connection.request(message, timeout=how.pop("timeout", self.timing.request), **how)

    async def _connect(self, place: Place) -> AsyncConnection:
        known = self._connections.get(place)
        if known is not None and not known.closed:
            return known
        dialling = self._dialling.get(place)
        if dialling is None:
            dialling = self._dialling[place] = asyncio.get_running_loop().create_task(self._dial(place))
        return await asyncio.shield(dialling)

    async def _dial(self, place: Place) -> AsyncConnection:
        try:
            address = place if isinstance(place, tuple) else self._addresses.get(place)
            if address is None:
                raise BarnabasError(f"nobody said where broker {place} is")
            made = self._connections[place] = await AsyncConnection.connect(
                *address, client_id=self.name, connect_timeout=_CONNECT_WITHIN
            )
            return made
        finally:
            del self._dialling[place]

    def drop(self, node: NodeId) -> None:
        """Close a connection in the middle of whatever it does."""
        known = self._connections.get(node)
        if known is not None:
            known.abort()
