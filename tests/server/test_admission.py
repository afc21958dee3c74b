"""Who gets in when many come at once: rates, the newcomers' number, and the reserve for nodes and super users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.security.test_tls_listeners import greeted, mutual, run, showing
from tests.server.harness import LOOPS, World, settled, until

from barnabas.cli.doctor.line import _hello
from barnabas.client.aio import AsyncConnection
from barnabas.client.security.options import Security
from barnabas.config import Config
from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError
from barnabas.security.login import LoginRules
from barnabas.server.net.admission.arrivals import LONGEST_WAIT_S, Arrivals, Held
from barnabas.server.net.admission.connections import Connections
from barnabas.server.net.admission.newcomers import UNDISTURBED_S, Newcomers
from barnabas.server.net.context import Client as ContextClient
from barnabas.server.net.secure.logins import Logins
from barnabas.server.net.tls.turns import Turns
from barnabas.server.node.process import ServerNode
from barnabas.server.observe.metrics import Metrics
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.wire.schemas.cluster import MetadataRequest

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
THREE = {
    "listeners": "CLIENTS://:9092,NODES://:9094,CONTROLLER://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "NODES",
    "quota.window.num": "2",
}


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# -- how fast they come --


def test_connections_that_come_too_fast_wait_each_a_little_longer() -> None:
    clock = Clock()
    arrivals = Arrivals(Config.load(THREE | {"max.connection.creation.rate": "10"}), clock)
    waits = [arrivals.wait("CLIENTS") for _ in range(13)]
    assert waits == pytest.approx([0.0] * 10 + [0.1, 0.2, 0.3])
    clock.now += 3
    assert arrivals.wait("CLIENTS") == 0.0


def test_listeners_of_nodes_wait_for_nobody_else() -> None:
    arrivals = Arrivals(Config.load(THREE | {"max.connection.creation.rate": "1"}), Clock())
    assert [arrivals.wait("CLIENTS") for _ in range(3)][-1] > 0
    assert arrivals.wait("NODES") == arrivals.wait("CONTROLLER") == 0.0


def test_a_listener_has_a_rate_of_its_own_besides() -> None:
    settings = {"listener.name.nodes.max.connection.creation.rate": "2", "max.connection.creation.rate": "3"}
    arrivals = Arrivals(Config.load(THREE | settings), Clock())
    assert [arrivals.wait("NODES") > 0 for _ in range(3)] == [False, False, True]
    assert arrivals.wait("CLIENTS") > 0, "those of nodes count for the node"


def test_the_rate_follows_the_clusters_settings() -> None:
    config = Config.load(THREE | {"max.connection.creation.rate": "1"})
    connections = Connections(config, Metrics(), Clock())
    connections.reconfigure(config.with_changes({"max.connection.creation.rate": "1000"}))
    assert [connections.arrivals.wait("CLIENTS") for _ in range(100)] == [0.0] * 100


def test_an_address_below_its_share_of_the_rate_is_not_held() -> None:
    clock = Clock()
    arrivals = Arrivals(Config.load(THREE | {"max.connection.creation.rate": "12"}), clock)
    for _ in range(40):
        arrivals.wait("CLIENTS")
        arrivals.came("10.0.0.1")
    assert not arrivals.is_below_its_share("CLIENTS", "10.0.0.1")
    taken = 0
    while arrivals.is_below_its_share("CLIENTS", "10.0.0.2"):
        arrivals.came("10.0.0.2")
        taken += 1
    assert taken == 6, "half of the twelve: there are two addresses"
    assert arrivals.is_below_its_share("CLIENTS", "10.0.0.3")


def test_addresses_without_end_do_not_come_faster_than_the_rate() -> None:
    arrivals = Arrivals(Config.load(THREE | {"max.connection.creation.rate": "12"}), Clock())
    in_time = 0
    for number in range(500):
        host = f"10.0.0.{number}"
        if arrivals.is_below_its_share("CLIENTS", host):
            arrivals.came(host)
            in_time += 1
    assert in_time == 12


def test_a_share_counts_who_came_of_late() -> None:
    clock = Clock()
    arrivals = Arrivals(Config.load(THREE | {"max.connection.creation.rate": "2"}), clock)
    for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        arrivals.came(host)
    assert not arrivals.is_below_its_share("CLIENTS", "10.0.0.1")
    clock.now += 1.0
    assert not arrivals.is_below_its_share("CLIENTS", "10.0.0.1"), "the second before counts, too"
    clock.now += 1.0
    assert arrivals.is_below_its_share("CLIENTS", "10.0.0.1")


def at_ten_a_second(
    loop: str, with_tls: bool, folder: Path, scenario: Callable[[World], Awaitable[None]]
) -> None:
    """Play at a listener where ten connections a second may come; nothing of them stays behind."""
    settings = {"max.connection.creation.rate": "10", "quota.window.num": "2"}
    context = None
    if with_tls:
        authority = Authority(folder)
        settings |= {"ssl.keystore.location": str(authority.issue("node"))}
        context = showing(authority, None)

    async def whole() -> None:
        world = World(asyncio.get_running_loop(), settings, context)
        await world.listener.start(world.requests.take)
        await scenario(world)
        await until(lambda: not world.connections.opened and not world.connections._by_host)
        assert world.connections._waiting == 0
        world.listener.stop_accepting()
        world.runtime.step.stop()
        await settled()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(whole())


def came(world: World, count: int, host: str) -> None:
    """So many connections of that address have come just now."""
    arrivals = world.connections.arrivals
    arrivals._of_node.record(count, world.runtime.clock.now().mono)
    for _ in range(count):
        arrivals.came(host)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("with_tls", [False, True])
def test_who_comes_from_another_address_than_the_storm_is_served_at_once(
    loop: str, with_tls: bool, tmp_path: Path
) -> None:
    async def scenario(world: World) -> None:
        came(world, 10_000, "10.0.0.1")
        (await greeted(world)).close()

    at_ten_a_second(loop, with_tls, tmp_path, scenario)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("with_tls", [False, True])
def test_who_comes_too_soon_is_held_and_then_served(loop: str, with_tls: bool, tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        came(world, 10, "127.0.0.1")
        coming = asyncio.ensure_future(greeted(world))
        await until(lambda: world.connections._waiting == 1)
        assert not world.connections.opened
        (await coming).close()

    at_ten_a_second(loop, with_tls, tmp_path, scenario)


class Transport:
    """A transport that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else SimpleNamespace(fileno=lambda: 7)

    def abort(self) -> None:
        self.told.append("abort")

    def pause_reading(self) -> None:
        self.told.append("pause")


def test_who_would_wait_too_long_or_take_the_reserve_is_closed_at_once() -> None:
    connections = Connections(Config.load({"max.connections": "20"}), Metrics(), Clock())
    ways: list[list[str]] = []

    async def hold(wait: float) -> Held:
        transport: Any = Transport()
        held = Held(asyncio.get_running_loop(), connections, asyncio.Protocol, wait, lambda host: False)
        held.connection_made(transport)
        ways.append(transport.told)
        return held

    async def whole() -> None:
        await hold(LONGEST_WAIT_S + 1)
        for held in [await hold(5) for _ in range(19)]:
            held.connection_lost(None)

    asyncio.run(whole())
    assert ways == [["abort"], *[["pause"]] * 18, ["abort"]]
    assert not connections._by_host


@pytest.mark.parametrize("loop", LOOPS)
def test_an_address_above_its_quota_gets_no_handshake(loop: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario(world: World) -> None:
        quotas = world.network.throttle.quotas
        quotas.follow({frozenset({("ip", None)}): {"connection_creation_rate": 1.0}})
        quotas._windows = 2
        await greeted(world)
        reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.endpoint.port)
        writer.write(_hello("localhost"))
        with suppress(ConnectionResetError):
            assert await reader.read(100) == b"", "nothing is answered"
        writer.close()
        assert world.connections.refused.value == 1
        assert len(world.connections.opened) <= 1

    run(mutual(authority), scenario, showing(authority, authority.issue("ada")), LOOPS[loop])


# -- newcomers --


class Somebody:
    """A newcomer that notes that it was sent away."""

    gone = False

    def abort(self) -> None:
        self.gone = True


def test_whoever_takes_longest_makes_room_and_who_has_just_come_does_not() -> None:
    clock = Clock()
    newcomers = Newcomers(2, clock)
    first, second = Somebody(), Somebody()
    newcomers.enter(first, "10.0.0.1")
    clock.now += UNDISTURBED_S / 2
    newcomers.enter(second, "10.0.0.1")
    assert newcomers.full and newcomers.make_room("10.0.0.1") is None
    clock.now += UNDISTURBED_S / 2
    assert newcomers.make_room("10.0.0.1") is first and not newcomers.full
    newcomers.leave(second)
    newcomers.leave(first)
    assert len(newcomers) == 0


def test_the_address_with_most_makes_room_at_once_for_one_with_fewer() -> None:
    newcomers = Newcomers(5, Clock())
    many = [Somebody() for _ in range(4)]
    newcomers.enter(Somebody(), "10.0.0.1")
    for one in many:
        newcomers.enter(one, "10.0.0.9")
    assert newcomers.make_room("10.0.0.9") is None, "its own have just come"
    assert newcomers.make_room("10.0.0.1") is many[0]
    newcomers.enter(Somebody(), "10.0.0.1")
    assert newcomers.make_room("10.0.0.1") is None, "nobody has more than one above another"


def test_one_handshake_of_a_listener_goes_on_in_a_turn_and_addresses_alternate() -> None:
    soon: list[Callable[[], None]] = []
    went: list[str] = []
    turns = Turns(soon.append)
    assert turns.begin() and not turns.begin()
    for name in ("a1", "a2", "a3", "b1"):
        turns.wait(name[0], partial(went.append, name))
    for expected in (["a1"], ["a1", "b1"], ["a1", "b1", "a2"], ["a1", "b1", "a2", "a3"]):
        soon.pop(0)()
        assert went == expected
    assert not turns.begin(), "the turn of a3 is taken"
    soon.pop(0)()
    assert turns.begin() and not went[4:]


def test_strangers_who_say_nothing_do_not_keep_out_who_logs_in(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def scenario(world: World) -> None:
        clock = Clock()
        world.connections._newcomers._now = clock
        port = world.listener.endpoint.port
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        await until(lambda: world.connections._newcomers.full)
        assert await world.refuses(), "nobody has taken long"
        clock.now += UNDISTURBED_S
        known = await greeted(world)
        assert await silent[0][0].read() == b"", "who took longest made room"
        for _, writer in silent:
            writer.close()
        await until(lambda: len(world.connections._newcomers) == 0)
        assert world.connections._by_host == {"127.0.0.1": 1}
        known.close()

    settings = mutual(authority) | {"barnabas.unauthenticated.connections": "3"}
    run(settings, scenario, showing(authority, authority.issue("ada")))


def test_a_handshake_and_a_login_share_one_time() -> None:
    closed: list[float] = []

    async def whole() -> None:
        loop = asyncio.get_running_loop()
        config = Config.load({"barnabas.login.timeout.ms": "3000"})
        runtime: Any = SimpleNamespace(config=config, loop=loop, metrics=Metrics())
        connections = Connections(config, runtime.metrics)
        logins = Logins(runtime, MetadataImage("c"), {}, {}, connections)
        for ago in (2.999, 0.0):
            client = ContextClient(1, "L", "B", False, lambda: None)
            client.began = loop.time() - ago
            connection: Any = SimpleNamespace(client=client, close=lambda ago=ago: closed.append(ago))
            logins.begin(connection, LoginRules(("PLAIN",), {}, 0))
        await until(lambda: bool(closed))
        logins.stop()

    asyncio.run(whole())
    assert closed == [2.999]


# -- the reserve --


def test_the_last_connections_are_for_whom_the_authorizer_vouches(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ada, node = (showing(authority, authority.issue(name)) for name in ("ada", "node"))

    async def scenario(world: World) -> None:
        world.connections.vouches = lambda principal, host: principal == "User:CN=node"
        clients = [await greeted(world) for _ in range(18)]
        assert await world.refuses()
        world.tls = node
        clients += [await greeted(world) for _ in range(2)]
        assert await world.refuses(), "20 are the most, whoever comes"
        world.tls = ada
        for client in clients[:3]:
            client.close()
        await until(lambda: len(world.connections.opened) == 17)
        await greeted(world)

    run(mutual(authority) | {"max.connections": "20"}, scenario, ada)


def test_without_logins_they_are_for_the_listeners_of_nodes() -> None:
    connections = Connections(Config.load(THREE | {"max.connections": "20"}), Metrics(), Clock())
    ids = iter(range(100))

    def comes(listener: str, principal: str = "User:ANONYMOUS") -> bool:
        number = next(ids)
        client = SimpleNamespace(id=number, host="10.0.0.1", listener=listener, principal=principal)
        connection: Any = SimpleNamespace(id=number, client=client, send_queue=SimpleNamespace(descriptor=5))
        return connections.admit(connection)

    assert [comes("CLIENTS") for _ in range(19)] == [True] * 18 + [False]
    connections.vouches = lambda principal, host: False
    assert not comes("CONTROLLER", "User:ada"), "who has a name is known by it, wherever it comes"
    assert comes("NODES") and comes("CONTROLLER") and not comes("CONTROLLER")


def test_a_listener_may_have_a_limit_of_its_own_besides() -> None:
    settings = THREE | {"max.connections": "20", "listener.name.clients.max.connections": "3"}
    connections = Connections(Config.load(settings), Metrics(), Clock())
    ids = iter(range(100))

    class Coming(SimpleNamespace):
        __hash__ = object.__hash__

    def comes(listener: str, *, as_stranger: bool = False) -> Any:
        number = next(ids)
        client = SimpleNamespace(id=number, host="10.0.0.1", listener=listener, principal="User:ANONYMOUS")
        connection: Any = Coming(id=number, client=client, send_queue=SimpleNamespace(descriptor=5))
        admits = connections.admit_stranger if as_stranger else connections.admit
        return connection if admits(connection) else None

    stranger = comes("CLIENTS", as_stranger=True)
    first, *others = [comes("CLIENTS") for _ in range(4)]
    assert first and all(others[:2]) and not others[2]
    assert not connections.known(stranger.client), "it has logged in, and is the fourth"
    assert comes("NODES"), "the others have their own"
    connections.leave(stranger)
    assert not comes("CLIENTS")
    connections.leave(first)
    assert comes("CLIENTS") and not comes("CLIENTS")


def test_a_super_user_logs_in_where_all_others_are_one_too_many(tmp_path: Path) -> None:
    users = 'user_root="r" user_ada="a"'
    settings = {
        "listeners": "LOGIN://127.0.0.1:0,NODES://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "NODES",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{PLAIN} required {users};",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:root;User:ANONYMOUS",
        "max.connections": "10",
        "log.dirs": str(tmp_path / "data"),
    }

    async def login(node: ServerNode, user: str) -> AsyncConnection:
        who = {"sasl.username": user, "sasl.password": user[0]}
        security = Security.parse({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"} | who)
        connection = await AsyncConnection.connect(*node.address, client_id=user, security=security)
        await connection.request(MetadataRequest(topics=[]))
        return connection

    async def whole() -> None:
        async with ServerNode(Config.load(settings)) as node:
            assert node.connections is not None
            kept = []
            while len(node.connections.opened) < 9:
                kept.append(await login(node, "ada"))
            with pytest.raises((BarnabasError, OSError)):
                await login(node, "ada")
            kept.append(await login(node, "root"))
            with pytest.raises((BarnabasError, OSError)):
                await login(node, "root")
            for connection in kept:
                await connection.close()

    asyncio.run(whole())


def test_the_limits_are_finite_unless_somebody_says_otherwise() -> None:
    config = Config.load({})
    assert config.int("max.connections.per.ip") == 1000
    assert Connections(config, Metrics())._most <= 10_000
    assert Connections(Config.load({"max.connections": "70000"}), Metrics())._most == 70_000


def test_fewer_files_are_fewer_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.net.admission.connections.most_descriptors", lambda: 1000)
    assert Connections(Config.load({}), Metrics())._most == 800


@pytest.mark.parametrize(("limit", "left_to_logs"), [(400, 100), (4096, 512)])
def test_connections_leave_descriptors_to_the_logs(
    monkeypatch: pytest.MonkeyPatch, limit: int, left_to_logs: int
) -> None:
    monkeypatch.setattr("barnabas.server.net.admission.connections.most_descriptors", lambda: limit)
    connections = Connections(Config.load({}), Metrics())
    first_left = limit - left_to_logs
    assert connections.begin_handshake(Somebody(), "a host", first_left - 1)
    assert not connections.begin_handshake(Somebody(), "a host", first_left)
    assert connections.begin_handshake(Somebody(), "a host", first_left - 2), "descriptors are free again"
