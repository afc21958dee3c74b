"""The connection to a coordinator, asked for until there is one."""

from __future__ import annotations

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.aio.connection import AsyncConnection

__all__ = ["coordinator_of"]


async def coordinator_of(cluster: AsyncCluster, key: str, *, transaction: bool = False) -> AsyncConnection:
    """Of a group, or of a transactional id.  Raises what the last attempt raised when its time is over."""

    async def look() -> AsyncConnection:
        return await cluster.coordinator(key, transaction=transaction)

    return await cluster.retrying(look, patient=True)
