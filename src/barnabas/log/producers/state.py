"""What is remembered of one producer on one partition, and the answers to its batches."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.errors import ErrorCode
from barnabas.log.producers.snapshot import SnapshotRow
from barnabas.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Epoch, Offset, ProducerId

__all__ = [
    "IN_FLIGHT",
    "MAX_SEQUENCE",
    "NEVER_SEEN",
    "BatchFields",
    "Duplicate",
    "EndedTransaction",
    "ProducerState",
    "RefusedBatch",
    "VerificationGuard",
]

MAX_SEQUENCE = 0x7FFFFFFF
NEVER_SEEN = -2
IN_FLIGHT = 5
"""An idempotent producer waits for so many answers at most."""


class BatchFields(Protocol):
    """What is looked at in a batch header (`wire.records.BatchHeader`)."""

    @property
    def attributes(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> ProducerId: ...
    @property
    def producer_epoch(self) -> Epoch: ...
    @property
    def base_sequence(self) -> int: ...


class Duplicate(NamedTuple):
    """The batch is in the log already, at these offsets, with this largest timestamp (ms)."""

    first_offset: Offset
    last_offset: Offset
    timestamp: int


class EndedTransaction(NamedTuple):
    """A transaction whose marker was appended; `last_stable_offset` is what `.txnindex` wants to know."""

    producer_id: ProducerId
    first_offset: Offset
    marker_offset: Offset
    last_stable_offset: Offset


class VerificationGuard:
    """A ticket: this producer's transaction is being verified with its coordinator (KIP-890).

    A batch that starts a transaction must carry the ticket of the verification that is current, so that an
    abort marker between verification and append is noticed.  Tickets are compared by identity.
    """

    __slots__ = ("epoch", "lowest_sequence", "producer_id", "since_ms", "supports_bump")

    def __init__(
        self, producer_id: ProducerId, sequence: int, epoch: Epoch, supports_bump: bool, since_ms: int
    ) -> None:
        self.producer_id = producer_id
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_bump = supports_bump
        self.since_ms = since_ms


class RefusedBatch:
    """The first batch that was refused for now, why, and how many after it may still come."""

    __slots__ = ("code", "epoch", "left", "seen", "sequence")

    def __init__(self, epoch: Epoch, sequence: int, code: ErrorCode) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.code = code
        self.left = IN_FLIGHT
        self.seen = False
        """Whether a look (`ProducerStates.expire`) found it; the next one forgets it."""


class ProducerState:
    """One producer on one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "seen_offset",
        "silent_since",
        "transaction_start",
    )

    def __init__(self, producer_id: ProducerId, epoch: Epoch) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch: Epoch = NO_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.next_sequence = 0
        self.transaction_start: Offset = NO_OFFSET
        self.batches: list[tuple[int, int, Offset, Offset, int]] = []
        """(first sequence, last sequence, first offset, last offset, timestamp), oldest first."""
        self.seen_offset: Offset = NEVER_SEEN
        self.silent_since = 0.0
        """Monotonic seconds of the first look (`ProducerStates.expire`) that found its last batch, or the start of
        its open transaction, where it is still: at `seen_offset`."""

    def __repr__(self) -> str:
        open_since = f" open@{self.transaction_start}" if self.transaction_start >= 0 else ""
        return f"<Producer {self.producer_id} epoch={self.epoch} next={self.next_sequence}{open_since}>"

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else -1

    @property
    def last_offset(self) -> Offset:
        return self.batches[-1][3] if self.batches else NO_OFFSET

    def to_row(self) -> SnapshotRow:
        last = self.batches[-1] if self.batches else (-1, -1, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP)
        return SnapshotRow(
            self.producer_id,
            self.epoch,
            last[1],
            last[3],
            last[3] - last[2],
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_start,
        )

    def to_rows(self) -> list[SnapshotRow]:
        """What a snapshot says of it: a row per batch that is remembered, the newest last."""
        earlier = [
            SnapshotRow(
                self.producer_id, self.epoch, last, end, end - first, stamp, self.coordinator_epoch, -1
            )
            for _, last, first, end, stamp in self.batches[:-1]
        ]
        return [*earlier, self.to_row()]

    @classmethod
    def from_row(cls, row: SnapshotRow) -> ProducerState:
        state = cls(row.producer_id, row.epoch)
        state.coordinator_epoch = row.coordinator_epoch
        state.last_timestamp = row.timestamp
        state.transaction_start = row.first_offset_of_transaction
        if row.last_offset >= 0:
            first = (row.last_sequence - row.offset_delta) & MAX_SEQUENCE if row.last_sequence >= 0 else -1
            start = row.last_offset - row.offset_delta
            state.batches.append((first, row.last_sequence, start, row.last_offset, row.timestamp))
            state.next_sequence = (row.last_sequence + 1) & MAX_SEQUENCE
        return state
