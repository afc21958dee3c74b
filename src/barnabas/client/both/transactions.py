"""The talk of a transactional producer with its coordinators.

What is asked and what an answer means is `producing.transaction_machine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager

from barnabas.client.both.awaited import AnyConnection
from barnabas.client.both.cluster import AnyCluster
from barnabas.client.producing.transaction_machine import (
    Exchange,
    GroupMember,
    ProducerEpoch,
    TransactionMachine,
)
from barnabas.errors import KafkaError
from barnabas.model import Offset, TopicPartition

__all__ = ["AnyTransactions", "exchange_at"]


class AnyTransactions(TransactionMachine):
    """The transactions of one id; `cluster` is for them alone, and `lock` makes one talk after the other."""

    def __init__(
        self,
        cluster: AnyCluster,
        lock: AbstractAsyncContextManager[None],
        transactional_id: str,
        *,
        timeout_ms: int,
        two_phases: bool = False,
    ) -> None:
        super().__init__(transactional_id, timeout_ms=timeout_ms, two_phases=two_phases)
        self.cluster = cluster
        self._coordinator: AnyConnection | None = None
        self._lock = lock

    async def begin(self) -> None:
        """Open a transaction; the first one asks for the producer's identity, which fences earlier producers.

        Raises BarnabasError when one is open, KafkaError when the coordinator refuses.
        """
        async with self._lock:
            await self._exchange(self.begins())
            self.begun()

    async def claim(self) -> ProducerEpoch:
        """Fence earlier producers of this id, and abort what they have open.  Raises KafkaError."""
        async with self._lock:
            await self._exchange(self.claims())
            self.claimed()
            return self.producer_epoch()

    async def add(self, targets: Iterable[TopicPartition]) -> None:
        """Before the first batch to these partitions leaves.  Raises KafkaError, ConnectionFailed."""
        async with self._lock:
            new = self.not_added(targets)
            await self._exchange(self.adding(new))
            self.added(new)

    async def send_offsets(self, offsets: Mapping[TopicPartition, Offset], member: GroupMember) -> None:
        """The group's offsets are committed if the transaction is.  Raises KafkaError (KIP-447)."""
        async with self._lock:
            self.check_open()
            exchange = self.committing_offsets(offsets, member)
            try:
                await self._exchange(self.adding_offsets(member.group))
                self.offsets_added(member.group)
                await self.cluster.at_coordinator(member.group, lambda it: exchange_at(it, exchange))
            except KafkaError as error:
                self.refused(error)
                self.failed(error)
                raise

    async def end(self, *, commit: bool) -> None:
        """Commit or abort.  Raises KafkaError; after one that is not about fencing it may be tried again."""
        async with self._lock:
            await self._exchange(self.ending(commit=commit))
            self.ended(commit=commit)

    async def _exchange(self, exchange: Exchange | None) -> None:
        """Talk to the coordinator, found again where it moved or broke."""
        if exchange is None:
            return

        async def attempt() -> None:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = await self.cluster.coordinator(self.transactional_id, transaction=True)
            await self.cluster.ask_coordinator(self._coordinator, lambda it: exchange_at(it, exchange))

        def look_again() -> None:
            self._coordinator = None

        try:
            await self.cluster.retrying(attempt, on_retry=look_again)
        except KafkaError as error:
            self.refused(error)
            raise


async def exchange_at(connection: AnyConnection, exchange: Exchange) -> None:
    """Ask what the machine asks in the version that it may, and tell it the answer."""
    served = connection.version_of(exchange.request)
    version = served if exchange.limit is None else min(served, exchange.limit)
    exchange.heard(await connection.request(exchange.request, version), connection.finalized)
