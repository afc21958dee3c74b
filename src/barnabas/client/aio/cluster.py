"""A cluster on asyncio: the calls of `both.cluster`.  Any number of tasks may use it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from barnabas.client.aio.connection import AsyncConnection, unless_out
from barnabas.client.both.cluster import Address, ClusterOf
from barnabas.client.connection import ConnectionFailed
from barnabas.client.waits.silence import CONNECT_S, DIAL_S, counted_out
from barnabas.errors import KafkaError
from barnabas.wire.codec.message import Message

__all__ = ["AsyncCluster"]


class AsyncCluster(ClusterOf[AsyncConnection]):
    """`async with AsyncCluster("127.0.0.1:9092") as cluster: await cluster.topic("t")`.

    Its options are those of `ClusterOf`.
    """

    def __init__(self, bootstrap: str | Iterable[str], **view: Any) -> None:
        super().__init__(bootstrap, **view)
        self._dialling: dict[Address, asyncio.Lock] = {}
        self._looking: dict[Address, asyncio.Task[bool]] = {}

    async def close(self) -> None:
        for look in self._looking.values():
            look.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)
        await super().close()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def dial(self, host: str, port: int, limit: float = DIAL_S) -> AsyncConnection:
        return await self._open(host, port, limit)

    async def _connect(self, address: Address, limit: float = CONNECT_S) -> AsyncConnection:
        async with self._dialling.setdefault(address, asyncio.Lock()):  # the next task finds the connection
            return await super()._connect(address, limit)

    async def reach(self, address: Address, limit: float) -> AsyncConnection:
        is_out = partial(self.is_out, *address)
        meant = self.metadata.meant(*address)
        dialled = asyncio.ensure_future(self._open(*address, limit, is_out=is_out, meant=meant))
        try:
            if not await unless_out(dialled, is_out):
                raise counted_out("{}:{}".format(*address))
            return await dialled
        finally:
            dialled.cancel()

    async def _open(self, host: str, port: int, limit: float, **options: Any) -> AsyncConnection:
        return await AsyncConnection.connect(host, port, **self._options(limit), **options)

    async def ask_each(self, asked: Sequence[tuple[AsyncConnection, Message]]) -> list[Any]:
        async def answer(connection: AsyncConnection, request: Message) -> Any:
            try:
                return await connection.request(request)
            except (ConnectionFailed, KafkaError) as error:
                return error

        return await asyncio.gather(*(answer(*one) for one in asked))

    async def is_out(self, host: str, port: int) -> bool:
        """Return whether another broker says that the silent one there is out; one question at a time."""
        look = self._looking.get((host, port))
        if look is None:
            look = self._looking[host, port] = asyncio.create_task(super().is_out(host, port))
            look.add_done_callback(lambda _: self._looking.pop((host, port), None))
        return await asyncio.shield(look)
