"""How fast connections may come (`max.connection.creation.rate`), of the node and of each listener.

One that comes too soon is accepted and held, before TLS and before anything is read from it, until it is due.
Apache Kafka delays the accept; what a held socket costs is a few hundred bytes.

Each address has a share of the rate: who is below it is never held.  So an address that comes fast waits for
itself, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Callable
from typing import Protocol, cast

from barnabas.broker.quotas.rate import SampledRate
from barnabas.config import Config

__all__ = ["LONGEST_WAIT_S", "Arrivals", "Held"]

LONGEST_WAIT_S = 30.0
"""Who would be due later is closed at once: its client gives up before."""
MOST_SAID_BYTES = 64 * 1024
"""No client says more before it has heard anything."""
_RATE = "max.connection.creation.rate"


class Arrivals:
    """`wait("CLIENTS")` counts a connection of that listener and says how long it is held.

    `came` counts its address when it goes in; `is_below_its_share` says that it need not be held after all.
    """

    __slots__ = (
        "_addresses",
        "_before",
        "_began",
        "_config",
        "_inner",
        "_lately",
        "_measured_s",
        "_now",
        "_of_listener",
        "_of_node",
        "_rate",
    )

    def __init__(self, config: Config, now: Callable[[], float]) -> None:
        self._config = config
        self._now = now
        self._inner = config.inner_listeners
        """Nodes among themselves do not wait because of clients."""
        self._of_node = self._measure()
        self._of_listener: dict[str, SampledRate] = {}
        self._rate = config.int(_RATE)
        self._lately: Tally[str] = Tally()
        """How many of an address have gone in, since the measured time began anew."""
        self._before: Tally[str] = Tally()
        """The same, of the measured time before."""
        self._addresses = 0
        """How many different ones they have."""
        self._began = now()
        size, windows = config.int("quota.window.size.seconds"), config.int("quota.window.num")
        self._measured_s = max(windows - 1, 1) * size
        """For so long a rate may be used up at once (`SampledRate`)."""

    def _measure(self) -> SampledRate:
        config = self._config
        return SampledRate(config.int("quota.window.num"), float(config.int("quota.window.size.seconds")))

    def reconfigure(self, config: Config) -> None:
        """Take over the rate of the node; those of listeners stay as they were at the start."""
        self._rate = config.int(_RATE)

    def wait(self, listener: str) -> float:
        """Seconds for which a connection that has come now is held."""
        now = self._now()
        wait = 0.0
        if self._config.is_given_for(listener, _RATE):
            rate = self._of_listener.get(listener)
            if rate is None:
                rate = self._of_listener[listener] = self._measure()
            rate.record(1, now)
            wait = rate.delay(self._config.at(listener).int(_RATE), now)
        self._of_node.record(1, now)
        return wait if listener in self._inner else max(wait, self._of_node.delay(self._rate, now))

    def came(self, host: str) -> None:
        """A connection of that address goes in."""
        self._forget()
        self._addresses += self._is_new(host)
        self._lately[host] += 1

    def is_below_its_share(self, listener: str, host: str) -> bool:
        """Whether one more of that address is within its equal share of what may come."""
        self._forget()
        rate = self._rate
        if self._config.is_given_for(listener, _RATE):
            own = self._config.at(listener).int(_RATE)
            rate = own if listener in self._inner else min(rate, own)
        addresses = self._addresses + self._is_new(host)
        mine = self._lately[host] + self._before[host] + 1
        return mine * addresses <= rate * self._measured_s

    def _is_new(self, host: str) -> bool:
        """Whether nothing of that address has gone in of late."""
        return host not in self._lately and host not in self._before

    def _forget(self) -> None:
        """Forget who came before the last measured time."""
        now = self._now()
        gone = now - self._began
        if gone < self._measured_s:
            return
        self._before = self._lately if gone < 2 * self._measured_s else Tally()
        self._lately = Tally()
        self._addresses = len(self._before)
        self._began = now

    def __repr__(self) -> str:
        return f"<Arrivals {self._rate}/s>"


class WaitCounter(Protocol):
    """What counts those who are held."""

    def begin_wait(self, host: str, descriptor: int) -> bool:
        """Somebody is held; False: there are too many connections."""
        ...

    def end_wait(self, host: str) -> None:
        """Somebody is held no more."""
        ...


class Held(asyncio.Protocol):
    """Stands for a connection until it is due; `enter` makes what goes on with the socket.

    Whoever `has_share` by its address is due at once.
    """

    __slots__ = (
        "_connections",
        "_enter",
        "_has_share",
        "_host",
        "_loop",
        "_said",
        "_timer",
        "_transport",
        "_wait",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: WaitCounter,
        enter: Callable[[], asyncio.BufferedProtocol],
        wait: float,
        has_share: Callable[[str], bool],
    ) -> None:
        self._loop, self._connections, self._enter, self._wait = loop, connections, enter, wait
        self._has_share = has_share
        self._host: str | None = None
        self._said = b""
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        host = (transport.get_extra_info("peername") or ("",))[0]
        if self._has_share(host):
            self._go_on()  # (it was not paused)
            return
        descriptor = transport.get_extra_info("socket").fileno()
        if self._wait > LONGEST_WAIT_S or not self._connections.begin_wait(host, descriptor):
            self._transport.abort()
            return
        self._host = host
        self._transport.pause_reading()
        self._loop.call_soon(self._pause)
        self._timer = self._loop.call_later(self._wait, self._due)

    def _pause(self) -> None:
        """uvloop begins to read after `connection_made`, even if that has paused it."""
        transport = self._transport
        if self._timer is not None and transport.is_reading():
            transport.resume_reading()
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """What came before the loop heard that it shall not read."""
        self._said += data
        self._pause()
        if len(self._said) > MOST_SAID_BYTES:
            self._transport.abort()

    def _due(self) -> None:
        self._end()
        if not self._transport.is_closing():
            self._go_on(after_pause=True)

    def _go_on(self, *, after_pause: bool = False) -> None:
        transport, protocol, said = self._transport, self._enter(), self._said
        transport.set_protocol(protocol)
        if after_pause:
            transport.resume_reading()
        protocol.connection_made(transport)
        while said and not transport.is_closing():
            room = memoryview(protocol.get_buffer(-1))
            size = min(len(room), len(said))
            room[:size], said = said[:size], said[size:]
            protocol.buffer_updated(size)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._host is not None:
            self._connections.end_wait(self._host)
            self._host = None

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def __repr__(self) -> str:
        return f"<Held {self._host} for {self._wait:.1f} s>"
