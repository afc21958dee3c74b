"""What guessing passwords costs whoever guesses, by address: never by user, or strangers could lock users out.

`RefusalDelays`: each refusal is answered later than the one before.  `PasswordChecks`: few passwords are hashed at
a time, addresses in turn, and so many a second of each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from barnabas.security.login import PasswordCheck

__all__ = ["CHECKS_PER_S", "LONGEST_TIMES", "PasswordChecks", "RefusalDelays"]

LONGEST_TIMES = 50
"""A refusal waits no longer than so many times the first one: 5 s where that waits 100 ms."""
FORGOTTEN_S = 60.0
"""An address that was not refused for so long begins anew."""
MOST_ADDRESSES = 10_000
CHECKERS = 2
"""Threads that hash passwords: more would take the processor from those who are logged in."""
CHECKS_PER_S = 20
"""Passwords of one address that are hashed in a second; so many at once after a quiet time."""


class RefusalDelays:
    """`of(address, now)` -> seconds until that refusal is answered: doubles while they go on."""

    __slots__ = ("_by_address", "_first_s")

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._by_address: dict[str, tuple[int, float]] = {}
        """How many refusals, and when the last one was; whose last one is oldest comes first."""

    def of(self, address: str, now: float) -> float:
        """Count one refusal."""
        times, last = self._by_address.pop(address, (0, now))
        if now - last > FORGOTTEN_S:
            times = 0
        if len(self._by_address) >= MOST_ADDRESSES:
            del self._by_address[next(iter(self._by_address))]
        self._by_address[address] = times + 1, now
        return self._first_s * min(1 << min(times, 16), LONGEST_TIMES)

    def __repr__(self) -> str:
        return f"<RefusalDelays {len(self._by_address)} addresses>"


class _Waiting(NamedTuple):
    check: PasswordCheck
    is_wanted: Callable[[], bool]
    outcome: asyncio.Future[bool]


class _Address:
    """The checks of one address that wait, and how many may begin at once."""

    __slots__ = ("since", "tokens", "waiting")

    def __init__(self, now: float) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.tokens, self.since = float(CHECKS_PER_S), now

    def wait_s(self, now: float) -> float:
        """How long until the next one may begin."""
        self.tokens = min(float(CHECKS_PER_S), self.tokens + (now - self.since) * CHECKS_PER_S)
        self.since = now
        return max(0.0, (1 - self.tokens) / CHECKS_PER_S)


class PasswordChecks:
    """`check(address, check, is_wanted)` -> whether the password is right, some time later."""

    __slots__ = ("_addresses", "_loop", "_running", "_threads", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._addresses: dict[str, _Address] = {}
        """Whose turn is next comes first."""
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    def check(
        self, address: str, check: PasswordCheck, is_wanted: Callable[[], bool]
    ) -> asyncio.Future[bool]:
        """Hash it when its turn comes; what is not wanted any more by then is not hashed, and does not fit."""
        outcome: asyncio.Future[bool] = self._loop.create_future()
        found = self._addresses.get(address)
        if found is None:
            found = self._addresses[address] = _Address(self._loop.time())
        found.waiting.append(_Waiting(check, is_wanted, outcome))
        self._begin()
        return outcome

    def stop(self) -> None:
        """The node ends."""
        if self._timer is not None:
            self._timer.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        """Begin as many as threads are free."""
        while self._running < CHECKERS and (found := self._next()) is not None:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(CHECKERS, "login")
            self._running += 1
            hashing = self._loop.run_in_executor(
                self._threads, found.check.credential.fits, found.check.password
            )
            hashing.add_done_callback(lambda done, found=found: self._ended(found, done))  # type: ignore[misc]

    def _ended(self, found: _Waiting, done: asyncio.Future[bool]) -> None:
        self._running -= 1
        if not found.outcome.done():
            if done.cancelled():
                found.outcome.cancel()
            elif (error := done.exception()) is not None:
                found.outcome.set_exception(error)
            else:
                found.outcome.set_result(done.result())
        if not done.cancelled():
            self._begin()

    def _next(self) -> _Waiting | None:
        """The check whose turn it is; None: there is none, or each has to wait."""
        now, soonest = self._loop.time(), float("inf")
        for address, state in list(self._addresses.items()):
            wait = state.wait_s(now)
            while state.waiting and not state.waiting[0].is_wanted():
                gone = state.waiting.popleft()
                if not gone.outcome.done():
                    gone.outcome.set_result(False)
            if not state.waiting:
                if state.tokens >= CHECKS_PER_S:
                    del self._addresses[address]
                continue
            if wait > 0:
                soonest = min(soonest, wait)
                continue
            state.tokens -= 1
            self._addresses[address] = self._addresses.pop(address)  # the others come first now
            return state.waiting.popleft()
        if soonest < float("inf") and self._timer is None:
            self._timer = self._loop.call_later(soonest, self._due)
        return None

    def _due(self) -> None:
        self._timer = None
        self._begin()

    def __repr__(self) -> str:
        waiting = sum(len(state.waiting) for state in self._addresses.values())
        return f"<PasswordChecks {self._running} running, {waiting} waiting>"
