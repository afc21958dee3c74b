"""The clock of every wait of the client: its seconds pass also while a test has frozen the time.

freezegun and its like replace `time.monotonic` in all modules, and a deadline would never come; `clock_gettime`
they leave alone.  The time of a record is `time.time`: a test that freezes the time wants to see it there.
"""

from __future__ import annotations

from time import CLOCK_MONOTONIC, clock_gettime

__all__ = ["monotonic"]


def monotonic() -> float:
    """`monotonic()` -> seconds since some moment, never fewer than before."""
    return clock_gettime(CLOCK_MONOTONIC)
