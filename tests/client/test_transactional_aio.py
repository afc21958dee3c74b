"""A transactional producer on asyncio against a real node: all of a transaction, or nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.patience import PATIENCE_S

from barnabas.aio import Consumer, Producer, TransactionalProducer
from barnabas.client.admin.quorum import update_features
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.cluster import Cluster as ClientCluster
from barnabas.client.producing.transactions import end_prepared
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.testing import Cluster


@pytest.fixture(scope="module", params=[2, 0], ids=["transaction.version 2", "transaction.version 0"])
def node(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A node that has agreed on this transaction.version."""
    with Cluster() as kafka:
        if request.param != 2:
            with ClientCluster(kafka.bootstrap) as cluster:
                update_features(cluster, {"transaction.version": request.param}, upgrade_type=2)
        yield kafka


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run it to its end, within the patience of a test."""
    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))  # type: ignore[arg-type]  # an async function's awaitable


async def committed(node: Cluster, topic: str) -> list[bytes | None]:
    """What a consumer of committed records reads, to the end."""
    async with Consumer(
        node.bootstrap, topic, start="earliest", isolation="read_committed", idle=1.0
    ) as consumer:
        return [message.value async for message in consumer]


@asynccontextmanager
async def producer_of(node: Cluster, name: str) -> AsyncIterator[TransactionalProducer]:
    """A producer with this transactional id."""
    async with TransactionalProducer(node.bootstrap, name) as producer:
        yield producer


def test_what_is_committed_is_read_and_what_is_aborted_is_not(node: Cluster, topic: str) -> None:
    async def work() -> None:
        async with producer_of(node, topic) as producer:
            for number in range(3):
                async with producer.transaction():
                    for _ in range(20):
                        await producer.send(topic, b"kept %d" % number)
                await producer.begin()
                await (await producer.send(topic, b"dropped %d" % number))
                await producer.abort()
        assert await committed(node, topic) == [b"kept %d" % number for number in range(3) for _ in range(20)]

    run(work)


def test_an_error_in_the_block_aborts(node: Cluster, topic: str) -> None:
    async def work() -> None:
        async with producer_of(node, topic) as producer:
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(topic, b"dropped")
                    raise ZeroDivisionError
            async with producer.transaction():
                await producer.send(topic, b"kept")
        assert await committed(node, topic) == [b"kept"]

    run(work)


def test_a_task_that_is_cancelled_aborts(node: Cluster, topic: str) -> None:
    async def work() -> None:
        async with producer_of(node, topic) as producer:
            sent = asyncio.Event()

            async def endless() -> None:
                async with producer.transaction():
                    await (await producer.send(topic, b"dropped"))
                    sent.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(endless())
            await sent.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(topic, b"kept")
        assert await committed(node, topic) == [b"kept"]

    run(work)


def test_what_is_open_when_the_producer_closes_is_aborted(node: Cluster, topic: str) -> None:
    async def work() -> None:
        async with producer_of(node, topic) as producer:
            await producer.begin()
            await (await producer.send(topic, b"dropped"))
        async with Producer(node.bootstrap) as plain:
            await plain.send(topic, b"kept")
        assert await committed(node, topic) == [b"kept"]

    run(work)


def test_nothing_is_sent_outside_a_transaction(node: Cluster, topic: str) -> None:
    async def work() -> None:
        async with producer_of(node, topic) as producer:
            for call in (lambda: producer.send(topic, b"lost"), producer.commit, producer.abort):
                with pytest.raises(BarnabasError, match="no transaction is open"):
                    await call()  # type: ignore[operator]  # each is an async function

    run(work)


def test_who_takes_the_id_later_fences_who_had_it(node: Cluster, topic: str) -> None:
    async def work() -> None:
        async with producer_of(node, topic) as old, producer_of(node, topic) as new:
            await old.begin()
            await (await old.send(topic, b"dropped"))
            async with new.transaction():
                await new.send(topic, b"kept")
            with pytest.raises(KafkaError, match=r"(?i)fenced|epoch|another producer"):
                await old.commit()
            with pytest.raises(KafkaError, match="another producer works as"):
                await old.begin()
        assert await committed(node, topic) == [b"kept"]

    run(work)


def test_a_consumer_goes_on_after_what_was_committed_with_its_offsets(node: Cluster, topic: str) -> None:
    out = f"{topic}.out"

    async def copy(limit: int, *, commit: bool) -> None:
        async with (
            Consumer(node.bootstrap, topic, group=topic, start="earliest", auto_commit=False) as consumer,
            producer_of(node, topic) as producer,
        ):
            messages = await consumer.poll(PATIENCE_S, max_messages=limit)
            await producer.begin()
            for message in messages:
                await producer.send(out, message.value, partition=0)
            await producer.send_offsets(consumer)
            await (producer.commit() if commit else producer.abort())

    async def work() -> None:
        async with Producer(node.bootstrap) as producer:
            for number in range(4):
                await producer.send(topic, b"%d" % number, partition=0)
        await copy(2, commit=True)
        await copy(2, commit=False)
        await copy(2, commit=True)
        assert await committed(node, out) == [b"0", b"1", b"2", b"3"]

    run(work)


def test_what_one_producer_has_prepared_another_process_ends(node: Cluster, topic: str) -> None:
    """(The way of Spark's sink: the driver claims, a task writes and prepares, the driver ends.)"""

    async def work() -> None:
        for commit in (True, False):
            async with producer_of(node, topic) as driver:
                claim = await driver.claim()
            task = TransactionalProducer(node.bootstrap, topic)
            task.resume(claim)
            await task.begin()
            await task.send(topic, b"%d" % commit)
            prepared = await task.prepare(PATIENCE_S)
            assert prepared is not None
            async with AsyncCluster(node.bootstrap) as cluster:
                await end_prepared(cluster, prepared, commit=commit)
                await end_prepared(cluster, prepared, commit=commit)  # once more does no harm
            await task.close()
        assert await committed(node, topic) == [b"1"]

    run(work)


def test_a_commit_says_when_its_time_is_over() -> None:
    async def work() -> None:
        producer = TransactionalProducer("127.0.0.1:1", "id")
        producer.flush = asyncio.Event().wait  # type: ignore[assignment, method-assign]
        with pytest.raises(KafkaError, match=r"not acknowledged within 0.01 s") as caught:
            await producer._all_sent(0.01)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT

    run(work)
