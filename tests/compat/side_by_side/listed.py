"""Differences on purpose, each with its reason.  docs/compatibility.md lists the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat.side_by_side.lying import CLOSED
from tests.compat.side_by_side.steps import Step
from tests.compat.side_by_side.walking import WAITS, Difference

__all__ = ["LISTED", "listed"]

Holds = Callable[[Step, Any, Any], bool]
LISTED: dict[str, Holds] = {
    "bytes left over": lambda step, ours, theirs: (
        step.api == "lie" and step.how["count"] == "fewer" and ours == CLOSED and theirs != CLOSED
    ),
    "a subscription that cannot be read": lambda step, ours, theirs: (
        step.how.get("topics") == "garbage"
        and (theirs == WAITS or theirs["error_code"] == "UNKNOWN_SERVER_ERROR")
    ),
    "a pattern that takes much memory": lambda step, ours, theirs: (
        "{100}){100}" in str(step.how.get("regex") or step.how.get("pattern"))
        and ours["error_code"] == "INVALID_REGULAR_EXPRESSION"
    ),
    "a prepared transaction is kept": lambda step, ours, theirs: (
        step.api == "init"
        and step.how.get("keep", False)
        and step.how["two_phases"]
        and theirs["error_code"] == "UNSUPPORTED_VERSION"
    ),
    "a marker of no producer": lambda step, ours, theirs: (
        step.api == "mark"
        and step.how["who"] in ("none", "epoch -1")
        and "UNKNOWN_SERVER_ERROR" in str(theirs)
    ),
}


def listed(found: Difference) -> str | None:
    """The name of the listed difference that this is."""
    for name, holds in LISTED.items():
        if holds(found.step, found.ours, found.theirs):
            return name
    return None
