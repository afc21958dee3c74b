"""Quotas of clients at the connections: what a request used is recorded as soon as it is known.

A client above its quota is told how long to wait (`throttle_time_ms`), and its connection is muted for that
time: this node reads nothing from it.  Traffic between brokers is not limited.
"""

from __future__ import annotations

from typing import Any, Protocol

from barnabas.broker.quotas.client_quotas import CONSUMER, PRODUCER, REQUESTS, ClientQuotas
from barnabas.config import Config
from barnabas.ports import Clock
from barnabas.server.net.context import RequestContext
from barnabas.server.observe.metrics import Metrics
from barnabas.wire.codec.message import replace
from barnabas.wire.plane.fetch_asked import Terms
from barnabas.wire.plane.fetch_told import FetchAnswer
from barnabas.wire.plane.produce_told import ProduceAnswer

__all__ = ["Mutable", "Throttle"]

_PRODUCE, _FETCH = 0, 1
_LONGEST_MS = 2**31 - 1


class Mutable(Protocol):
    """A connection that can be told to read nothing for a while."""

    def mute(self, seconds: float) -> None:
        """Read nothing for so long."""
        ...


class Throttle:
    """One per node.  `quotas` follows the metadata; nobody is limited until then."""

    __slots__ = ("_clock", "_delayed", "_window_s", "quotas")

    def __init__(self, config: Config, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._window_s = config.int("quota.window.size.seconds")
        self.quotas = ClientQuotas(config.int("quota.window.num"), self._window_s)
        self._delayed = {
            quota: metrics.counter(
                f"barnabas:type=Quotas,name=ThrottledRequests,quota={quota}", "Requests above a quota"
            )
            for quota in (PRODUCER, CONSUMER, REQUESTS)
        }

    def is_limited(self, context: RequestContext) -> bool:
        """Whether such requests by this client, to produce or to fetch, count for a quota."""
        user, client = _whom(context)
        size = CONSUMER if context.api_key == _FETCH else PRODUCER
        return any(self.quotas.limits(quota, user, client) for quota in (size, REQUESTS))

    def shrunk(self, context: RequestContext, terms: Terms) -> Terms:
        """The terms of a consumer, asking for no more than its quota allows at once (in all full windows)."""
        most = None if context.between_brokers else self.quotas.most_at_once(CONSUMER, *_whom(context))
        if most is None or most >= terms.max_bytes:
            return terms
        return terms._replace(max_bytes=most, min_bytes=min(terms.min_bytes, most))

    def arrived(self, connection: Mutable, context: RequestContext) -> None:
        """A request was received.  What a producer sends counts at once: further requests may be on their way."""
        if context.api_key == _PRODUCE:
            self._record(connection, context, PRODUCER, context.size)

    def handled(self, connection: Mutable, context: RequestContext, spent_s: float) -> None:
        """The handler of a request took so long."""
        if not context.between_brokers:
            self._record(connection, context, REQUESTS, spent_s * 100, self._window_s)

    def answering(self, connection: Mutable, context: RequestContext, response: Any) -> Any:
        """The answer to a request is about to leave.  Returns it with the time that the client must wait."""
        if context.api_key == _FETCH and not context.between_brokers:
            self._record(connection, context, CONSUMER, _size_of(response))
        told_ms = getattr(response, "throttle_time_ms", -1)  # by the controller; -1: it has no such field
        if told_ms > 0:
            connection.mute(told_ms / 1000)
        wait_ms = min(round(context.wait_s * 1000), _LONGEST_MS)
        if told_ms < 0 or wait_ms <= told_ms:
            return response
        if isinstance(response, (FetchAnswer, ProduceAnswer)):
            return response._replace(throttle_time_ms=wait_ms)
        return replace(response, throttle_time_ms=wait_ms)

    def _record(
        self,
        connection: Mutable,
        context: RequestContext,
        quota: str,
        amount: float,
        most_s: float = float("inf"),
    ) -> None:
        """So much was used: mute the connection of a client that used too much."""
        delay = self.quotas.record(quota, *_whom(context), amount, self._clock.now().mono, most_s)
        if delay > 0:
            self._delayed[quota].value += 1
            context.wait_s = max(context.wait_s, delay)
            connection.mute(delay)

    def connected(self, host: str) -> float:
        """A client connected from that address: seconds for which it came too early, 0.0 if it is welcome."""
        quotas = self.quotas
        return quotas.connected(host, self._clock.now().mono) if quotas.active else 0.0

    def __repr__(self) -> str:
        return f"<Throttle {self.quotas!r}>"


def _whom(context: RequestContext) -> tuple[str, str]:
    """The user and the client id."""
    return context.user, context.client_id or ""


def _size_of(response: Any) -> int:
    """Bytes of records in the answer to a Fetch."""
    if not isinstance(response, FetchAnswer):
        return 0
    return sum(len(row[7]) for rows in response.topics.values() for row in rows)
