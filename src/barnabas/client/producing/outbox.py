"""State of both producers: records on their way, what became of them, and why nothing more is sent.

No thread, no socket, no clock.  `producer` drives it from its thread, `aio.producer` from its tasks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from barnabas.client.both.transactions import AnyTransactions
from barnabas.client.metadata import METADATA_AGE
from barnabas.client.producing.batching import Accumulator, Batch
from barnabas.client.producing.dispatch import Dispatch, Outcome, codec_of
from barnabas.client.producing.failures import Failures
from barnabas.client.producing.outgoing import Outgoing
from barnabas.client.producing.placement import Partitions, Placement
from barnabas.client.producing.transaction_machine import TransactionMachine
from barnabas.client.security.options import Security, SecurityOptions
from barnabas.client.waits.background import callback_failed
from barnabas.client.waits.forks import forks
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NO_OFFSET, Offset

__all__ = ["Delivered", "Outbox", "Sending", "call_back", "outcome"]

ACKS = {"all": -1, -1: -1, 0: 0, 1: 1, "0": 0, "1": 1, "-1": -1}


class Delivered(NamedTuple):
    """Place of a record.  `offset` is -1 where the broker does not say (acks=0); `timestamp` in ms."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int


class Outbox:
    """`Outbox(acks="all", ...).add("t", record, (6, [0, 1, 2, 3, 4, 5]), now, wall_ms)`; then `take_ready`."""

    def __init__(
        self,
        *,
        acks: str | int,
        idempotent: bool | None,
        compression: str | None,
        linger: float,
        batch_size: int,
        buffer: int,
        request_timeout: float,
        delivery_timeout: float,
        stop_at_error: bool,
        metadata_max_age: float,
        transactions: TransactionMachine | None,
        forget: Callable[[str], None],
    ) -> None:
        """Options as of `Producer`; `forget(topic)`: its leaders may be others now.  Raises ValueError."""
        if acks not in ACKS:
            raise ValueError(f"acks is 'all', 1 or 0, not {acks!r}")
        level = ACKS[acks]
        if idempotent and level != -1:
            raise ValueError("an idempotent producer needs acks='all'")
        self.accumulator = Accumulator(batch_size=batch_size, linger=linger)
        self.dispatch = Dispatch(
            self.accumulator,
            acks=level,
            idempotent=level == -1 if idempotent is None else idempotent,
            codec=codec_of(compression),
            request_timeout=request_timeout,
            forget=forget,
            transactions=transactions,
        )
        self.partitions = Partitions(metadata_max_age)
        self.failures = Failures()
        self.delivery_timeout = delivery_timeout
        self.closed = False
        self.stopped_by: BarnabasError | None = None
        self._placement = Placement(self.accumulator, random.randrange)
        self._buffer = buffer
        self._stop_at_error = stop_at_error
        self._transactions = transactions

    def __repr__(self) -> str:
        return f"{self.accumulator!r}{' closed' if self.closed else ''}"

    @property
    def ended(self) -> bool:
        """Tell if nothing more is sent."""
        return self.closed or self.stopped_by is not None

    def check_usable(self) -> None:
        """Raise why no record can be sent now: closed, stopped, no transaction open."""
        if self._transactions is not None:
            self._transactions.check_open()
        if self.stopped_by is not None:
            raise self.stopped_by
        if self.closed:
            raise BarnabasError("the producer is closed", next_step="make another Producer")

    def has_room(self, size: int) -> bool:
        """Return whether a record of `size` bytes need not wait: one alone never does."""
        buffered = self.accumulator.buffered
        return buffered + size <= self._buffer or not buffered

    def no_room(self) -> KafkaError:
        """Return the error of a record that has waited for room in vain."""
        left = f"and none left in {self.delivery_timeout:g} s"
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{self.accumulator.buffered} bytes wait to be sent {left}"
        )

    def add(
        self, topic: str, record: Outgoing, usable: tuple[int, list[int]], now: float, wall_ms: int
    ) -> tuple[Batch, int, bool]:
        """Put a record into a batch; `usable` as `Partitions.of` gives it, `now` in monotonic seconds.

        Returns the batch, the record's place in it, and whether the sender must look when to send.
        """
        value, key, headers, partition, stamp, size = record
        target = self._placement.target(topic, partition, key, *usable, size)
        stamp = wall_ms if stamp is None else stamp
        return self.accumulator.add(target, now, size, stamp, key, value, headers)

    def settle(self, outcomes: list[Outcome], now: float) -> list[Batch]:
        """Act on what became of batches; return those whose fate is known now, for `call_back`.

        Once the producer has stopped, what is not under way is given up.
        """
        finished = self.dispatch.settle(outcomes, now, now - self.delivery_timeout)
        if self._stop_at_error and self.stopped_by is None:
            self.stopped_by = next((batch.error for batch in finished if batch.error is not None), None)
        if self.stopped_by is not None:
            finished += self.accumulator.give_up(self.stopped_by)
        for batch in finished:
            if batch.error is not None:
                self.failures.failed(batch)
        return finished

    def stop(self, error: BarnabasError) -> list[Batch]:
        """Send nothing more: whoever sent has ended with this error.  Returns the batches that are lost by it."""
        self.stopped_by = error
        return self.accumulator.give_up(error, under_way=True)


class Sending:
    """Part of a producer that does not wait; its options are those of `Producer`."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        acks: str | int = "all",
        idempotent: bool | None = None,
        compression: str | None = None,
        linger: float = 0.005,
        batch_size: int = 128 << 10,
        buffer: int = 64 << 20,
        client_id: str = "barnabas-producer",
        request_timeout: float = 30.0,
        delivery_timeout: float = 120.0,
        stop_at_error: bool = False,
        security: SecurityOptions = None,
        transactions: AnyTransactions | None = None,
        metadata_max_age: float = METADATA_AGE,
    ) -> None:
        # Nothing that is asked on a record's behalf may take longer than the record has.
        patience = min(request_timeout, delivery_timeout)
        self._transactions = transactions
        self._flushing = 0
        self._made = forks()
        self._outbox = Outbox(
            acks=acks,
            idempotent=idempotent,
            compression=compression,
            linger=linger,
            batch_size=batch_size,
            buffer=buffer,
            request_timeout=request_timeout,
            delivery_timeout=delivery_timeout,
            stop_at_error=stop_at_error,
            metadata_max_age=metadata_max_age,
            transactions=transactions,
            forget=self._forget,
        )
        view = {"client_id": client_id, "timeout": patience, "security": Security.parse(security)}
        self._connect(bootstrap, view)

    def _connect(self, bootstrap: str | Iterable[str], view: Mapping[str, Any]) -> None:
        """Make what waits: a cluster of these options, locks, the way to the leaders."""
        raise NotImplementedError

    def _forget(self, topic: str) -> None:
        """The leaders of a topic may be others now."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._outbox!r}>"


def outcome(batch: Batch, index: int) -> Delivered:
    """Return the place of the record of that index; raises what its batch failed with."""
    if batch.error is not None:
        raise batch.error
    offset = batch.base_offset + index if batch.base_offset >= 0 else NO_OFFSET
    timestamp = batch.appended_ms if batch.appended_ms >= 0 else batch.records[index].timestamp
    return Delivered(batch.target.topic, batch.target.partition, offset, timestamp)


def call_back(batch: Batch) -> None:
    """Tell the callbacks of a batch where their records are, or the error; an error of theirs is only shown."""
    for index, callback in batch.callbacks:
        result: Any
        try:
            result = outcome(batch, index)
        except BarnabasError as error:
            result = error
        try:
            callback(result)
        except Exception as error:
            callback_failed(error)
