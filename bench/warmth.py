"""When a side is warm: its figure stands still.  A JVM needs 20 runs of a load and more, Barnabas none."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["run_until_still"]

STILL, LONGEST = 4, 30
"""A side is warm when so many runs in a row brought nothing better (by 3 %), or after so many runs."""


def run_until_still(run: Callable[[], float]) -> list[float]:
    """What the runs brought (lower is better)."""
    figures = [run()]
    while len(figures) < LONGEST:
        figures.append(run())
        if len(figures) > STILL and min(figures[-STILL:]) > 0.97 * min(figures[:-STILL]):
            break
    return figures
