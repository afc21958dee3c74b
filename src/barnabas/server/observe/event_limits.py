"""How many lines one kind of event may write: a token bucket per event and one per reason.

What clients can cause at will must not fill a disk: a flood of bad frames writes a few lines a minute, and
the lines say how many were left out.  Different reasons do not hide each other: each has a bucket of its
own, for as many reasons as a person would read about.
"""

from __future__ import annotations

__all__ = ["EventLimit", "TokenBucket"]

EVENT_BURST, EVENT_INTERVAL_S = 20, 10.0
REASON_BURST, REASON_INTERVAL_S = 3, 60.0
MAX_REASONS = 100
"""Reasons that are told apart; all others share one bucket, so that made-up reasons take no memory."""


class TokenBucket:
    """`take(now)`: a burst at first, then one in each `interval_s`."""

    __slots__ = ("burst", "interval_s", "tokens", "updated_s")

    def __init__(self, burst: int, interval_s: float) -> None:
        self.burst = burst
        self.interval_s = interval_s
        self.tokens = float(burst)
        self.updated_s = 0.0

    def has(self, now: float) -> bool:
        """Whether a token is there."""
        gained = max(0.0, now - self.updated_s) / self.interval_s
        self.tokens = min(float(self.burst), self.tokens + gained)
        self.updated_s = now
        return self.tokens >= 1

    def take(self) -> None:
        """Use one token."""
        self.tokens -= 1

    def __repr__(self) -> str:
        return f"<TokenBucket {self.tokens:.1f}/{self.burst}>"


class EventLimit:
    """The buckets of one event, and how many of its lines were left out since the last one was written."""

    __slots__ = ("_all", "_reasons", "left_out")

    def __init__(self) -> None:
        self._all = TokenBucket(EVENT_BURST, EVENT_INTERVAL_S)
        self._reasons: dict[str, TokenBucket] = {}
        self.left_out = 0

    def admits(self, reason: str, now: float) -> bool:
        """Whether a line may be written at `now` (monotonic seconds).  Counts it where it may not."""
        if reason not in self._reasons and len(self._reasons) >= MAX_REASONS:
            reason = ""
        bucket = self._reasons.get(reason)
        if bucket is None:
            bucket = self._reasons[reason] = TokenBucket(REASON_BURST, REASON_INTERVAL_S)
        if not (self._all.has(now) and bucket.has(now)):
            self.left_out += 1
            return False
        self._all.take()
        bucket.take()
        return True

    def __repr__(self) -> str:
        return f"<EventLimit left_out={self.left_out} reasons={len(self._reasons)}>"
