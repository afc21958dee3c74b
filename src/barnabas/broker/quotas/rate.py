"""A rate over the last seconds, measured as Apache Kafka's quotas measure it.

The last `windows` windows of `window_s` seconds each count.  A rate that has just begun counts as if all full
windows before it had been empty: so a client may use `windows` - 1 windows' worth at once before it is limited.
"""

from __future__ import annotations

from collections import deque

__all__ = ["SampledRate"]


class SampledRate:
    """`rate.record(1024, now)`, then `rate.delay(limit, now)`: times are monotonic seconds."""

    __slots__ = ("_samples", "_window_s", "_windows")

    def __init__(self, windows: int, window_s: float) -> None:
        self._windows = windows
        self._window_s = window_s
        self._samples: deque[list[float]] = deque()  # [beginning, amount], the oldest first

    def record(self, amount: float, now: float) -> None:
        """So much happened now (negative: it did not happen after all)."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._window_s:
            self._forget(now)
            samples.append([now, amount])
        else:
            samples[-1][1] += amount

    def per_second(self, now: float) -> float:
        """The rate now."""
        self._forget(now)
        return sum(amount for _, amount in self._samples) / self._measured_s(now)

    def delay(self, limit: float, now: float) -> float:
        """Seconds after which the rate is `limit` again, if nothing else happens; 0.0 when it is not above."""
        excess = self.per_second(now) - limit
        return excess / limit * self._measured_s(now) if excess > 0 else 0.0

    def idle(self, now: float) -> bool:
        """Whether nothing of the last windows is left."""
        self._forget(now)
        return not self._samples

    def _measured_s(self, now: float) -> float:
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        full = int(elapsed / self._window_s)
        return elapsed + max(self._windows - 1 - full, 0) * self._window_s or self._window_s

    def _forget(self, now: float) -> None:
        samples, oldest = self._samples, now - self._windows * self._window_s
        while samples and samples[0][0] <= oldest:
            samples.popleft()

    def __repr__(self) -> str:
        return f"<SampledRate {len(self._samples)} of {self._windows} windows>"
