"""One transactional id: its state, and the only ways to change it.

A `Transaction` never changes; a step makes the next one, which takes effect when its record is committed.  Under
transaction.version 2 (KIP-890) each end of a transaction raises the epoch, so that a message of the ended one
cannot slip into the next.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from barnabas.model import NO_EPOCH, NO_PRODUCER, NO_TIMESTAMP, Now, ProducerId, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.transactions.markers import Ending

__all__ = [
    "EPOCH_BUMP",
    "EXHAUSTED_EPOCH",
    "LAST_EPOCH",
    "NO_TIMEOUT_MS",
    "Coordinated",
    "State",
    "Transaction",
    "exhausted",
]

LAST_EPOCH = 0x7FFF
EXHAUSTED_EPOCH = LAST_EPOCH - 1
"""No client gets a higher epoch: one more must be left to fence it."""
NO_TIMEOUT_MS = 0x7FFFFFFF
"""Timeout of producers that prepare their transactions (KIP-939)."""
EPOCH_BUMP = 2
"""transaction.version from which each end of a transaction raises the epoch."""


class State(IntEnum):
    """State of a transactional id, numbered as in the records of __transaction_state."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that ListTransactions and DescribeTransactions use."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def idle(self) -> bool:
        """Whether no transaction is open or ending."""
        return self in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

    @property
    def ending(self) -> bool:
        """Whether it is decided how the transaction ends, and partitions are still to hear of it."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)


_IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
_BEFORE = {
    State.EMPTY: _IDLE,
    State.ONGOING: _IDLE | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: _IDLE | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
}
"""State -> the states it may follow."""


def exhausted(epoch: int) -> bool:
    """Whether the producer id needs a successor, because its epochs are used up."""
    return epoch >= EXHAUSTED_EPOCH


class Transaction(NamedTuple):
    """What is known of a transactional id.  Times are wall milliseconds.

    `previous_producer_id` is the id before the last step; `next_producer_id` the one that follows when the
    transaction has ended and the epochs are used up.  `last_epoch` is the epoch before, by which a retry is
    known; records do not carry it.  `client_version` is the transaction.version that its client speaks.

    A prepared transaction that another producer found (KIP-939) is open still under `producer_id` and `epoch`,
    which its batches have; that producer goes by `next_producer_id` and `next_epoch`.
    """

    producer_id: ProducerId
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: ProducerId = NO_PRODUCER
    next_producer_id: ProducerId = NO_PRODUCER
    last_epoch: int = NO_EPOCH
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    client_version: int = 0
    next_epoch: int = NO_EPOCH

    @property
    def two_phases(self) -> bool:
        """Whether its producer prepares transactions (KIP-939): those outlive any timeout."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def kept(self) -> bool:
        """Whether the open transaction is one that another producer found prepared."""
        return self.next_epoch != NO_EPOCH

    @property
    def identity(self) -> tuple[ProducerId, int]:
        """The id and epoch by which the producer goes that may use the transactional id."""
        return (self.next_producer_id, self.next_epoch) if self.kept else (self.producer_id, self.epoch)

    def _step(self, state: State, now_ms: int, **changed: object) -> Transaction:
        assert self.state in _BEFORE[state], f"{state.title} cannot follow {self.state.title}"
        changed["previous_producer_id"] = self.producer_id
        return self._replace(state=state, updated_ms=now_ms, **changed)  # type: ignore[arg-type]

    def initialized(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """A producer begins to use the id, in this epoch."""
        return self._step(
            State.EMPTY,
            now_ms,
            epoch=epoch,
            last_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
            next_epoch=NO_EPOCH,
        )

    def kept_for(self, producer_id: ProducerId, epoch: int, now_ms: int) -> Transaction:
        """Another producer begins to use the id, and the open transaction stays (KIP-939)."""
        return self._step(State.ONGOING, now_ms, next_producer_id=producer_id, next_epoch=epoch)

    def rotated(
        self, producer_id: ProducerId, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
    ) -> Transaction:
        """The same under another producer id, whose epochs begin at 0."""
        last = self.epoch if keep_last_epoch else NO_EPOCH
        return self.initialized(0, last, timeout_ms, now_ms)._replace(producer_id=producer_id)

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        """Partitions join the transaction; the first ones begin it."""
        return self._step(
            State.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            started_ms=now_ms if self.state.idle else self.started_ms,
            client_version=client_version,
        )

    def fenced(self) -> Transaction:
        """The epoch of the current producer is over.  Never written as such: `decided` follows at once."""
        return self._replace(epoch=min(self.epoch + 1, LAST_EPOCH), last_epoch=NO_EPOCH)

    def decided(
        self,
        commit: bool,
        client_version: int,
        now_ms: int,
        *,
        next_producer_id: ProducerId = NO_PRODUCER,
        next_epoch: int = NO_EPOCH,
    ) -> Transaction:
        """It is decided that the transaction ends, and how.  Without an open one only to abort (KIP-890)."""
        epoch, last_epoch = self.epoch, self.last_epoch
        if client_version >= EPOCH_BUMP:
            epoch, last_epoch = min(self.epoch + 1, LAST_EPOCH), self.epoch
        return self._step(
            State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
            now_ms,
            epoch=epoch,
            last_epoch=last_epoch,
            started_ms=now_ms if self.state.idle else self.started_ms,
            next_producer_id=next_producer_id,
            next_epoch=next_epoch,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Every partition has its marker."""
        producer_id, epoch = self.producer_id, self.epoch
        if self.kept:
            producer_id, epoch = self.next_producer_id, self.next_epoch
        elif self.client_version >= EPOCH_BUMP and self.next_producer_id != NO_PRODUCER:
            producer_id, epoch = self.next_producer_id, 0
        commit = self.state is State.PREPARE_COMMIT
        return self._step(
            State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT,
            now_ms,
            producer_id=producer_id,
            epoch=epoch,
            next_producer_id=NO_PRODUCER,
            next_epoch=NO_EPOCH,
            partitions=frozenset(),
        )

    def __repr__(self) -> str:
        return f"<Transaction {self.state.title} producer={self.producer_id} epoch={self.epoch}>"


class Coordinated:
    """A transactional id at its coordinator.

    `current` is committed. `pending` is the state that a record in flight, or markers in flight, lead to: nothing
    else may change the id meanwhile.
    """

    __slots__ = ("_open", "_open_since", "current", "ending", "id", "pending")

    def __init__(self, transactional_id: str, current: Transaction) -> None:
        self.id = transactional_id
        self.current = current
        self.pending: State | None = None
        self.ending: Ending | None = None
        """The markers that partitions still have to get."""
        self._open: tuple[int, ProducerId, int] | None = None
        self._open_since = 0.0

    def lasts_too_long(self, now: Now) -> bool:
        """Whether the open transaction has had its time; its coordinator asks now and then.

        By wall time since it began, which the record of it says; and by the time since it was first looked at,
        or one that began while a clock was an hour ahead would hold its readers for that hour.
        """
        current = self.current
        if current.two_phases:
            return False
        open_one = (current.started_ms, current.producer_id, current.epoch)
        if open_one != self._open:
            self._open, self._open_since = open_one, now.mono
        seen_ms = (now.mono - self._open_since) * 1000
        return current.started_ms + current.timeout_ms < now.wall_ms or seen_ms > current.timeout_ms

    def __repr__(self) -> str:
        pending = f" -> {self.pending.title}" if self.pending is not None else ""
        return f"<Coordinated {self.id} {self.current!r}{pending}>"
