"""A whole node in this process, and connections to it without sockets of the network between.

What a connection is handed is what a socket would have brought; the rest is the node as it is: its listeners with
SASL, its authorizer, its one table of APIs, its handlers, its disk.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import shutil
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.model import Uuid
from barnabas.security.acl import Operation, PatternType, Permission, ResourceType
from barnabas.server.net.connection import Connection
from barnabas.server.net.listener import Listener
from barnabas.server.node.process import ServerNode
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.wire.frame import RequestHeader, write_request
from barnabas.wire.schemas.acls import AclCreation, CreateAclsRequest
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

__all__ = ["Line", "NodeInside"]

TOPICS = ("fuzz-0", "fuzz-1")
SECRET = "the-secret-of-ada"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
    "listener.name.login.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    f'required user_ada="{SECRET}";',
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "6000",
    "group.min.session.timeout.ms": "1000",
    "connection.failed.authentication.delay.ms": "0",
    "log.flush.interval.messages": str(2**63 - 1),
    "log.segment.bytes": "1048576",
    "log.retention.bytes": "4194304",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "max.connections.per.ip": "1000000",
}
MAY = (
    (ResourceType.TOPIC, "fuzz-0", Operation.READ),
    (ResourceType.TOPIC, "fuzz-0", Operation.WRITE),
    (ResourceType.TOPIC, "fuzz-0", Operation.DESCRIBE_CONFIGS),
    (ResourceType.GROUP, "group-a", Operation.ALL),
    (ResourceType.TRANSACTIONAL_ID, "1", Operation.ALL),
    (ResourceType.CLUSTER, "kafka-cluster", Operation.DESCRIBE),
    (ResourceType.CLUSTER, "kafka-cluster", Operation.IDEMPOTENT_WRITE),
)
"""What ada may: enough to come deep into the handlers, not enough to change the node for the next input."""
_BAD = {"request.failed", "node.task-failed", "node.failed", "quorum.failed"}
_SETTLE = 6


class _Socket(asyncio.Transport):
    """What a connection believes to be its socket: what it sends goes into a pair of real ones."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.connection: Any = None
        self.is_lost = False
        self._names = {"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 9092), "socket": self.near}

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._names.get(name, default)

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool:
        return self.is_lost

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


class Line:
    """One connection of a client."""

    def __init__(self, make: Callable[[], Connection], port: int) -> None:
        self._socket = _Socket(port)
        self._socket.connection = self._connection = make()
        self._connection.connection_made(self._socket)
        self.ended = False

    async def send(self, data: bytes) -> bytes:
        """Hand these bytes over and return what the node says within a few of its steps."""
        view = memoryview(data)
        while view and not self._socket.is_lost:
            room = self._connection.get_buffer(len(view))
            size = min(len(room), len(view))
            room[:size] = view[:size]
            self._connection.buffer_updated(size)
            view = view[size:]
            if view:
                await asyncio.sleep(0)
        for _ in range(_SETTLE):
            await asyncio.sleep(0)
        return self._received()

    def _received(self) -> bytes:
        found = b""
        try:
            while piece := self._socket.far.recv(1 << 16):
                found += piece
        except OSError:
            pass
        return found

    async def end(self) -> bool:
        """Hang up; whether the node had."""
        was_lost = self._socket.is_lost
        self._socket.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._socket.near.close()
        self._socket.far.close()
        return was_lost


class NodeInside(logging.Handler):
    """The node, for as long as this process lives."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._loop_failed)
        self.failed: list[BaseException] = []
        self._make: dict[str, Callable[[], Connection]] = {}
        self._port = 0
        folder = tempfile.mkdtemp(prefix="barnabas-fuzz-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        logger = logging.getLogger("barnabas")
        logger.addHandler(self)
        logger.propagate = False
        self.topic_ids: list[Uuid] = []
        self.cluster_id = ""
        self.node = ServerNode(Config.load({**SETTINGS, "log.dirs": f"{folder}/data"}))
        self.run(self._start())

    def run(self, work: Awaitable[Any]) -> Any:
        """Let the node live until this is done.  Raises what the node says is an error of its own."""
        self.failed.clear()
        found = self.loop.run_until_complete(asyncio.ensure_future(work, loop=self.loop))
        if self.failed:
            raise self.failed[0]
        return found

    def line(self, listener: str = "LOGIN") -> Line:
        """A new connection to that listener."""
        self._port = self._port % 60_000 + 1
        return Line(self._make[listener], self._port)

    def emit(self, record: logging.LogRecord) -> None:
        """The node's log: an internal error is a finding."""
        if getattr(record, "event", "") in _BAD or (record.name == "barnabas" and record.exc_info):
            error = record.exc_info[1] if record.exc_info else None
            said = getattr(record, "fields", record.getMessage())
            self.failed.append(error or AssertionError(f"{getattr(record, 'event', '')}: {said}"))

    def _loop_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failed.append(context.get("exception") or AssertionError(str(context.get("message"))))

    async def _start(self) -> None:
        inside, start = self, Listener.start

        async def watched(self: Listener, take: Any, on_lost: Any = None, guard: Any = None) -> None:
            inside._make[self.name] = lambda: Connection(
                self._network, self, take, self.connections.next_id()
            )
            await start(self, take, on_lost, guard)

        Listener.start = watched  # type: ignore[method-assign]
        try:
            await self.node.start()
        finally:
            Listener.start = start  # type: ignore[method-assign]
        admin = await AsyncConnection.connect(*self.node.address)
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
        await admin.request(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        wanted = [MetadataRequestTopic(name=name) for name in TOPICS]
        answer: Any = await admin.request(MetadataRequest(topics=wanted))
        self.topic_ids, self.cluster_id = [topic.topic_id for topic in answer.topics], answer.cluster_id
        creations = [
            AclCreation(
                resource_type=resource,
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal="User:ada",
                host="*",
                operation=operation,
                permission_type=Permission.ALLOW,
            )
            for resource, name, operation in MAY
        ]
        await admin.request(CreateAclsRequest(creations=creations))
        await admin.close()


def framed(body: bytes) -> bytes:
    """A frame: its length, and the body."""
    return struct.pack(">i", len(body)) + body


def login_frames(user: str = "ada", password: str = SECRET) -> bytes:
    """What somebody says who logs in by PLAIN."""
    steps = (
        (17, SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (36, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2),
    )
    parts = [
        write_request(RequestHeader(key, version, 1, "fuzz"), message) for key, message, version in steps
    ]
    return b"".join(bytes(part) for request in parts for part in request)  # type: ignore[arg-type]
