"""Clients that are slow, silent or greedy: what they cost, and that the others do not notice."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.frames import frame
from tests.patience import PATIENCE_S
from tests.server.harness import WAYS, Client, World, settled, until
from tests.server.test_connection import Slice, fetch_response, produce

from barnabas.server.loop.memory import MemoryBudget
from barnabas.server.net.send_queue import SendQueue
from barnabas.server.observe import events
from barnabas.wire.schemas.fetch import FetchRequest
from barnabas.wire.schemas.groups import HeartbeatRequest

Play = Callable[..., None]
MB = 1024 * 1024


async def still_served(world: World) -> None:
    client = await world.client()
    client.send(HeartbeatRequest(), 4, 77)
    assert (await client.answer())[0] == 77
    client.close()


@pytest.mark.parametrize("play", WAYS, indirect=True)
def test_a_client_that_announces_much_and_sends_little_holds_little(play: Play) -> None:
    async def scenario(world: World) -> None:
        slow = [await world.client() for _ in range(50)]
        for client in slow:
            client.writer.write(struct.pack(">i", 100 * MB))
        for _ in range(20):  # twenty times a byte
            for client in slow:
                client.writer.write(b"\0")
            await settled(10)
        await until(lambda: len(world.connections.opened) == 50)
        assert world.network.memory.used <= 50 * 128 * 1024
        await still_served(world)
        for client in slow:
            client.close()
        await until(lambda: not world.connections.opened)
        assert world.network.memory.used == 0

    play(scenario)


def test_a_thousand_half_open_connections_cost_no_buffers(play: Play) -> None:
    async def scenario(world: World) -> None:
        clients = [await world.client() for _ in range(1000)]
        for client in clients:
            client.writer.write(b"\0\0")  # half of a length
        await until(lambda: len(world.connections.opened) == 1000)
        await until(lambda: world.network.memory.used == 2000)
        assert world.network.receive_buffer.size <= 4 * MB
        await still_served(world)
        for connection in world.connections.opened.values():
            connection.last_active -= 61
        world.connections.sweep(memory_is_short=False)
        await until(lambda: not world.connections.opened)
        assert world.network.memory.used == 0

    play(scenario, {"connections.max.idle.ms": "60000", "max.connections.per.ip": "2000"})


def test_a_reader_as_fast_as_we_are_does_not_keep_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"")
    sizes: list[int] = []

    def takes_all(to: int, of: int, at: int, size: int) -> int:
        sizes.append(min(size, 3 * MB))
        return sizes[-1]

    monkeypatch.setattr("barnabas.server.net.send_queue.os.sendfile", takes_all)
    writers: list[Callable[[], None]] = []
    loop = SimpleNamespace(add_writer=lambda fd, call: writers.append(call), remove_writer=lambda fd: None)
    near, far = socket.socketpair()
    queue = SendQueue(
        loop,  # type: ignore[arg-type]
        near.fileno(),
        MemoryBudget(MB).account(1, "here", lambda: None, lambda: None),
        sendfile_from=1,
        on_progress=lambda: None,
        on_error=lambda error: pytest.fail(str(error)),
    )
    queue.add([Slice(path, 0, 20 * MB)], 20 * MB)
    queue.flush()
    assert sum(sizes) == 8 * MB and queue.blocked
    while queue.pending:
        before = sum(sizes)
        writers[0]()
        assert sum(sizes) - before <= 8 * MB
    assert sum(sizes) == 20 * MB and not queue.blocked
    queue.close()
    near.close()
    far.close()


def test_a_connection_is_counted_by_the_descriptor_that_the_system_gave_it(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowest = 4  # nothing that a listener accepts can be below: three are the streams of the process
    monkeypatch.setattr("barnabas.server.net.admission.connections.most_descriptors", lambda: lowest)

    async def scenario(world: World) -> None:
        assert await world.refuses()
        assert world.connections.refused.value == 1 and not world.connections.opened

    play(scenario)


def test_the_limit_of_descriptors_is_raised_as_far_as_it_goes() -> None:
    code = (
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (200, 900));"
        "from barnabas.server.loop.system import *; assert most_descriptors() == 200;"
        "raise_descriptor_limit(); assert most_descriptors() == 900"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("play", WAYS, indirect=True)
def test_clients_that_stop_reading_hold_little_and_stop_nobody(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(4 * MB))

    async def scenario(world: World) -> None:
        deaf = [await world.client() for _ in range(40)]
        for client in deaf:
            client.stop_reading()
            for size in (3 * MB, 30_000, 3 * MB, 30_000):
                client.send(FetchRequest(), 12, size)
        await until(lambda: len(world.broker.fetches) == 160)
        for waiting, size in zip(world.broker.fetches, world.broker.fetch_ids, strict=True):
            waiting.complete(fetch_response(Slice(path, 0, size)))
        await until(lambda: all(c.send_queue.blocked for c in world.connections.opened.values()))
        assert world.network.memory.used <= 40 * 64 * 1024, "large records stay in their file"
        await still_served(world)
        listening = deaf[0]
        listening.read_on()
        for size in (3 * MB, 30_000, 3 * MB, 30_000):
            number, body = await listening.answer()
            assert number == size
            assert len(body) > size
        for client in deaf:
            client.writer.transport.abort()
        await until(lambda: not world.connections.opened)
        assert world.network.memory.used == 0

    play(scenario)


@pytest.mark.parametrize("play", WAYS, indirect=True)
def test_a_peer_that_does_not_take_its_answers_is_not_read_from(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(16 * MB))  # more than a kernel takes that has seen much traffic

    async def scenario(world: World) -> None:
        client = await world.client()
        client.stop_reading()
        client.send(FetchRequest(), 12, 1)
        await until(lambda: len(world.broker.fetches) == 1)
        world.broker.fetches[0].complete(fetch_response(Slice(path, 0, 16 * MB)))
        await until(lambda: world.only_connection().send_queue.blocked)
        client.send(FetchRequest(), 12, 2)
        await settled(50)
        assert len(world.broker.fetches) == 1
        client.read_on()
        assert (await client.answer())[0] == 1
        await until(lambda: len(world.broker.fetches) == 2)

    play(scenario, {"barnabas.connection.max.unsent.bytes": "65536"})


@pytest.mark.parametrize("play", WAYS, indirect=True)
def test_reading_pauses_while_memory_is_used_up_and_goes_on_after(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        memory = world.network.memory
        stuck = [await world.client() for _ in range(4)]
        for client in stuck:  # half of a frame of 3 MB each; 4 MB may be held
            client.writer.write(frame(produce(bytes(3 * MB)), 9)[: 2 * MB])
        await until(lambda: memory.pauses > 0)
        await settled(50)
        assert memory.peak <= 4 * MB + MB, "no more beyond the limit than one read of each"
        late = await world.client()
        late.send(HeartbeatRequest(), 4, 1)
        await settled(20)
        assert (await late.answer())[0] == 1
        assert memory.short
        for connection in list(world.connections.opened.values())[1:4]:
            connection.last_active -= 30  # (a paused transport does not see that its peer is gone)
        world.connections.sweep(memory_is_short=True)
        stuck[0].writer.write(frame(produce(bytes(3 * MB)), 9)[2 * MB :])
        assert (await stuck[0].answer())[0] == 1
        assert world.broker.produced == [bytes(3 * MB)]
        await until(lambda: memory.used == 0)

    settings = {"queued.max.request.bytes": str(4 * MB), "socket.request.max.bytes": str(4 * MB)}
    with caplog.at_level(logging.INFO, "barnabas"):
        play(scenario, settings)
    told = {getattr(r, "event", "") for r in caplog.records}
    assert {"memory.short", "memory.enough", "connection.given-up"} <= told


def test_while_memory_is_short_the_stuck_are_closed_and_the_rest_is_not(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        stuck: Client = await world.client()
        stuck.writer.write(struct.pack(">i", 50 * MB) + bytes(300_000))
        idle = await world.client()
        await until(lambda: len(world.connections.opened) == 2)
        connections = world.connections.opened.values()
        arrived = lambda: sum(one._receiving.account.received for one in connections)  # noqa: E731
        # A connection that has had its turn is paused for a moment, and then the node would be to blame.
        await until(lambda: arrived() >= 300_000 and not any(one._paused for one in connections))
        for connection in connections:
            connection.last_active -= 30
        world.connections.sweep(memory_is_short=False)
        assert len(world.connections.opened) == 2
        world.connections.sweep(memory_is_short=True)
        await stuck.closed()
        assert "connection.slow" in [getattr(r, "event", "") for r in caplog.records], "it did not send on"
        assert len(world.connections.opened) == 1
        idle.send(HeartbeatRequest(), 4, 3)
        assert (await idle.answer())[0] == 3

    play(scenario)


def test_a_thousand_connections_of_which_a_hundred_do_not_read(play: Play, tmp_path: Path) -> None:
    """The node's memory for clients stays inside its limit, and all who read are served."""
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(MB))

    async def scenario(world: World) -> None:
        limit = world.network.memory.limit
        everybody = [await world.client() for _ in range(1000)]
        deaf, rest = everybody[:100], everybody[100:]
        for client in deaf:
            client.stop_reading()
        for client in everybody:
            client.send(FetchRequest(), 12, 1)
        await until(lambda: len(world.broker.fetches) == 1000)
        shared = Slice(path, 0, MB)
        for waiting in world.broker.fetches:
            waiting.complete(fetch_response(shared))
        for client in rest:
            assert len((await client.answer())[1]) > MB
        assert world.network.memory.peak <= limit
        for client in everybody:
            client.writer.transport.abort()
        await until(lambda: not world.connections.opened)
        assert world.network.memory.used == 0

    play(scenario, {"queued.max.request.bytes": "104857600"})


@pytest.mark.parametrize("play", WAYS, indirect=True)
def test_many_who_announce_much_and_send_what_they_can_hold_a_bounded_amount(play: Play) -> None:
    async def scenario(world: World) -> None:
        memory = world.network.memory
        greedy = [await world.client() for _ in range(40)]
        for client in greedy:
            client.writer.write(struct.pack(">i", 3 * MB) + bytes(2 * MB))
        await until(lambda: memory.pauses >= 30)
        await settled(50)
        assert memory.peak <= 2 * memory.limit, "80 MB were sent"
        for _ in range(20):
            await still_served(world)
        for client in greedy:
            client.writer.transport.abort()
        for connection in list(world.connections.opened.values()):
            connection.abort()  # (a paused transport does not see that its peer is gone)
        await until(lambda: not world.connections.opened)
        assert memory.used == 0

    settings = {"queued.max.request.bytes": str(8 * MB), "socket.request.max.bytes": str(4 * MB)}
    play(scenario, settings)


class Somebody:
    """A connection, as the budget sees it."""

    def __init__(self, budget: MemoryBudget, number: int, host: str = "here") -> None:
        self.woken = self.ended = 0
        self.account = budget.account(number, host, self._resume, self._end)

    def _resume(self) -> None:
        self.woken += 1

    def _end(self) -> None:
        self.ended += 1


def test_who_holds_less_than_its_share_goes_on_while_others_wait() -> None:
    budget = MemoryBudget(1000)
    greedy, modest = Somebody(budget, 1), Somebody(budget, 2)
    greedy.account.take(510)
    modest.account.take(240)
    assert greedy.account.exhausted and not modest.account.exhausted
    assert not modest.account.may_hold(50) and modest.account.may_hold(10)
    other = Somebody(budget, 3)
    other.account.take(400)
    greedy.account.wait()
    modest.account.give(100)
    assert greedy.woken == 0, "too much is held by others"
    other.account.give(400)
    assert (greedy.woken, modest.woken) == (1, 0)
    greedy.account.give(510)
    modest.account.give(140)
    assert (budget.used, budget.peak, budget.holders) == (0, 1150, 0)


def test_one_frame_that_is_larger_than_all_is_let_in_at_a_time() -> None:
    budget = MemoryBudget(1000)
    first, second = Somebody(budget, 1), Somebody(budget, 2)
    assert first.account.may_hold(5000)
    first.account.begin(5000)
    first.account.take(5000)
    assert not second.account.may_hold(5000)
    first.account.give(5000)
    first.account.finish()
    assert second.account.may_hold(5000)


def test_who_waits_goes_on_where_the_last_before_it_hangs_up() -> None:
    budget = MemoryBudget(1000)
    first, second = Somebody(budget, 1), Somebody(budget, 2)
    first.account.take(300)
    second.account.take(800)
    first.account.wait()
    second.account.wait()
    first.account.give(300)
    assert second.woken == 0, "it is not its turn"
    first.account.close()
    assert second.woken == 1


def test_a_frame_that_is_larger_than_all_goes_on_once_others_hold_little() -> None:
    budget = MemoryBudget(1000)
    waiting, large, other = Somebody(budget, 1), Somebody(budget, 2), Somebody(budget, 3)
    large.account.begin(5000)
    assert large.account.may_hold(5000)
    large.account.take(2000)
    other.account.take(600)
    assert not large.account.may_hold(2000)
    waiting.account.wait()
    large.account.wait()
    other.account.give(600)
    assert (waiting.woken, large.woken) == (0, 1)


def test_who_waits_for_room_ends_those_whose_frames_would_take_longest() -> None:
    now = [100.0]
    budget = MemoryBudget(1000, clock=lambda: now[0])
    slow, slower, quick = (Somebody(budget, n) for n in range(3))
    elsewhere = Somebody(budget, 3, "there")
    for one, held, size in ((slow, 200, 1000), (slower, 200, 4000), (quick, 100, 110), (elsewhere, 50, 9000)):
        one.account.begin(size)
        one.account.take(held)
        one.account.received = held
    budget.relieve()
    now[0] += 5.0
    late = Somebody(budget, 4)
    late.account.take(80)
    late.account.wait()
    assert [one.ended for one in (slow, slower, quick, elsewhere, late)] == [1, 1, 0, 0, 0]
    slower.account.give(200)
    slower.account.close()
    slow.account.give(200)
    assert late.woken == 1


def test_what_a_connection_leaves_behind_is_still_counted_until_it_comes_back() -> None:
    budget = MemoryBudget(1000)
    gone = Somebody(budget, 7)
    budget.take_for(7, 300)
    gone.account.close()
    assert (budget.used, budget.holders) == (300, 0)
    budget.take_for(7, -300)
    assert (budget.used, budget.holders) == (0, 0)


def test_without_a_limit_a_budget_is_never_exhausted() -> None:
    somebody = Somebody(MemoryBudget(-1), 1)
    somebody.account.take(1 << 50)
    assert not somebody.account.exhausted
    assert somebody.account.may_hold(1 << 50)


def test_events_that_a_client_can_cause_at_will_are_limited(
    play: Play, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        for _ in range(100):
            bad = await world.client()
            bad.writer.write(struct.pack(">i", -1))
            await bad.closed()

    events.FRAME_NEGATIVE.second = 0
    with caplog.at_level(logging.WARNING, "barnabas"):
        play(scenario)
    lines = [r for r in caplog.records if getattr(r, "event", "") == "connection.frame-negative"]
    assert 1 <= len(lines) <= 60


def test_what_is_added_behind_a_full_socket_is_counted_at_once() -> None:
    async def whole() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        budget = MemoryBudget(-1)
        queue = SendQueue(
            asyncio.get_running_loop(),
            ours.fileno(),
            budget.account(1, "here", lambda: None, lambda: None),
            sendfile_from=1,
            on_progress=lambda: None,
            on_error=pytest.fail,
        )
        queue.add([bytes(4 * MB)], 4 * MB)
        queue.flush()
        assert queue.blocked
        assert budget.used == queue.held > 0
        before = budget.used
        queue.add([bytes(MB), b""], MB)
        queue.add_small(bytes(100))
        queue.add([bytes(50)], 50)
        queue.flush()
        assert budget.used == queue.held == before + MB + 150
        queue._writable()  # the socket has no more room, but all is counted anew
        assert budget.used == queue.held == before + MB + 150
        queue.close()
        assert budget.used == 0
        ours.close()
        theirs.close()

    asyncio.run(whole())
