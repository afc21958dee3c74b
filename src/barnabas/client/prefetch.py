"""Fetching from all leaders at once, one request ahead of the reader.

`Prefetcher` keeps at most one fetch under way per broker, waits for whichever answers first, and hands out
decoded records with the offset at which each partition goes on.  What a seek or a rebalance has made
stale meanwhile is dropped.  `consumer` drives it.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.blocking import BlockingConnection, ConnectionFailed
from barnabas.client.cluster import Cluster
from barnabas.client.consuming.fetched import PAUSE, Fetched, Fetches, FetchLimits, outdated
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.silence import patience
from barnabas.errors import KafkaError
from barnabas.model import NodeId, Offset, TopicPartition
from barnabas.wire.schemas.fetch import FetchRequest

__all__ = ["Prefetcher", "PrefetcherStatistics"]

_LIMITS = FetchLimits()


class PrefetcherStatistics(NamedTuple):
    """Fetches sent so far."""

    fetches: int


class _UnderWay:
    """A fetch without an answer; `since` when, and how often another broker was asked about this one."""

    __slots__ = ("asked", "connection", "look_at", "looks", "since", "ticket")

    def __init__(
        self, connection: BlockingConnection, ticket: int, asked: dict[TopicPartition, Offset], now: float
    ) -> None:
        self.connection = connection
        self.ticket = ticket
        self.asked = asked
        self.since = now
        self.looks = 0
        self.look_at = now + patience(0)


class Prefetcher:
    """`Prefetcher(cluster, isolation=0).poll({TopicPartition("t", 0): 42}, timeout=1)` -> [Fetched, ...]."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: int,
        limits: FetchLimits = _LIMITS,
    ) -> None:
        self.cluster = cluster
        self._fetches = Fetches(cluster.metadata, cluster.timeout, isolation=isolation, limits=limits)
        self._under_way: dict[NodeId, _UnderWay] = {}
        self._sent = 0

    def __repr__(self) -> str:
        return f"<Prefetcher under way={sorted(self._under_way)} fetches={self._sent}>"

    def statistics(self) -> PrefetcherStatistics:
        """`prefetcher.statistics().fetches`: totals."""
        return PrefetcherStatistics(self._sent)

    def poll(self, positions: dict[TopicPartition, Offset], timeout: float) -> list[Fetched]:
        """Records from these positions on, from whichever broker answers first; [] after `timeout` seconds.

        The next fetches leave before this returns.
        """
        deadline = monotonic() + timeout
        while True:
            self._send(positions)
            left = deadline - monotonic()
            if not self._under_way:
                if left <= 0:
                    return []
                time.sleep(min(left, PAUSE))
                continue
            fetched = [f for f in self._receive(max(left, 0.0)) if positions.get(f.target) == f.asked]
            if resting := self._fetches.resting(positions, monotonic()):
                self.cluster.look_past(resting)
            if fetched:
                onward = {f.target: f.next_offset for f in fetched if f.error is None}
                stopped = {f.target for f in fetched if f.error is not None}
                self._send({t: onward.get(t, at) for t, at in positions.items() if t not in stopped})
                return fetched
            if monotonic() >= deadline:
                return []

    def outdated(self, positions: dict[TopicPartition, Offset]) -> bool:
        """Tell if a fetch under way was sent before a seek: nothing is known of these positions yet."""
        return outdated((under_way.asked for under_way in self._under_way.values()), positions)

    def forget(self) -> None:
        """Drop what is under way (the assignment has changed)."""
        for under_way in self._under_way.values():
            under_way.connection.forget(under_way.ticket)
        self._under_way.clear()

    # -- asking ----------------------------------------------------------------------------------

    def _send(self, positions: dict[TopicPartition, Offset]) -> None:
        now = monotonic()
        if not self._fetches.is_time(now):
            return
        by_broker: dict[NodeId, dict[TopicPartition, Offset]] = {}
        try:
            for target, offset in positions.items():
                node = self._fetches.broker_of(target, self.cluster.leader(*target).id, now)
                if node not in self._under_way:
                    by_broker.setdefault(node, {})[target] = offset
            for node, asked in by_broker.items():
                connection = self.cluster.connection(node, leads=True)
                ticket = self._post(connection, asked)
                self._under_way[node] = _UnderWay(connection, ticket, asked, monotonic())
                self._sent += 1
        except (ConnectionFailed, KafkaError) as error:
            self._fetches.trouble(error, positions, monotonic())

    def _post(self, connection: BlockingConnection, asked: dict[TopicPartition, Offset]) -> int:
        ids = {topic: self.cluster.topic(topic).id for topic in {target.topic for target in asked}}
        served = connection.version_of(FetchRequest)
        return connection.post(*self._fetches.request(asked, ids, served))

    # -- hearing ---------------------------------------------------------------------------------

    def _receive(self, timeout: float) -> list[Fetched]:
        connections = {under_way.connection: leader for leader, under_way in self._under_way.items()}
        at_hand = [u.connection for u in self._under_way.values() if u.connection.has_arrived(u.ticket)]
        at_hand += [c for c in connections if c.closed]
        look_at = min(under_way.look_at for under_way in self._under_way.values())
        readable = at_hand or _readable(connections, max(min(timeout, look_at - monotonic()), 0.0))
        if not readable:
            self._look_into_silence()
        answered: list[Fetched] = []
        for connection in readable:
            node = connections[connection]
            under_way = self._under_way.pop(node)
            try:
                response = connection.collect(under_way.ticket)
            except ConnectionFailed as error:
                self._fetches.trouble(error, under_way.asked, monotonic())
            else:
                answered += self._fetches.heard(node, response, under_way.asked, monotonic())
        return answered

    def _look_into_silence(self) -> None:
        """Close the connections of brokers that the others count out, or that have not answered for too long."""
        now = monotonic()
        for under_way in self._under_way.values():
            if now < under_way.look_at:
                continue
            under_way.looks += 1
            under_way.look_at = now + patience(under_way.looks)
            line = under_way.connection
            if now - under_way.since >= self.cluster.timeout or self.cluster.is_out(line.host, line.port):
                line.close()


def _readable(connections: Iterable[BlockingConnection], timeout: float) -> list[BlockingConnection]:
    """Those on which something came within so many seconds.  (select() fails at descriptors from 1,024 on.)"""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, connection)
        return [key.data for key, _ in selector.select(timeout)]
