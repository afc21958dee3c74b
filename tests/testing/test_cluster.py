"""`barnabas.testing.Cluster` of three nodes, and what a test may do to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from tests.patience import PATIENCE_S

from barnabas import Consumer, Producer
from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError
from barnabas.testing import Cluster

T = TypeVar("T")


def within(look: Callable[[], T]) -> T:
    """What `look` finds, once it finds something; a node that does not answer now is asked again."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except BarnabasError:
            continue
    raise AssertionError(f"not within {PATIENCE_S:g} s")


@pytest.fixture(scope="module")
def trio() -> Iterator[Cluster]:
    """Three nodes; each test leaves them whole."""
    with Cluster(nodes=3) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("t", partitions=1, replication=3)
        yield cluster


@pytest.fixture
def whole(trio: Cluster) -> Iterator[Cluster]:
    """The three nodes; afterwards all run again."""
    yield trio
    trio.heal()
    trio.start()


def send(cluster: Cluster, value: bytes) -> int:
    """Produce one record with acks=all; its offset."""
    with Producer(cluster.bootstrap) as producer:
        return producer.send("t", value).result(PATIENCE_S).offset


def leads(cluster: Cluster, test: Callable[[int], bool]) -> int:
    """The leader of the partition, once it is one that fits."""
    return within(lambda: next(iter(n for n in [cluster.leader_of("t")] if n > 0 and test(n)), 0))


def test_three_nodes_keep_what_is_acknowledged_through_a_kill(whole: Cluster) -> None:
    send(whole, b"before")
    leader = leads(whole, bool)
    whole.kill(leader)
    assert whole.node(leader).pid is None
    assert leads(whole, lambda number: number != leader)
    with Consumer(whole.bootstrap, "t", start="earliest") as consumer:
        assert b"before" in [message.value for message in within(consumer.poll)]


def test_a_paused_leader_is_replaced_and_comes_back(whole: Cluster) -> None:
    leader = leads(whole, bool)
    whole.pause(leader)
    assert leads(whole, lambda number: number != leader)
    whole.resume(leader)
    assert send(whole, b"after") >= 0


def test_a_node_that_is_cut_off_leads_no_more(whole: Cluster) -> None:
    leader = leads(whole, bool)
    whole.cut(leader)
    others = ",".join(node.bootstrap for node in whole.nodes if node.number != leader)
    with Admin(others) as admin:
        within(lambda: admin.describe_topic("t").partitions[0].leader not in (leader, -1))
    whole.heal()
    with Admin(others) as admin:
        within(lambda: len(admin.describe_topic("t").partitions[0].isr) == 3)


def test_a_node_that_lost_its_disk_joins_again_with_a_new_directory(whole: Cluster) -> None:
    before = whole.node(2).about["directory_id"]
    whole.lose_disk(2)
    whole.start(2)
    now = whole.node(2).about["directory_id"]
    assert now != before
    with Admin(whole.bootstrap) as admin:
        voters = lambda: {str(voter.directory_id) for voter in admin.quorum().voters}  # noqa: E731
        within(lambda: now in voters() and before not in voters())
        within(lambda: len(admin.describe_topic("t").partitions[0].isr) == 3)


def test_a_cluster_works_with_asyncio() -> None:
    async def work() -> str:
        async with Cluster() as kafka:
            return kafka.bootstrap

    assert asyncio.run(work()).startswith("127.0.0.1:")


def test_what_a_single_node_cannot_do_is_said() -> None:
    with Cluster() as kafka:
        with pytest.raises(ValueError, match="nodes=3"):
            kafka.cut(1)
        with pytest.raises(ValueError, match="nodes=3"):
            kafka.lose_disk(1)
        with pytest.raises(ValueError, match="no node 2"):
            kafka.kill(2)


def test_clean_leaves_no_topic_and_no_group(kafka_node: Cluster) -> None:
    with Producer(kafka_node.bootstrap) as producer:
        producer.send("t", b"one").result(PATIENCE_S)
    with Consumer(kafka_node.bootstrap, "t", group="g", start="earliest") as consumer:
        assert within(consumer.poll)
        consumer.commit()
    kafka_node.clean()
    with Admin(kafka_node.bootstrap) as admin:
        assert admin.topics() == []
        assert admin.groups() == []
