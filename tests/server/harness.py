"""A node's sockets with a broker made of a few lines behind them, over real connections, on both loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop
from tests.frames import frame
from tests.patience import PATIENCE_S

from barnabas.broker.ports import Operation, ResourceType
from barnabas.broker.purgatory import Waiting
from barnabas.config import Config
from barnabas.controller.image import MetadataImage
from barnabas.model import Endpoint, Now
from barnabas.server.api.cluster import ClusterApi
from barnabas.server.api.table import handler_of
from barnabas.server.loop.system import SystemClock, SystemRandomness
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.admission.connections import Connections
from barnabas.server.net.context import RequestContext
from barnabas.server.net.listener import Listener
from barnabas.server.net.network import Network
from barnabas.server.net.platform import Platform
from barnabas.server.net.requests import Requests
from barnabas.server.net.route import Route, Row
from barnabas.wire.codec.message import Message
from barnabas.wire.registry import response_class, response_header_version
from barnabas.wire.schemas.groups import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.schemas.produce import ProduceResponse

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
WAYS = ("asyncio", "uvloop", "uvloop with TLS")
"""For `parametrize("play", WAYS, indirect=True)`: what a listener with TLS does no otherwise than one without."""


class BrokerDouble:
    """Keeps what was produced and answers at the end of the turn; fetches wait until they are told to end."""

    def __init__(self) -> None:
        self.produced: list[bytes] = []
        self.pending: list[Waiting] = []
        self.fetches: list[Waiting] = []
        self.fetch_ids: list[int] = []
        """The correlation id of each of them: connections take turns."""
        self.failure: Exception | None = None
        self._views: list[memoryview] = []

    def end_loop_step(self, now: Now) -> list[Any]:
        self.produced += [bytes(view) for view in self._views]
        self._views.clear()
        pending, self.pending = self.pending, []
        for waiting in pending:
            waiting.complete(ProduceResponse())
        return []

    def produce(self, context: RequestContext, request: Any) -> Waiting | None:
        self._views += [p.records for t in request.topic_data for p in t.partition_data]
        if request.acks == 0:
            return None
        self.pending.append(Waiting(0.0))
        return self.pending[-1]

    def fetch(self, context: RequestContext, request: Any) -> Any:
        waiting = Waiting(0.0)
        self.fetches.append(waiting)
        self.fetch_ids.append(context.correlation_id)
        return waiting

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Message:
        if self.failure is not None:
            raise self.failure
        return HeartbeatResponse(throttle_time_ms=request.generation_id)

    def metadata(self, context: RequestContext, request: Any) -> asyncio.Future[Message]:
        """Never answers."""
        return asyncio.get_running_loop().create_future()

    def tick(self, now: Now) -> None: ...
    def maintain(self, now: Now) -> None: ...
    def next_deadline(self) -> float | None:
        return None


class QuorumDouble:
    """A cluster without features, which this node leads."""

    image = MetadataImage("cluster")
    is_active_controller = True
    kraft_version = 0


class GroupsDouble:
    """No groups."""

    def tick(self, now: Now) -> None: ...
    def next_deadline(self) -> float | None:
        return None


class World:
    """The sockets of one node, and raw clients."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, settings: dict[str, str], tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is what the clients show and trust; the settings have what the listener does."""
        config, platform = Config.load(settings), Platform()
        self.tls = tls
        self.errors: list[Exception] = []
        self.runtime = platform.runtime(config, loop, SystemClock(), SystemRandomness(), self.errors.append)
        self.network = Network(self.runtime, platform, self.errors.append)
        self.broker = BrokerDouble()
        self.runtime.step.drive(self.broker, (GroupsDouble(),), lambda: None)
        self.connections = Connections(config, self.runtime.metrics)
        anyone = (Operation.ANY, ResourceType.CLUSTER)
        rows = [
            Row(18, 0, 5, "B", ClusterApi.api_versions, *anyone),
            Row(0, 3, 12, "B", BrokerDouble.produce, *anyone),
            Row(1, 4, 12, "B", BrokerDouble.fetch, *anyone, waits=True),
            Row(12, 0, 4, "B", BrokerDouble.heartbeat, *anyone),
            Row(3, 0, 12, "B", BrokerDouble.metadata, *anyone),
        ]
        quorum: Any = QuorumDouble()
        apis = (ClusterApi(rows, quorum, Addresses(config.node_id, quorum.image)), self.broker)
        slow_s = self.network.limits.slow_request_s
        self.requests = Requests(
            self.network, [Route(row, handler_of(row, apis), self.runtime.metrics, slow_s) for row in rows]
        )
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 0)
        self.listener = Listener(self.network, self.connections, endpoint, "B")
        if tls is not None:
            from barnabas.server.net.tls.door import TlsDoor

            self.listener.tls = TlsDoor(self.network, self.connections, "PLAINTEXT", self.listener.too_often)

    async def client(self) -> Client:
        port = self.listener.endpoint.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self.tls)
        return Client(reader, writer)

    async def refuses(self) -> bool:
        """Whether a new client is sent away at once (with TLS: before or after a handshake)."""
        try:
            return await (await self.client()).closed() == b""
        except OSError:
            return True

    def only_connection(self) -> Any:
        (connection,) = self.connections.opened.values()
        return connection


class Client:
    """Bytes in, bytes out."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, message: Message, version: int, correlation_id: int = 1) -> None:
        self.writer.write(frame(message, version, correlation_id))

    async def answer(self) -> tuple[int, bytes]:
        """Correlation id and the rest of the next frame."""
        async with asyncio.timeout(PATIENCE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            body = await self.reader.readexactly(size)
        return struct.unpack(">i", body[:4])[0], body[4:]

    async def closed(self) -> bytes:
        """What is left until the node hangs up."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def stop_reading(self) -> None:
        """From now on take next to nothing: asyncio pauses, and the kernel's buffer grows no further."""
        self.reader._limit = 1  # type: ignore[attr-defined]  # asyncio stops reading at twice this
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)

    def read_on(self) -> None:
        """Take what comes again."""
        self.reader._limit = 64 * 1024  # type: ignore[attr-defined]

    def close(self) -> None:
        self.writer.close()


def decoded(key: int, version: int, body: bytes) -> Any:
    from barnabas.wire.codec.message import decode

    message, end = decode(response_class(key), body, version, response_header_version(key, version))
    assert end == len(body)
    return message


Scenario = Callable[[World], Awaitable[None]]


async def settled(turns: int = 5) -> None:
    """Let the loop go round a few times."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other connections bring about."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.001)
