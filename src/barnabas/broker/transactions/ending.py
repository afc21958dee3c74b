"""What EndTxn comes to (KIP-98; KIP-890 for clients of transaction.version 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.transactions.state import (
    EPOCH_BUMP,
    EXHAUSTED_EPOCH,
    Coordinated,
    State,
    Transaction,
    exhausted,
)
from barnabas.errors import ErrorCode
from barnabas.model import NO_EPOCH, NO_PRODUCER, ProducerId

__all__ = ["AlreadyEnded", "Decided", "abort_open", "end"]


class Decided(NamedTuple):
    """The next state of the id: the transaction ends."""

    next: Transaction


class AlreadyEnded(NamedTuple):
    """A retry: the transaction has ended so, and its producer goes on with what the id has now."""


Outcome = Decided | AlreadyEnded | ErrorCode


def end(
    held: Coordinated,
    producer_id: ProducerId,
    epoch: int,
    commit: bool,
    client_version: int,
    new_producer_id: Callable[[], ProducerId | None],
    now_ms: int,
) -> Outcome:
    """Decide what a client's request to end its transaction comes to."""
    if client_version < EPOCH_BUMP:
        return _end_in_its_epoch(held, producer_id, epoch, commit, now_ms)
    return _end_and_raise(held, producer_id, epoch, commit, client_version, new_producer_id, now_ms)


def abort_open(
    held: Coordinated,
    server_version: int,
    new_producer_id: Callable[[], ProducerId | None],
    now_ms: int,
) -> Outcome:
    """An open transaction is aborted without its producer, whose epoch is over.

    Where each end raises the epoch, this one does too.  Before, the epoch is raised for this alone.
    """
    current = held.current
    assert held.pending is None and current.state is State.ONGOING
    if server_version >= EPOCH_BUMP or current.kept:
        return _decided(current, False, server_version, new_producer_id, now_ms)
    return Decided(current.fenced().decided(False, 0, now_ms))


def _end_in_its_epoch(
    held: Coordinated, producer_id: ProducerId, epoch: int, commit: bool, now_ms: int
) -> Outcome:
    """Before KIP-890 the epoch stays, so that an end in a complete state can only be a retry."""
    current = held.current
    known, known_epoch = current.identity
    if known != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.kept:
        return ErrorCode.INVALID_TXN_STATE  # who prepares transactions speaks transaction.version 2
    if held.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is State.ONGOING:
        return Decided(current.decided(commit, 0, now_ms))
    return _answer_of_its_state(current.state, commit)


def _end_and_raise(
    held: Coordinated,
    producer_id: ProducerId,
    epoch: int,
    commit: bool,
    client_version: int,
    new_producer_id: Callable[[], ProducerId | None],
    now_ms: int,
) -> Outcome:
    """A request one epoch behind is a retry of the last end; in the current epoch it is another end.

    An abort is welcome where no transaction is open: the client may not know whether one is.
    """
    current = held.current
    state = current.state
    if current.kept and held.pending is None:
        return _end_kept(current, producer_id, epoch, commit, client_version, new_producer_id, now_ms)
    overflowed = (  # the client has not heard that the producer id changed at the last end
        current.previous_producer_id == producer_id and epoch == EXHAUSTED_EPOCH and current.epoch == 0
    )
    retry = overflowed or current.epoch == epoch + 1
    known = retry if state.ending else epoch == current.epoch
    if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        known = known or retry
    if held.pending is not None:
        # first of all: the client may go on in an epoch, or with an id, that the end under way will give it
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.producer_id != producer_id and not overflowed:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not known:
        return ErrorCode.PRODUCER_FENCED
    if state is State.ONGOING or (state.idle and not commit and not retry):
        return _decided(current, commit, client_version, new_producer_id, now_ms)
    if not retry:
        return ErrorCode.INVALID_TXN_STATE
    return _answer_of_its_state(state, commit)


def _end_kept(
    current: Transaction,
    producer_id: ProducerId,
    epoch: int,
    commit: bool,
    client_version: int,
    new_producer_id: Callable[[], ProducerId | None],
    now_ms: int,
) -> Outcome:
    """The producer that found a prepared transaction ends it, in the epoch that it was given (KIP-939)."""
    known, known_epoch = current.identity
    if producer_id not in (known, current.producer_id):
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if (producer_id, epoch) != (known, known_epoch):
        return ErrorCode.PRODUCER_FENCED
    return _decided(current, commit, client_version, new_producer_id, now_ms)


def _decided(
    current: Transaction,
    commit: bool,
    client_version: int,
    new_producer_id: Callable[[], ProducerId | None],
    now_ms: int,
) -> Outcome:
    """The end raises the epoch; where the epochs are used up, another producer id follows when it is complete."""
    producer_id, epoch = current.identity
    following, following_epoch = NO_PRODUCER, NO_EPOCH
    if current.kept:
        following, following_epoch = producer_id, min(epoch + 1, EXHAUSTED_EPOCH)
    if exhausted(epoch):
        found = new_producer_id()
        if found is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        following, following_epoch = found, 0 if current.kept else NO_EPOCH
    return Decided(
        current.decided(
            commit, client_version, now_ms, next_producer_id=following, next_epoch=following_epoch
        )
    )


def _answer_of_its_state(state: State, commit: bool) -> Outcome:
    """The answer to a retry, or to an end where nothing is open."""
    if state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        return AlreadyEnded()
    return ErrorCode.INVALID_TXN_STATE
