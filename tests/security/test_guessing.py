"""What guessing passwords costs: an address is refused later and later, and few passwords are hashed at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from barnabas.security.login import PasswordCheck
from barnabas.server.net.secure import guessing
from barnabas.server.net.secure.guessing import CHECKS_PER_S, PasswordChecks, RefusalDelays


def test_refusals_of_an_address_come_later_and_later_until_it_was_quiet_for_a_minute() -> None:
    delays = RefusalDelays(0.1)
    assert [delays.of("10.0.0.1", now) for now in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert delays.of("10.0.0.2", 8) == 0.1, "nobody waits for what another address does"
    assert delays.of("10.0.0.1", 60) == 5.0
    assert delays.of("10.0.0.1", 121) == 0.1


def test_without_a_delay_there_is_none_and_the_longest_is_fifty_of_the_first() -> None:
    assert {RefusalDelays(0.0).of("a", now) for now in range(9)} == {0.0}
    slow = RefusalDelays(1.0)
    assert [slow.of("a", 0) for _ in range(100)][-1] == 50.0


def test_addresses_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guessing, "MOST_ADDRESSES", 10)
    delays = RefusalDelays(0.1)
    for number in range(1000):
        delays.of(f"address {number}", number / 1000)
    assert repr(delays) == "<RefusalDelays 10 addresses>"
    assert delays.of("address 999", 1) == 0.2, "who came last is remembered"


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time stands still unless told, and timers with it."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Hashing:
    """Passwords that are hashed when the test says so; `begun` are those that a thread has taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Semaphore(0)
        hashing = self

        class Credential:
            def fits(self, password: bytes) -> bool:
                hashing.begun.append(password.decode())
                hashing.may_end.acquire()
                return password.endswith(b"!")

        self._credential = Credential()

    def of(self, text: str) -> PasswordCheck:
        return PasswordCheck("ada", text.encode(), self._credential, False)  # type: ignore[arg-type]


def run(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[Loop, PasswordChecks, Hashing], Awaitable[None]]
) -> None:
    loop = Loop()
    hashing = Hashing(monkeypatch)
    checks = PasswordChecks(loop)
    try:
        loop.run_until_complete(play(loop, checks, hashing))
    finally:
        for _ in range(1000):
            hashing.may_end.release()
        checks.stop()
        loop.close()


async def until(condition: Callable[[], bool]) -> None:
    """Let the threads go on, for a while at most."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
        threading.Event().wait(0.0002)
    raise AssertionError("it does not happen")


def test_two_are_hashed_at_a_time_and_addresses_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(loop: Loop, checks: PasswordChecks, hashing: Hashing) -> None:
        mine = [checks.check("10.0.0.1", hashing.of(f"guess {n}"), lambda: True) for n in range(10)]
        good = checks.check("10.0.0.2", hashing.of("right!"), lambda: True)
        await until(lambda: len(hashing.begun) == 2)
        assert (
            hashing.begun == ["guess 0", "guess 1"]
            and repr(checks) == "<PasswordChecks 2 running, 9 waiting>"
        )
        for _ in range(2):
            hashing.may_end.release()
        await until(lambda: len(hashing.begun) == 4)
        assert "right!" in hashing.begun[2:], "ten of another address do not come first"
        for _ in range(10):
            hashing.may_end.release()
        assert await good and not any(await asyncio.gather(*mine))

    run(monkeypatch, play)


def test_so_many_of_an_address_are_hashed_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(loop: Loop, checks: PasswordChecks, hashing: Hashing) -> None:
        for _ in range(1000):
            hashing.may_end.release()
        every = [checks.check("10.0.0.1", hashing.of("guess"), lambda: True) for _ in range(CHECKS_PER_S + 3)]
        await asyncio.gather(*every[:CHECKS_PER_S])
        assert len(hashing.begun) == CHECKS_PER_S
        assert repr(checks) == "<PasswordChecks 0 running, 3 waiting>"
        assert await checks.check("10.0.0.2", hashing.of("right!"), lambda: True), "others do not wait for it"
        loop.now = 3.01 / CHECKS_PER_S
        await asyncio.gather(*every)

    run(monkeypatch, play)


def test_what_nobody_waits_for_any_more_is_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(loop: Loop, checks: PasswordChecks, hashing: Hashing) -> None:
        here = [True] * 5
        every = [
            checks.check("10.0.0.1", hashing.of(f"{n}!"), lambda n=n: here[n])  # type: ignore[misc]
            for n in range(5)
        ]
        await until(lambda: len(hashing.begun) == 2)
        here[2] = here[3] = False
        for _ in range(5):
            hashing.may_end.release()
        assert await asyncio.gather(*every) == [True, True, False, False, True]
        assert hashing.begun == ["0!", "1!", "4!"]

    run(monkeypatch, play)
