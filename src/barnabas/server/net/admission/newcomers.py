"""Who is not known yet: the handshakes and logins under way, which share one number.

When it is reached, whoever has taken longest goes, if that was a second; so strangers who say nothing cannot keep
out those who log in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["UNDISTURBED_S", "Newcomer", "Newcomers"]

UNDISTURBED_S = 1.0
"""For so long nobody has to go: a handshake and a login take less, also while many come at once."""


class Newcomer(Protocol):
    """A handshake, or a connection that has not logged in."""

    def abort(self) -> None:
        """Hang up at once."""
        ...


class Newcomers:
    """`enter` and `leave`; when `full`, `longest` makes room."""

    __slots__ = ("_most", "_now", "_since")

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._most = most
        self._now = now
        self._since: dict[Newcomer, float] = {}

    @property
    def full(self) -> bool:
        """Whether one more is too many."""
        return len(self._since) >= self._most

    def enter(self, who: Newcomer) -> None:
        """Count somebody in."""
        self._since[who] = self._now()

    def leave(self, who: Newcomer) -> None:
        """Count somebody out, if it was there."""
        self._since.pop(who, None)

    def longest(self) -> Newcomer | None:
        """Take out whoever has taken longest; None: nobody has taken long enough."""
        who = next(iter(self._since), None)
        if who is None or self._now() - self._since[who] < UNDISTURBED_S:
            return None
        del self._since[who]
        return who

    def __len__(self) -> int:
        return len(self._since)

    def __repr__(self) -> str:
        return f"<Newcomers {len(self._since)} of {self._most}>"
