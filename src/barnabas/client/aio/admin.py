"""Managing a cluster with asyncio: `async with Admin("127.0.0.1:9092") as a: await a.create_topic("orders")`."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import ClassVar, Literal

from barnabas.client.admin.methods import AdminMethods
from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.security.options import SecurityOptions

__all__ = ["AsyncAdmin"]


class AsyncAdmin(AdminMethods):
    """`async with Admin("127.0.0.1:9092") as admin: await admin.create_topic("orders", partitions=6)`.

    Options and methods are those of `barnabas.Admin`.
    """

    AWAITED: ClassVar[Literal[True]] = True
    """See `either_way`."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "barnabas-admin",
        timeout: float = 30.0,
        security: SecurityOptions = None,
    ) -> None:
        self.cluster = AsyncCluster(bootstrap, client_id=client_id, timeout=timeout, security=security)

    def __repr__(self) -> str:
        return f"<AsyncAdmin {self.cluster!r}>"

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """`await admin.close()`: close all connections."""
        await self.cluster.close()
