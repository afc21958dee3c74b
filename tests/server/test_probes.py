"""Whether a node lives is asked once for all who want to know, and believed only when asked after they did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from tests.patience import PATIENCE_S

from barnabas.controller.image import BrokerEndpoint
from barnabas.model import NodeId
from barnabas.server.loop.system import SystemClock
from barnabas.server.loop.tasks import Tasks
from barnabas.server.replication.broker_connections import PeerListener
from barnabas.server.replication.leader_suspicion import LeaderSuspicion
from barnabas.server.replication.probes import LONGEST_WAIT_S, Probes
from barnabas.wire.frame import FrameReader, read_request_header, write_response
from barnabas.wire.schemas.cluster import ApiVersion, ApiVersionsResponse, MetadataRequest, MetadataResponse

LEADER = NodeId(2)
VERSION = 12


class Leader:
    """A node that answers ApiVersions, and what is asked then while it is `willing`."""

    def __init__(self) -> None:
        self.willing = asyncio.Event()
        self.willing.set()
        self.questions = 0
        self.asked = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def listen(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        frames = FrameReader(1 << 20)
        while data := await reader.read(1 << 16):
            frames.feed(data)
            while (frame := frames.take()) is not None:
                header, _ = read_request_header(frame)
                answer: Any = MetadataResponse()
                if header.api_key != MetadataRequest.KEY:
                    row = ApiVersion(api_key=MetadataRequest.KEY, min_version=0, max_version=VERSION)
                    answer = ApiVersionsResponse(api_keys=[row])
                else:
                    self.questions += 1
                    self.asked.set()
                    await self.willing.wait()
                parts: list[Any] = []
                write_response(parts, header.correlation_id, header.api_key, header.version, answer)
                writer.write(b"".join(parts))

    def hang_up(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def die(self) -> None:
        self._server.close()
        self.hang_up()


class World:
    """Node 1, which asks about node 2."""

    def __init__(self, leader: Leader, port: int) -> None:
        self.leader = leader
        clock = SystemClock()
        loop = asyncio.get_running_loop()
        endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", port, 0)
        broker = SimpleNamespace(endpoint=lambda name: endpoint)
        self.errors: list[Exception] = []
        self.node: Any = SimpleNamespace(
            clock=clock,
            loop=loop,
            node_id=1,
            tasks=Tasks(loop, self.errors.append),
        )
        self.image: Any = SimpleNamespace(brokers={LEADER: broker})
        self.suspicion = LeaderSuspicion(clock, NodeId(1))
        self.probes = Probes(self.node, self.image, self.suspicion, PeerListener("PLAINTEXT"))

    def ask(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.probes.ask([LEADER]))

    @property
    def doubted(self) -> bool:
        leads: Any = SimpleNamespace(partitions={0: SimpleNamespace(leader=LEADER)})
        return self.suspicion.concern([leads])


def run(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        leader = Leader()
        world = World(leader, await leader.listen())
        try:
            await story(world)
        finally:
            world.probes.stop()
            leader.die()
            await world.node.tasks.stop()
        assert not world.errors

    asyncio.run(asyncio.wait_for(told(), PATIENCE_S))


def test_all_who_ask_while_a_question_is_out_share_the_next_one() -> None:
    async def story(world: World) -> None:
        leader = world.leader
        await world.ask()
        assert leader.questions == 1
        leader.willing.clear()
        leader.asked.clear()
        first = world.ask()
        await leader.asked.wait()
        others = [world.ask() for _ in range(50)]
        await asyncio.sleep(0)
        assert leader.questions == 2 and not any(other.done() for other in others)
        leader.willing.set()
        await asyncio.gather(first, *others)
        assert leader.questions == 3, "an answer that was on its way when they asked is not theirs"
        assert not world.doubted

    run(story)


def test_a_node_that_dies_while_it_is_asked_is_in_doubt() -> None:
    async def story(world: World) -> None:
        await world.ask()
        world.leader.willing.clear()
        world.leader.asked.clear()
        waiting = world.ask()
        await world.leader.asked.wait()
        world.leader.die()
        await waiting
        assert world.doubted

    run(story)


def test_a_node_that_died_before_it_is_asked_is_in_doubt() -> None:
    async def story(world: World) -> None:
        world.leader.die()
        await world.ask()
        assert world.doubted

    run(story)


def test_a_connection_that_ends_is_made_again_and_no_reason_to_doubt() -> None:
    """Idle connections are closed by every broker after some minutes."""

    async def story(world: World) -> None:
        await world.ask()
        world.leader.hang_up()
        await world.ask()
        assert not world.doubted and world.leader.questions >= 2

    run(story)


def test_nobody_waits_long_for_a_silent_node_and_who_comes_later_does_not_wait() -> None:
    async def story(world: World) -> None:
        loop = asyncio.get_running_loop()
        world.leader.willing.clear()
        begun = loop.time()
        await world.ask()
        assert loop.time() - begun >= 0.9 * LONGEST_WAIT_S
        assert world.node.loop.time() - begun < 100 * LONGEST_WAIT_S
        assert world.probes._probe(LEADER).answer() is None, "its question is out for long: no use to wait"
        assert not world.doubted, "silence alone is no death"
        world.leader.willing.set()

    run(story)
