"""Limits on the rate of copying replicas: Kafka's replication throttles (KIP-73).

A rate applies to the partitions that a topic lists as throttled, on the leader's side and on the follower's
side each.  It slows down only replicas that are being made or moved.  A replica in sync is never throttled;
otherwise it would leave the in-sync set because of its traffic.
"""

from __future__ import annotations

from math import inf

from barnabas.model import NodeId, Now

__all__ = ["Quota", "is_throttled"]

_NO_LIMIT = (1 << 63) - 1


class Quota:
    """Bytes per second, with a second's worth to spare.  `now.mono` counts."""

    __slots__ = ("_at", "_left", "_rate", "bytes", "limited")

    def __init__(self, rate: int = _NO_LIMIT) -> None:
        self._at = self._left = 0.0
        self.bytes = 0
        """What it has counted since the start."""
        self.limited = False
        self._rate = 0
        self.configure(rate)

    def configure(self, rate: int) -> None:
        """Take another rate (0: nothing passes but what is in sync)."""
        self._rate = rate
        self._left = min(self._left, float(rate))
        self.limited = rate < _NO_LIMIT

    def record(self, size: int, now: Now) -> None:
        """So many bytes of throttled partitions went by."""
        self.bytes += size
        self._refill(now)
        self._left -= size

    def exceeded(self, now: Now) -> bool:
        """Whether throttled replicas that are not in sync must wait."""
        if not self.limited:
            return False
        self._refill(now)
        return self._left < 0 or not self._rate

    def free_at(self, now: Now) -> float:
        """When they may go on (mono seconds; inf: only when the rate changes)."""
        if not self._rate:
            return inf
        return now.mono + max(0.0, -self._left / self._rate)

    def _refill(self, now: Now) -> None:
        self._left = min(float(self._rate), self._left + (now.mono - self._at) * self._rate)
        self._at = now.mono

    def __repr__(self) -> str:
        return f"<Quota {self._rate if self.limited else 'no limit'} B/s>"


def is_throttled(listed: tuple[str, ...], partition: int, broker: NodeId) -> bool:
    """Whether a topic's list of throttled replicas (`*`, or `partition:broker`) has this one."""
    return bool(listed) and ("*" in listed or f"{partition}:{broker}" in listed)
