"""The bytes that clients make this node hold, counted for each client and kept below one common limit.

These are partly received frames, frames that wait for their turn behind a full queue, batches that wait for
their check, and answers that the peer has not taken.

One frame of the largest size always fits; the rest of the limit is for all others.  The first half of that
rest goes to whoever comes first.  Once it is used, every client may hold an equal part of the other half.  A
client that holds less continues as before, so small requests are always served.  The node stops reading from
a client that holds more, until there is room.  While a client waits for room, the node ends requests that
hold memory without progress: at the address that holds most, the frame that would take longest to arrive at
its present rate.

A connection never waits for memory to finish an answer that it has started, so the limit may be exceeded by
one read of each connection.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from barnabas.server.observe import events

__all__ = ["Account", "MemoryBudget"]

SLOW_S = 10.0
"""A frame that would take longer than this (seconds) from now on may be given up for those who wait."""
PATIENCE_S = 1.0
"""Nobody is judged by what came in less than this (seconds)."""


class Account:
    """What one connection holds: the `budget` of it, and how its frame comes in."""

    __slots__ = (
        "_began",
        "_size",
        "_waited",
        "_waiting",
        "budget",
        "connection",
        "end",
        "held",
        "host",
        "received",
        "resume",
    )

    def __init__(
        self,
        budget: MemoryBudget,
        connection: int,
        host: str,
        resume: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        """`resume` is called when there is room again, `end` to hang up."""
        self.budget = budget
        self.connection = connection
        self.host = host
        self.resume = resume
        self.end = end
        self.held = 0
        self.received = 0
        self._size = 0
        self._began = self._waited = 0.0
        self._waiting = 0.0

    def take(self, size: int) -> None:
        """Count `size` bytes more (or fewer, when negative)."""
        budget, before = self.budget, self.held
        self.held = now = before + size
        if not before or not now:
            budget.note(self)
        budget.take(size)

    def give(self, size: int) -> None:
        """Count `size` bytes fewer."""
        self.take(-size)

    @property
    def left(self) -> int:
        """What it may still hold while memory is tight."""
        return self.budget.share - self.held

    @property
    def exhausted(self) -> bool:
        """Whether new bytes should not be read from, or for, this connection now."""
        budget = self.budget
        return budget.used >= budget.open_to_all and self.held > budget.share

    def may_hold(self, more: int) -> bool:
        """Whether it may hold so many bytes more for a frame that it has begun."""
        budget = self.budget
        if budget.used + more <= budget.open_to_all or self.held + more <= budget.share:
            return True
        if budget.used - self.held <= budget.open_to_all and budget.giant in (None, self):
            budget.giant = self
            return True
        return False

    # -- the frame that comes in --

    def begin(self, size: int) -> None:
        """A frame of `size` bytes has begun to come."""
        if not self._size:
            self._began, self._waited = self.budget.clock(), 0.0
        self._size = size

    def finish(self) -> None:
        """It is whole, or forgotten."""
        self._size = self.received = 0
        if self.budget.giant is self:
            self.budget.giant = None
            self.budget.look()

    def left_s(self, now: float) -> float:
        """Seconds until the frame is whole, at the pace it had while it was read; 0 without one, or too early."""
        waited = self._waited + (now - self._waiting if self._waiting else 0.0)
        pace = now - self._began - waited
        if not self._size or now - self._began < PATIENCE_S:
            return 0.0
        return (self._size - self.received) * pace / max(self.received, 1)

    def wait(self) -> None:
        """Call `resume` when there is room; connections that are too slow make room."""
        if not self._waiting:
            self._waiting = self.budget.clock()
            self.budget.wait(self)

    def woken(self) -> None:
        """There is room, or it does not matter any more."""
        if self._waiting:
            self._waited += self.budget.clock() - self._waiting
            self._waiting = 0.0

    def close(self) -> None:
        """The connection is gone."""
        self.woken()
        self.finish()
        self.budget.forget(self)

    def __repr__(self) -> str:
        return f"<Account {self.host} {self.held} bytes, {self.received} of a frame of {self._size}>"


class MemoryBudget:
    """Bytes held (`used`) of `limit`, of which one frame may take `largest`; -1: no limit.

    Accounts that found no room wait; they are woken, in the order they came, when the use has fallen below
    three quarters of what is open to all.
    """

    __slots__ = (
        "_accounts",
        "_by_connection",
        "_for_many",
        "_low",
        "_waiting",
        "clock",
        "giant",
        "holders",
        "limit",
        "open_to_all",
        "pauses",
        "peak",
        "used",
    )

    def __init__(self, limit: int, largest: int = 0, clock: Callable[[], float] = monotonic) -> None:
        """`clock` tells monotonic seconds."""
        self.clock = clock
        self.limit = limit if limit >= 0 else 1 << 62
        self._for_many = max(self.limit - largest, self.limit // 4)
        self.open_to_all = self._for_many // 2
        self.used = 0
        self.peak = 0
        self.pauses = 0
        self.holders = 0
        """Accounts that hold something."""
        self.giant: Account | None = None
        """The connection that was admitted although its frame is too large."""
        self._low = self.open_to_all // 4 * 3
        self._by_connection: dict[int, Account] = {}
        self._accounts: dict[Account, None] = {}
        self._waiting: dict[Account, None] = {}

    def account(
        self, connection: int, host: str, resume: Callable[[], None], end: Callable[[], None]
    ) -> Account:
        """An account for a new connection of this number."""
        account = self._by_connection[connection] = Account(self, connection, host, resume, end)
        return account

    def take_for(self, connection: int, size: int) -> None:
        """Count `size` bytes more (or fewer) for a connection, which may be gone already."""
        account = self._by_connection.get(connection)
        if account is not None:
            account.take(size)
        else:
            self.take(size)

    def note(self, account: Account) -> None:
        """It holds something, or nothing any more."""
        if account.held > 0:
            self._accounts[account] = None
        else:
            self._accounts.pop(account, None)
        self.holders = len(self._accounts)

    @property
    def tight(self) -> bool:
        """Whether the part that is open to all is used up."""
        return self.used >= self.open_to_all

    @property
    def share(self) -> int:
        """What everybody may hold when the part that is open to all is used up."""
        return (self._for_many - self.open_to_all) // max(1, self.holders)

    @property
    def short(self) -> bool:
        """Whether somebody had to stop reading for want of it."""
        return bool(self._waiting) or self.tight

    def take(self, size: int) -> None:
        """Count `size` bytes more (or fewer, when negative) that belong to no account."""
        self.used += size
        if size < 0:
            if self._waiting:
                self.look()
        elif self.used > self.peak:
            self.peak = self.used

    def wait(self, account: Account) -> None:
        """Resume this account once there is room again."""
        if not self._waiting:
            events.emit(events.MEMORY_SHORT, reason="", used=self.used, limit=self.limit)
        self.pauses += 1
        self._waiting[account] = None
        self.relieve()

    def forget(self, account: Account) -> None:
        """Its connection is gone."""
        if self._waiting.pop(account, ...) is None and not self._waiting:
            events.emit(events.MEMORY_ENOUGH, reason="", used=self.used, waiting=0)
        self._by_connection.pop(account.connection, None)
        self._accounts.pop(account, None)
        self.holders = len(self._accounts)
        self.look()  # (what it held was given back while it stood before others)

    def relieve(self) -> None:
        """A client waits for room: end requests that hold it without progress.  Call it from time to time."""
        if not self._waiting:
            return
        now = self.clock()
        by_host: dict[str, int] = {}
        for account in self._accounts:
            by_host[account.host] = by_host.get(account.host, 0) + account.held
        slow = [account for account in self._accounts if account.left_s(now) > SLOW_S]
        slow.sort(key=lambda account: (by_host[account.host], account.left_s(now)), reverse=True)
        freed = 0
        for account in slow:
            if self.used - freed <= self._low:
                break
            freed += account.held
            events.emit(
                events.CONNECTION_SLOW,
                reason="",
                client=account.host,
                held=account.held,
                seconds_left=int(account.left_s(now)),
            )
            account.end()
        self.look()

    def look(self) -> None:
        """Memory was released: find the waiting connections that may continue."""
        if not self._waiting:
            return
        first = next(iter(self._waiting))
        if self.giant is not None and self.giant in self._waiting:
            first = self.giant  # (nobody else is let in before it is whole)
        if self.used <= self._low:
            woken, self._waiting = self._waiting, {}
        elif self.giant in (None, first) and self.used - first.held <= self.open_to_all:
            woken = {first: self._waiting.pop(first)}
        else:
            return
        if not self._waiting:
            events.emit(events.MEMORY_ENOUGH, reason="", used=self.used, waiting=len(woken))
        for account in woken:
            account.woken()
            account.resume()

    def __repr__(self) -> str:
        return f"<MemoryBudget {self.used} of {self.limit}, {self.holders} holders, {len(self._waiting)} waiting>"
