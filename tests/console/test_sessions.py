"""Who is logged in to the console: few people, for a bounded time, each with their own connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas.client.security.options import Security
from barnabas.console import sessions
from barnabas.console.sessions import Sessions


class Connected:
    """Stands for a person's connections."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class World:
    """Sessions over time that a test sets; `made` are the connections of each login."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.made = 0.0, []
        monkeypatch.setattr(sessions, "_logged_in", self._log_in)
        self.sessions = Sessions("nowhere:1", lambda: self.now)

    def _log_in(self, bootstrap: str, security: Security) -> Any:
        self.made.append(Connected())
        return self.made[-1]


def run(monkeypatch: pytest.MonkeyPatch, play: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        world = World(monkeypatch)
        try:
            await play(world)
        finally:
            world.sessions.stop()
            assert all(one.closed for one in world.made)

    asyncio.run(whole())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it does not happen")


def test_whoever_asks_for_nothing_for_long_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        token = await world.sessions.begin(Security(), "ada")
        for _ in range(3):
            world.now += sessions.IDLE_S - 1
            assert world.sessions.of(token) is not None
        world.now += sessions.IDLE_S + 1
        assert world.sessions.of(token) is None and world.made[0].closed

    run(monkeypatch, play)


def test_no_session_lasts_longer_than_a_working_day(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        token = await world.sessions.begin(Security(), "ada")
        while world.now < sessions.LONGEST_S - 60:
            world.now += 60
            assert world.sessions.of(token) is not None
        world.now += 120
        assert world.sessions.of(token) is None

    run(monkeypatch, play)


def test_for_one_too_many_whoever_asked_for_nothing_for_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        tokens = [await world.sessions.begin(Security(), f"user {n}") for n in range(sessions.MOST)]
        assert world.sessions.of(tokens[0]) is not None, "it has just asked"
        tokens.append(await world.sessions.begin(Security(), "one more"))
        assert len(world.sessions) == sessions.MOST
        assert world.sessions.of(tokens[1]) is None and world.made[1].closed
        assert all(world.sessions.of(token) for token in (tokens[0], *tokens[2:]))

    run(monkeypatch, play)


def test_whoever_logs_out_is_out_and_nobody_guesses_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        ada, bob = [await world.sessions.begin(Security(), name) for name in ("ada", "bob")]
        assert ada != bob and len(ada) >= 43 and ada not in repr(vars(world.sessions))
        world.sessions.end(ada)
        assert world.sessions.of(ada) is None and world.made[0].closed and not world.made[1].closed
        for guess in ("", ada, bob[:-1], f"{bob}x", bob.swapcase()):
            assert world.sessions.of(guess) is None
        assert world.sessions.of(bob) is not None

    run(monkeypatch, play)


def test_connections_of_a_session_answer_one_question_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        session = world.sessions.of(await world.sessions.begin(Security(), "ada"))
        assert session is not None
        go_on, asking = threading.Event(), []

        def first(admin: Any) -> str:
            asking.append("first")
            go_on.wait(30)
            return "answer"

        def second(admin: Any) -> str:
            asking.append("second")
            return "another"

        one = asyncio.ensure_future(session.ask(first))
        other = asyncio.ensure_future(session.ask(second))
        await until(lambda: bool(asking))
        one.cancel()  # its browser has gone
        session.close()
        for _ in range(10):
            await asyncio.sleep(0)
        assert asking == ["first"] and not world.made[0].closed, "the question is still under way"
        go_on.set()
        assert await other == "another" and asking == ["first", "second"]
        await until(lambda: world.made[0].closed)

    run(monkeypatch, play)
