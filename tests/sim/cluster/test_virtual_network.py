"""The simulated network as programs see it: streams, silence, resets; and the loop that time passes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from barnabas.model import Endpoint
from barnabas.sim.cluster.loop import RoundInCircles
from barnabas.sim.cluster.setup import Setup
from barnabas.sim.cluster.sockets import BoundSocket
from barnabas.sim.cluster.world import ClientHost, World
from barnabas.sim.kernel.report import InvariantViolation


class Heard(asyncio.Protocol):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.data = b""
        self.lost: list[Exception | None] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


class Pair:
    """Two machines; `there` listens."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.here, self.there = world.client("here"), world.client("there")
        self.accepted: list[Heard] = []
        BoundSocket(self.there.host, self.there.loop, Endpoint("X", "there", 1)).listen(self._accept)

    def _accept(self) -> Heard:
        self.accepted.append(Heard())
        return self.accepted[-1]

    def dial(self) -> tuple[Heard, Heard]:
        near = self.run(self.here, self.here.loop.create_connection(Heard, "there", 1))[1]
        self.world.run(0.1)
        return near, self.accepted[-1]

    def run(self, where: ClientHost, work: Any) -> Any:
        task = where.spawn(work)
        assert self.world.run(100, task.done)
        return task.result()


@pytest.fixture
def pair() -> Iterator[Pair]:
    world = World(1, setup=replace(Setup.of(random.Random(1)), controllers=(), brokers=()))
    world.network.partial = 0.0
    yield Pair(world)
    world.close()


def test_bytes_come_in_order_however_they_are_cut(pair: Pair) -> None:
    near, far = pair.dial()
    pair.world.network.partial = 0.5
    sent = bytes(range(256)) * 2000
    pair.world.network.window = 10_000
    near.transport.write(sent[:100_000])
    near.transport.write(sent[100_000:])
    assert pair.world.run(30, lambda: far.data == sent)


def test_who_does_not_read_is_sent_no_more_than_the_window(pair: Pair) -> None:
    near, far = pair.dial()
    pair.world.network.window = 1000
    far.transport.pause_reading()
    near.transport.write(bytes(5000))
    pair.world.run(1)
    assert (far.data, near.transport.get_write_buffer_size()) == (b"", 4000)
    far.transport.resume_reading()
    assert pair.world.run(1, lambda: len(far.data) == 5000)


def test_a_cut_link_is_silent_and_what_was_sent_comes_when_it_is_mended(pair: Pair) -> None:
    network = pair.world.network
    near, far = pair.dial()
    network.resets = 0.0
    network.cut([("here", "there")])
    near.transport.write(b"a")
    far.transport.write(b"b")
    pair.world.run(20)
    assert (far.data, near.data) == (b"", b"b")
    network.mend([("here", "there")])
    pair.world.run(1)
    assert far.data == b"a" and not near.lost


def test_a_link_that_was_cut_twice_is_mended_twice(pair: Pair) -> None:
    network = pair.world.network
    near, far = pair.dial()
    network.resets = 0.0
    for _ in range(2):
        network.cut([("here", "there")])
    near.transport.write(b"a")
    network.mend([("here", "there")])
    pair.world.run(5)
    assert far.data == b""
    network.mend_all()
    pair.world.run(1)
    assert far.data == b"a"


@pytest.mark.parametrize("how", ["mended", "given up"])
def test_a_connection_over_a_link_that_was_cut_may_turn_out_to_be_reset(pair: Pair, how: str) -> None:
    network = pair.world.network
    near, _ = pair.dial()
    network.resets = 1.0
    network.patience = 3.0 if how == "given up" else 1e9
    network.cut([("here", "there")])
    near.transport.write(b"a")
    pair.world.run(5)
    if how == "mended":
        assert not near.lost
        network.mend_all()
        pair.world.run(1)
    assert isinstance(near.lost[0], ConnectionResetError)


def test_a_process_that_dies_closes_its_connections_and_its_port_refuses(pair: Pair) -> None:
    near, _ = pair.dial()
    loop = pair.there.loop
    loop.end()
    pair.there.host.process_died(loop)
    pair.world.run(0.1)
    assert near.lost == [None]
    assert pair.run(pair.here, refused(pair.here))


async def refused(where: ClientHost) -> bool:
    try:
        await where.loop.create_connection(Heard, "there", 1)
    except ConnectionRefusedError:
        return True
    return False


def test_a_machine_without_power_says_nothing_and_resets_once_it_is_back(pair: Pair) -> None:
    near, _ = pair.dial()
    loop = pair.there.loop
    loop.end()
    pair.there.host.power_lost(loop)
    near.transport.write(b"a")
    pair.world.run(10)
    assert not near.lost
    pair.there.host.power_back()
    pair.world.run(1)
    assert isinstance(near.lost[0], ConnectionResetError)


def test_a_loop_that_stands_still_does_everything_later_in_its_order(pair: Pair) -> None:
    done: list[int] = []
    loop = pair.here.loop
    for number in range(3):
        loop.call_later(0.1 * number, done.append, number)
    loop.stop_still()
    pair.world.run(5)
    assert done == []
    loop.go_on()
    pair.world.run(0)
    assert done == [0, 1, 2]


def test_a_loop_that_ended_does_nothing_any_more(pair: Pair) -> None:
    done: list[int] = []
    pair.here.loop.call_later(1, done.append, 1)
    pair.here.loop.end()
    pair.world.run(5)
    assert done == []


def test_timers_fire_in_their_order_and_take_no_real_time(pair: Pair) -> None:
    order: list[str] = []
    loop = pair.here.loop
    loop.call_later(3600, order.append, "late")
    loop.call_later(1, order.append, "early")
    loop.call_later(2, order.append, "never").cancel()
    pair.world.run(7200)
    assert (order, pair.world.time) == (["early", "late"], 7200)


def test_whoever_waits_by_spinning_is_found(pair: Pair) -> None:
    def spin() -> None:
        pair.here.loop.call_soon(spin)

    spin()
    with pytest.raises(RoundInCircles):
        pair.world.run(1)


@pytest.mark.parametrize("where", ["task", "callback"])
def test_an_alarm_ends_the_run_wherever_it_is_raised(pair: Pair, where: str) -> None:
    def alarm() -> None:
        pair.world.alarm("P1", "lost")

    async def work(step: Callable[[], None]) -> None:
        step()

    if where == "task":
        pair.here.spawn(work(alarm))
    else:
        pair.here.loop.call_soon(alarm)
    with pytest.raises(InvariantViolation, match="P1: lost"):
        pair.world.run(1)


def test_what_a_thread_would_do_is_done_one_after_the_other(pair: Pair) -> None:
    order: list[int] = []

    async def work() -> list[Any]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, order.append, n) for n in range(3)))

    pair.run(pair.here, work())
    assert order == [0, 1, 2]
