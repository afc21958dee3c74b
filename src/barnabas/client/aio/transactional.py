"""Sending records all or none with asyncio: `async with producer.transaction(): await producer.send(...)`.

    async with TransactionalProducer("127.0.0.1:9092", "orders-1") as producer:
        async with producer.transaction():
            await producer.send("orders", b"one")
            await producer.send("bills", b"two")

Consumers with isolation="read_committed" see both records or neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.producer import AsyncProducer
from barnabas.client.aio.transactions import AsyncTransactions
from barnabas.client.both.transactional import Transacting
from barnabas.client.producing.transaction_machine import State
from barnabas.errors import BarnabasError, ErrorCode, KafkaError

__all__ = ["AsyncTransactionalProducer"]


class AsyncTransactionalProducer(Transacting, AsyncProducer):
    """`async with TransactionalProducer("127.0.0.1:9092", "orders-1") as p: async with p.transaction(): ...`.

    Options and methods are those of `barnabas.TransactionalProducer`.
    """

    AWAITED: ClassVar[Literal[True]] = True
    """See `either_way`."""

    def _talk(
        self, bootstrap: str | Iterable[str], view: Mapping[str, Any], id_: str, **options: Any
    ) -> AsyncTransactions:
        return AsyncTransactions(AsyncCluster(bootstrap, **view), id_, **options)

    async def _all_sent(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.flush()
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not acknowledged within {seconds:g} s") from None

    async def _give_up_all(self, error: BarnabasError) -> None:
        await self._drop(error)

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

    async def close(self, *, flush: bool = True) -> None:
        """`await producer.close()`: abort the open transaction if there is one, then end the connections."""
        try:
            if self._transaction.open:
                await self.abort()
        finally:
            await super().close(flush=False)
            await self._transaction.cluster.close()
