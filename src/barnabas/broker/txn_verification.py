"""Before the first batch of a transaction: ask its coordinator whether the partition belongs to it (KIP-890).

A batch that comes late, after its transaction has ended, would open one that nobody ends, and readers of
committed records would wait for ever.  So a leader that knows of no open transaction of this producer asks.
Older clients told the coordinator of the partition before (the leader asks to verify that); since Produce v12
and TxnOffsetCommit v5 the leader has it added.

The answer counts only if no marker of this producer came between: the log gives out a `VerificationGuard` that a
marker makes void.  (A producer of transaction.version 2 has another epoch in each transaction: a marker that
comes between is that of its last one, for which the coordinator lets it wait, and the guard is taken when the
answer comes.)  Batches of the same producer that come meanwhile wait in line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.replicas.partition import Partition
from barnabas.config import Config
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.producers.state import VerificationGuard
from barnabas.model import Epoch, Now, ProducerId

__all__ = ["Question", "Verifications", "Verified", "produce_error"]


class Question(NamedTuple):
    """Whether a partition belongs to the open transaction of a producer.

    `add`: have it added.  `abortable`: the client knows the code TRANSACTION_ABORTABLE.  `number` tells questions
    apart: the answer to an earlier one, from before a marker, does not count for this one.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: Epoch
    topic: str
    partition: int
    add: bool
    abortable: bool
    number: int = 0


Verified = Callable[[ErrorCode, VerificationGuard, Now], None]
"""Hears how it came out: NONE, and the guard with which the log takes the batch."""


class _Open:
    """A question without an answer, and who waits for it, in their order."""

    __slots__ = ("callers", "guard", "partition", "question", "retry_at", "since")

    def __init__(
        self, question: Question, partition: Partition, guard: VerificationGuard, since: float
    ) -> None:
        self.question = question
        self.partition = partition
        self.guard = guard
        self.since = since
        self.retry_at: float | None = None
        self.callers: list[Verified] = []


_LATER = {
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def produce_error(error: ErrorCode, *, add: bool) -> ErrorCode:
    """What a producer hears: NOT_ENOUGH_REPLICAS is what every release sends again without asking for metadata."""
    if error in _LATER or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not add):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


class Verifications:
    """The questions of one broker.  `ask` sends one; the answer comes in through `answered`."""

    __slots__ = ("_ask", "_asked", "_open", "_patience_s", "_pause_s", "enabled")

    def __init__(self, config: Config, ask: Callable[[Question], None]) -> None:
        self._ask = ask
        self._asked = 0
        self._open: dict[tuple[str, int, ProducerId], _Open] = {}
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take the node's settings, now and whenever they change."""
        self.enabled = config.bool("transaction.partition.verification.enable")
        self._pause_s = config.int("add.partitions.to.txn.retry.backoff.ms") / 1000
        self._patience_s = config.int("add.partitions.to.txn.retry.backoff.max.ms") / 1000

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Verifications {len(self._open)} open>"

    def needed(self, partition: Partition, producer_id: ProducerId, epoch: Epoch, *, add: bool) -> bool:
        """Whether the coordinator must be asked before a batch of this producer is appended."""
        if not (self.enabled or add) or partition.offline or not partition.is_leader:
            return False
        return not partition.log.producers.ongoing(producer_id, epoch)

    def begin(
        self, partition: Partition, question: Question, sequence: int, now: Now, done: Verified
    ) -> None:
        """Ask; `done` is called once, later.

        Raises KafkaError: a newer epoch of the producer is in the log already, or is asked about.  Then nobody
        is asked, and the partition does not become one of the transaction's.
        """
        key = (question.topic, question.partition, question.producer_id)
        known, epoch = self._open.get(key), question.producer_epoch
        state = partition.log.producers.get(question.producer_id)
        if state is not None and epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {question.producer_id} has epoch {epoch}, and {state.epoch} is in the log",
            )
        if known is not None and known.question.producer_epoch > epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {known.question.producer_epoch} of producer {question.producer_id} is being verified",
            )
        guard = partition.log.producers.begin_verification(
            question.producer_id, sequence, epoch, supports_bump=question.add, now_ms=now.wall_ms
        )
        if known is not None and known.question.producer_epoch == epoch:
            if known.guard is guard or (question.add and known.question.add):
                known.callers.append(done)
                return
        self._asked += 1
        question = question._replace(number=self._asked)
        opened = self._open[key] = _Open(question, partition, guard, now.mono)
        opened.callers.append(done)
        if known is not None:  # a newer epoch, or a marker came between
            fenced = known.question.producer_epoch < epoch
            _tell(known, ErrorCode.INVALID_PRODUCER_EPOCH if fenced else ErrorCode.NETWORK_EXCEPTION, now)
        self._ask(question)

    def answered(self, question: Question, error: ErrorCode, now: Now) -> None:
        """What the coordinator said; NETWORK_EXCEPTION when it could not be asked."""
        key = (question.topic, question.partition, question.producer_id)
        known = self._open.get(key)
        if known is None or known.question != question:
            return
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and question.add:
            if now.mono - known.since < self._patience_s:  # markers of its last transaction are on their way
                known.retry_at = now.mono + self._pause_s
                return
        if error is ErrorCode.PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        elif error is ErrorCode.TRANSACTION_ABORTABLE and not question.abortable:
            error = ErrorCode.INVALID_TXN_STATE
        del self._open[key]
        if question.add and not error:
            known.guard = known.partition.log.producers.begin_verification(
                question.producer_id,
                known.guard.lowest_sequence,
                question.producer_epoch,
                supports_bump=True,
                now_ms=now.wall_ms,
            )
        _tell(known, error, now)

    def tick(self, now: Now) -> None:
        """Ask again where it is time."""
        for opened in list(self._open.values()):
            if opened.retry_at is not None and opened.retry_at <= now.mono:
                opened.retry_at = None
                self._ask(opened.question)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, in monotonic seconds."""
        if not self._open:
            return None
        times = (opened.retry_at for opened in self._open.values())
        return min((at for at in times if at is not None), default=None)

    def give_up(self, error: ErrorCode, now: Now) -> None:
        """The node stops: nobody gets an answer from a coordinator any more."""
        waiting, self._open = list(self._open.values()), {}
        for opened in waiting:
            _tell(opened, error, now)


def _tell(opened: _Open, error: ErrorCode, now: Now) -> None:
    for done in opened.callers:
        done(error, opened.guard, now)
