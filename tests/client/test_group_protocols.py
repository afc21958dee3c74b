"""Our consumers in groups of KIP-848 against a real node: who reads what, when members come, go and vanish."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.patience import PATIENCE_S

from barnabas import Admin, Consumer, KafkaError, Producer
from barnabas.aio import Consumer as AsyncConsumer
from barnabas.client.both.awaited import at_once
from barnabas.model import TopicPartition
from barnabas.testing import Cluster

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
}
PARTITIONS = 12


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    """A node whose coordinator expects a heartbeat every 100 ms."""
    with Cluster(SETTINGS) as kafka:
        yield kafka


@pytest.fixture
def twelve(node: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of twelve partitions with a record in each."""
    name = request.node.name.split("[")[0][-60:]
    with Admin(node.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS)
    with Producer(node.bootstrap) as producer:
        for number in range(PARTITIONS):
            producer.send(name, b"%d" % number, partition=number)
    return name


def member(node: Cluster, topic: str, **options: object) -> Consumer:
    """A member of the group that has the topic's name."""
    given = {"group": topic, "group_protocol": "consumer", "start": "earliest", **options}
    return Consumer(node.bootstrap, topic, **given)  # type: ignore[arg-type]


def poll_until(what: Callable[[], bool], *members: Consumer) -> list[bytes | None]:
    """All members poll in turn until this holds; returns what they read."""
    end, read = time.monotonic() + PATIENCE_S, []
    while not what():
        assert time.monotonic() < end, members
        for each in members:
            read += [message.value for message in each.poll(0.1)]
    return read


def shared(*members: Consumer) -> bool:
    """Whether the members read all partitions, none twice, each its part."""
    parts = [each.assignment() for each in members]
    flat = sorted(partition.partition for part in parts for partition in part)
    return flat == list(range(PARTITIONS)) and all(len(p) == PARTITIONS // len(members) for p in parts)


def test_three_members_share_twelve_partitions_and_who_stays_takes_over(node: Cluster, twelve: str) -> None:
    with ExitStack() as open_members:
        first, second, third = (open_members.enter_context(member(node, twelve)) for _ in range(3))
        read = poll_until(lambda: shared(first), first)
        read += poll_until(lambda: shared(first, second), first, second)
        read += poll_until(lambda: shared(first, second, third), first, second, third)
        third.close()
        read += poll_until(lambda: shared(first, second), first, second)
        with Admin(node.bootstrap) as admin:
            assert len(admin.describe_group(twelve).members) == 2
        read += poll_until(lambda: False, first) if len(read) < PARTITIONS else []
    assert sorted(read, key=str) == sorted((b"%d" % n for n in range(PARTITIONS)), key=str)


def test_a_member_that_vanishes_is_replaced_after_its_session(node: Cluster, twelve: str) -> None:
    with member(node, twelve) as stays:
        vanishes = member(node, twelve)
        poll_until(lambda: shared(stays, vanishes), stays, vanishes)
        assert vanishes._member is not None
        vanishes._member._ended.set()  # its heartbeats end, as when its process is killed
        poll_until(lambda: shared(stays), stays)


def test_listeners_hear_first_what_goes_then_what_comes(node: Cluster, twelve: str) -> None:
    heard: list[tuple[str, int]] = []
    with member(
        node,
        twelve,
        on_assigned=lambda partitions: heard.append(("assigned", len(partitions))),
        on_revoked=lambda partitions: heard.append(("revoked", len(partitions))),
    ) as first:
        poll_until(lambda: shared(first), first)
        with member(node, twelve) as second:
            poll_until(lambda: shared(first, second), first, second)
        poll_until(lambda: shared(first), first)
    assert heard == [("assigned", 12), ("revoked", 6), ("assigned", 6), ("revoked", 12)]


def test_a_fenced_member_hears_of_its_loss_and_joins_again(node: Cluster, twelve: str) -> None:
    lost: list[TopicPartition] = []
    with member(node, twelve, on_lost=lost.extend) as consumer:
        poll_until(lambda: shared(consumer), consumer)
        assert consumer._member is not None
        coordinator = at_once(consumer._cluster.coordinator(twelve)).connection
        leave = consumer._member.member.leave_request(1)
        assert leave is not None
        coordinator.request(leave)  # somebody else throws it out
        poll_until(lambda: len(lost) == PARTITIONS and shared(consumer), consumer)


def test_what_a_member_committed_is_not_read_again(node: Cluster, twelve: str) -> None:
    with member(node, twelve, auto_commit=False) as consumer:
        read: list[object] = []
        while len(read) < PARTITIONS:
            read += consumer.poll(PATIENCE_S)
        consumer.commit()
    with member(node, twelve, idle=1.0) as consumer:
        assert list(consumer) == []


def test_a_static_member_comes_back_to_its_partitions(node: Cluster, twelve: str) -> None:
    with member(node, twelve) as other:
        with member(node, twelve, instance_id="one") as static:
            poll_until(lambda: shared(static, other), static, other)
            before = static.assignment()
        with member(node, twelve, instance_id="one") as again:
            poll_until(lambda: shared(again, other), again, other)
            assert again.assignment() == before


def test_a_second_member_with_a_live_instance_id_is_refused(node: Cluster, twelve: str) -> None:
    with member(node, twelve, instance_id="one") as first, member(node, twelve, instance_id="one") as second:
        poll_until(lambda: shared(first), first)
        with pytest.raises(KafkaError, match="instance"):
            second.poll(PATIENCE_S)


def test_a_pattern_is_read_by_the_coordinator(node: Cluster, twelve: str) -> None:
    options = {"group": twelve, "group_protocol": "consumer", "start": "earliest"}
    with Consumer(node.bootstrap, pattern=f"{twelve}|none.*", **options) as consumer:  # type: ignore[arg-type]
        poll_until(lambda: shared(consumer), consumer)
    with (
        Consumer(node.bootstrap, pattern="(", **{**options, "group": twelve + "2"}) as bad,  # type: ignore[arg-type]
        pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"),
    ):
        bad.poll(PATIENCE_S)


def test_an_assignor_that_the_broker_lacks_is_refused(node: Cluster, twelve: str) -> None:
    with member(node, twelve, assignor="sticky") as bad, pytest.raises(KafkaError, match=r"(?i)assignor"):
        bad.poll(PATIENCE_S)
    with member(node, twelve, assignor="range") as good:
        poll_until(lambda: shared(good), good)
        with Admin(node.bootstrap) as admin:
            assert admin.describe_group(twelve).protocol == "range"


def test_both_protocols_live_in_one_group(node: Cluster, twelve: str) -> None:
    with member(node, twelve) as newer, member(node, twelve, group_protocol="classic") as classic:
        poll_until(lambda: shared(newer), newer)
        ended = threading.Event()

        def keep_polling() -> None:
            while not ended.is_set():
                classic.poll(0.1)

        thread = threading.Thread(target=keep_polling)
        thread.start()
        try:
            poll_until(lambda: len(newer.assignment()) == PARTITIONS // 2, newer)
            poll_until(lambda: len(classic._fetched_to) == PARTITIONS // 2, newer)
        finally:
            ended.set()
            thread.join(PATIENCE_S)
        assert shared(newer, classic)


def test_the_asyncio_consumer_shares_as_well(node: Cluster, twelve: str) -> None:
    heard: list[str] = []

    async def assigned(_: list[TopicPartition]) -> None:
        heard.append("assigned")

    async def run() -> None:
        def one() -> AsyncConsumer:
            return AsyncConsumer(
                node.bootstrap,
                twelve,
                group=twelve,
                group_protocol="consumer",
                start="earliest",
                on_assigned=assigned,
                on_revoked=lambda _: heard.append("revoked"),
            )

        async with one() as first:
            read = []
            while len(read) < PARTITIONS:
                read += await first.poll(PATIENCE_S)
            async with one() as second, asyncio.timeout(PATIENCE_S):
                while not len(await first.assignment()) == len(await second.assignment()) == 6:
                    read += await first.poll(0.1) + await second.poll(0.1)
            async with asyncio.timeout(PATIENCE_S):
                while len(await first.assignment()) < PARTITIONS:
                    read += await first.poll(0.1)
            assert len(read) == PARTITIONS

    asyncio.run(run())
    assert heard[:3] == ["assigned", "revoked", "assigned"]
