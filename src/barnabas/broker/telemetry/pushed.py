"""The metrics that clients pushed: the last number of each series, until its client is silent for too long."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.broker.telemetry.otlp import Labels, Point, Push
from barnabas.model import Now, Uuid

__all__ = ["MOST_OF_ONE", "PushedMetrics", "PushedStatistics", "Series"]

MOST_OF_ONE = 2000
"""Series of one client."""
_Key = tuple[str, Labels, bool]


class Series(NamedTuple):
    """One number that a client pushed; `labels` without those of the client."""

    name: str
    labels: Labels
    counter: bool
    value: float


class PushedStatistics(NamedTuple):
    """Counts for the metrics."""

    clients: int
    series: int
    left_out: int


class _Client:
    __slots__ = ("about", "expires_at", "values")

    def __init__(self) -> None:
        self.about: Labels = ()
        self.expires_at = 0.0
        self.values: dict[_Key, float] = {}


class PushedMetrics:
    """At most `most` series of all clients together: the client heard longest ago makes room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: OrderedDict[Uuid, _Client] = OrderedDict()
        self._series = 0
        self._left_out = 0

    def take(self, instance_id: Uuid, about: Mapping[str, str], push: Push, keep_s: float, now: Now) -> None:
        """A client pushed; `about` says who it is.  It is forgotten when it is silent for `keep_s` seconds."""
        while self._clients and next(iter(self._clients.values())).expires_at <= now.mono:
            self._series -= len(self._clients.popitem(last=False)[1].values)
        client = self._clients.setdefault(instance_id, _Client())
        self._clients.move_to_end(instance_id)
        client.about = tuple(sorted({**dict(push.resource), **about}.items()))
        client.expires_at = now.mono + keep_s
        self._left_out += push.left_out
        for point in push.points:
            self._take(client, point)
        while self._series > self._most and len(self._clients) > 1:
            self._series -= len(self._clients.popitem(last=False)[1].values)

    def _take(self, client: _Client, point: Point) -> None:
        key = (point.name, point.labels, point.counter)
        before = client.values.get(key)
        if before is None:
            if len(client.values) >= min(MOST_OF_ONE, self._most):
                self._left_out += 1
                return
            self._series += 1
        client.values[key] = point.value + (before or 0.0) if point.delta else point.value

    def clients(self, now: Now) -> Iterator[tuple[Uuid, Labels, list[Series]]]:
        """Each client that is not silent for too long: its id, who it is, and its series."""
        for instance_id in [one for one, client in self._clients.items() if client.expires_at <= now.mono]:
            self._series -= len(self._clients.pop(instance_id).values)
        for instance_id, client in self._clients.items():
            found = [Series(*key, value) for key, value in client.values.items()]
            yield instance_id, client.about, found

    def statistics(self) -> PushedStatistics:
        """Counts, computed now."""
        return PushedStatistics(len(self._clients), self._series, self._left_out)

    def __repr__(self) -> str:
        return f"<PushedMetrics {self._series} series of {len(self._clients)} clients>"
