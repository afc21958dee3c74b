"""Work that is written once for both clients, over blocking connections and on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from tests.client.fake_broker import CLOSE, FakeBroker

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.both.awaited import at_once
from barnabas.client.both.cluster import AnyCluster
from barnabas.client.cluster import Cluster
from barnabas.client.connection import ConnectionFailed
from barnabas.client.offsets import list_offsets_at
from barnabas.model import TopicPartition
from barnabas.wire.schemas.cluster import ApiVersionsRequest, MetadataRequest
from barnabas.wire.schemas.offsets import ListOffsetsRequest

T = TypeVar("T")
Story = Callable[[AnyCluster], Coroutine[Any, Any, T]]
PATIENCE_S = 20.0
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def over_threads(bootstrap: str, story: Story[T], **options: Any) -> T:
    with Cluster(bootstrap, **options) as cluster:
        return at_once(story(cluster.awaited))


def on_asyncio(bootstrap: str, story: Story[T], **options: Any) -> T:
    async def run() -> T:
        async with AsyncCluster(bootstrap, **options) as cluster:
            return await asyncio.wait_for(story(cluster), PATIENCE_S)

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("over", [over_threads, on_asyncio])


def two_brokers() -> tuple[FakeBroker, FakeBroker]:
    """Two brokers, the second of which leads t-1."""
    first = FakeBroker(t=2)
    second = FakeBroker(node=2, cluster=first.cluster, t=2)
    second.topics = first.topics
    for broker in (first, second):
        broker.leaders.update({ZERO: 1, ONE: 2})
    return first, second


@BOTH
def test_a_connection_lost_in_the_middle_costs_only_the_questions_that_it_carried(over: Any) -> None:
    first, second = two_brokers()
    with first, second:
        breaks = iter([CLOSE])
        second.on(ListOffsetsRequest, lambda _: next(breaks, None))

        async def story(cluster: AnyCluster) -> Any:
            return await list_offsets_at(cluster, [{ZERO: -1, ONE: -1}])

        [found] = over(first.address, story)
        assert sorted(found) == [ZERO, ONE]
        assert [len(broker.asked(ListOffsetsRequest)) for broker in (first, second)] == [1, 2]


@BOTH
def test_the_answers_after_one_that_failed_are_kept(over: Any) -> None:
    first, second = two_brokers()
    with first, second:
        second.leaders[ZERO] = first.leaders[ZERO] = 2  # the metadata are behind
        told = iter([{ZERO: 1, ONE: 2}])

        def behind(_: MetadataRequest) -> None:
            first.leaders.update(next(told, {ZERO: 2, ONE: 2}))

        first.on(MetadataRequest, behind)

        async def story(cluster: AnyCluster) -> Any:
            await cluster.learn(["t"])
            return await list_offsets_at(cluster, [{ZERO: -2}, {ONE: -1}])

        before, end = over(first.address, story)
        assert (list(before), list(end)) == ([ZERO], [ONE])


@BOTH
def test_a_broker_that_has_moved_is_found_where_it_listens_now(over: Any) -> None:
    first, second = two_brokers()
    with first, FakeBroker(node=2, cluster=[first], t=2) as moved:

        async def story(cluster: AnyCluster) -> tuple[str, str]:
            await cluster.refresh([])
            there = (await cluster.connection(2)).address
            first.cluster.remove(second)
            first.cluster.append(moved)
            await cluster.refresh([])
            return there, (await cluster.connection(2)).address

        with second:
            assert over(first.address, story) == (second.address, moved.address)


@BOTH
def test_a_closed_cluster_connects_anew(over: Any) -> None:
    with FakeBroker(t=1) as broker:

        async def story(cluster: AnyCluster) -> bool:
            line = await cluster.any()
            await cluster.close()
            return line.closed and not (await cluster.any()).closed

        assert over(broker.address, story)


def test_who_is_cancelled_while_it_connects_leaves_the_way_to_the_next() -> None:
    """One task connects, the others wait for it; its end must not be theirs."""
    with FakeBroker(t=1) as broker:
        asked, go_on = threading.Event(), threading.Event()

        def wait_once(_: Any) -> None:
            if not asked.is_set():
                asked.set()
                go_on.wait(PATIENCE_S)

        broker.on(ApiVersionsRequest, wait_once)

        async def story() -> int:
            async with AsyncCluster(broker.address) as cluster:
                first = asyncio.create_task(cluster.refresh(["t"]))
                await asyncio.to_thread(asked.wait, PATIENCE_S)
                second = asyncio.create_task(cluster.refresh(["t"]))
                await asyncio.sleep(0)
                first.cancel()
                found = await asyncio.wait_for(second, PATIENCE_S)
                assert first.cancelled()
                return len(found["t"].partitions)

        try:
            assert asyncio.run(story()) == 1
        finally:
            go_on.set()


def test_a_cluster_that_another_thread_closes_fails_the_request_under_way() -> None:
    """A producer is abandoned so: its thread must not wait for an answer that nobody wants."""
    with FakeBroker(t=1) as broker:
        asked, go_on = threading.Event(), threading.Event()

        def wait(_: Any) -> None:
            asked.set()
            go_on.wait(PATIENCE_S)

        cluster = Cluster(broker.address)
        line = cluster.any()
        broker.on(MetadataRequest, wait)
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                line.request(MetadataRequest(topics=[]), timeout=PATIENCE_S)
            except ConnectionFailed as error:
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(PATIENCE_S)
        cluster.close()
        go_on.set()
        thread.join(PATIENCE_S)
        assert len(failed) <= 1 and line.closed and not thread.is_alive()
