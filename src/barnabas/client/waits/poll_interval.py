"""The longest time between two polls, after which a member gives its partitions to others.

Heartbeats come from a thread or task of their own, so they say that the process lives, not that it gets on.  A
member that does not poll for `max.poll.interval.ms` leaves its group, as Kafka's own consumers do.  No clock.
"""

from __future__ import annotations

import logging

__all__ = ["MAX_POLL_INTERVAL", "PollInterval"]

MAX_POLL_INTERVAL = 300.0
"""Seconds; Kafka's default of max.poll.interval.ms."""
log = logging.getLogger("barnabas.client")


class PollInterval:
    """`interval.polled(now)`; `interval.is_over(now)` is True once `limit` seconds have passed since."""

    def __init__(self, limit: float = MAX_POLL_INTERVAL) -> None:
        self.limit = limit
        self._polled_at: float | None = None

    def __repr__(self) -> str:
        return f"<PollInterval limit={self.limit:g} polled_at={self._polled_at}>"

    def polled(self, now: float) -> None:
        """The application asks for records, or the client itself is at work for it (monotonic s)."""
        self._polled_at = now

    def is_over(self, now: float) -> bool:
        """Return whether the application has not polled for longer than it may."""
        return self._polled_at is not None and now - self._polled_at > self.limit

    def tell(self, group: str) -> None:
        """Say that the member leaves, and what helps."""
        log.warning(
            "group %s: the application has not polled for %g s: its member leaves the group, and others read its "
            "partitions from the last commit on\nnext: poll more often, take fewer records with each poll, or "
            "give the consumer a longer max_poll_interval",
            group,
            self.limit,
        )
