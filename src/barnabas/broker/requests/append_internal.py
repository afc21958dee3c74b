"""Append a batch of the node's own: a coordinator writes what its clients told it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Purgatory, Waiting
from barnabas.broker.replicas.acknowledgements import Acknowledgement
from barnabas.broker.requests.append import append_own
from barnabas.errors import ErrorCode
from barnabas.log.producers.state import VerificationGuard
from barnabas.model import Now, Offset
from barnabas.wire.records import read_batch_header

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.partition import Partition

__all__ = ["append_internal", "call_when_safe"]


def append_internal(
    broker: Broker,
    partition: Partition,
    batch: bytearray,
    now: Now,
    on_done: Callable[[ErrorCode], None],
    *,
    timeout_s: float = 5.0,
    guard: VerificationGuard | None = None,
) -> Offset:
    """Append a batch of the node's own (a coordinator's) and say when it is safe everywhere.

    `guard`: its transaction was verified with it.

    Returns its last offset.  Raises KafkaError when it was not appended.  `on_done` is called once, at
    the end of this loop step or later: NONE, REQUEST_TIMED_OUT (the batch may still become safe), or why
    nobody knows any more.
    """
    end = append_own(broker, partition, batch, read_batch_header(batch), now, guard)
    call_when_safe(broker, partition, end, now, on_done, timeout_s=timeout_s)
    return end - 1


def call_when_safe(
    broker: Broker,
    partition: Partition,
    end: Offset,
    now: Now,
    on_done: Callable[[ErrorCode], None],
    *,
    timeout_s: float,
) -> None:
    """What was appended up to `end` in this loop step: `on_done` hears when it is safe, as above."""
    waiting = _InternalWaiting(now.mono + timeout_s, broker.purgatory, partition, end)
    waiting.on_done = on_done
    partition.await_acknowledgement(waiting.acknowledgement)


class _InternalWaiting(Waiting):
    """A coordinator that waits for its own batch."""

    __slots__ = ("acknowledgement", "purgatory")

    def __init__(self, deadline: float, purgatory: Purgatory, partition: Partition, end: Offset) -> None:
        super().__init__(deadline)
        self.purgatory = purgatory
        self.acknowledgement = _Internal(self, partition, end)

    def expired(self, now: Now) -> None:
        self.complete(ErrorCode.REQUEST_TIMED_OUT)

    def release(self) -> None:
        self.acknowledgement.partition.acknowledgements.forget(self.acknowledgement)
        del self.acknowledgement  # it points back here: leave no circle for the garbage collector


class _Internal(Acknowledgement):
    __slots__ = ("partition", "waiting")

    def __init__(self, waiting: _InternalWaiting, partition: Partition, end: Offset) -> None:
        super().__init__(end, True)
        self.partition = partition
        self.waiting = waiting

    def settle(self, error: ErrorCode) -> None:
        self.waiting.complete(error)

    def park(self) -> bool:
        return not self.waiting.done and self.waiting.purgatory.add(self.waiting, force=True)
