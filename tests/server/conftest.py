"""`play`: run a scenario against a node's sockets, on each of the two event loops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.server.harness import LOOPS, Scenario, World, settled

from barnabas.server.observe.events import CATALOGUE


@pytest.fixture(autouse=True)
def a_second_of_its_own() -> None:
    """Events are limited per second; what an earlier test wrote must not count against the next one."""
    for event in CATALOGUE.values():
        event.second = event.written = event.left_out = 0


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PEM file that a listener may show, and that its own clients trust: in `ca.pem` beside it."""
    from tests.client.certificates import Authority

    return Authority(tmp_path_factory.mktemp("certificates")).issue("node")


def secured(certificate: Path) -> tuple[dict[str, str], ssl.SSLContext]:
    """Settings of a listener that speaks TLS, and what its clients need."""
    authority = str(certificate.parent / "ca.pem")
    return {"ssl.keystore.location": str(certificate)}, ssl.create_default_context(cafile=authority)


@pytest.fixture(params=sorted(LOOPS))
def play(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """`play(scenario, **settings)`: run a coroutine function with a World, on both loops (`WAYS`: TLS, too)."""
    loop, _, with_tls = request.param.partition(" with ")
    factory = LOOPS[loop]
    shown, context = secured(request.getfixturevalue("certificate")) if with_tls else ({}, None)

    def run(scenario: Scenario, settings: dict[str, str] | None = None) -> None:
        async def whole() -> None:
            world = World(asyncio.get_running_loop(), {**shown, **(settings or {})}, context)
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
