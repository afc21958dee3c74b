"""The talk of a transactional producer with its coordinators over blocking connections.

What is asked and what an answer means is `transaction_machine`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster
from barnabas.client.producing.transaction_machine import (
    Exchange,
    GroupMember,
    ProducerEpoch,
    TransactionMachine,
    ending_request,
)
from barnabas.errors import BarnabasError, KafkaError
from barnabas.model import Offset, TopicPartition

__all__ = ["Transactions", "end_prepared"]


class Transactions(TransactionMachine):
    """`Transactions(cluster, "orders-1", timeout_ms=60000)`; `cluster` is for it alone.

    Safe to use from the producer's thread and the user's.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, timeout_ms: int, two_phases: bool = False
    ) -> None:
        super().__init__(transactional_id, timeout_ms=timeout_ms, two_phases=two_phases)
        self.cluster = cluster
        self._coordinator: BlockingConnection | None = None
        self._lock = threading.RLock()

    def begin(self) -> None:
        """Open a transaction; the first one asks for the producer's identity, which fences earlier producers.

        Raises BarnabasError when one is open, KafkaError when the coordinator refuses.
        """
        with self._lock:
            self._exchange(self.begins())
            self.begun()

    def claim(self) -> ProducerEpoch:
        """Fence earlier producers of this id, and abort what they have open.  Raises KafkaError."""
        with self._lock:
            self._exchange(self.claims())
            self.claimed()
            return self.producer_epoch()

    def failed(self, error: BarnabasError) -> None:
        with self._lock:
            super().failed(error)

    def add(self, targets: Iterable[TopicPartition]) -> None:
        """Before the first batch to these partitions leaves.  Raises KafkaError, ConnectionFailed."""
        with self._lock:
            new = self.not_added(targets)
            self._exchange(self.adding(new))
            self.added(new)

    def send_offsets(self, offsets: Mapping[TopicPartition, Offset], member: GroupMember) -> None:
        """The group's offsets are committed if the transaction is.  Raises KafkaError (KIP-447)."""
        with self._lock:
            self.check_open()
            exchange = self.committing_offsets(offsets, member)
            try:
                self._exchange(self.adding_offsets(member.group))
                self.offsets_added(member.group)
                self.cluster.at_coordinator(member.group, lambda coordinator: _talk(coordinator, exchange))
            except KafkaError as error:
                self.refused(error)
                self.failed(error)
                raise

    def end(self, *, commit: bool) -> None:
        """Commit or abort.  Raises KafkaError; after one that is not about fencing it may be tried again."""
        with self._lock:
            self._exchange(self.ending(commit=commit))
            self.ended(commit=commit)

    def _exchange(self, exchange: Exchange | None) -> None:
        """Talk to the coordinator, found again where it moved or broke."""
        if exchange is None:
            return

        def attempt() -> None:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = self.cluster.coordinator(self.transactional_id, transaction=True)
            self.cluster.ask_coordinator(self._coordinator, lambda coordinator: _talk(coordinator, exchange))

        def look_again() -> None:
            self._coordinator = None

        try:
            self.cluster.retrying(attempt, on_retry=look_again)
        except KafkaError as error:
            self.refused(error)
            raise


def _talk(connection: BlockingConnection, exchange: Exchange) -> None:
    served = connection.version_of(exchange.request)
    version = served if exchange.limit is None else min(served, exchange.limit)
    exchange.heard(connection.request(exchange.request, version), connection.finalized)


def end_prepared(cluster: Cluster, prepared: ProducerEpoch, *, commit: bool) -> None:
    """Commit or abort what another process has prepared; once more does no harm.

    Raises KafkaError: INVALID_TXN_STATE or one of fencing where it was ended in the other way, or by its timeout.
    """
    exchange = ending_request(prepared, commit=commit)
    cluster.at_coordinator(
        prepared.transactional_id, lambda coordinator: _talk(coordinator, exchange), transaction=True
    )
