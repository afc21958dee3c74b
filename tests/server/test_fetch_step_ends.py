"""Fetches of a follower: those that end the loop step, and how their answers leave."""

from __future__ import annotations

from collections import deque
from math import inf
from struct import Struct
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.harness import PAGE_CACHE, Answer, Node, batch
from tests.frames import frame

from barnabas.broker.requests.fetch import Fetches
from barnabas.model import Now
from barnabas.server.net.connection import SENT_AT_ONCE_BYTES
from barnabas.server.net.context import Client, RequestContext
from barnabas.server.net.fetch_door import FetchDoor
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.frame import read_request_header
from barnabas.wire.plane.fetch_told import HeardRows
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

VERSION = 17
FOLLOWER = 2
WAIT_S = 10.0


class Durations(list[float]):
    """Of a histogram: what was noted."""

    note = list.append


class Wire:
    """A connection, its network and its step: what was sent over it, and what was asked of it."""

    def __init__(self) -> None:
        self.line: deque[Any] = deque()
        self.send_queue = self
        self.pending = 0
        self.sent: list[bytes] = []
        self.encoded: list[tuple[RequestContext, Any]] = []
        self.flushed = self.looked = self.at_once = 0
        self.closed = False
        self.looks_until = inf
        """Somebody looks at deadlines from then on."""
        self.step = self
        self.throttle = None

    def looks_at(self, deadline: float) -> bool:
        return self.looks_until <= deadline

    def add(self, parts: list[Any], size: int) -> None:
        answer = b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts)
        assert len(answer) == size
        self.sent.append(answer)

    def send_small(self, answer: bytes) -> None:
        self.at_once += 1
        self.sent.append(answer)

    def flush(self) -> None:
        self.flushed += 1

    def look_again(self) -> None:
        self.looked += 1

    def slot_done(self, slot: Any) -> None:
        while self.line and self.line[0].send(1000.0):
            self.line.popleft()

    def encode(self, context: RequestContext, route: Any, response: Any, handled: float, done: float) -> None:
        self.encoded.append((context, response))

    def close(self) -> None:
        self.closed = True


class Follower:
    """A node that leads topic `t`, and a replica of it in sync, whose fetches come over one connection."""

    def __init__(self, *, min_bytes: int = 1) -> None:
        """The usual way has served its first fetches, and somebody looks at deadlines early enough."""
        self.node = Node(MemoryDisk(1), log_flush_interval_messages=PAGE_CACHE)
        self.node.create("t", replicas=(1, FOLLOWER))
        self.wire = Wire()
        self.wire.looks_until = 0.0
        self.route = SimpleNamespace(
            name="Fetch",
            slow_s=inf,
            requests=SimpleNamespace(value=0),
            handled_s=Durations(),
            total_s=Durations(),
        )
        network: Any = SimpleNamespace(
            runtime=SimpleNamespace(clock=self),
            step=self.wire,
            request_ids=0,
            limits=SimpleNamespace(max_elements=10_000),
            platform=SimpleNamespace(monotonic=lambda: 0.0),
        )
        self.network = network
        connection: Any = self.wire
        route: Any = self.route
        self.door = FetchDoor(network, self.node.broker, connection, route)
        self.min_bytes = min_bytes
        self.session = self.epoch = self.offset = 0
        for _ in range(3):
            self.anew()
        network.request_ids = self.route.requests.value = 0
        for what in (self.wire.sent, self.route.handled_s, self.route.total_s):
            what.clear()
        self.wire.looked = self.wire.at_once = self.wire.flushed = 0

    def now(self) -> Now:
        return self.node.now

    def request(self) -> FetchRequest:
        row = FetchPartition(
            partition=0, fetch_offset=self.offset, partition_max_bytes=1 << 24, log_start_offset=0
        )
        self.epoch += 1
        return FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=-1),
            max_wait_ms=int(WAIT_S * 1000),
            min_bytes=self.min_bytes,
            session_id=self.session,
            session_epoch=self.epoch - 1,
            topics=[FetchTopic(topic_id=self.node.topic_id("t"), partitions=[row])],
        )

    def anew(self) -> None:
        """The next fetch is read anew, and answered."""
        data = memoryview(frame(self.request(), VERSION, 1))[4:]
        header, body = read_request_header(data)
        client = Client(1, "PLAINTEXT", "B", False, lambda: None)
        self.door.read_anew(RequestContext(client, header, 0, 0.0, len(data)), data, body)
        self.door.end_of_read()
        if self.wire.line:
            self.node.after(WAIT_S + 0.01)
        (self.session,) = Struct(">i").unpack_from(self.wire.sent[-1], 15)

    def fetches(self, correlation_id: int = 7, *, received: float = 0.0) -> bool:
        """Its next fetch comes; returns whether it ends the step."""
        data = memoryview(frame(self.request(), VERSION, correlation_id))[4:]
        assert self.door.take(data, received)
        ends = self.door.end_of_read()
        assert ends is None or ends == self.node.now
        assert self.door.end_of_read() is None, "what a read had for the end of the step was told"
        return ends is not None

    def produced(self, acks: int = 1) -> Answer:
        """Somebody produces a record."""
        answer = self.node.produce(batch("a record"), acks=acks)
        self.node.turn()
        return answer

    def told(self, correlation_id: int = 7) -> list[tuple[int, int]]:
        """What the next answer says: high watermark and bytes of records of each partition."""
        answer = self.wire.sent.pop(0)
        rows = HeardRows(self.session).read(memoryview(answer)[4:], correlation_id)
        assert rows is not None
        return [(row.high_watermark, len(row.records)) for row in rows]


SIZE = len(batch("a record"))


def test_a_fetch_that_is_answered_at_once_needs_no_end_of_the_step() -> None:
    follower = Follower()
    follower.produced()
    assert not follower.fetches()
    assert follower.told() == [(0, SIZE)]
    assert follower.wire.looked == 0 and not follower.wire.line
    assert follower.network.request_ids == follower.route.requests.value == 1


def test_a_fetch_that_waits_and_lets_nobody_go_on_ends_no_step() -> None:
    follower = Follower()
    assert not follower.fetches()
    [place] = follower.wire.line
    assert not place.send(0.0) and follower.wire.sent == []
    assert follower.network.request_ids == follower.route.requests.value == 1


def test_a_fetch_that_lets_a_producer_go_on_ends_the_step_though_it_waits() -> None:
    follower = Follower()
    produced = follower.produced(acks=-1)
    follower.fetches()
    follower.told()
    follower.offset = 1
    assert not produced.here
    assert follower.fetches()
    assert len(follower.wire.line) == 1
    follower.node.turn()
    assert produced.here
    assert follower.wire.sent == [] and len(follower.wire.line) == 1


def test_a_fetch_ends_the_step_where_nobody_looks_at_deadlines_before_its_own() -> None:
    follower = Follower()
    follower.wire.looks_until = follower.node.mono + WAIT_S
    assert not follower.fetches()
    follower.node.after(WAIT_S + 0.01)
    follower.told()
    follower.wire.looks_until = follower.node.mono + WAIT_S + 0.001
    assert follower.fetches()


def test_a_fetch_that_waited_is_answered_in_the_step_of_the_record() -> None:
    follower = Follower()
    follower.fetches()
    follower.produced()
    assert follower.told() == [(0, SIZE)]
    assert follower.wire.at_once == follower.wire.looked == 1
    assert not follower.wire.line and len(follower.node.broker.purgatory) == 0


def test_answers_leave_in_the_order_of_their_fetches() -> None:
    """The second leaves the first behind, which then goes first."""
    follower = Follower(min_bytes=2 * SIZE)
    follower.fetches(7)
    blocked: Any = SimpleNamespace(done=False, send=lambda now: blocked.done)
    follower.wire.line.appendleft(blocked)
    follower.produced()
    follower.produced()
    follower.fetches(8)
    assert follower.wire.sent == [] and len(follower.wire.line) == 3
    blocked.done = True
    follower.wire.slot_done(blocked)
    assert not follower.wire.line
    assert follower.told(7) == follower.told(8) == [(0, 2 * SIZE)]


def test_much_that_is_to_be_sent_is_sent_before_the_end_of_the_step() -> None:
    for pending, flushed in ((SENT_AT_ONCE_BYTES, 0), (SENT_AT_ONCE_BYTES + 1, 1)):
        follower = Follower()
        follower.produced()
        follower.wire.pending = pending
        follower.wire.line.append(SimpleNamespace(send=lambda now: True))  # (so it is no small one, alone)
        follower.fetches()
        follower.wire.slot_done(None)
        assert follower.wire.flushed == flushed
        assert len(follower.wire.sent) == 1


def test_an_answer_that_took_long_to_find_is_told_of() -> None:
    follower = Follower()
    follower.produced()
    follower.route.slow_s = -1.0
    follower.fetches(9)
    [(context, response)] = follower.wire.encoded
    assert follower.wire.sent == []
    assert (context.correlation_id, context.version, context.client_id) == (9, VERSION, "test")
    assert context.request_id == 1 and context.received == 0.0 and context.size > 50
    assert context.between_brokers
    assert response.session_id == follower.session


def test_an_answer_that_is_sent_is_counted_with_its_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.net.fetch_door.monotonic", lambda: 12.0)
    follower = Follower()
    follower.fetches(received=10.0)
    follower.produced()
    assert follower.route.handled_s == [2.0]
    assert follower.route.total_s == [990.0]


def test_a_fetch_that_fails_inside_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> None:
        raise RuntimeError("of ours")

    follower = Follower()
    monkeypatch.setattr(Fetches, "serve", fails)
    assert not follower.fetches()
    assert follower.wire.closed and not follower.wire.line


def test_a_connection_that_is_gone_leaves_nothing_that_waits() -> None:
    follower = Follower()
    follower.fetches()
    [place] = follower.wire.line
    place.cancel()
    place.cancel()
    assert len(follower.node.broker.purgatory) == 0
    session = follower.node.broker.sessions.get(follower.session)
    assert session is not None and session.parked is None
    follower.produced()
    assert follower.wire.sent == []
