"""Whose handshake goes on in this turn of the event loop: one of a listener, so that a storm delays nobody else.

A step of a handshake takes about a millisecond of OpenSSL's time; a request of a known client takes a tenth of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["Turns"]

Step = Callable[[], None]


class Turns:
    """`begin()`: go on now.  Otherwise `wait(host, step)`: addresses take turns, and each of them is a queue."""

    __slots__ = ("_call_soon", "_is_taken", "_waiting")

    def __init__(self, call_soon: Callable[[Step], object]) -> None:
        self._call_soon = call_soon
        self._is_taken = False
        self._waiting: dict[str, deque[Step]] = {}
        """The address whose turn is next comes first."""

    def begin(self) -> bool:
        """Whether nobody else had this turn; then it is taken."""
        if self._is_taken:
            return False
        self._is_taken = True
        self._call_soon(self._next)
        return True

    def wait(self, host: str, step: Step) -> None:
        """Have `step` called in the next turn that is its address's."""
        self._waiting.setdefault(host, deque()).append(step)

    def _next(self) -> None:
        host = next(iter(self._waiting), None)
        if host is None:
            self._is_taken = False
            return
        steps = self._waiting.pop(host)
        step = steps.popleft()
        if steps:
            self._waiting[host] = steps
        self._call_soon(self._next)
        step()

    def __repr__(self) -> str:
        return f"<Turns {sum(map(len, self._waiting.values()))} waiting>"
