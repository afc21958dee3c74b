"""The transactions of an asyncio producer."""

from __future__ import annotations

import asyncio

from barnabas.client.aio.cluster import AsyncCluster
from barnabas.client.both.transactions import AnyTransactions

__all__ = ["AsyncTransactions"]


class AsyncTransactions(AnyTransactions):
    """`await AsyncTransactions(cluster, "orders-1", timeout_ms=60000).begin()`."""

    def __init__(
        self, cluster: AsyncCluster, transactional_id: str, *, timeout_ms: int, two_phases: bool = False
    ) -> None:
        super().__init__(
            cluster, asyncio.Lock(), transactional_id, timeout_ms=timeout_ms, two_phases=two_phases
        )
