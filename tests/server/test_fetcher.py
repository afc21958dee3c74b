"""When a follower dials a leader again: after a pause that grows, and at once when there is something new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from types import SimpleNamespace
from typing import Any

from barnabas.client.connection import ConnectionFailed
from barnabas.errors import BarnabasError
from barnabas.server.doubts import Doubts
from barnabas.server.fetcher import _Fetcher
from barnabas.server.system import SystemClock


class Follower:
    """A follower of node 3 whose leader is nowhere; `news` is what it has to ask for the first time."""

    leader = 3

    def __init__(self) -> None:
        self.has_news = False
        self.partitions: dict[str, str] = {"t-0": "followed"}

    def next_request(self, now: object) -> object:
        self.has_news = False
        return "a fetch of everything" if self.partitions else None

    def next_time(self) -> float:
        return inf

    def failed(self, now: object) -> None:
        pass


class Dialling(_Fetcher):
    """A fetcher that dials by `dial`."""

    def __init__(self, node: Any, follower: Any, listener: str, dial: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(node, follower, listener)
        self.dial = dial

    async def _dial(self) -> Any:
        return await self.dial()


class World:
    def __init__(self) -> None:
        self.follower = Follower()
        self.dials: list[float] = []
        clock = SystemClock()
        node: Any = SimpleNamespace(
            clock=clock, random=SimpleNamespace(uniform=lambda low, high: 1.0), doubts=Doubts(clock)
        )
        self.fetcher = Dialling(node, self.follower, "PLAINTEXT", self.dial)

    async def dial(self) -> Any:
        self.dials.append(asyncio.get_running_loop().time())
        raise ConnectionFailed("refused") from BarnabasError("refused")

    async def dialled(self, times: int) -> None:
        while len(self.dials) < times:  # noqa: ASYNC110 - bounded by `run`
            await asyncio.sleep(0.001)

    def stop(self) -> None:
        self.fetcher.stop()


def run(story: Any) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


def test_something_new_to_follow_ends_the_pause_before_the_next_dial() -> None:
    """A node that was dead a moment ago leads now: what was learnt while it was dead must not delay that."""

    async def story() -> None:
        world = World()
        running = asyncio.ensure_future(world.fetcher.run())
        await world.dialled(5)  # the next pause is 0.32 s
        world.follower.has_news = True
        begun = asyncio.get_running_loop().time()
        world.fetcher.look()
        await world.dialled(6)
        assert world.dials[5] - begun < 0.16
        world.stop()
        await running

    run(story)


def test_pauses_grow_while_nobody_answers() -> None:
    async def story() -> None:
        world = World()
        running = asyncio.ensure_future(world.fetcher.run())
        await world.dialled(5)
        pauses = [b - a for a, b in zip(world.dials, world.dials[1:], strict=False)]
        assert all(pause > least for pause, least in zip(pauses, (0.015, 0.035, 0.075, 0.155), strict=True))
        world.stop()
        await running

    run(story)
