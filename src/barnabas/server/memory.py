"""The bytes that clients make this node hold, counted together and kept below one limit.

Counted are partly received frames, frames that wait for their turn behind a full line, and answers that
the peer has not taken.  The limit is soft by one buffer per connection: a connection never waits for
memory to go on with what it has begun, it only stops reading new bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.server import events

__all__ = ["MemoryBudget"]


class MemoryBudget:
    """Bytes held (`used`) of `limit`; -1: no limit.

    Whoever found it `exhausted` and paused leaves a callback with `wait`; callbacks run, in the order
    they came, when the use has fallen below three quarters of the limit.
    """

    __slots__ = ("_low", "_waiting", "limit", "pauses", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit if limit >= 0 else 1 << 62
        self.used = 0
        self.peak = 0
        self.pauses = 0
        self._low = self.limit // 4 * 3
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def exhausted(self) -> bool:
        """Whether new bytes should not be read now."""
        return self.used >= self.limit

    @property
    def short(self) -> bool:
        """Whether somebody had to stop reading for want of it."""
        return bool(self._waiting) or self.exhausted

    def take(self, size: int) -> None:
        """Count `size` bytes more (or fewer, when negative)."""
        self.used += size
        if size < 0:
            if self._waiting and self.used <= self._low:
                self._wake()
        elif self.used > self.peak:
            self.peak = self.used

    def give(self, size: int) -> None:
        """Count `size` bytes fewer."""
        self.take(-size)

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` once when there is room again."""
        if not self._waiting:
            events.emit(events.MEMORY_SHORT, used=self.used, limit=self.limit)
        self.pauses += 1
        self._waiting[resume] = None

    def forget(self, resume: Callable[[], None]) -> None:
        """The one who waited is gone."""
        self._waiting.pop(resume, None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        events.emit(events.MEMORY_ENOUGH, used=self.used, waiting=len(waiting))
        for resume in waiting:
            resume()

    def __repr__(self) -> str:
        return f"<MemoryBudget {self.used} of {self.limit}, {len(self._waiting)} waiting>"
