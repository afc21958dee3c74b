"""A listening socket: accepting connections, and what they pass before they are served."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol

from barnabas.model import Endpoint
from barnabas.server.net.admission.arrivals import Held
from barnabas.server.net.admission.connections import Connections
from barnabas.server.net.connection import Connection, TakeFrame
from barnabas.server.net.network import Network
from barnabas.server.observe import events

__all__ = ["Door", "Guard", "Listener"]

SWEEP_S = 2.0
LONGEST_HOLD_S = 1.0
"""How long a connection above its quota is held before it is closed: so a client that tries again is slowed."""


class Door(Protocol):
    """What connections pass before they exist (`tls.door`)."""

    def before(self, make: Callable[[], Connection]) -> Callable[[], asyncio.BufferedProtocol]:
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
        "_servers",
        "_sockets",
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
        self._sockets = network.platform.bind(endpoint)
        self.tls: Door | None = None
        """What connections pass first, where the listener speaks TLS."""
        self._servers: list[asyncio.Server] = []
        self.endpoint = Endpoint(endpoint.listener, endpoint.host, self._sockets[0].getsockname()[1])
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
                for bound in self._sockets:
                    bound.setsockopt(socket.SOL_SOCKET, option, size)

        def make() -> Connection:
            return Connection(network, self, take, self.connections.next_id())

        enter: Callable[[], asyncio.BufferedProtocol] = make if self.tls is None else self.tls.before(make)
        arrivals = self.connections.arrivals
        has_share = partial(arrivals.is_below_its_share, self.name)

        def arrive() -> asyncio.BaseProtocol:
            wait = arrivals.wait(self.name)
            if wait <= 0:
                return enter()
            return Held(network.loop, self.connections, enter, wait, has_share)

        backlog = config.int("socket.listen.backlog.size")
        for bound in self._sockets:
            self._servers.append(await network.loop.create_server(arrive, sock=bound, backlog=backlog))
        events.emit(events.LISTENING, listener=str(self.endpoint))

    def stop_accepting(self) -> None:
        """Take no more connections; those that are open stay."""
        for server in self._servers:
            server.close()
        for bound in self._sockets[len(self._servers) :]:
            bound.close()

    def opened(self, connection: Connection) -> None:
        """Called by a new connection."""
        connections, guard = self.connections, self._guard
        if self.tls is None:
            connections.arrivals.came(connection.client.host)
        if guard is not None and not connections.admit_stranger(connection):
            guard.opened(connection)  # (without a login it would be served what it has sent)
            connection.abort()
        elif guard is None and not connections.admit(connection):
            connection.abort()
        elif self.tls is None and (hold := self.too_often(connection.client.host)) > 0:
            connections.leave(connection)
            connection.mute(hold + 1)
            self._network.loop.call_later(hold, connection.abort)
        elif guard is not None:
            guard.opened(connection)

    def too_often(self, host: str) -> float:
        """Whether the quota of an address is used up: how long its new connection is held, then closed."""
        early = self._network.throttle.connected(host) if self.kind == "B" else 0.0
        if early <= 0:
            return 0.0
        self.connections.refused.value += 1
        events.emit(events.CONNECTION_TOO_OFTEN, reason="", client=host)
        return min(early, LONGEST_HOLD_S)

    def closed(self, connection: Connection) -> None:
        """Called by a connection that has ended."""
        self._bytes_out += connection.send_queue.sent
        self.connections.leave(connection)
        if self._guard is not None:
            self._guard.closed(connection)
        if self._on_lost is not None:
            self._on_lost(connection.id)

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine reaches it."""
        hosts = [str(bound.getsockname()[0]) for bound in self._sockets]
        return all(host.startswith("127.") or host == "::1" for host in hosts)

    def bytes_out(self) -> int:
        """Bytes sent through this listener."""
        opened = self.connections.opened.values()
        return self._bytes_out + sum(c.send_queue.sent for c in opened if c.listener is self)

    def __repr__(self) -> str:
        return f"<Listener {self.endpoint} kind={self.kind}>"
