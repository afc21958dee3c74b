"""Differences on purpose, each with its reason.  docs/compatibility.md lists the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat.side_by_side.steps import Step
from tests.compat.side_by_side.walking import Difference

__all__ = ["LISTED", "listed"]

Holds = Callable[[Step, Any, Any], bool]
LISTED: dict[str, Holds] = {}


def listed(found: Difference) -> str | None:
    """The name of the listed difference that this is."""
    for name, holds in LISTED.items():
        if holds(found.step, found.ours, found.theirs):
            return name
    return None
