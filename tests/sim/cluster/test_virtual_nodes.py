"""Real nodes on a loop without time, threads or sockets."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from barnabas.client.aio import AsyncConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.sim.cluster.faults import SlowDisk
from barnabas.sim.cluster.setup import Setup
from barnabas.sim.cluster.world import World


def cluster(nodes: int, seed: int = 1) -> World:
    ids = tuple(range(1, nodes + 1))
    setup = replace(Setup.of(random.Random(seed)), controllers=ids, brokers=ids, static=False)
    return World(seed, setup=setup)


async def connected(host: str) -> AsyncConnection:
    while True:
        try:
            return await AsyncConnection.connect(host, 9092)
        except ConnectionFailed:
            await asyncio.sleep(0.1)


def test_a_node_answers_over_the_simulated_network() -> None:
    world = cluster(1)
    world.start()
    asked = world.client("c").spawn(connected("n1"))
    assert world.run(5, asked.done)
    assert asked.result().versions[18]
    world.close()


def test_three_nodes_elect_a_controller_and_serve_within_two_seconds_that_take_no_time() -> None:
    world = cluster(3)
    world.start()
    assert world.run(2, lambda: all(node.serves for node in world.nodes.values()))
    assert world.active_controller is not None
    world.close()


def test_a_node_that_is_killed_refuses_and_comes_back() -> None:
    world = cluster(3)
    world.start()
    client = world.client("c")
    assert world.run(5, lambda: all(node.serves for node in world.nodes.values()))
    asked = client.spawn(connected("n2"))
    world.run(1)
    world.nodes[2].kill()
    world.run(0.1)
    assert asked.result().closed
    world.nodes[2].start()
    assert world.run(10, lambda: world.nodes[2].serves)
    world.close()


def test_a_machine_without_power_says_nothing() -> None:
    world = cluster(3)
    world.start()
    client = world.client("c")
    assert world.run(5, lambda: all(node.serves for node in world.nodes.values()))
    asked = client.spawn(connected("n2"))
    world.run(1)
    world.nodes[2].power_cut("all")
    world.run(3)
    assert not asked.result().closed
    world.nodes[2].start()
    assert world.run(10, lambda: world.nodes[2].serves)
    world.close()


def test_a_process_that_stands_still_goes_on_where_it_was() -> None:
    world = cluster(3)
    world.start()
    assert world.run(5, lambda: all(node.serves for node in world.nodes.values()))
    active = world.active_controller
    assert active is not None
    active.pause()
    assert world.run(10, lambda: world.active_controller not in (None, active))
    active.resume()
    assert world.run(10, lambda: active.quorum is not None and not active.quorum.is_active_controller)
    world.close()


def test_a_node_stops_in_order() -> None:
    world = cluster(3)
    ends: list[str] = []
    world.on_end = lambda node, why: ends.append(why)
    world.start()
    assert world.run(5, lambda: all(node.serves for node in world.nodes.values()))
    world.nodes[3].stop()
    assert world.run(20, lambda: not world.nodes[3].up)
    assert ends == ["stopped in order"]
    world.close()


def test_a_fault_of_a_disk_ends_there_too_where_the_node_has_another_disk_by_then() -> None:
    world = cluster(1)
    world.start()
    assert world.run(5, lambda: world.nodes[1].serves)
    node = world.nodes[1]
    fault = SlowDisk(world, random.Random(1))
    assert fault.begin() is not None
    own, slow = node.disk, node.disk.latency
    node.kill()
    node.put_aside()
    fault.end()
    node.put_back()
    assert node.disk is own and own.latency < slow
    world.close()
