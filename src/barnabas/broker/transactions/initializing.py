"""What InitProducerId comes to for a transactional id (KIP-98, KIP-360)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.transactions.state import Coordinated, Transaction, exhausted
from barnabas.errors import ErrorCode
from barnabas.model import NO_EPOCH, ProducerId

__all__ = ["Given", "Initialized", "MustAbort", "initialize"]


class Given(NamedTuple):
    """The producer id and epoch that a producer had, and wants to go on from (KIP-360)."""

    producer_id: ProducerId
    epoch: int


class MustAbort(NamedTuple):
    """A transaction is open: it is fenced and aborted first, and the client comes again."""


class Initialized(NamedTuple):
    """The next state of the id; its producer is told the id and the epoch in it."""

    next: Transaction


def initialize(
    held: Coordinated,
    given: Given | None,
    timeout_ms: int,
    new_producer_id: Callable[[], ProducerId | None],
    now_ms: int,
    keep: bool = False,
) -> Initialized | MustAbort | ErrorCode:
    """Decide.  `new_producer_id` gives None while there is no block of ids.

    1. A step in flight comes first: CONCURRENT_TRANSACTIONS.
    2. A producer that gives an id must give the current one, or the one before if its epochs were used up (then
       it did not hear that the id changed): else PRODUCER_FENCED.
    3. An open transaction is aborted, unless the producer wants to `keep` it; one that is ending is waited for.
    4. When the epochs are used up, and the producer has the last one, another producer id follows.
    5. Else the epoch rises, unless the given epoch is the one before: then this is a retry.
    """
    current = held.current
    if held.pending is not None:  # 1
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if given is not None and current.epoch != NO_EPOCH and given.producer_id != current.producer_id:  # 2
        if given.producer_id != current.previous_producer_id or not exhausted(given.epoch):
            return ErrorCode.PRODUCER_FENCED
    if current.state.ending:  # 3
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not current.state.idle:
        return _kept(current, new_producer_id, now_ms) if keep else MustAbort()
    if exhausted(current.epoch) and (given is None or given.epoch == current.epoch):  # 4
        producer_id = new_producer_id()
        if producer_id is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return Initialized(
            current.rotated(producer_id, timeout_ms, now_ms, keep_last_epoch=given is not None)
        )
    epoch = current.epoch + 1  # 5
    if given is None:
        return Initialized(current.initialized(epoch, NO_EPOCH, timeout_ms, now_ms))
    if current.epoch in (NO_EPOCH, given.epoch):
        return Initialized(current.initialized(epoch, current.epoch, timeout_ms, now_ms))
    if given.epoch == current.last_epoch:
        return Initialized(current.initialized(current.epoch, current.last_epoch, timeout_ms, now_ms))
    return ErrorCode.PRODUCER_FENCED


def _kept(
    current: Transaction, new_producer_id: Callable[[], ProducerId | None], now_ms: int
) -> Initialized | ErrorCode:
    """The open transaction stays as it is; the producer that will end it gets the next epoch (KIP-939)."""
    producer_id, epoch = current.identity
    if not exhausted(epoch):
        return Initialized(current.kept_for(producer_id, epoch + 1, now_ms))
    found = new_producer_id()
    if found is None:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return Initialized(current.kept_for(found, 0, now_ms))
