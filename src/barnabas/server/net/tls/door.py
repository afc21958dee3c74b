"""A listener's TLS: its identity, the handshakes under way, and what is counted of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.server.net.admission.connections import Connections
from barnabas.server.net.admission.newcomers import Newcomer
from barnabas.server.net.connection import Connection
from barnabas.server.net.network import Network
from barnabas.server.net.tls.identity import Identity
from barnabas.server.net.tls.session import BUFFER_BYTES, TlsSession
from barnabas.server.net.tls.turns import Turns
from barnabas.server.observe import events

__all__ = ["TlsDoor"]


class TlsDoor:
    """One per listener with TLS."""

    __slots__ = (
        "_connections",
        "_loop",
        "_too_often",
        "buffer",
        "failed",
        "handshake_s",
        "identity",
        "name",
        "turns",
    )

    def __init__(
        self,
        network: Network,
        connections: Connections,
        listener: str,
        too_often: Callable[[str], float] = lambda host: 0.0,
    ) -> None:
        """`too_often` says how long a new connection of an address is held before it is closed; 0.0: it is not.

        Raises ConfigError where the listener cannot be served.
        """
        config, metrics = network.runtime.config, network.runtime.metrics
        self.name = listener
        self.identity = Identity(config, listener)
        self.handshake_s = config.int("barnabas.login.timeout.ms") / 1000
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.turns = Turns(network.loop.call_soon)
        self._loop = network.loop
        self._connections = connections
        self._too_often = too_often
        tag = f",listener={listener}"
        self.failed = metrics.counter(
            f"barnabas:type=Listener,name=FailedHandshakes{tag}", "TLS handshakes that failed"
        )
        metrics.gauge(
            f"barnabas:type=Listener,name=CertificateSecondsLeft{tag}",
            "Seconds until this node's certificate ends",
            self.identity.seconds_left,
        )

    def before(self, make: Callable[[], Connection]) -> Callable[[], asyncio.BufferedProtocol]:
        """What the event loop makes for each socket; `make` follows after the handshake."""
        return lambda: TlsSession(self._loop, self, make)

    def look(self) -> None:
        """Take over certificates that have changed."""
        self.identity.look()

    def knocked(self, who: Newcomer, host: str, descriptor: int) -> bool:
        """Somebody begins a handshake; False: it may not, and its connection ends, now or a little later."""
        if (hold := self._too_often(host)) > 0:
            self._loop.call_later(hold, who.abort)
            return False
        if not self._connections.begin_handshake(who, host, descriptor):
            who.abort()
            return False
        return True

    def let_in(self, who: Newcomer, host: str) -> None:
        """A handshake has ended."""
        self._connections.end_handshake(who, host)

    def refused(self, client: str, why: str) -> None:
        """A handshake failed."""
        self.failed.value += 1
        events.emit(events.TLS_REFUSED, reason=why[:40], client=client, listener=self.name, why=why)

    def __repr__(self) -> str:
        return f"<TlsDoor of {self.identity!r}>"
