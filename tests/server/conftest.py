"""`play`: run a scenario against a node's sockets, on each of the two event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.server.harness import LOOPS, Scenario, World, settled

from barnabas.server.observe.events import CATALOGUE


@pytest.fixture(autouse=True)
def a_second_of_its_own() -> None:
    """Events are limited per second; what an earlier test wrote must not count against the next one."""
    for event in CATALOGUE.values():
        event.second = event.written = event.left_out = 0


@pytest.fixture(params=sorted(LOOPS))
def play(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """`play(scenario, **settings)`: run a coroutine function with a World; both loops, one after the other."""
    factory = LOOPS[request.param]

    def run(scenario: Scenario, settings: dict[str, str] | None = None) -> None:
        async def whole() -> None:
            world = World(asyncio.get_running_loop(), settings or {})
            await world.listener.start(world.requests.take)
            try:
                await scenario(world)
            finally:
                world.listener.stop_accepting()
                for connection in list(world.connections.opened.values()):
                    connection.abort()
                world.runtime.step.stop()
                await settled()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(whole())

    yield run
