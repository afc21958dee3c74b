"""Who is not known yet: the handshakes and logins under way, which share one number.

When it is reached, the address with the most of them makes room: at once for an address with fewer, else when its
oldest has had a second.  So strangers who say nothing cannot keep out those who log in, and one address cannot
keep out the others, however fast it comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["UNDISTURBED_S", "Newcomer", "Newcomers"]

UNDISTURBED_S = 1.0
"""Among those of one address nobody has to go sooner: a handshake and a login take less, also when many come."""


class Newcomer(Protocol):
    """A handshake, or a connection that has not logged in."""

    def abort(self) -> None:
        """Hang up at once."""
        ...


class Newcomers:
    """`enter` and `leave`; when `full`, `make_room` says who goes for whom."""

    __slots__ = ("_host_of", "_most", "_now", "_of_host")

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._most = most
        self._now = now
        self._host_of: dict[Newcomer, str] = {}
        self._of_host: dict[str, dict[Newcomer, float]] = {}
        """When each of an address came; the oldest address and the oldest of it first."""

    @property
    def full(self) -> bool:
        """Whether one more is too many."""
        return len(self._host_of) >= self._most

    def enter(self, who: Newcomer, host: str) -> None:
        """Count somebody in."""
        self._host_of[who] = host
        self._of_host.setdefault(host, {})[who] = self._now()

    def leave(self, who: Newcomer) -> None:
        """Count somebody out, if it was there."""
        host = self._host_of.pop(who, None)
        if host is None:
            return
        others = self._of_host[host]
        del others[who]
        if not others:
            del self._of_host[host]

    def make_room(self, host: str) -> Newcomer | None:
        """Take out who goes for one more of `host`; None: nobody has to."""
        most = max(self._of_host.values(), key=len)
        longest = next(iter(most))
        is_greedier = len(most) > len(self._of_host.get(host, ())) + 1
        if not is_greedier and self._now() - most[longest] < UNDISTURBED_S:
            return None
        self.leave(longest)
        return longest

    def __len__(self) -> int:
        return len(self._host_of)

    def __repr__(self) -> str:
        return f"<Newcomers {len(self)} of {self._most}>"
