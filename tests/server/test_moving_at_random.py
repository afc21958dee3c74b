"""Partitions move at random while brokers and controllers die, under load: nothing is lost or left behind."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from tests.server.virtual import Virtual

from barnabas.errors import BarnabasError
from barnabas.model import NodeId

BROKERS = [1, 2, 3, 4, 5]
SECONDS = 8.0


def something(cluster: Virtual, chance: random.Random, down: NodeId | None) -> NodeId | None:
    """Move, elect, take a node down or bring it back; who is down afterwards."""
    act = chance.random()
    if act < 0.5:
        target = chance.sample(BROKERS, 3) if chance.random() < 0.85 else None
        cluster.move("t", target, chance.randint(0, 1))
    elif act < 0.6:
        cluster.elect("t", chance.randint(0, 1))
    elif down is None:
        down = chance.choice(sorted(cluster.world.nodes))
        ways = (cluster[down].kill, cluster[down].stop, lambda: cluster[down].power_cut("all"))
        chance.choice(ways)()
    elif not cluster[down].up:
        cluster[down].start()
        down = None
    return down


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_whatever_moves_and_whoever_dies_nothing_is_lost_or_left_behind(seed: int) -> None:
    chance = random.Random(seed)
    controllers = (1, 2, 3) if seed % 2 else (6, 7, 8)
    quick = {"broker_session_timeout_ms": "4000", "leader_imbalance_check_interval_seconds": "7"}
    with Virtual(tuple(BROKERS), controllers, topics={"t": 2}, seed=seed, **quick) as cluster:
        cluster.create("t", chance.sample(BROKERS, 3), chance.sample(BROKERS, 3), min_insync_replicas="2")
        cluster.load()
        down: NodeId | None = None
        while cluster.world.time < SECONDS:
            cluster.run(chance.uniform(0.05, 1.5))
            with suppress(BarnabasError):  # whoever was asked went down
                down = something(cluster, chance, down)
        if down is not None:
            cluster.until(lambda: not cluster[down].up or cluster[down].serves)
            if not cluster[down].up:
                cluster.start(down)
        states = [lambda index=index: cluster.state("t", index) for index in (0, 1)]
        cluster.until(lambda: all(not s().adding and not s().removing for s in states), 60)
        cluster.until(lambda: all(len(s().isr) == 3 for s in states), 60)
        assert cluster.judge(200)["acknowledged"] > 20
        cluster.run(5)
        for index, state in enumerate(states):
            holding = {broker for broker in BROKERS if cluster.end(broker, "t", index) is not None}
            assert holding == set(state().replicas)
