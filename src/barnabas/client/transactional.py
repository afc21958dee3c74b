"""Sending records all or none: `with producer.transaction(): producer.send(...)`.

    with TransactionalProducer("127.0.0.1:9092", "orders-1") as producer:
        with producer.transaction():
            producer.send("orders", b"one")
            producer.send("bills", b"two")

Consumers with isolation="read_committed" see both records or neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barnabas.client.both.awaited import at_once
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.producing.transaction_machine import GroupMember, ProducerEpoch, State
from barnabas.client.producing.transactions import Transactions
from barnabas.client.security.options import SecurityOptions
from barnabas.errors import BarnabasError
from barnabas.model import Offset, TopicPartition

__all__ = ["TransactionalProducer"]


class TransactionalProducer(Producer):
    """`with TransactionalProducer("127.0.0.1:9092", "orders-1") as p, p.transaction(): p.send("t", b"v")`.

    `transactional_id` is the producer's name for good: who begins with the same one later fences this one, and
    what it had open is aborted.  `transaction_timeout`: seconds after which the coordinator aborts a transaction
    that nobody ends; brokers allow 900 by default.  `two_phases`: no such time is over, if the brokers allow that
    (KIP-939; transaction.two.phase.commit.enable).  The other options are those of `Producer`; acks is "all".
    """

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
        self._transaction = Transactions(
            Cluster(bootstrap, client_id=client_id, timeout=max(request_timeout, 1.0), security=security),
            transactional_id,
            timeout_ms=int(transaction_timeout * 1000),
            two_phases=two_phases,
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
        return f"<TransactionalProducer {self._transaction!r}>"

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """`with producer.transaction(): ...`: commit at the end; abort when the block raises."""
        self.begin()
        try:
            yield
        except BaseException:
            if self._transaction.state is not State.FENCED:
                self.abort()
            raise
        try:
            self.commit()
        except BaseException:
            if self._transaction.state is State.ABORTABLE:
                self.abort()
            raise

    def begin(self) -> None:
        """`producer.begin()`: open a transaction; the first one takes over the transactional id.

        Raises BarnabasError when one is open, KafkaError when the coordinator refuses.
        """
        at_once(self._transaction.begin())

    def send_offsets(
        self, offsets: Mapping[TopicPartition, Offset] | Consumer, member: GroupMember | str = ""
    ) -> None:
        """`producer.send_offsets(consumer)`: what the consumer has handed out is done if this commits.

        Also `producer.send_offsets({TopicPartition("t", 0): 42}, "billing")`: the group reads 42 next.
        Raises KafkaError: the transaction can only be aborted then.
        """
        if isinstance(offsets, Consumer):
            member = offsets.member()
            offsets = offsets.positions()
        elif isinstance(member, str):
            member = GroupMember(member)
        if offsets:
            at_once(self._transaction.send_offsets(offsets, member))

    def commit(self, timeout: float | None = None) -> None:
        """`producer.commit()`: everything is sent and acknowledged, then the transaction is committed.

        Raises the error of a record that was refused (abort it then), or the coordinator's; after a timeout commit
        again, or abort.
        """
        self._transaction.commits()
        self.flush(timeout)
        at_once(self._transaction.end(commit=True))

    def claim(self) -> ProducerEpoch:
        """`producer.claim()`: fence earlier producers of this id; `resume` goes on with it in another process."""
        return at_once(self._transaction.claim())

    def producer_epoch(self) -> ProducerEpoch:
        """`producer.producer_epoch()`: who it is by now, for `resume` in another process."""
        return self._transaction.producer_epoch()

    def resume(self, claim: ProducerEpoch) -> None:
        """`producer.resume(claim)`: go on as the producer that claimed the id, before the first transaction."""
        self._transaction.resume(claim)

    def prepare(self, timeout: float | None = None) -> ProducerEpoch | None:
        """`prepared = producer.prepare()`: everything is acknowledged, and who has this ends the transaction.

        `end_prepared(cluster, prepared, commit=True)` does so, in any process.  None: the transaction is empty.
        `begin` here before that would abort it.  Raises the error of a record that was refused: abort it then.
        """
        self._transaction.commits()
        self.flush(timeout)
        return self._transaction.prepared()

    def abort(self) -> None:
        """`producer.abort()`: nobody who reads committed records sees any of this transaction."""
        self._transaction.ending(commit=False)  # raises where none is open
        self._drop(BarnabasError("the transaction was aborted"))
        at_once(self._transaction.end(commit=False))

    def close(self, timeout: float | None = None) -> None:
        """`producer.close()`: abort the open transaction if there is one, then end the connections."""
        try:
            if self._transaction.open:
                self.abort()
        finally:
            self.abandon()

    def abandon(self) -> None:
        super().abandon()
        at_once(self._transaction.cluster.close())
