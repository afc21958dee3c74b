"""Sending records with asyncio: `async with Producer("127.0.0.1:9092") as p: await p.send("t", b"v")`.

The batches, their identities and what an answer means are `client.producing`, as for the blocking producer; a task
takes the place of its thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.connection import AsyncConnection, settle
from barnabas.client.producing.batching import AccumulatorStatistics, Batch
from barnabas.client.producing.dispatch import Outcome, requests_of
from barnabas.client.producing.outbox import Delivered, Sending, call_back
from barnabas.client.producing.outgoing import Headers, outgoing
from barnabas.client.waits.background import died
from barnabas.client.waits.forks import check_process, forked_since
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.wire.schemas.produce import ProduceRequest

__all__ = ["AsyncProducer"]


class AsyncProducer(Sending):
    """`async with Producer("127.0.0.1:9092") as p: delivery = await p.send("topic", b"value", key=b"k")`.

    acks, idempotent, compression, linger, batch_size, buffer, delivery_timeout, security, metadata_max_age: as
    with `barnabas.Producer`.  stop_at_error: after the first record that is refused or given up, send nothing
    more; what waits has that error, and `send`, `flush` and `close` raise it.  transactions: what
    `TransactionalProducer` works with.
    """

    def _connect(self, bootstrap: str | Iterable[str], view: Mapping[str, Any]) -> None:
        self._cluster = AsyncCluster(bootstrap, **view)
        self._dispatch = self._outbox.dispatch
        self._changed = asyncio.Condition()
        self._woken = asyncio.Event()
        self._identifying = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._deliveries: set[asyncio.Task[None]] = set()

    def _forget(self, topic: str) -> None:
        self._cluster.forget(topic)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(flush=kind is None)

    def statistics(self) -> AccumulatorStatistics:
        """`producer.statistics().records`: records not acknowledged yet."""
        return self._outbox.accumulator.statistics()

    async def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> asyncio.Future[Delivered]:
        """`delivery = await producer.send("topic", b"value")`; later `await delivery` -> where the record is.

        Returns when the record is in a batch.  Strings are sent as UTF-8.  `partition` None: by the key as Kafka's
        clients do, or, without a key, where it makes the largest batches.  `timestamp` in ms since 1970 (now).
        Raises TypeError or ValueError for what no record can hold, KafkaError when the topic is not there and
        cannot be made, ConnectionFailed.
        """
        record = outgoing(topic, value, key, partition, headers, timestamp)
        self._check_usable()
        usable = await self._partitions_of(topic, record.partition)
        await self._wait_for_room(record.size)
        self._check_usable()
        loop = asyncio.get_running_loop()
        wall_ms = time.time_ns() // 1_000_000
        batch, index, _ = self._outbox.add(topic, record, usable, loop.time(), wall_ms)
        delivery: asyncio.Future[Delivered] = loop.create_future()
        batch.callbacks.append((index, partial(settle, delivery)))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="barnabas-producer")
            self._task.add_done_callback(self._hear_of_end)
        self._woken.set()
        return delivery

    async def flush(self) -> None:
        """`await producer.flush()`: send everything now; returns when the fate of every record is known.

        Raises why the producer has stopped; the error of a record is that of its delivery.
        """
        await self._all_known()
        if self._outbox.stopped_by is not None:
            raise self._outbox.stopped_by

    async def _all_known(self) -> None:
        self._flushing += 1
        self._woken.set()
        try:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: not self._outbox.accumulator.records or self._outbox.closed
                )
        finally:
            self._flushing -= 1

    async def close(self, *, flush: bool = True) -> None:
        """`await producer.close()`: flush, then close the connections; what was not sent is given up."""
        if forked_since(self._made):
            return  # the records and the connections are the parent's
        try:
            if flush and not self._outbox.closed:
                await self.flush()
        finally:
            await self._end()

    async def _end(self) -> None:
        self._outbox.closed = True
        tasks = [*self._deliveries, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._give_up(BarnabasError("the producer was closed before the record was acknowledged"))
        async with self._changed:
            self._changed.notify_all()
        await self._cluster.close()

    async def _drop(self, error: BarnabasError) -> None:
        """Give up what has not left, and wait until the fate of what has left is known."""
        for batch in self._outbox.accumulator.give_up(error):
            call_back(batch)
        async with self._changed:
            self._changed.notify_all()  # who waits for room
        await self._all_known()

    def _give_up(self, error: BarnabasError) -> None:
        for batch in self._outbox.accumulator.give_up(error, under_way=True):
            call_back(batch)

    def _hear_of_end(self, task: asyncio.Task[None]) -> None:
        """A task that sends has ended: where nobody has closed the producer, all that waits for it hears why."""
        if self._outbox.ended:
            return
        ended = asyncio.CancelledError("its event loop has ended") if task.cancelled() else task.exception()
        if ended is None:
            return
        lost = self._outbox.accumulator.records
        failure = died("the producer's task", ended)
        for batch in self._outbox.stop(failure):
            call_back(batch)
        self._woken.set()
        loop = task.get_loop()
        if lost:
            message = f"barnabas: {lost} records were not acknowledged: {failure}"
            loop.call_exception_handler({"message": message, "task": task})
        if not loop.is_closed():
            self._telling = loop.create_task(self._tell())

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # -- choosing a partition --------------------------------------------------------------------

    async def _partitions_of(self, topic: str, partition: int | None) -> tuple[int, list[int]]:
        """How many partitions the topic has, and which of them have a leader."""
        now = asyncio.get_running_loop().time()
        known = self._outbox.partitions.of(topic, now, partition)
        if known is not None:
            return known
        info = await self._cluster.topic(topic, refresh=topic in self._outbox.partitions, create=True)
        return self._outbox.partitions.take(info, now)

    def _check_usable(self) -> None:
        check_process(self._made)
        self._outbox.check_usable()

    async def _wait_for_room(self, size: int) -> None:
        outbox = self._outbox
        if outbox.has_room(size):
            return
        try:
            async with asyncio.timeout(outbox.delivery_timeout), self._changed:
                await self._changed.wait_for(lambda: outbox.has_room(size) or outbox.ended)
        except TimeoutError:
            raise outbox.no_room() from None

    # -- sending ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Look which batches are ready, at news and when one has lingered."""
        loop = asyncio.get_running_loop()
        while not self._outbox.ended:
            self._woken.clear()
            ready, look_again = self._outbox.accumulator.take_ready(loop.time(), flushing=self._flushing > 0)
            if ready:
                task = asyncio.create_task(self._deliver(ready))
                self._deliveries.add(task)
                task.add_done_callback(self._deliveries.discard)
                task.add_done_callback(self._hear_of_end)
                continue
            try:
                async with asyncio.timeout_at(look_again):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _deliver(self, batches: list[Batch]) -> None:
        """Bring these batches to their leaders, and act on what became of them."""
        outcomes = await self._send_to_leaders(batches)
        for finished in self._outbox.settle(outcomes, asyncio.get_running_loop().time()):
            call_back(finished)
        self._woken.set()
        async with self._changed:
            self._changed.notify_all()

    async def _send_to_leaders(self, batches: list[Batch]) -> list[Outcome]:
        by_leader: dict[NodeId, list[Batch]] = {}
        outcomes: list[Outcome] = []
        if self._transactions is not None:
            try:
                await self._transactions.add(batch.target for batch in batches)
            except BarnabasError as error:
                return [Outcome(batch, error, left=False) for batch in batches]
        for batch in batches:
            try:
                by_leader.setdefault(await self._prepare(batch), []).append(batch)
            except BarnabasError as error:
                outcomes.append(Outcome(batch, error, left=False))
        groups = [(leader, group) for leader, theirs in by_leader.items() for group in requests_of(theirs)]
        for answered in await asyncio.gather(*(self._transmit(*pair) for pair in groups)):
            outcomes += answered
        return outcomes

    async def _prepare(self, batch: Batch) -> NodeId:
        leader = (await self._cluster.leader(batch.target.topic, batch.target.partition)).id
        async with self._identifying:
            if self._dispatch.needs_identity(batch):
                connection = await self._cluster.any()
                self._dispatch.take_identity(await connection.request(self._dispatch.identity_request()))
        self._dispatch.encode(batch)
        return leader

    async def _transmit(self, leader: NodeId, batches: list[Batch]) -> list[Outcome]:
        try:
            connection: AsyncConnection = await self._cluster.connection(leader, leads=True)
            topics = {batch.target.topic for batch in batches}
            ids = {topic: (await self._cluster.topic(topic)).id for topic in topics}
        except BarnabasError as error:
            return [Outcome(batch, error, left=False) for batch in batches]
        request, version = self._dispatch.request(batches, ids, connection.version_of(ProduceRequest))
        silent = self._dispatch.acks == 0
        try:
            timeout = self._dispatch.request_timeout + 5.0
            response = await connection.request(request, version, timeout, silent=silent)
        except BarnabasError as error:
            return [Outcome(batch, error) for batch in batches]
        if silent:
            return [Outcome(batch, None) for batch in batches]
        return self._dispatch.outcomes(response, batches, self._cluster.metadata.topic_name)
