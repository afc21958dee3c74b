"""Death noticed fast: the active controller fences a broker that is certainly gone, before its session ends.

A session (`broker.session.timeout.ms`, 9 s) has to be long, because silence alone does not tell a dead
broker from a slow one.  A closed port does: as long as a process lives, however slow it is, stopped or
waiting for a disk, its kernel takes connections to the ports it listens on.  So the rule has two parts:

    suspected   the connection that brought its heartbeats ended, or it missed a heartbeat by half an
                interval, or another controller led until now
    taken for dead, and fenced   then every address that it registered refuses connections, twice, a moment
                apart, and no heartbeat of it comes in between

A healthy slow broker refuses nothing.  A host that is gone, or cut off, answers nothing, and that counts for
nothing here: such a broker is fenced when its session ends, as in Apache Kafka.  Where something between
controller and broker refuses connections in the broker's name (a firewall that rejects), a broker that is
also silent is fenced early; it is unfenced with its next heartbeat.  `barnabas.fast.fencing=false` turns
all of this off.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.errors import KafkaError
from barnabas.model import BrokerEpoch, NodeId
from barnabas.server import events
from barnabas.wire.brokers import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from barnabas.controller.image import BrokerState
    from barnabas.server.connection import Connection
    from barnabas.server.services import Services

__all__ = ["Deaths"]

DEAD = events.register(
    "controller.broker-dead", logging.WARNING, "a broker's ports are closed and it is silent: it is fenced"
)

_LOOK_EVERY = 0.2
_SELDOM = 1.0
_APART = 0.02
_CONNECT_WITHIN = 1.0


class Deaths:
    """Suspects and examines brokers while this node is the active controller.  Times in monotonic seconds."""

    __slots__ = ("_active_since", "_examined", "_heard", "_lines", "_node", "_patience")

    def __init__(self, node: Services) -> None:
        self._node = node
        self._patience = node.config.int("broker.heartbeat.interval.ms") / 1000 * 1.5
        self._heard: dict[NodeId, float] = {}
        self._lines: dict[int, NodeId] = {}
        self._examined: dict[NodeId, float] = {}
        self._active_since = -1

    def heard(self, connection: Connection, broker: NodeId) -> None:
        """A heartbeat came in over this connection."""
        self._heard[broker] = self._node.clock.now().mono
        self._lines[connection.id] = broker

    def lost(self, connection_id: int) -> None:
        """A connection ended."""
        broker = self._lines.pop(connection_id, None)
        if broker is not None:
            self._suspect(broker)

    async def watch(self) -> None:
        """Look, for as long as the node runs, at who has become silent."""
        node = self._node
        while True:
            quorum = node.quorum
            others = [b for b in quorum.image.brokers.values() if not b.fenced and b.id != node.node_id]
            if not others or not quorum.is_active_controller:
                self._active_since = -1
                await asyncio.sleep(_LOOK_EVERY if others else _SELDOM)
                continue
            now = node.clock.now().mono
            if self._active_since != quorum.epoch:
                self._active_since = quorum.epoch
                self._heard.clear()
                for broker in others:
                    self._suspect(broker.id)
            for broker in others:
                if now - self._heard.setdefault(broker.id, now) > self._patience:
                    self._suspect(broker.id)
            await asyncio.sleep(_LOOK_EVERY)

    def _suspect(self, id_: NodeId) -> None:
        """Examine it, unless that is under way."""
        if id_ not in self._examined and self._living(id_) is not None:
            self._examined[id_] = self._node.clock.now().mono
            self._node.tasks.start(self._examine(id_), f"examine broker {id_}")

    def _living(self, id_: NodeId) -> BrokerState | None:
        """The broker, if it is for us to judge it: unfenced, another node's, and we are active."""
        quorum = self._node.quorum
        broker = quorum.image.brokers.get(id_)
        if broker is None or broker.fenced or id_ == self._node.node_id or not quorum.is_active_controller:
            return None
        return broker

    async def _examine(self, id_: NodeId) -> None:
        try:
            since = self._examined[id_]
            epoch: BrokerEpoch | None = None
            for again in (True, False):
                broker = self._living(id_)
                if broker is None or epoch not in (None, broker.epoch) or self._heard.get(id_, since) > since:
                    return
                epoch = broker.epoch
                if not await _refuses(broker):
                    return
                if again:
                    await asyncio.sleep(_APART)
            if self._living(id_) is not None and self._heard.get(id_, since) <= since:
                events.emit(DEAD, broker=id_, epoch=epoch)
                await self._node.quorum.submit(
                    BrokerHeartbeatRequest(
                        broker_id=id_, broker_epoch=epoch or -1, want_fence=True, want_shut_down=True
                    )
                )
        except KafkaError:  # it came back meanwhile as another, or somebody else is active
            return
        finally:
            del self._examined[id_]

    def __repr__(self) -> str:
        return f"<Deaths heard={len(self._heard)} examined={list(self._examined)}>"


async def _refuses(broker: BrokerState) -> bool:
    """Whether every address that the broker registered refuses connections.  No answer is no refusal."""
    for endpoint in broker.endpoints:
        try:
            async with asyncio.timeout(_CONNECT_WITHIN):
                _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            continue
        except (OSError, TimeoutError):
            return False
        writer.close()
        return False
    return bool(broker.endpoints)
