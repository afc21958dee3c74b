"""The transactions of a blocking producer, and the end of one that another process has prepared."""

from __future__ import annotations

from barnabas.client.both.awaited import ThreadLock
from barnabas.client.both.transactions import AnyTransactions, exchange_at
from barnabas.client.cluster import Cluster
from barnabas.client.for_both import AnyCluster, for_both
from barnabas.client.producing.transaction_machine import ProducerEpoch, ending_request
from barnabas.errors import BarnabasError

__all__ = ["Transactions", "end_prepared"]


class Transactions(AnyTransactions):
    """`at_once(Transactions(cluster, "orders-1", timeout_ms=60000).begin())`; `cluster` is for it alone.

    Safe to use from the producer's thread and the user's.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, timeout_ms: int, two_phases: bool = False
    ) -> None:
        self._threads = ThreadLock()
        super().__init__(
            cluster.awaited, self._threads, transactional_id, timeout_ms=timeout_ms, two_phases=two_phases
        )

    def failed(self, error: BarnabasError) -> None:
        with self._threads.threads:
            super().failed(error)


@for_both
async def end_prepared(cluster: AnyCluster, prepared: ProducerEpoch, *, commit: bool) -> None:
    """Commit or abort what another process has prepared; once more does no harm.

    Raises KafkaError: INVALID_TXN_STATE or one of fencing where it was ended in the other way, or by its timeout.
    """
    exchange = ending_request(prepared, commit=commit)
    await cluster.at_coordinator(
        prepared.transactional_id, lambda coordinator: exchange_at(coordinator, exchange), transaction=True
    )
