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
from typing import Any, ClassVar, Literal

from barnabas.client.both.awaited import at_once
from barnabas.client.both.transactional import Transacting
from barnabas.client.cluster import Cluster
from barnabas.client.producer import Producer
from barnabas.client.producing.transaction_machine import State
from barnabas.client.producing.transactions import Transactions
from barnabas.errors import BarnabasError

__all__ = ["TransactionalProducer"]


class TransactionalProducer(Transacting, Producer):
    """`with TransactionalProducer("127.0.0.1:9092", "orders-1") as p, p.transaction(): p.send("t", b"v")`.

    `transactional_id` is the producer's name for good: who begins with the same one later fences this one, and
    what it had open is aborted.  `transaction_timeout`: seconds after which the coordinator aborts a transaction
    that nobody ends; brokers allow 900 by default.  `two_phases`: no such time is over, if the brokers allow that
    (KIP-939; transaction.two.phase.commit.enable).  The other options are those of `Producer`; acks is "all".
    """

    AWAITED: ClassVar[Literal[False]] = False
    """See `either_way`."""

    def _talk(
        self, bootstrap: str | Iterable[str], view: Mapping[str, Any], id_: str, **options: Any
    ) -> Transactions:
        return Transactions(Cluster(bootstrap, **view), id_, **options)

    async def _all_sent(self, seconds: float | None) -> None:
        self.flush(seconds)

    async def _give_up_all(self, error: BarnabasError) -> None:
        self._drop(error)

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
