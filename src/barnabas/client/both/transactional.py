"""The part of a producer that sends records all or none: `begin`, `send_offsets`, `commit`, `abort`.

So is what two processes do of one transaction: one prepares it, and who has what `prepare` returned ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.client.both.methods import either_way
from barnabas.client.both.transactions import AnyTransactions
from barnabas.client.consuming.reading import Reading
from barnabas.client.producing.outbox import Sending
from barnabas.client.producing.transaction_machine import GroupMember, ProducerEpoch
from barnabas.client.security.options import SecurityOptions
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["Transacting"]


class Transacting(Sending):
    """Part of both transactional producers that is the same; its options are those of `TransactionalProducer`."""

    _transaction: AnyTransactions

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        transactional_id: str,
        *,
        transaction_timeout: float = 60.0,
        two_phases: bool = False,
        client_id: str = "barnabas-producer",
        request_timeout: float = 30.0,
        security: SecurityOptions = None,
        **options: Any,
    ) -> None:
        view = {"client_id": client_id, "timeout": max(request_timeout, 1.0), "security": security}
        timeout_ms = int(transaction_timeout * 1000)
        self._transaction = self._talk(
            bootstrap, view, transactional_id, timeout_ms=timeout_ms, two_phases=two_phases
        )
        super().__init__(
            bootstrap,
            client_id=client_id,
            request_timeout=request_timeout,
            security=security,
            transactions=self._transaction,
            **options,
        )

    def _talk(
        self, bootstrap: str | Iterable[str], view: Mapping[str, Any], id_: str, **options: Any
    ) -> AnyTransactions:
        """Make the talk with the coordinators, over a cluster of its own."""
        raise NotImplementedError

    async def _all_sent(self, seconds: float | None) -> None:
        """Wait until everything is sent and acknowledged.  Raises the error of a record, REQUEST_TIMED_OUT."""
        raise NotImplementedError

    async def _give_up_all(self, error: BarnabasError) -> None:
        """Give up what has not left, and wait until the fate of what has left is known."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transaction!r}>"

    @either_way
    async def begin(self) -> None:
        """`producer.begin()`: open a transaction; the first one takes over the transactional id.

        Raises BarnabasError when one is open, KafkaError when the coordinator refuses.
        """
        await self._transaction.begin()

    @either_way
    async def send_offsets(
        self, offsets: Mapping[TopicPartition, Offset] | Reading, member: GroupMember | str = ""
    ) -> None:
        """`producer.send_offsets(consumer)`: what the consumer has handed out is done if this commits.

        Also `producer.send_offsets({TopicPartition("t", 0): 42}, "billing")`: the group reads 42 next.
        Raises KafkaError: the transaction can only be aborted then.
        """
        if isinstance(offsets, Reading):
            member = offsets.member()
            offsets = offsets.positions()
        elif isinstance(member, str):
            member = GroupMember(member)
        if offsets:
            await self._transaction.send_offsets(offsets, member)

    @either_way
    async def commit(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  commit again after it
        """`producer.commit()`: everything is sent and acknowledged, then the transaction is committed.

        Raises the error of a record that was refused (abort it then), or the coordinator's; after a timeout commit
        again, or abort.
        """
        self._transaction.commits()
        await self._all_sent(timeout)
        await self._transaction.end(commit=True)

    @either_way
    async def abort(self) -> None:
        """`producer.abort()`: nobody who reads committed records sees any of this transaction."""
        self._transaction.ending(commit=False)  # raises where none is open
        await self._give_up_all(BarnabasError("the transaction was aborted"))
        await self._transaction.end(commit=False)

    # -- two processes ---------------------------------------------------------------------------

    @either_way
    async def claim(self) -> ProducerEpoch:
        """`producer.claim()`: fence earlier producers of this id; `resume` goes on with it in another process."""
        return await self._transaction.claim()

    def producer_epoch(self) -> ProducerEpoch:
        """`producer.producer_epoch()`: who it is by now, for `resume` in another process."""
        return self._transaction.producer_epoch()

    def resume(self, claim: ProducerEpoch) -> None:
        """`producer.resume(claim)`: go on as the producer that claimed the id, before the first transaction."""
        self._transaction.resume(claim)

    @either_way
    async def prepare(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  prepare again after it
    ) -> ProducerEpoch | None:
        """`prepared = producer.prepare()`: everything is acknowledged, and who has this ends the transaction.

        `end_prepared(cluster, prepared, commit=True)` does so, in any process.  None: the transaction is empty.
        `begin` here before that would abort it.  Raises the error of a record that was refused: abort it then.
        """
        self._transaction.commits()
        await self._all_sent(timeout)
        return self._transaction.prepared()
