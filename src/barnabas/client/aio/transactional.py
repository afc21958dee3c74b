"""Sending records all or none with asyncio: `async with producer.transaction(): await producer.send(...)`.

    async with TransactionalProducer("127.0.0.1:9092", "orders-1") as producer:
        async with producer.transaction():
            await producer.send("orders", b"one")
            await producer.send("bills", b"two")

Consumers with isolation="read_committed" see both records or neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.consumer import AsyncConsumer
from barnabas.client.aio.producer import AsyncProducer
from barnabas.client.aio.transactions import AsyncTransactions
from barnabas.client.producing.transaction_machine import GroupMember, State
from barnabas.client.security.options import SecurityOptions
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["AsyncTransactionalProducer"]


class AsyncTransactionalProducer(AsyncProducer):
    """`async with TransactionalProducer("127.0.0.1:9092", "orders-1") as p: async with p.transaction(): ...`.

    `transactional_id` is the producer's name for good: who begins with the same one later fences this one, and
    what it had open is aborted.  `transaction_timeout`: seconds after which the coordinator aborts a transaction
    that nobody ends; brokers allow 900 by default.  The other options are those of `Producer`.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        transactional_id: str,
        *,
        transaction_timeout: float = 60.0,
        client_id: str = "barnabas-producer",
        request_timeout: float = 30.0,
        security: SecurityOptions = None,
        **options: Any,
    ) -> None:
        self._transaction = AsyncTransactions(
            AsyncCluster(
                bootstrap, client_id=client_id, timeout=max(request_timeout, 1.0), security=security
            ),
            transactional_id,
            timeout_ms=int(transaction_timeout * 1000),
        )
        super().__init__(
            bootstrap,
            client_id=client_id,
            request_timeout=request_timeout,
            security=security,
            transactions=self._transaction,
            **options,
        )

    def __repr__(self) -> str:
        return f"<AsyncTransactionalProducer {self._transaction!r}>"

    async def __aenter__(self) -> AsyncTransactionalProducer:
        return self

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """`async with producer.transaction(): ...`: commit at the end; abort when the block raises."""
        await self.begin()
        try:
            yield
        except BaseException:
            if self._transaction.state is not State.FENCED:
                await self.abort()
            raise
        try:
            await self.commit()
        except BaseException:
            if self._transaction.state is State.ABORTABLE:
                await self.abort()
            raise

    async def begin(self) -> None:
        """`await producer.begin()`: open a transaction; the first one takes over the transactional id.

        Raises BarnabasError when one is open, KafkaError when the coordinator refuses.
        """
        await self._transaction.begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Offset] | AsyncConsumer, member: GroupMember | str = ""
    ) -> None:
        """`await producer.send_offsets(consumer)`: what the consumer has handed out is done if this commits.

        Also `await producer.send_offsets({TopicPartition("t", 0): 42}, "billing")`: the group reads 42 next.
        Raises KafkaError: the transaction can only be aborted then.
        """
        if isinstance(offsets, AsyncConsumer):
            member = offsets.member()
            offsets = offsets.positions()
        elif isinstance(member, str):
            member = GroupMember(member)
        if offsets:
            await self._transaction.send_offsets(offsets, member)

    async def commit(self) -> None:
        """`await producer.commit()`: everything is sent and acknowledged, then the transaction is committed.

        Raises the error of a record that was refused (abort it then), or the coordinator's.
        """
        self._transaction.commits()
        await self.flush()
        await self._transaction.end(commit=True)

    async def abort(self) -> None:
        """`await producer.abort()`: nobody who reads committed records sees any of this transaction."""
        self._transaction.ending(commit=False)  # raises where none is open
        await self._drop(BarnabasError("the transaction was aborted"))
        await self._transaction.end(commit=False)

    async def close(self, *, flush: bool = True) -> None:
        """`await producer.close()`: abort the open transaction if there is one, then end the connections."""
        try:
            if self._transaction.open:
                await self.abort()
        finally:
            await super().close(flush=False)
            await self._transaction.cluster.close()
