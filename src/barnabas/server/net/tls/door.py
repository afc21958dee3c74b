"""A listener's TLS: its identity, the handshakes under way, and what is counted of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.server.net.connection import Connection
from barnabas.server.net.listener import Connections
from barnabas.server.net.network import Network
from barnabas.server.net.tls.identity import Identity
from barnabas.server.net.tls.session import BUFFER_BYTES, TlsSession
from barnabas.server.observe import events

__all__ = ["TlsDoor"]


class TlsDoor:
    """One per listener with TLS."""

    __slots__ = ("_connections", "_loop", "buffer", "failed", "handshake_s", "identity", "name")

    def __init__(self, network: Network, connections: Connections, listener: str) -> None:
        """Raises ConfigError where the listener cannot be served."""
        config, metrics = network.runtime.config, network.runtime.metrics
        self.name = listener
        self.identity = Identity(config, listener)
        self.handshake_s = config.int("barnabas.login.timeout.ms") / 1000
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self._loop = network.loop
        self._connections = connections
        tag = f",listener={listener}"
        self.failed = metrics.counter(
            f"barnabas:type=Listener,name=FailedHandshakes{tag}", "TLS handshakes that failed"
        )
        metrics.gauge(
            f"barnabas:type=Listener,name=CertificateSecondsLeft{tag}",
            "Seconds until this node's certificate ends",
            self.identity.seconds_left,
        )

    def before(self, make: Callable[[], Connection]) -> Callable[[], asyncio.BaseProtocol]:
        """What the event loop makes for each socket; `make` follows after the handshake."""
        return lambda: TlsSession(self._loop, self, make)

    def look(self) -> None:
        """Take over certificates that have changed."""
        self.identity.look()

    def knocked(self, host: str, descriptor: int) -> bool:
        """Somebody begins a handshake; False: there are too many."""
        return self._connections.begin_handshake(host, descriptor)

    def let_in(self, host: str) -> None:
        """A handshake has ended."""
        self._connections.end_handshake(host)

    def refused(self, client: str, why: str) -> None:
        """A handshake failed."""
        self.failed.value += 1
        events.emit(events.TLS_REFUSED, reason=why[:40], client=client, listener=self.name, why=why)

    def __repr__(self) -> str:
        return f"<TlsDoor of {self.identity!r}>"
