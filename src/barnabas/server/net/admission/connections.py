"""All connections of one node, over all its listeners, and how many there may be.

`max.connections` counts those who are known.  Who is in a handshake or a login is counted with the newcomers, and
joins the others when it is known.  The last of them are a reserve (`barnabas.reserved.connections`) for nodes and
super users: so clients cannot keep out who is needed to help.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from time import monotonic

from barnabas.config import Config, limits_by_host
from barnabas.server.loop.system import most_descriptors
from barnabas.server.net.admission.arrivals import Arrivals
from barnabas.server.net.admission.newcomers import Newcomer, Newcomers
from barnabas.server.net.connection import Connection
from barnabas.server.net.context import Client
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics
from barnabas.settings.table_access import ANONYMOUS

__all__ = ["Connections"]

STUCK_S = 10.0
"""While memory is short, a connection that holds some and did not move for so long is closed."""
DESCRIPTORS_FOR_FILES = 512
"""Descriptors that connections leave to the logs (the system gives out the lowest that is free): a log that
cannot open its next segment takes its whole directory offline."""


class Connections:
    """`admit` or `admit_stranger` counts a connection in, `known` a stranger who has logged in, `leave` out."""

    __slots__ = (
        "_by_host",
        "_inner",
        "_most",
        "_most_descriptors",
        "_most_of_listener",
        "_most_per_host",
        "_newcomers",
        "_next_id",
        "_of_listener",
        "_overrides",
        "_reserve",
        "_strangers",
        "_waiting",
        "arrivals",
        "idle_s",
        "opened",
        "refused",
        "vouches",
    )

    def __init__(self, config: Config, metrics: Metrics, now: Callable[[], float] = monotonic) -> None:
        allowed = most_descriptors()
        self._most_descriptors = allowed - min(DESCRIPTORS_FOR_FILES, allowed // 4)
        self.arrivals = Arrivals(config, now)
        self.reconfigure(config)
        idle = config.int("connections.max.idle.ms")
        self.idle_s = idle / 1000 if idle >= 0 else float("inf")
        self.opened: dict[int, Connection] = {}
        self._of_listener: Tally[str] = Tally()
        """How many of each listener are known."""
        self._strangers: set[int] = set()
        """Those of `opened` that have not logged in yet."""
        self._waiting = 0
        """Those who came too soon, and wait."""
        self._by_host: Tally[str] = Tally()
        self._newcomers = Newcomers(config.int("barnabas.unauthenticated.connections"), now)
        self._next_id = 0
        self._inner = config.inner_listeners
        self.vouches: Callable[[str, str], bool] | None = None
        """Whether the reserve is for that principal at that address; None: only listeners can tell."""
        self.refused = metrics.counter(
            "kafka.network:type=Acceptor,name=RefusedConnections", "Connections closed at once: too many"
        )
        metrics.gauge(
            "kafka.server:type=socket-server-metrics,name=connection-count",
            "Open connections",
            lambda: len(self.opened),
        )
        metrics.gauge(
            "barnabas:type=Connections,name=Newcomers",
            "Handshakes and logins under way",
            lambda: len(self._newcomers),
        )
        metrics.gauge(
            "barnabas:type=Connections,name=Held",
            "Connections that came too soon and wait",
            lambda: self._waiting,
        )

    def reconfigure(self, config: Config) -> None:
        """Take over limits that may change at run time; open connections stay."""
        name = "max.connections"
        self._most = config.int(name)
        if not config.is_given(name):
            self._most = max(1, min(self._most, most_descriptors() * 8 // 10))
        self._reserve = min(config.int("barnabas.reserved.connections"), self._most // 10)
        self._most_of_listener = {
            one.listener: config.at(one.listener).int(name)
            for one in (*config.listeners, *config.controller_listeners)
            if config.is_given_for(one.listener, name)
        }
        self._most_per_host = config.int("max.connections.per.ip")
        self._overrides = limits_by_host(config.list("max.connections.per.ip.overrides"))
        self.arrivals.reconfigure(config)

    def next_id(self) -> int:
        self._next_id += 1
        return self._next_id

    # -- in and out --

    def admit(self, connection: Connection) -> bool:
        """Count in somebody who is as known as it will be; False when it is one too many."""
        host = connection.client.host
        if self._no_room(host, connection.send_queue.descriptor) or not self._fits(connection.client):
            return False
        self._of_listener[connection.client.listener] += 1
        self._open(connection)
        return True

    def admit_stranger(self, connection: Connection) -> bool:
        """Count in somebody who has to log in yet; False when it is one too many."""
        host = connection.client.host
        if self._no_room(host, connection.send_queue.descriptor) or not self._enter(connection, host):
            return False
        self._strangers.add(connection.id)
        self._open(connection)
        return True

    def known(self, client: Client) -> bool:
        """A stranger has logged in; False: there is no room for such as it is."""
        if client.id not in self._strangers:
            return True
        fits = self._fits(client)
        self._newcomers.leave(self.opened[client.id])
        self._strangers.remove(client.id)
        self._of_listener[client.listener] += 1
        return fits

    def leave(self, connection: Connection) -> None:
        """Count a connection out."""
        self._newcomers.leave(connection)
        is_known = connection.id not in self._strangers
        self._strangers.discard(connection.id)
        if self.opened.pop(connection.id, None) is not None:
            self._of_listener[connection.client.listener] -= is_known
            self._leave_host(connection.client.host)

    def begin_handshake(self, who: Newcomer, host: str, descriptor: int) -> bool:
        """Count in somebody who is not known yet; False when it is one too many."""
        self.arrivals.came(host)
        if self._no_room(host, descriptor) or not self._enter(who, host):
            return False
        self._by_host[host] += 1
        return True

    def end_handshake(self, who: Newcomer, host: str) -> None:
        """A handshake is over, however it ended."""
        self._newcomers.leave(who)
        self._leave_host(host)

    def begin_wait(self, host: str, descriptor: int) -> bool:
        """Count in somebody who came too soon; False when it is one too many."""
        if self._taken >= self._most - self._reserve:
            return self._refuse(host, "all", self._most - self._reserve)
        if self._no_room(host, descriptor):
            return False
        self._waiting += 1
        self._by_host[host] += 1
        events.emit(events.CONNECTION_HELD, reason="", client=host)
        return True

    def end_wait(self, host: str) -> None:
        """It is due, or has gone."""
        self._waiting -= 1
        self._leave_host(host)

    # -- inside --

    def _open(self, connection: Connection) -> None:
        self.opened[connection.id] = connection
        self._by_host[connection.client.host] += 1

    @property
    def _taken(self) -> int:
        """How many of `max.connections` are taken."""
        return len(self.opened) - len(self._strangers) + self._waiting

    def _enter(self, who: Newcomer, host: str) -> bool:
        newcomers = self._newcomers
        if newcomers.full:
            other = newcomers.make_room(host)
            if other is None:
                return self._refuse(host, "newcomers", len(newcomers))
            self.refused.value += 1
            events.emit(events.CONNECTION_CROWDED_OUT, reason="", by=host, limit=len(newcomers) + 1)
            other.abort()
        newcomers.enter(who, host)
        return True

    def _fits(self, client: Client) -> bool:
        """Whether there is room for one more like that."""
        of_listener = self._most_of_listener.get(client.listener)
        if of_listener is not None and self._of_listener[client.listener] >= of_listener:
            return self._refuse(client.host, client.listener, of_listener)
        taken, free = self._taken, self._most - self._reserve
        if taken < free or (taken < self._most and self._is_reserved_for(client)):
            return True
        return self._refuse(client.host, "all", self._most if taken >= self._most else free)

    def _is_reserved_for(self, client: Client) -> bool:
        if self.vouches is not None and client.principal != ANONYMOUS:
            return self.vouches(client.principal, client.host)
        return client.listener in self._inner

    def _no_room(self, host: str, descriptor: int) -> bool:
        """Whether nobody can be let in any more, or nobody of that address."""
        if self._taken >= self._most:
            limit = self._most
        elif descriptor >= self._most_descriptors:
            limit = len(self.opened)
        elif self._by_host[host] >= (most := self._most_of(host)):
            limit = most
        else:
            return False
        return not self._refuse(host, "", limit)

    def _refuse(self, host: str, reason: str, limit: int) -> bool:
        self.refused.value += 1
        events.emit(events.CONNECTION_REFUSED, reason=reason, client=host, limit=limit)
        return False

    def _most_of(self, host: str) -> int:
        if not self._overrides:
            return self._most_per_host
        from barnabas.security.hosts import plain_host  # (ipaddress takes a start 5 ms)

        return self._overrides.get(plain_host(host), self._most_per_host)

    def _leave_host(self, host: str) -> None:
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    # -- all of them --

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
