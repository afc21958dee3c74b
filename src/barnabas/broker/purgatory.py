"""Answers that come later, and the list of what each waits for.

A handler returns a `Waiting` instead of a response.  It is registered once with everything that can complete
it.  When it is done, for whatever reason, it leaves every list that it was on.  (A prototype that registered
waiters again at every failed check ended with copies of copies and a full core.)
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from barnabas.model import Now

__all__ = ["Purgatory", "Waiting"]


class Waiting:
    """One answer that is still to come.

    `deadline` is in monotonic seconds.  `on_done` is set by the one who will carry the answer away; it is
    called exactly once, with the response.  Subclasses say in `expired` what is answered at the deadline
    and in `release` which lists they are on.
    """

    __slots__ = ("bucket", "deadline", "done", "on_done", "response")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.on_done: Callable[[Any], None] | None = None
        self.response: Any = None
        self.done = False
        self.bucket: _Bucket | None = None

    def complete(self, response: Any) -> None:
        """Give the answer.  Only the first call counts."""
        if self.done:
            return
        self.done = True
        if self.bucket is not None:
            self.bucket.purgatory.remove(self)
        self.release()
        on_done = self.on_done
        if on_done is None:
            self.response = response
        else:
            self.on_done = None
            on_done(response)

    def cancel(self) -> None:
        """Forget the answer: the client is gone."""
        self.on_done = None
        self.complete(None)

    def release(self) -> None:
        """Leave every list but the purgatory's; called once, when done."""

    def expired(self, now: Now) -> None:
        """The deadline passed: complete with whatever is the answer then."""
        raise NotImplementedError

    def __repr__(self) -> str:
        state = "done" if self.done else f"until {self.deadline:.3f}"
        return f"<{type(self).__name__} {state}>"


class _Bucket(dict[Waiting, None]):
    """The waiters of one slice of time, in order of arrival."""

    __slots__ = ("purgatory",)

    def __init__(self, purgatory: Purgatory) -> None:
        self.purgatory = purgatory


class Purgatory:
    """Waiters by deadline, in buckets of `tick` seconds: adding and removing cost the same for any number.

    A waiter expires up to one tick late, never early.  `capacity` bounds how many may wait.
    """

    __slots__ = ("_buckets", "_keys", "_size", "_tick", "capacity")

    def __init__(self, capacity: int = 100_000, tick: float = 0.005) -> None:
        self.capacity = capacity
        self._tick = tick
        self._buckets: dict[int, _Bucket] = {}
        self._keys: list[int] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether nobody else can wait here."""
        return self._size >= self.capacity

    def add(self, waiting: Waiting, *, force: bool = False) -> bool:
        """Let it wait until its deadline.  False (and nothing done) when nobody else can wait.

        `force` is for what was let in while others could still wait and cannot be turned away any more.
        """
        if self._size >= self.capacity and not force:
            return False
        key = int(waiting.deadline / self._tick) + 1
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self)
            heappush(self._keys, key)
        bucket[waiting] = None
        waiting.bucket = bucket
        self._size += 1
        return True

    def remove(self, waiting: Waiting) -> None:
        """Take it out; nothing happens when it is not in."""
        bucket = waiting.bucket
        if bucket is not None:
            waiting.bucket = None
            del bucket[waiting]
            self._size -= 1

    def expire(self, now: Now) -> int:
        """Let everything whose bucket is over expire, in order of deadline; returns how many did."""
        count = 0
        while self._keys and self._keys[0] * self._tick <= now.mono:
            bucket = self._buckets.pop(heappop(self._keys))
            for waiting in list(bucket):
                if not waiting.done:
                    count += 1
                    waiting.expired(now)
        return count

    def next_deadline(self) -> float | None:
        """When `expire` next has something to do, in monotonic seconds; None when nobody waits."""
        while self._keys:
            key = self._keys[0]
            if self._buckets[key]:
                return key * self._tick
            del self._buckets[heappop(self._keys)]
        return None

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<Purgatory {self._size} of {self.capacity}>"
