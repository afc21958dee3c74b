"""The producer and the consumer on asyncio, against a real node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.patience import PATIENCE_S

from barnabas import Producer as BlockingProducer
from barnabas.aio import Consumer, Producer
from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.testing import Cluster


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run it to its end, within the patience of a test."""
    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))  # type: ignore[arg-type]  # an async function's awaitable


def test_what_is_sent_is_read_in_order(kafka: Cluster, topic: str) -> None:
    async def work() -> None:
        async with Producer(kafka.bootstrap, compression="lz4") as producer:
            deliveries = [await producer.send(topic, b"%d" % number) for number in range(1000)]
        places = [await delivery for delivery in deliveries]
        assert [place.offset for place in places] == list(range(1000))
        async with Consumer(kafka.bootstrap, topic, start="earliest", idle=1.0) as consumer:
            assert [message.value async for message in consumer] == [b"%d" % n for n in range(1000)]

    run(work)


def test_many_tasks_send_at_once_and_each_hears_of_its_own(kafka: Cluster, topic: str) -> None:
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=5)

    async def work() -> None:
        async with Producer(kafka.bootstrap) as producer:

            async def send(number: int) -> tuple[int, int]:
                place = await (await producer.send(topic, b"v", key=b"%d" % number))
                return place.partition, place.offset

            places = await asyncio.gather(*(send(number) for number in range(500)))
        assert len(set(places)) == 500

    run(work)


def test_keys_go_where_the_blocking_producer_sends_them(kafka: Cluster, topic: str) -> None:
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=7)
    with BlockingProducer(kafka.bootstrap) as blocking:
        expected = [blocking.send(topic, b"v", key=b"%d" % n).result(PATIENCE_S).partition for n in range(20)]

    async def work() -> None:
        async with Producer(kafka.bootstrap) as producer:
            deliveries = [await producer.send(topic, b"v", key=b"%d" % n) for n in range(20)]
            assert [(await delivery).partition for delivery in deliveries] == expected

    run(work)


def test_a_record_that_is_refused_fails_its_delivery(kafka: Cluster, topic: str) -> None:
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, configs={"max.message.bytes": "1000"})

    async def work() -> None:
        async with Producer(kafka.bootstrap) as producer:
            delivery = await producer.send(topic, b"x" * 5000)
            with pytest.raises(KafkaError) as refused:
                await delivery
            assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await (await producer.send(topic, b"small"))

    run(work)


def test_two_members_share_the_partitions_and_the_next_goes_on(kafka: Cluster, topic: str) -> None:
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic, partitions=4)

    async def work() -> None:
        async with Producer(kafka.bootstrap) as producer:
            for partition in range(4):
                await producer.send(topic, b"%d" % partition, partition=partition)
        async with (
            Consumer(kafka.bootstrap, topic, group=topic, start="earliest") as one,
            Consumer(kafka.bootstrap, topic, group=topic, start="earliest") as two,
        ):
            seen: set[tuple[int, int]] = set()
            shares = {one: 0, two: 0}

            async def member(consumer: Consumer) -> None:
                """It polls on and on: one that joins waits for the other, which must not wait for it."""
                while len(seen) < 4 or set(shares.values()) != {2}:
                    seen.update((m.partition, m.offset) for m in await consumer.poll(0.2))
                    shares[consumer] = len(await consumer.assignment())

            await asyncio.gather(member(one), member(two))
        async with Producer(kafka.bootstrap) as producer:
            await (await producer.send(topic, b"later", partition=2))
        async with Consumer(kafka.bootstrap, topic, group=topic, start="earliest") as third:
            assert [m.value for m in await third.poll(PATIENCE_S)] == [b"later"]

    run(work)


def test_seek_and_position(kafka: Cluster, topic: str) -> None:
    async def work() -> None:
        async with Producer(kafka.bootstrap) as producer:
            for number in range(5):
                await producer.send(topic, b"%d" % number, partition=0)
        async with Consumer(kafka.bootstrap, topic, start="earliest") as consumer:
            await consumer.seek(topic, 0, 3)
            assert [m.value for m in await consumer.poll(PATIENCE_S, max_messages=1)] == [b"3"]
            assert await consumer.position(topic, 0) == 4
            await consumer.seek(topic, 0, "earliest")
            assert (await consumer.poll(PATIENCE_S))[0].value == b"0"

    run(work)


def test_a_restart_of_the_node_loses_and_doubles_nothing(kafka_node: Cluster) -> None:
    async def work() -> None:
        async with Producer(kafka_node.bootstrap) as producer:
            deliveries = [await producer.send("t", b"%d" % n, partition=0) for n in range(50)]
            kafka_node.kill()
            deliveries += [await producer.send("t", b"%d" % n, partition=0) for n in range(50, 100)]
            await asyncio.to_thread(kafka_node.start)
            await asyncio.gather(*deliveries)
        async with Consumer(kafka_node.bootstrap, "t", start="earliest", idle=1.0) as consumer:
            assert [int(m.value or b"") async for m in consumer] == list(range(100))

    run(work)


def test_what_makes_no_sense_is_said(kafka: Cluster, topic: str) -> None:
    async def work() -> None:
        producer = Producer(kafka.bootstrap)
        await producer.close()
        with pytest.raises(BarnabasError, match="closed"):
            await producer.send(topic, b"one")
        async with Consumer(kafka.bootstrap, topic) as consumer:
            with pytest.raises(BarnabasError, match="group"):
                await consumer.commit()
        with pytest.raises(BarnabasError, match="closed"):
            await consumer.poll()

    run(work)
