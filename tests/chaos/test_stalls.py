"""One node of three hangs: for how long is an idempotent producer with acks=all without an answer?

Three nodes, min.insync 2, two of them whole.  `pytest tests/chaos/test_stalls.py -m slow -s` tells the gaps of the
partitions that the node leads and of those that it follows.  Nothing acknowledged may be missing at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("confluent_kafka")

from bench.steady import Steady
from tests.chaos.cluster import Cluster, Node, until
from tests.chaos.ground import Ground, ground

from barnabas.wire.schemas.reassignment import ElectLeadersRequest

NODES, PARTITIONS, HURT_S, MOST_S = 3, 6, 20.0, 2.0
SMALL = 3
"""The node with a disk that can be filled."""


class Stalled(NamedTuple):
    """A cluster, and what it stands on."""

    cluster: Cluster
    ground: Ground


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[Stalled]:
    with contextlib.ExitStack() as stack:
        under = stack.enter_context(ground(NODES))
        cluster = Cluster(under, tmp_path, NODES, SMALL)
        stack.callback(cluster.close)
        cluster.start()
        yield Stalled(cluster, under)


@contextlib.contextmanager
def stopped(node: Node, _: Stalled) -> Iterator[None]:
    node.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        node.signal(signal.SIGCONT)


@contextlib.contextmanager
def slow_disk(node: Node, _: Stalled) -> Iterator[None]:
    node.stall(HURT_S, each=5.0)
    yield
    node.stall(0)


@contextlib.contextmanager
def hung_disk(node: Node, _: Stalled) -> Iterator[None]:
    node.stall(HURT_S)
    yield
    node.stall(0)


@contextlib.contextmanager
def full_disk(node: Node, stalled: Stalled) -> Iterator[None]:
    if stalled.cluster.small_disk is None:
        pytest.skip("only root may mount a small disk")
    node.fill()
    try:
        yield
    finally:
        node.unfill()


@contextlib.contextmanager
def deaf(node: Node, stalled: Stalled) -> Iterator[None]:
    """What the other nodes send to it is lost, what it sends arrives."""
    if not stalled.ground.has_links:
        pytest.skip("only root may cut links")
    for other in stalled.cluster.nodes:
        if other != node.number:
            stalled.ground.lose(other, [node.number])
    try:
        yield
    finally:
        stalled.ground.heal()


@contextlib.contextmanager
def dumb(node: Node, stalled: Stalled) -> Iterator[None]:
    """What it sends to the other nodes is lost, what they send arrives."""
    if not stalled.ground.has_links:
        pytest.skip("only root may cut links")
    stalled.ground.lose(node.number, [other for other in stalled.cluster.nodes if other != node.number])
    try:
        yield
    finally:
        stalled.ground.heal()


def led(cluster: Cluster, topic: str, node: Node) -> set[int]:
    return {p.partition_index for _, p in cluster.partitions([topic]) if p.leader_id == node.number}


@pytest.mark.slow
@pytest.mark.parametrize("controller", [False, True], ids=["broker", "controller"])
@pytest.mark.parametrize("harm", [stopped, slow_disk, hung_disk, full_disk, deaf, dumb])
def test_one_node_that_hangs_stops_no_producer_for_long(
    stalled: Stalled,
    harm: Callable[[Node, Stalled], contextlib.AbstractContextManager[None]],
    controller: bool,
) -> None:
    cluster = stalled.cluster
    topic = f"{harm.__name__}-{int(controller)}"
    cluster.create(topic, PARTITIONS)
    node = victim(cluster, small=harm is full_disk, controller=controller)
    with Steady(cluster.bootstrap, topic, PARTITIONS, rate=120) as steady:
        steady.flowing()
        until(lambda: cluster.full([topic]), 60, "all replicas in sync")
        cluster.ask_again(
            ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000), "leaders"
        )
        until(lambda: led(cluster, topic, node), 60, f"{node} leads")
        time.sleep(1)
        was_controller = cluster.controller() == node.number
        its = led(cluster, topic, node)
        moment = time.monotonic()
        with cluster_without(cluster, node), harm(node, stalled):
            time.sleep(HURT_S)
            hurt = gaps(steady, moment)
            meanwhile = led(cluster, topic, node)
        healed = time.monotonic()
        until(lambda: cluster.full([topic]), 120, "all replicas in sync again")
        full = time.monotonic() - healed
        time.sleep(1)
        after = gaps(steady, healed)
    verdict = steady.verdict()
    follows = max((gap for partition, gap in enumerate(hurt) if partition not in its), default=0.0)
    leads = max((gap for partition, gap in enumerate(hurt) if partition in its), default=0.0)
    who = "the controller" if was_controller else "a broker"
    print(
        f"\n{topic:<13} {who}: follows {follows:.2f} s, leads {leads:.2f} s ({len(its)}, later {len(meanwhile)}); "
        f"healed {max(after):.2f} s, in sync after {full:.1f} s; {verdict}"
    )
    assert (verdict.lost, verdict.twice, verdict.failed) == (0, 0, 0)
    assert follows <= MOST_S


def gaps(steady: Steady, since: float) -> list[float]:
    """The longest time that each partition was without an answer since then, and still is (s)."""
    now = time.monotonic()
    found = []
    for times in steady.times:
        moments = [*(t for t in list(times) if t > since - 1), now]
        found.append(max(b - a for a, b in itertools.pairwise(moments) if b > since))
    return found


@contextlib.contextmanager
def cluster_without(cluster: Cluster, node: Node) -> Iterator[None]:
    cluster.hurt.add(node.number)
    try:
        yield
    finally:
        cluster.hurt.discard(node.number)


def victim(cluster: Cluster, *, small: bool, controller: bool) -> Node:
    """The active controller or another node; for a full disk the one that has a small disk."""
    until(cluster.quorum, 60, "a controller")
    number = cluster.controller()
    if small:
        return cluster.nodes[SMALL]
    return cluster.nodes[number if controller else next(n for n in cluster.nodes if n != number)]
