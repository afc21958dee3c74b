"""What a partition remembers of its idempotent and transactional producers (KIP-98, KIP-360, KIP-890).

For each producer: its epoch, its last five batches (so that a retry is answered with the offsets of the
original), and the first offset of its open transaction.  The open transactions determine the first unstable
offset, up to which a read_committed consumer may read.

`check` decides and changes nothing.  The log calls `append` and `end_transaction` for every batch that is
appended, on leader, follower and at recovery alike, so all replicas remember the same.

A leader may have to refuse a batch for now (`refused`: too few replicas in sync, no room). The producer's
next batches are already on their way.  If one of them comes a moment too late to be refused for the same
reason, it would be answered OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka takes that for a loss, starts a new
epoch, and sends again, to all partitions, everything that is not answered yet, so that some records are there
twice.  So the few batches that can be on their way get the same answer as the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.producers.snapshot import SnapshotRow
from barnabas.log.producers.state import (
    IN_FLIGHT,
    MAX_SEQUENCE,
    NEVER_SEEN,
    BatchFields,
    Duplicate,
    EndedTransaction,
    ProducerState,
    RefusedBatch,
    VerificationGuard,
)
from barnabas.model import NO_OFFSET, Epoch, Now, Offset, ProducerId
from barnabas.wire.records import TRANSACTIONAL

__all__ = ["BATCHES_REMEMBERED", "DEFAULT_EXPIRATION_MS", "ProducerStates"]

BATCHES_REMEMBERED = 5
DEFAULT_EXPIRATION_MS = 86_400_000
_MAX_EPOCH = 0x7FFF
_MOST_REFUSED = 1000
"""Refusals are remembered of so many producers; beyond that the oldest refusal is forgotten."""


class ProducerStates:
    """All producers of one partition."""

    __slots__ = (
        "_ongoing",
        "_refused",
        "_states",
        "_verifications",
        "ended",
        "expiration_ms",
        "first_unstable_offset",
        "latest_offset",
    )

    def __init__(self, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self.expiration_ms = expiration_ms
        self.first_unstable_offset: Offset = NO_OFFSET
        """First offset of a transaction that is open, or whose marker is not below the high watermark yet."""
        self.latest_offset: Offset = NO_OFFSET
        """No batch of a producer after this offset counts here: a cut after it changes nothing."""
        self._states: dict[ProducerId, ProducerState] = {}
        self._ongoing: dict[Offset, ProducerId] = {}
        self.ended: list[tuple[Offset, Offset]] = []
        self._verifications: dict[ProducerId, VerificationGuard] = {}
        self._refused: dict[ProducerId, RefusedBatch] = {}

    def __repr__(self) -> str:
        return f"<ProducerStates {len(self._states)} open={len(self._ongoing)}>"

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: ProducerId) -> ProducerState | None:
        return self._states.get(producer_id)

    def active(self) -> Iterator[ProducerState]:
        """Every producer known, for DescribeProducers."""
        return iter(self._states.values())

    def ongoing(self, producer_id: ProducerId, epoch: Epoch) -> bool:
        """Whether this producer has a transaction open here at this very epoch."""
        state = self._states.get(producer_id)
        return state is not None and state.transaction_start >= 0 and state.epoch == epoch

    def has_late_transaction(self, now: Now, most_s: float) -> bool:
        """Whether two looks (`expire`) that far apart found the same transaction open (KIP-664)."""
        for start, producer_id in self._ongoing.items():
            state = self._states[producer_id]
            if state.seen_offset == start and now.mono - state.silent_since > most_s:
                return True
        return False

    # --- deciding -----------------------------------------------------------------------------------------

    def check(
        self,
        header: BatchFields,
        *,
        guard: VerificationGuard | None = None,
        verify: bool = False,
        coordinator: bool = False,
    ) -> Duplicate | None:
        """May this batch of a client be appended?  None: yes.  Duplicate: it is there already.

        `verify`: transactional batches need the current `guard` unless their transaction is open.
        `coordinator`: the batch comes from a coordinator of ours, which numbers nothing.
        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE, or what
        a batch before it was refused with.
        """
        state = self._states.get(header.producer_id)
        transactional = header.attributes & TRANSACTIONAL
        if (
            state is not None
            and header.base_sequence == state.next_sequence
            and header.producer_epoch == state.epoch
            and (state.transaction_start >= 0 if transactional else state.transaction_start < 0)
        ):
            return None  # the common case: the next batch of a producer we know
        epoch = header.producer_epoch
        if state is not None and epoch == state.epoch and not coordinator:
            sequence = header.base_sequence
            last = (sequence + header.last_offset_delta) & MAX_SEQUENCE
            for first, end, first_offset, last_offset, timestamp in state.batches:
                if first == sequence and end == last:
                    return Duplicate(first_offset, last_offset, timestamp)
        if transactional and not self.ongoing(header.producer_id, epoch):
            if state is not None and epoch < state.epoch:
                _refuse_epoch(header, state)
            if verify and (guard is None or self._verifications.get(header.producer_id) is not guard):
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"the transaction of producer {header.producer_id} was not verified with its coordinator",
                )
        if state is not None and epoch < state.epoch:
            _refuse_epoch(header, state)
        if not coordinator:
            if self._refused:
                self._check_refused(header)
            self._check_sequence(header, state)
        if state is not None and state.transaction_start >= 0 and not transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open and sent a batch outside of it",
            )
        return None

    def expects(self, producer_id: ProducerId, epoch: Epoch, sequence: int) -> bool:
        """Whether this is the next batch of a known producer, outside of transactions: `check` takes it."""
        state = self._states.get(producer_id)
        return (
            state is not None
            and sequence == state.next_sequence
            and epoch == state.epoch
            and state.transaction_start < 0
        )

    def refused(self, header: BatchFields, code: ErrorCode) -> None:
        """A batch is refused for now; its producer will try again."""
        known = self._refused.pop(header.producer_id, None)
        sequence, epoch = header.base_sequence, header.producer_epoch
        if known is None or known.epoch != epoch or _is_before(sequence, known.sequence):
            known = RefusedBatch(epoch, sequence, code)
        else:
            known.code, known.left, known.seen = code, IN_FLIGHT, False
        self._refused[header.producer_id] = known
        if len(self._refused) > _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]

    def counts(self, producer_id: ProducerId) -> bool:
        """Whether `check` counts what comes from this producer: do not ask it twice about one batch."""
        return producer_id in self._refused

    def _check_refused(self, header: BatchFields) -> None:
        """A batch sent after one that was refused for now gets the same answer."""
        known = self._refused.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            return
        if _is_before(known.sequence, header.base_sequence):
            known.left -= 1
            if known.left >= 0:
                raise KafkaError(
                    known.code,
                    f"producer {header.producer_id} has to send sequence {known.sequence} first, "
                    "which was refused for now",
                )
            del self._refused[header.producer_id]

    def _check_sequence(self, header: BatchFields, state: ProducerState | None) -> None:
        sequence = header.base_sequence
        pending = self._verifications.get(header.producer_id)
        if pending is not None:
            known = state is not None and bool(state.batches)
            if pending.supports_bump and sequence != 0 and not known:
                _refuse_sequence(header, 0)
            if sequence > pending.lowest_sequence:
                _refuse_sequence(header, pending.lowest_sequence)
        if state is None:
            return
        expected = 0 if header.producer_epoch != state.epoch else state.next_sequence
        if sequence != expected:
            _refuse_sequence(header, expected)

    def check_marker(
        self, producer_id: ProducerId, epoch: Epoch, coordinator_epoch: Epoch, *, transaction_version: int
    ) -> None:
        """May a coordinator end this producer's transaction?

        Version 2 (KIP-890) wants a higher epoch than ours, or the same when nothing is open (a repeated
        marker); before that the same epoch is the rule.  Raises KafkaError INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED.
        """
        state = self._states.get(producer_id)
        if state is None:
            return
        allowed = epoch >= state.epoch
        if transaction_version >= 2 and epoch == state.epoch:
            allowed = state.transaction_start < 0 or epoch == _MAX_EPOCH
        if not allowed:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker of epoch {epoch} for producer {producer_id}, whose epoch is {state.epoch}",
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {coordinator_epoch} after one of {state.coordinator_epoch}",
            )

    def begin_verification(
        self, producer_id: ProducerId, sequence: int, epoch: Epoch, *, supports_bump: bool, now_ms: int = 0
    ) -> VerificationGuard:
        """The ticket of the verification that is current for this producer, a new one if there is none."""
        guard = self._verifications.get(producer_id)
        if guard is None or epoch > guard.epoch:
            guard = VerificationGuard(producer_id, sequence, epoch, supports_bump, now_ms)
            self._verifications[producer_id] = guard
        elif epoch == guard.epoch and 0 <= sequence < guard.lowest_sequence:
            guard.lowest_sequence = sequence
        return guard

    def verification(self, producer_id: ProducerId) -> VerificationGuard | None:
        return self._verifications.get(producer_id)

    # --- remembering --------------------------------------------------------------------------------------

    def append(self, header: BatchFields, first_offset: Offset, last_offset: Offset) -> None:
        """A data batch of a producer (id >= 0) was appended at these offsets."""
        producer_id = header.producer_id
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, header.producer_epoch)
        elif state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        first = header.base_sequence
        last = (first + last_offset - first_offset) & MAX_SEQUENCE if first >= 0 else -1
        timestamp = header.max_timestamp
        batches = state.batches
        if len(batches) == BATCHES_REMEMBERED:
            del batches[0]
        batches.append((first, last, first_offset, last_offset, timestamp))
        state.next_sequence = (last + 1) & MAX_SEQUENCE
        state.last_timestamp = timestamp
        self.latest_offset = last_offset
        if self._refused:
            self._refused.pop(producer_id, None)
        if header.attributes & TRANSACTIONAL and state.transaction_start < 0:
            state.transaction_start = first_offset
            self._ongoing[first_offset] = producer_id
            self._verifications.pop(producer_id, None)
            self._find_first_unstable()

    def end_transaction(
        self, header: BatchFields, marker_offset: Offset, coordinator_epoch: Epoch
    ) -> EndedTransaction | None:
        """An end marker was appended.  Returns the transaction it ended, None if none was open."""
        producer_id = header.producer_id
        self.latest_offset = marker_offset
        self._verifications.pop(producer_id, None)
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, header.producer_epoch)
        elif state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
            state.next_sequence = 0
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = header.max_timestamp
        first, state.transaction_start = state.transaction_start, NO_OFFSET
        if first < 0:
            return None
        self._ongoing.pop(first, None)
        stable = min(self._ongoing) if self._ongoing else marker_offset + 1
        self.ended.append((first, marker_offset))
        self._find_first_unstable()
        return EndedTransaction(producer_id, first, marker_offset, stable)

    def know(self, header: BatchFields, last_offset: Offset) -> None:
        """A marker that compaction left empty: it only says which epoch its producer had."""
        self.latest_offset = last_offset
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._states[header.producer_id] = ProducerState(
                header.producer_id, header.producer_epoch
            )
        elif header.producer_epoch > state.epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
            state.next_sequence = 0
        state.last_timestamp = max(state.last_timestamp, header.max_timestamp)

    def advance(self, high_watermark: Offset) -> None:
        """Transactions whose markers lie below the high watermark are decided; readers may pass them."""
        if any(marker < high_watermark for _, marker in self.ended):
            self.ended = [ended for ended in self.ended if ended[1] >= high_watermark]
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        first = min(self._ongoing) if self._ongoing else NO_OFFSET
        for start, _ in self.ended:
            if first < 0 or start < first:
                first = start
        self.first_unstable_offset = first

    def expire(self, now: Now, log_start: Offset = 0) -> int:
        """Forget producers without an open transaction that were silent too long; returns how many.

        Silence is measured between two calls by our own clock.  The timestamps of records say nothing about
        it: who sends the events of 2013 today must not lose the memory by which a retry is recognized.  Only
        a producer that was loaded, whose records are all gone, is forgotten by them at once.
        """
        horizon = now.mono - self.expiration_ms / 1000
        old = now.wall_ms - self.expiration_ms
        gone = []
        for state in self._states.values():
            last = state.last_offset
            if (start := state.transaction_start) >= 0:
                if state.seen_offset != start:
                    state.seen_offset, state.silent_since = start, now.mono
                continue
            if state.seen_offset != last:
                loaded = state.seen_offset == NEVER_SEEN
                state.seen_offset, state.silent_since = last, now.mono
                if loaded and last < log_start and state.last_timestamp <= old:
                    gone.append(state.producer_id)
            elif state.silent_since <= horizon:
                gone.append(state.producer_id)
        for producer_id in gone:
            del self._states[producer_id]
        for producer_id in [id_ for id_, refused in self._refused.items() if refused.seen]:
            del self._refused[producer_id]  # nothing of what was on its way then is on its way still
        for refused in self._refused.values():
            refused.seen = True
        for guard in [g for g in self._verifications.values() if g.since_ms <= old]:
            del self._verifications[guard.producer_id]
        return len(gone)

    def rows(self) -> list[SnapshotRow]:
        """What a snapshot file holds."""
        return [row for state in self._states.values() for row in state.to_rows()]

    def replace(self, rows: Iterable[SnapshotRow], *, up_to: Offset = NO_OFFSET) -> None:
        """Start anew from a snapshot of what lies up to and including offset `up_to`.

        A transaction that ended before there stays undecided until its marker is below the high watermark.
        """
        self.latest_offset = up_to
        self._states.clear()
        self._ongoing.clear()
        self.ended = [ended for ended in self.ended if ended[1] <= up_to]
        for row in rows:
            state, earlier = ProducerState.from_row(row), self._states.get(row.producer_id)
            if earlier is not None and earlier.epoch == state.epoch:
                state.batches[:0] = earlier.batches
            self._states[row.producer_id] = state
            if row.first_offset_of_transaction >= 0:
                self._ongoing[row.first_offset_of_transaction] = row.producer_id
        self._find_first_unstable()


def _is_before(one: int, other: int) -> bool:
    """Whether a sequence number comes before another (they begin anew after 2^31 - 1)."""
    return 0 < ((other - one) & MAX_SEQUENCE) < 1 << 30


def _refuse_epoch(header: BatchFields, state: ProducerState) -> NoReturn:
    raise KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} sent epoch {header.producer_epoch}, its epoch is {state.epoch}",
    )


def _refuse_sequence(header: BatchFields, expected: int) -> NoReturn:
    raise KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} sent sequence {header.base_sequence}, expected {expected}",
    )
