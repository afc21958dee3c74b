"""Who is fenced early: once reached, silent, and refusing now.  Silent, slow or out of reach is not enough."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from barnabas.config import Config
from barnabas.controller.image import BrokerEndpoint, BrokerState, MetadataImage
from barnabas.model import ZERO_UUID
from barnabas.server.loop.system import SystemClock
from barnabas.server.loop.tasks import Tasks
from barnabas.server.replication.fast_fencing import FastFencing
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class World:
    """An active controller, node 1, and broker 2 at `ports`."""

    def __init__(self, *ports: int, active: bool = True) -> None:
        loop = asyncio.get_running_loop()
        self.fenced: list[BrokerHeartbeatRequest] = []
        image = MetadataImage("cluster")
        endpoints = tuple(BrokerEndpoint(f"L{port}", "127.0.0.1", port, 0) for port in ports)
        image.brokers[2] = BrokerState(2, 7, ZERO_UUID, endpoints, {}, None, False, False, (), ())
        self.errors: list[Exception] = []
        self.node: Any = SimpleNamespace(
            node_id=1,
            clock=SystemClock(),
            config=Config.load({}),
            tasks=Tasks(loop, self.errors.append),
        )
        self.controller: Any = SimpleNamespace(
            image=image, is_active_controller=active, epoch=1, submit=self.submit
        )
        self.fencing = FastFencing(self.node, self.controller)
        self.line: Any = SimpleNamespace(id=5, software="barnabas 0.1")

    async def reached(self, *ports: int) -> None:
        """Have the controller connect to these ports while something listens there, then let that die."""
        doors = [socket.create_server(("127.0.0.1", port)) for port in ports]
        broker = self.controller.image.brokers[2]
        self.fencing._try_to_reach(broker, self.node.clock.now().mono)
        while len(self.fencing._reach[2].reached) < len(broker.endpoints):  # noqa: ASYNC110 - bounded by `run`
            await asyncio.sleep(0.001)
        for door in doors:
            door.close()

    async def submit(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        self.fenced.append(request)
        return BrokerHeartbeatResponse()

    async def examined(self) -> bool:
        """Let the examination end; whether the broker was fenced."""
        while self.fencing._examined:  # noqa: ASYNC110 - bounded by `run`
            await asyncio.sleep(0.001)
        assert not self.errors
        return bool(self.fenced)

    async def questioned(self) -> bool:
        """Let the question be answered or not; whether the broker was fenced."""
        while self.fencing._asked:  # noqa: ASYNC110 - bounded by `run`
            await asyncio.sleep(0.001)
        assert not self.errors
        return bool(self.fenced)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))  # type: ignore[arg-type]


def test_a_broker_whose_connection_ended_and_whose_port_is_closed_is_fenced() -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port)
        await world.reached(port)
        world.fencing.heard(world.line, 2)
        world.fencing.lost(5)
        assert await world.examined()
        request = world.fenced[0]
        assert (request.broker_id, request.broker_epoch) == (2, 7)
        assert request.want_fence and request.want_shut_down

    run(story)


def test_a_process_that_only_does_not_run_takes_connections_and_is_left_alone() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:  # nobody ever accepts
            world = World(listening.getsockname()[1])
            await world.reached()
            world.fencing.heard(world.line, 2)
            world.fencing.lost(5)
            assert not await world.examined()

    run(story)


def test_a_process_that_takes_connections_and_answers_nothing_is_fenced_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("barnabas.server.replication.fast_fencing._ANSWER_WITHIN_S", 0.2)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:  # nobody ever accepts
            world = World(listening.getsockname()[1])
            await world.reached()
            world.fencing._question(2)
            assert await world.questioned()
            request = world.fenced[0]
            assert request.want_fence and not request.want_shut_down

    run(story)


@pytest.mark.parametrize("how", ["answers", "hangs up", "refuses", "reports", "was never reached"])
def test_who_says_anything_at_all_does_not_stand_still(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.replication.fast_fencing._ANSWER_WITHIN_S", 0.2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if how == "answers":
            writer.write(b"\0\0\0\6\0\0\0\0\0\0")
        if how in ("answers", "hangs up"):
            writer.close()

    async def story() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        world = World(server.sockets[0].getsockname()[1])
        if how != "was never reached":
            await world.reached()
        if how == "refuses":
            server.close()
        world.fencing._question(2)
        if how == "reports":
            await asyncio.sleep(0)
            world.fencing.heard(world.line, 2)
        assert not await world.questioned()
        server.close()

    run(story)


def test_one_open_listener_is_a_sign_of_life() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            closed = closed_port()
            world = World(closed, listening.getsockname()[1])
            await world.reached(closed)
            world.fencing.heard(world.line, 2)
            world.fencing.lost(5)
            assert not await world.examined()

    run(story)


def test_a_heartbeat_in_between_is_a_sign_of_life() -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port)
        await world.reached(port)
        world.fencing.heard(world.line, 2)
        world.fencing.lost(5)
        await asyncio.sleep(0)
        world.fencing.heard(SimpleNamespace(id=6, software="barnabas 0.1"), 2)  # type: ignore[arg-type]
        assert not await world.examined()

    run(story)


def test_a_connection_that_brought_no_heartbeat_says_nothing() -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port)
        await world.reached(port)
        world.fencing.lost(5)
        assert not await world.examined()

    run(story)


def test_only_the_active_controller_judges() -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port, active=False)
        await world.reached(port)
        world.fencing.heard(world.line, 2)
        world.fencing.lost(5)
        assert not await world.examined()

    run(story)


@pytest.mark.parametrize("fenced", [True, False])
def test_a_new_controller_looks_at_everybody_who_is_not_fenced(fenced: bool) -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port)
        await world.reached(port)
        brokers = world.controller.image.brokers
        brokers[2] = brokers[2]._replace(fenced=fenced)
        watching = asyncio.ensure_future(world.fencing.watch())
        await asyncio.sleep(0.01)
        assert await world.examined() is not fenced
        watching.cancel()

    run(story)


def test_an_address_that_never_answered_this_controller_says_nothing() -> None:
    """Only its clients can reach the broker: it lives, and refuses here all the same."""

    async def story() -> None:
        world = World(closed_port())
        world.fencing._try_to_reach(world.controller.image.brokers[2], world.node.clock.now().mono)
        world.fencing.heard(world.line, 2)
        world.fencing.lost(5)
        assert not await world.examined()

    run(story)


def test_what_took_connections_for_an_earlier_registration_says_nothing_of_this_one() -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port)
        await world.reached(port)
        brokers = world.controller.image.brokers
        brokers[2] = brokers[2]._replace(epoch=8)
        world.fencing.heard(world.line, 2)
        world.fencing.lost(5)
        assert not await world.examined()

    run(story)


def test_a_port_that_closes_a_moment_after_the_connection_is_seen_to_close() -> None:
    """A dying process closes its sockets one after the other."""

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            world = World(listening.getsockname()[1])
            await world.reached()
            world.fencing.heard(world.line, 2)
            world.fencing.lost(5)
            await asyncio.sleep(0.03)
        assert await world.examined()

    run(story)


def test_the_first_broker_of_a_cluster_is_reached_in_the_first_second_of_its_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the controller has no evidence when it dies right then, and partitions wait for its whole session."""
    monkeypatch.setattr("barnabas.server.replication.fast_fencing._LOOK_SELDOM_S", 10 * PATIENCE_S)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            world = World(listening.getsockname()[1])
            brokers = world.controller.image.brokers
            registered = brokers.pop(2)._replace(fenced=True)
            watching = asyncio.ensure_future(world.fencing.watch())
            await asyncio.sleep(0)
            brokers[2] = registered
            world.fencing.heard(world.line, 2)
            await asyncio.sleep(0)
            brokers[2] = registered._replace(fenced=False)
            while not (2 in world.fencing._reach and world.fencing._reach[2].reached):  # noqa: ASYNC110 - bounded
                await asyncio.sleep(0.001)
            watching.cancel()

    run(story)


def test_an_address_that_does_not_answer_is_tried_again_and_again() -> None:
    async def story() -> None:
        world = World(closed_port())
        broker, began = world.controller.image.brokers[2], world.node.clock.now().mono
        tried = []
        for step in range(2000):
            before = world.fencing._reach.get(2)
            world.fencing._try_to_reach(broker, began + step * 0.1)
            if world.fencing._reach[2] is not before:
                tried.append(step * 0.1)
        pauses = [b - a for a, b in itertools.pairwise(tried)]
        assert pauses[0] < 0.6 and pauses == sorted(pauses, key=round) and round(pauses[-1]) == 30
        await world.node.tasks.stop()

    run(story)


def test_an_apache_kafka_broker_keeps_its_session() -> None:
    async def story() -> None:
        port = closed_port()
        world = World(port)
        await world.reached(port)
        world.fencing.heard(SimpleNamespace(id=5, software="apache-kafka-java 4.3.1"), 2)  # type: ignore[arg-type]
        world.fencing.lost(5)
        assert not await world.examined()

    run(story)
