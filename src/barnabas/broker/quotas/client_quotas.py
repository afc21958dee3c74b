"""Who is limited to what, and how far each is: the quotas of the metadata at work in one broker.

Of the entities that fit a user and a client id, the most specific one with that quota counts.  What it names,
or names the default of, is what shares one rate: a quota of a user is shared by all its clients, a default
quota of users is one for each user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from barnabas.broker.quotas.rate import SampledRate
from barnabas.controller.image import QuotaEntity

__all__ = ["CONNECTIONS", "CONSUMER", "PRODUCER", "REQUESTS", "ClientQuotas", "Limit", "Use"]

PRODUCER = "producer_byte_rate"
CONSUMER = "consumer_byte_rate"
REQUESTS = "request_percentage"
CONNECTIONS = "connection_creation_rate"
MOST_RATES = 10_000
"""Rates remembered before those that are idle are forgotten."""

_Whom = tuple[str, str | None, str | None]
"""A quota, and the user and client id (or IP and None) that share it."""


class Limit(NamedTuple):
    """A limit per second, and whose rate it limits."""

    whom: _Whom
    rate: float


class Use(NamedTuple):
    """What those who share a quota use of it: `rate` per second now; how often and long (s) they had to wait."""

    quota: str
    user: str | None
    client: str | None
    rate: float
    delays: int
    delayed_s: float


class ClientQuotas:
    """`quotas.record("producer_byte_rate", "alice", "etl", 1024, now)` -> seconds to wait.

    `windows` and `window_s` are Kafka's quota.window.num and quota.window.size.seconds.
    """

    __slots__ = ("_delays", "_found", "_quotas", "_rates", "_window_s", "_windows", "active")

    def __init__(self, windows: int, window_s: int) -> None:
        self._windows = windows
        self._window_s = float(window_s)
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._found: dict[_Whom, Limit | None] = {}
        self._rates: dict[_Whom, SampledRate] = {}
        self._delays: dict[_Whom, tuple[int, float]] = {}
        self.active = False
        """Whether anybody is limited at all."""

    def follow(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take the quotas as the metadata have them now; rates go on."""
        self._quotas = {entity: dict(values) for entity, values in quotas.items()}
        self._found.clear()
        self.active = bool(quotas)

    def limits(self, quota: str, user: str, client: str) -> bool:
        """Whether somebody set this quota for them."""
        return self.active and self.limit_of(quota, user, client) is not None

    def record(
        self, quota: str, user: str, client: str, amount: float, now: float, most_s: float = float("inf")
    ) -> float:
        """So much was used; returns the seconds (`most_s` at most) to wait, 0.0 where nothing limits them."""
        limit = self.limit_of(quota, user, client)
        if limit is None:
            return 0.0
        rate = self._rate(limit.whom, now)
        rate.record(amount, now)
        delay = min(rate.delay(limit.rate, now), most_s)
        if delay > 0:
            count, total = self._delays.pop(limit.whom, (0, 0.0))
            self._delays[limit.whom] = count + 1, total + delay
            if len(self._delays) > MOST_RATES:
                del self._delays[next(iter(self._delays))]
        return delay

    def uses(self, most: int, now: float) -> Iterator[Use]:
        """What is used of at most `most` quotas: of those that made clients wait last, then of others."""
        delayed = [whom for whom in reversed(self._delays) if whom in self._rates][:most]
        for whom in dict.fromkeys((*delayed, *islice(self._rates, most))):
            if most == 0:
                return
            most -= 1
            yield Use(*whom, self._rates[whom].per_second(now), *self._delays.get(whom, (0, 0.0)))

    def most_at_once(self, quota: str, user: str, client: str) -> int | None:
        """What all full windows together allow; None: there is no limit."""
        limit = self.limit_of(quota, user, client)
        return None if limit is None else int(limit.rate * (self._windows - 1) * self._window_s)

    def connected(self, address: str, now: float) -> float:
        """A client at that IP address connected.  Seconds to wait; above 0.0 the connection does not count."""
        limit = self.limit_of(CONNECTIONS, address, "")
        if limit is None:
            return 0.0
        rate = self._rate(limit.whom, now)
        rate.record(1, now)
        delay = rate.delay(limit.rate, now)
        if delay > 0:
            rate.record(-1, now)
        return delay

    def limit_of(self, quota: str, user: str, client: str) -> Limit | None:
        """The limit that counts for them, and whose rate it limits; None: there is none."""
        key = (quota, user, client)
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= MOST_RATES:
                self._found.clear()
            found = self._found[key] = self._look_up(quota, user, client)
            return found

    def _look_up(self, quota: str, user: str, client: str) -> Limit | None:
        if quota == CONNECTIONS:
            candidates: list[tuple[QuotaEntity, _Whom]] = [
                (frozenset({("ip", name)}), (quota, user, None)) for name in (user, None)
            ]
        else:
            both, users, clients = (quota, user, client), (quota, user, None), (quota, None, client)
            candidates = [
                (frozenset({("user", user), ("client-id", client)}), both),
                (frozenset({("user", user), ("client-id", None)}), both),
                (frozenset({("user", user)}), users),
                (frozenset({("user", None), ("client-id", client)}), both),
                (frozenset({("user", None), ("client-id", None)}), both),
                (frozenset({("user", None)}), users),
                (frozenset({("client-id", client)}), clients),
                (frozenset({("client-id", None)}), clients),
            ]
        for entity, whom in candidates:
            rate = self._quotas.get(entity, {}).get(quota)
            if rate is not None:
                return Limit(whom, rate)
        return None

    def _rate(self, whom: _Whom, now: float) -> SampledRate:
        rate = self._rates.get(whom)
        if rate is None:
            if len(self._rates) >= MOST_RATES:
                self._rates = {who: known for who, known in self._rates.items() if not known.idle(now)}
            rate = self._rates[whom] = SampledRate(self._windows, self._window_s)
        return rate

    def __repr__(self) -> str:
        return f"<ClientQuotas of {len(self._quotas)} entities, {len(self._rates)} rates>"
