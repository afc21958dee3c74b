"""The fetches of one connection: made of objects at first, then written like the last one, and read from bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from tests.broker.harness import PAGE_CACHE
from tests.broker.replication import Replicas
from tests.patience import PATIENCE_S

from barnabas.client.connection import Response
from barnabas.server.replication.fetch_line import FetchLine
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import RequestHeader, read_request_header, write_request, write_response
from barnabas.wire.schemas.fetch import FetchRequest, FetchResponse

VERSION = 17


class Leader:
    """A connection to node 1 of three; a fetch waits until it is told to `answer`."""

    address = "leader:9092"
    client_id = "replica-2"
    closed = False
    logs_in_again = False

    def __init__(self, three: Replicas) -> None:
        self._three = three
        self.next_correlation_id = 40
        self.how: list[str] = []
        """Whether each fetch came as an object or as a frame."""
        self.asked: Any = None
        self._read: Any = None
        self._on_answer: Any = None

    def version_of(self, request: type) -> int:
        return VERSION

    def ask(self, message: Any, on_answer: Any) -> None:
        self.how.append("object")
        self.asked, self._read, self._on_answer = message, None, on_answer

    def ask_frame(self, frame: bytes, request: type, version: int, read: Any, on_answer: Any) -> None:
        self.how.append("frame")
        header, body = read_request_header(memoryview(frame)[4:])
        assert (header.correlation_id, header.client_id) == (self.next_correlation_id, self.client_id)
        self.asked, _ = decode(FetchRequest, memoryview(frame)[4:], version, body)
        parts = write_request(RequestHeader(1, version, self.next_correlation_id, self.client_id), self.asked)
        assert b"".join(bytes(part) for part in parts) == frame  # type: ignore[arg-type]
        self._read, self._on_answer = read, on_answer

    def abort(self) -> None:
        raise AssertionError("nothing is wrong with it")

    def answer(self, response: FetchResponse | None = None) -> None:
        """Answer the fetch, as node 1 does or like this."""
        node, request = self._three.nodes[1], self.asked
        if response is None:
            waiting = node.ask(request, VERSION)
            if not waiting.here:
                node.after(1.0)
            response = waiting.message
        self.next_correlation_id += 1
        parts: list[Any] = []
        write_response(parts, 7, 1, VERSION, response)
        whole = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)[4:]
        plain = self._read(whole, 7) if self._read is not None else None
        decoded, _ = decode(FetchResponse, memoryview(whole), VERSION, 5)
        self._on_answer(Response(7, decoded if plain is None else plain, VERSION))


class World:
    """Node 2 follows node 1 over one line."""

    def __init__(self) -> None:
        self.three = Replicas(log_flush_interval_messages=PAGE_CACHE)
        node = self.three.nodes[2]
        self.follower = node.broker.followers.by_leader[1]
        self.follower.failed(node.now)
        self.leader = Leader(self.three)
        runtime: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            clock=SimpleNamespace(now=lambda: node.now),
            config=SimpleNamespace(int=lambda name: 500),
            step=SimpleNamespace(soon=node.turn, end_now=lambda now: node.turn()),
        )
        self.line = FetchLine(
            runtime, self.follower, self.leader, on_answer=lambda: None, drop=self.leader.abort
        )
        first = self.follower.next_request(node.now)
        assert first is not None
        self.line.begin(first)

    def produce(self, *values: str) -> None:
        for value in values:
            self.three.produce(value, acks=1)
            self.three.nodes[1].turn()

    def tell(self, response: FetchResponse | None = None) -> None:
        self.leader.answer(response)
        self.line.look()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(story(), PATIENCE_S)

    asyncio.run(whole())


def test_after_two_fetches_the_others_are_written_like_them() -> None:
    async def story() -> None:
        world = World()
        world.tell()
        world.tell()
        for value in "abcde":
            world.produce(value)
            world.tell()
        assert world.leader.how == ["object"] * 2 + ["frame"] * 6
        assert world.three.values(2) == list("abcde")
        world.line.end()

    run(story)


def test_a_leader_that_lost_the_session_is_asked_for_another_by_an_object() -> None:
    async def story() -> None:
        world = World()
        for _ in range(3):
            world.tell()
        world.tell(FetchResponse(error_code=70))
        assert world.leader.how[-2:] == ["frame", "object"] and world.leader.asked.session_epoch == 0
        world.produce("a")
        for _ in range(3):
            world.tell()
        assert world.leader.how[-4:] == ["object", "object", "frame", "frame"]
        assert world.three.values(2) == ["a"]
        world.line.end()

    run(story)


def test_a_broker_that_registers_anew_says_so_by_an_object() -> None:
    async def story() -> None:
        world = World()
        for _ in range(3):
            world.tell()
        image = world.three.image
        image.brokers[2] = image.brokers[2]._replace(epoch=99)
        world.tell()
        assert world.leader.how[-2:] == ["frame", "object"]
        assert world.leader.asked.replica_state.replica_epoch == 99
        world.line.end()

    run(story)
