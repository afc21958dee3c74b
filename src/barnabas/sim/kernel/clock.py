"""A node's clock: monotonic seconds that may run fast or slow, wall milliseconds that jump.

The world has one true time.  A node never sees it: its monotonic clock begins somewhere at each start of
the machine and drifts, its wall clock is wrong by an amount that changes when somebody sets it.
"""

from __future__ import annotations

from math import inf
from typing import Protocol

from barnabas.model import Now

__all__ = ["EPOCH_MS", "NodeClock", "TrueTime"]

EPOCH_MS = 1_790_000_000_000
"""Wall time at world time 0."""


class TrueTime(Protocol):
    """Whoever knows the time."""

    @property
    def time(self) -> float:
        """Seconds since the beginning of the world."""
        ...


class NodeClock:
    """`ports.Clock` of one node.  `world_time` tells the true time."""

    __slots__ = ("_base_mono", "_base_time", "_rate", "_time", "skew_ms")

    def __init__(self, world_time: TrueTime, *, start: float = 0.0) -> None:
        self._time = world_time
        self._base_time = world_time.time
        self._base_mono = start
        self._rate = 1.0
        self.skew_ms = 0

    def __repr__(self) -> str:
        return f"<NodeClock rate={self._rate:g} skew={self.skew_ms} ms>"

    @property
    def mono(self) -> float:
        """Monotonic seconds of this node."""
        return self._base_mono + (self._time.time - self._base_time) * self._rate

    def now(self) -> Now:
        """What the node reads."""
        return Now(self.mono, EPOCH_MS + self.skew_ms + int(self._time.time * 1000))

    def drift(self, rate: float) -> None:
        """From now on a second of the world is `rate` seconds here."""
        self._base_mono, self._base_time, self._rate = self.mono, self._time.time, rate

    def world_time_of(self, mono: float) -> float:
        """When this clock will show `mono`, in world time."""
        if mono == inf:
            return inf
        return self._base_time + (mono - self._base_mono) / self._rate
