"""A listening socket and its connections: accepting, limits, and putting an end to the idle and the stuck."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter as Tally
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from barnabas.config import Config, limits_by_host
from barnabas.model import Endpoint
from barnabas.server.loop.system import most_descriptors
from barnabas.server.net.connection import Connection, TakeFrame
from barnabas.server.net.network import Network
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics

__all__ = ["Connections", "Door", "Guard", "Listener"]

STUCK_S = 10.0
"""While memory is short, a connection that holds some and did not move for so long is closed."""
SWEEP_S = 2.0
LONGEST_HOLD_S = 1.0
"""How long a connection above its quota is held before it is closed: so a client that tries again is slowed."""
DESCRIPTORS_FOR_FILES = 512
"""Descriptors that connections leave to the logs (the system gives out the lowest that is free): a log that
cannot open its next segment takes its whole directory offline."""


class Door(Protocol):
    """What connections pass before they exist (`tls.door`)."""

    def before(self, make: Callable[[], Connection]) -> Callable[[], asyncio.BaseProtocol]:
        """What the event loop makes for each socket; `make` makes the connection that follows."""
        ...

    def look(self) -> None:
        """Take over files that have changed."""
        ...


class Guard(Protocol):
    """Who has the clients of a listener log in."""

    def opened(self, connection: Connection) -> None:
        """A connection was accepted."""
        ...

    def closed(self, connection: Connection) -> None:
        """It has ended."""
        ...


class Connections:
    """All connections of one node, over all its listeners, and the limits on them."""

    __slots__ = (
        "_by_host",
        "_handshakes",
        "_most",
        "_most_descriptors",
        "_most_handshakes",
        "_most_per_host",
        "_next_id",
        "_overrides",
        "idle_s",
        "opened",
        "refused",
    )

    def __init__(self, config: Config, metrics: Metrics) -> None:
        self.reconfigure(config)
        idle = config.int("connections.max.idle.ms")
        self.idle_s = idle / 1000 if idle >= 0 else float("inf")
        self.opened: dict[int, Connection] = {}
        self._by_host: Tally[str] = Tally()
        self._handshakes = 0
        self._most_handshakes = config.int("barnabas.unauthenticated.connections")
        self._next_id = 0
        allowed = most_descriptors()
        self._most_descriptors = allowed - min(DESCRIPTORS_FOR_FILES, allowed // 4)
        self.refused = metrics.counter(
            "kafka.network:type=Acceptor,name=RefusedConnections", "Connections closed at once: too many"
        )
        metrics.gauge(
            "kafka.server:type=socket-server-metrics,name=connection-count",
            "Open connections",
            lambda: len(self.opened),
        )

    def reconfigure(self, config: Config) -> None:
        """Take over limits that may change at run time; open connections stay."""
        self._most = config.int("max.connections")
        self._most_per_host = config.int("max.connections.per.ip")
        self._overrides = limits_by_host(config.list("max.connections.per.ip.overrides"))

    def next_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def admit(self, connection: Connection) -> bool:
        """Count a new connection in; False when it is one too many."""
        host = connection.client.host
        if self._is_too_many(host, connection.send_queue.descriptor):
            return False
        self.opened[connection.id] = connection
        self._by_host[host] += 1
        return True

    def _most_of(self, host: str) -> int:
        if not self._overrides:
            return self._most_per_host
        from barnabas.security.hosts import plain_host  # (ipaddress takes a start 5 ms)

        return self._overrides.get(plain_host(host), self._most_per_host)

    def leave(self, connection: Connection) -> None:
        """Count a connection out."""
        if self.opened.pop(connection.id, None) is not None:
            self._leave_host(connection.client.host)

    def begin_handshake(self, host: str, descriptor: int) -> bool:
        """Count in somebody who is not known yet; False when it is one too many."""
        if self._is_too_many(host, descriptor) or self._handshakes >= self._most_handshakes:
            if self._handshakes >= self._most_handshakes:
                self.refused.value += 1
                events.emit(
                    events.CONNECTION_REFUSED, reason="handshakes", client=host, limit=self._most_handshakes
                )
            return False
        self._handshakes += 1
        self._by_host[host] += 1
        return True

    def end_handshake(self, host: str) -> None:
        """A handshake is over, however it ended."""
        self._handshakes -= 1
        self._leave_host(host)

    def _is_too_many(self, host: str, descriptor: int) -> bool:
        if len(self.opened) + self._handshakes >= self._most:
            limit = self._most
        elif descriptor >= self._most_descriptors:
            limit = len(self.opened)
        elif self._by_host[host] >= (most := self._most_of(host)):
            limit = most
        else:
            return False
        self.refused.value += 1
        events.emit(events.CONNECTION_REFUSED, reason="", client=host, limit=limit)
        return True

    def _leave_host(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def sweep(self, memory_is_short: bool) -> None:
        """Close those that were idle for too long, and, while memory is short, those that are stuck."""
        now = monotonic()
        for connection in list(self.opened.values()):
            quiet = now - connection.last_active
            if quiet > self.idle_s:
                events.emit(events.CONNECTION_IDLE, client=connection.client.host, seconds=int(quiet))
                connection.abort()
            elif memory_is_short and quiet > STUCK_S and connection.holds_memory:
                why = connection.stuck_because
                events.emit(why, reason="", client=connection.client.host, seconds=int(quiet))
                connection.abort()

    @property
    def unanswered(self) -> int:
        """Requests that were received and not answered yet."""
        return sum(connection.unanswered for connection in self.opened.values())

    def __repr__(self) -> str:
        return f"<Connections {len(self.opened)} of {self._most}>"


class Listener:
    """One listener: kind "B" serves clients, "C" controllers.

    It is bound when it is made; connections are taken from `start` on.

    `advertised`: clients are told a configured address instead of the one they dialled.
    """

    __slots__ = (
        "_bytes_out",
        "_guard",
        "_network",
        "_on_lost",
        "_server",
        "_socket",
        "advertised",
        "bytes_in",
        "connections",
        "endpoint",
        "kind",
        "malformed",
        "memory",
        "name",
        "tls",
    )

    def __init__(
        self,
        network: Network,
        connections: Connections,
        endpoint: Endpoint,
        kind: str,
        *,
        advertised: bool = False,
    ) -> None:
        self._network = network
        self._on_lost: Callable[[int], None] | None = None
        self._guard: Guard | None = None
        self.connections = connections
        self.name = endpoint.listener
        self.kind = kind
        self.advertised = advertised
        self.memory = network.controller_memory if kind == "C" else network.memory
        self._socket = network.platform.bind(endpoint)
        self.tls: Door | None = None
        """What connections pass first, where the listener speaks TLS."""
        self._server: asyncio.Server | None = None
        port = self._socket.getsockname()[1]
        self.endpoint = Endpoint(endpoint.listener, endpoint.host, port)
        tag = f",listener={self.name}"
        metrics = network.runtime.metrics
        self.bytes_in = metrics.counter(
            f"kafka.server:type=socket-server-metrics,name=incoming-byte-total{tag}", "Bytes received"
        )
        self._bytes_out = 0
        metrics.gauge(
            f"kafka.server:type=socket-server-metrics,name=outgoing-byte-total{tag}",
            "Bytes sent",
            self.bytes_out,
        )
        self.malformed = metrics.counter(
            f"barnabas:type=Listener,name=MalformedRequests{tag}", "Connections ended over what they sent"
        )

    async def start(
        self,
        take: TakeFrame,
        on_lost: Callable[[int], None] | None = None,
        guard: Guard | None = None,
    ) -> None:
        """Take connections, and have their frames served by `take`; `on_lost` hears which of them ended.

        `guard` has their clients log in; None: they need not.
        """
        self._on_lost = on_lost
        self._guard = guard
        network, config = self._network, self._network.runtime.config
        for option, name in ((socket.SO_SNDBUF, "socket.send"), (socket.SO_RCVBUF, "socket.receive")):
            size = config.int(f"{name}.buffer.bytes")
            if size > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, option, size)

        def make() -> Connection:
            return Connection(network, self, take, self.connections.next_id())

        self._server = await network.loop.create_server(
            make if self.tls is None else self.tls.before(make),
            sock=self._socket,
            backlog=config.int("socket.listen.backlog.size"),
        )
        events.emit(events.LISTENING, listener=str(self.endpoint))

    def stop_accepting(self) -> None:
        """Take no more connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
        else:
            self._socket.close()

    def opened(self, connection: Connection) -> None:
        """Called by a new connection."""
        if not self.connections.admit(connection):
            connection.abort()
        elif self.kind == "B" and (early := self._network.throttle.connected(connection.client.host)) > 0:
            self.connections.leave(connection)
            self.connections.refused.value += 1
            events.emit(events.CONNECTION_TOO_OFTEN, reason="", client=connection.client.host)
            connection.mute(LONGEST_HOLD_S + 1)
            self._network.loop.call_later(min(early, LONGEST_HOLD_S), connection.abort)
        elif self._guard is not None:
            self._guard.opened(connection)

    def closed(self, connection: Connection) -> None:
        """Called by a connection that has ended."""
        self._bytes_out += connection.send_queue.sent
        self.connections.leave(connection)
        if self._guard is not None:
            self._guard.closed(connection)
        if self._on_lost is not None:
            self._on_lost(connection.id)

    def bytes_out(self) -> int:
        """Bytes sent through this listener."""
        opened = self.connections.opened.values()
        return self._bytes_out + sum(c.send_queue.sent for c in opened if c.listener is self)

    def __repr__(self) -> str:
        return f"<Listener {self.endpoint} kind={self.kind}>"
