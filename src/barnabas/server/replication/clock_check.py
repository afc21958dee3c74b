"""Comparing this node's wall clock with the active controller's, by the time that each heartbeat's answer names.

A node whose clock is off must not decide what is old: a year ahead, it would delete every record that it leads and
every position of every group.  Apache Kafka's controllers name no time; with them nothing is compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.ports import Clock
from barnabas.server.observe import events

__all__ = ["ClockCheck", "least_error_ms"]

OFF = events.register(
    "broker.clock-off",
    logging.WARNING,
    "the clocks of this node and the active controller differ: nothing is deleted here for its age",
)
AGREES = events.register(
    "broker.clock-agrees", logging.INFO, "the clocks of this node and the active controller agree again"
)

_TOLERATED_MS = 60_000


def least_error_ms(asked_ms: int, theirs_ms: int, answered_ms: int) -> int:
    """Return by how many ms our clock is ahead at least (negative: behind); 0 where it may be right.

    Their clock read `theirs_ms` some time between our `asked_ms` and our `answered_ms`.
    """
    if theirs_ms < asked_ms:
        return asked_ms - theirs_ms
    return min(0, answered_ms - theirs_ms)


class ClockCheck:
    """The last answer's verdict on this node's clock; `on_change` is told whether it agrees now."""

    def __init__(self, clock: Clock, on_change: Callable[[bool], None]) -> None:
        self.agrees = True
        self._clock = clock
        self._on_change = on_change
        self._asked_ms = 0

    def asked(self) -> None:
        """Note that a heartbeat leaves."""
        self._asked_ms = self._clock.now().wall_ms

    def answered(self, theirs_ms: int) -> None:
        """Compare with the time that its answer names (wall ms, 0: none)."""
        if not theirs_ms:
            return
        error = least_error_ms(self._asked_ms, theirs_ms, self._clock.now().wall_ms)
        agrees = abs(error) <= _TOLERATED_MS
        if agrees == self.agrees:
            return
        self.agrees = agrees
        if agrees:
            events.emit(AGREES)
        else:
            events.emit(
                OFF,
                ahead_s=error // 1000,
                next="set the clocks of all nodes by NTP: `timedatectl` shows whether they are",
            )
        self._on_change(agrees)

    def __repr__(self) -> str:
        return f"<ClockCheck agrees={self.agrees}>"
