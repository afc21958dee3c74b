"""Notes of changes for the quorum's history, and the interface of what makes records of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from barnabas.errors import ErrorCode
from barnabas.raft.entries import Opaque
from barnabas.raft.value import value

__all__ = ["ChangeNoted", "Historian", "no_history"]


@value
class ChangeNoted:
    """A change of the quorum stands in the log now, or was given up (REQUEST_TIMED_OUT).

    `token` is its request's, None for a step to a target; `waited_for` says what was waited for last, if anything.
    `by` names who did it where that is not whoever asked.
    """

    token: object
    what: str
    outcome: ErrorCode
    seconds: float
    waited_for: str
    by: str = ""


Historian: TypeAlias = Callable[[ChangeNoted], tuple[Opaque, ...]]
"""Makes the records of a line of the history, which the leader appends in the step that appends the change."""


def no_history(change: ChangeNoted) -> tuple[Opaque, ...]:
    """Keep nothing."""
    return ()
