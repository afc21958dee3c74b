"""The network: addresses, and everything that can happen to a message on its way.

Messages are lost, duplicated, delayed by a heavy tail (and so overtake each other), held back by a clogged
link and released all at once, or stopped by a partition in one direction or both.  A message to an address
without a listener is refused; a reset informs both ends.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from barnabas.model import NodeId

__all__ = ["Network", "NetworkStatistics", "Schedule"]

Address = tuple[str, int]


class Schedule(Protocol):
    """Who lets time pass."""

    def at(self, delay: float, action: Callable[[], None]) -> None: ...


class NetworkStatistics(NamedTuple):
    """Messages so far."""

    sent: int
    lost: int
    doubled: int
    held: int


class Network:
    """Carries functions: `send(a, b, deliver)` calls `deliver` later, once, never or twice."""

    __slots__ = (
        "_clogged",
        "_cut",
        "_held",
        "_rng",
        "_schedule",
        "addresses",
        "base_delay",
        "doubled",
        "duplication",
        "held",
        "jitter",
        "late",
        "loss",
        "lost",
        "sent",
        "tail",
        "tail_delay",
    )

    def __init__(self, schedule: Schedule, rng: random.Random) -> None:
        self._schedule = schedule
        self._rng = rng
        self.addresses: dict[Address, NodeId] = {}
        """Who listens where."""
        self.loss = 0.0
        self.duplication = 0.0
        self.base_delay = 0.0005
        self.jitter = 0.002
        self.tail = 0.0
        """The share of messages that take up to `tail_delay` longer."""
        self.tail_delay = 1.0
        self.sent = self.lost = self.doubled = self.held = self.late = 0
        self._cut: Counter[tuple[NodeId, NodeId]] = Counter()
        self._clogged: Counter[tuple[NodeId, NodeId]] = Counter()
        self._held: dict[tuple[NodeId, NodeId], list[Callable[[], None]]] = {}

    def __repr__(self) -> str:
        cuts = sum(count > 0 for count in self._cut.values())
        return f"<Network cut={cuts} loss={self.loss:g} sent={self.sent} lost={self.lost}>"

    # What faults do.

    def cut(self, pairs: Iterable[tuple[NodeId, NodeId]]) -> None:
        """No message from a to b, for each pair, until the same pairs are mended."""
        self._cut.update(pairs)

    def mend(self, pairs: Iterable[tuple[NodeId, NodeId]]) -> None:
        """Undo one `cut`."""
        self._cut.subtract(pairs)

    def clog(self, pairs: Iterable[tuple[NodeId, NodeId]]) -> None:
        """Hold the messages from a to b back until `unclog`."""
        self._clogged.update(pairs)

    def unclog(self, pairs: Iterable[tuple[NodeId, NodeId]]) -> None:
        """Undo one `clog`; what was held arrives now, in its order."""
        self._clogged.subtract(pairs)
        for pair in pairs:
            if self._clogged[pair] <= 0:
                for number, deliver in enumerate(self._held.pop(pair, ())):
                    self._schedule.at(self.base_delay + number * 1e-5, deliver)

    def heal(self) -> None:
        """Everything works, except what is cut or clogged on purpose from now on."""
        self.loss = self.duplication = self.tail = 0.0
        self.base_delay, self.jitter = 0.0005, 0.002
        self._cut.clear()
        pairs = [pair for pair, count in self._clogged.items() if count > 0]
        self._clogged = Counter(pairs)
        self.unclog(pairs)
        self._clogged.clear()

    def reaches(self, source: NodeId, target: NodeId) -> bool:
        """Whether a message from here would arrive there at all."""
        return self._cut[source, target] <= 0

    # What nodes do.

    def send(self, source: NodeId, target: NodeId, deliver: Callable[[], None]) -> int:
        """Send one message.  Returns how often it will arrive."""
        self.sent += 1
        rng = self._rng
        if self._cut[source, target] > 0 or (self.loss and rng.random() < self.loss):
            self.lost += 1
            return 0
        if self._clogged[source, target] > 0:
            self.held += 1
            self._held.setdefault((source, target), []).append(deliver)
            return 1
        self._schedule.at(self._delay(), deliver)
        if self.duplication and rng.random() < self.duplication:
            self.doubled += 1
            self._schedule.at(self._delay() + rng.random() * self.tail_delay, deliver)
            return 2
        return 1

    def _delay(self) -> float:
        rng = self._rng
        delay = self.base_delay + rng.random() * self.jitter
        if self.tail and rng.random() < self.tail:
            delay += rng.random() ** 3 * self.tail_delay
            self.late += 1
        return delay

    @property
    def troubles(self) -> int:
        """Messages so far that did not arrive in good time."""
        return self.lost + self.held + self.late

    def statistics(self) -> NetworkStatistics:
        """A reading."""
        return NetworkStatistics(self.sent, self.lost, self.doubled, self.held)
