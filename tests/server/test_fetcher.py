"""When a follower dials a leader again: after a pause that grows, and at once when there is something new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from types import SimpleNamespace
from typing import Any

from tests.patience import PATIENCE_S

from barnabas.client.connection import ConnectionFailed, Response
from barnabas.client.security.options import PLAINTEXT
from barnabas.errors import BarnabasError
from barnabas.server.loop.system import SystemClock
from barnabas.server.replication.leader_suspicion import LeaderSuspicion
from barnabas.server.replication.replica_fetcher import _Fetcher


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

    def received(self, request: object, answer: object, now: object) -> None:
        pass


class Dialling(_Fetcher):
    """A fetcher that dials by `dial`."""

    def __init__(
        self, node: Any, follower: Any, suspicion: LeaderSuspicion, dial: Callable[[], Awaitable[Any]]
    ) -> None:
        super().__init__(node, follower, suspicion, lambda: None, PLAINTEXT)  # type: ignore[arg-type, return-value]
        self.dial = dial

    async def _dial(self) -> Any:
        return await self.dial()


class Leader:
    """A connection to a leader: it parks every fetch until it is told to `answer`, or the connection ends."""

    address = "leader:9092"

    logs_in_again = True  # (so that fetches are made of objects, which this one understands)

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.closed = False
        self._parked: Callable[[Any], None] | None = None

    def ask(self, message: object, on_answer: Callable[[Any], None]) -> None:
        self._parked = on_answer
        self.asked.set()

    async def parked(self) -> None:
        """A fetch has arrived."""
        await self.asked.wait()
        self.asked.clear()

    def answer(self) -> None:
        self._tell(Response(0, "records", 17))

    def die(self) -> None:
        """The connection ends from the other side."""
        self._end("the broker closed the connection")

    def abort(self) -> None:
        self._end("the connection was dropped")

    def _end(self, why: str) -> None:
        self.closed = True
        self._tell(ConnectionFailed(why))

    def _tell(self, answer: Any) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            parked(answer)


class World:
    def __init__(self) -> None:
        self.follower = Follower()
        self.dials: list[float] = []
        self.leaders: list[Leader] = []
        """What the next dials reach; nobody afterwards."""
        clock = SystemClock()
        self.node: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            clock=clock,
            random=SimpleNamespace(uniform=lambda low, high: 1.0),
            config=SimpleNamespace(int=lambda name: 500, bool=lambda name: False),
            step=SimpleNamespace(soon=lambda: None, end_now=lambda now: None),
        )
        self.suspicion = LeaderSuspicion(clock)
        self.fetcher = Dialling(self.node, self.follower, self.suspicion, self.dial)

    async def dial(self) -> Any:
        self.dials.append(asyncio.get_running_loop().time())
        if self.leaders:
            return self.leaders.pop(0)
        raise ConnectionFailed("refused") from BarnabasError("refused")

    @property
    def doubted(self) -> bool:
        """Whether this node believes that its leader may have died."""
        leads: Any = SimpleNamespace(partitions={0: SimpleNamespace(leader=self.follower.leader)})
        return self.suspicion.concern([leads])

    async def dialled(self, times: int) -> None:
        while len(self.dials) < times:  # noqa: ASYNC110 - bounded by `run`
            await asyncio.sleep(0.001)

    def stop(self) -> None:
        self.fetcher.stop()


def run(story: Any) -> None:
    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


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


def test_a_fetch_that_was_dropped_for_something_new_says_nothing_about_its_leader() -> None:
    """A topic comes and is gone before the end of the dropped connection is heard of: nothing is new any more."""

    async def story() -> None:
        world = World()
        first, second = world.leaders = [Leader(), Leader()]
        running = asyncio.ensure_future(world.fetcher.run())
        await first.parked()
        first.answer()
        await first.parked()
        world.follower.has_news = True
        world.fetcher.look()
        world.follower.has_news = False
        await second.parked()
        assert first.closed and not world.doubted
        world.stop()
        await running
        assert not world.doubted

    run(story)


def test_a_leader_that_ends_a_connection_is_in_doubt_whatever_is_new() -> None:
    async def story() -> None:
        world = World()
        first, second = world.leaders = [Leader(), Leader()]
        running = asyncio.ensure_future(world.fetcher.run())
        await first.parked()
        first.answer()
        await first.parked()
        world.follower.has_news = True
        first.die()
        await second.parked()
        assert world.doubted
        second.answer()
        await second.parked()
        assert not world.doubted, "it has answered"
        world.stop()
        await running

    run(story)


def test_a_leader_that_cannot_be_dialled_again_after_we_hung_up_is_in_doubt() -> None:
    async def story() -> None:
        world = World()
        (leader,) = world.leaders = [Leader()]
        running = asyncio.ensure_future(world.fetcher.run())
        await leader.parked()
        leader.answer()
        await leader.parked()
        world.follower.has_news = True
        world.fetcher.look()
        await world.dialled(3)
        assert world.doubted
        world.stop()
        await running

    run(story)


def test_a_leader_that_never_answered_is_not_lost() -> None:
    async def story() -> None:
        world = World()
        running = asyncio.ensure_future(world.fetcher.run())
        await world.dialled(3)
        assert not world.doubted
        world.stop()
        await running

    run(story)
