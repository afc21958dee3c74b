"""The transaction coordinator: what this node does for the transactional ids in the partitions that it leads.

A request is decided (`initializing`, `ending`), written (`state_log`), and takes effect when the record is
committed; the client is answered then.  When it is decided how a transaction ends, every partition in it gets a
marker (`markers`), and when all have theirs another record says that the end is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.replicas.broker import Broker
from barnabas.broker.requests.append_internal import append_internal
from barnabas.broker.transactions.ending import AlreadyEnded, Decided, abort_open, end
from barnabas.broker.transactions.initializing import Given, MustAbort, initialize
from barnabas.broker.transactions.markers import RETRY_S, Ending, TransactionMarkers
from barnabas.broker.transactions.records import tombstone, transaction_record
from barnabas.broker.transactions.state import NO_TIMEOUT_MS, Coordinated, State, Transaction
from barnabas.broker.transactions.state_log import Owned, StateLog
from barnabas.broker.walk import Walk
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.model import Now, Offset, ProducerId, TopicPartition

__all__ = ["FEATURE", "Transactions", "TransactionsStatistics"]

FEATURE = "transaction.version"
CHECKED_PER_STEP = 500
"""Ids that are looked at in one step of the walk over what is too old."""

Done = Callable[[ErrorCode], None]
Producer = Callable[[ErrorCode, Transaction | None], None]
"""Hears why not, or the state in which the producer goes on."""


class TransactionsStatistics(NamedTuple):
    """Counts for the metrics."""

    ids: int
    ongoing: int
    ending: int
    unwritten: int
    """Ends whose last record is written again."""
    loading: int
    timed_out: int
    unreadable: int


class _Retry(NamedTuple):
    """The record of a complete end that could not be written; it is written again at `when`."""

    when: float
    owned: Owned
    held: Coordinated


class Transactions:
    """All transactional ids that this node coordinates."""

    def __init__(
        self,
        config: Config,
        broker: Broker,
        *,
        append: Callable[..., Offset] = append_internal,
        on_timeout: Callable[[str, Transaction], None] | None = None,
    ) -> None:
        """`append` puts a batch of records into a partition that `broker` leads.

        `on_timeout` hears of an id, and of its open transaction, when that is aborted because its time is over.
        """
        self.broker = broker
        self.markers = TransactionMarkers(lambda: broker.image)
        self.log = StateLog(
            broker,
            timeout_s=config.int("request.timeout.ms") / 1000,
            append=append,
            on_loaded=self._loaded,
            on_lost=self._lost,
        )
        self._longest_timeout_ms = config.int("transaction.max.timeout.ms")
        self.two_phases = config.bool("transaction.two.phase.commit.enable")
        """Whether producers may prepare transactions (KIP-939)."""
        self._expiration_ms = config.int("transactional.id.expiration.ms")
        self._timeout_interval = (
            config.int("transaction.abort.timed.out.transaction.cleanup.interval.ms") / 1000
        )
        self._expiry_interval = (
            config.int("transaction.remove.expired.transaction.cleanup.interval.ms") / 1000
        )
        self._next_timeouts: float | None = None
        self._next_expiry = 0.0
        self._walk: Walk[tuple[Owned, Coordinated]] = Walk()
        self._expires = False
        """Whether the walk also forgets ids that nobody has used for long."""
        self._retries: list[_Retry] = []
        self._on_timeout = on_timeout or _nobody
        self.timed_out = 0
        """Transactions that were aborted because their time was over."""

    # -- requests --

    def initialize(
        self,
        transactional_id: str,
        timeout_ms: int,
        given: Given | None,
        now: Now,
        done: Producer,
        *,
        two_phases: bool = False,
        keep: bool = False,
    ) -> None:
        """InitProducerId: the producer id and epoch under which a producer begins; older ones are fenced.

        With `two_phases` its transactions have no timeout, and an open one stays if it wants to `keep` it.
        """
        if two_phases:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self._longest_timeout_ms:
            done(ErrorCode.INVALID_TRANSACTION_TIMEOUT, None)
            return
        owned = self.log.owner(transactional_id)
        if isinstance(owned, ErrorCode):
            done(owned, None)
            return
        held = owned.ids.get(transactional_id)
        if held is None:
            producer_id = self._new_producer_id(now)
            if producer_id is None:
                done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
                return
            held = Coordinated(transactional_id, Transaction(producer_id, updated_ms=now.wall_ms))
            owned.ids[transactional_id] = held
        outcome = initialize(held, given, timeout_ms, lambda: self._new_producer_id(now), now.wall_ms, keep)
        if isinstance(outcome, ErrorCode):
            done(outcome, None)
        elif isinstance(outcome, MustAbort):

            def aborted(error: ErrorCode) -> None:
                done(error or ErrorCode.CONCURRENT_TRANSACTIONS, None)

            self._abort_open(owned, held, now, aborted)
        else:
            self._change(owned, held, outcome.next, now, lambda error: done(error, held.current))

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        epoch: int,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now: Now,
        done: Done,
    ) -> None:
        """AddPartitionsToTxn and AddOffsetsToTxn: partitions join the transaction; the first ones begin it."""
        found = self._find(transactional_id)
        if not isinstance(found, ErrorCode) and found[1].pending is not None:
            done(ErrorCode.CONCURRENT_TRANSACTIONS)  # whoever asks: the end under way may give another epoch
            return
        found = self._of_producer(transactional_id, producer_id, epoch)
        if isinstance(found, ErrorCode):
            done(found)
            return
        owned, held = found
        current = held.current
        if current.state.ending:
            done(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif current.kept:  # it is prepared: it can only end
            done(ErrorCode.INVALID_TXN_STATE)
        elif current.state is State.ONGOING and partitions <= current.partitions:
            done(ErrorCode.NONE)
        else:
            following = current.with_partitions(partitions, client_version, now.wall_ms)
            self._change(owned, held, following, now, done)

    def verify(
        self, transactional_id: str, producer_id: ProducerId, epoch: int, partition: TopicPartition
    ) -> ErrorCode:
        """Whether a partition is in the transaction (KIP-890, for clients before transaction.version 2)."""
        found = self._of_producer(transactional_id, producer_id, epoch)
        if isinstance(found, ErrorCode):
            return found
        current = found[1].current
        if current.state.ending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def end(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        epoch: int,
        commit: bool,
        client_version: int,
        now: Now,
        done: Producer,
    ) -> None:
        """EndTxn.  It is answered when the decision is safe; the markers follow."""
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            done(found, None)
            return
        owned, held = found
        outcome = end(
            held, producer_id, epoch, commit, client_version, lambda: self._new_producer_id(now), now.wall_ms
        )
        if isinstance(outcome, ErrorCode):
            done(outcome, None)
        elif isinstance(outcome, AlreadyEnded):
            done(ErrorCode.NONE, held.current)
        else:
            # the client goes on with what the id will have when the end is complete
            following = outcome.next.completed(now.wall_ms)
            self._change(owned, held, outcome.next, now, lambda error: done(error, following))

    # -- finding --

    def _find(self, transactional_id: str) -> tuple[Owned, Coordinated] | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        owned = self.log.owner(transactional_id)
        if isinstance(owned, ErrorCode):
            return owned
        held = owned.ids.get(transactional_id)
        return (owned, held) if held is not None else ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def _of_producer(
        self, transactional_id: str, producer_id: ProducerId, epoch: int
    ) -> tuple[Owned, Coordinated] | ErrorCode:
        """The id, if this is its producer."""
        found = self._find(transactional_id)
        if not isinstance(found, ErrorCode):
            known, known_epoch = found[1].current.identity
            if known != producer_id:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if known_epoch != epoch:
                return ErrorCode.PRODUCER_FENCED
        return found

    def _new_producer_id(self, now: Now) -> ProducerId | None:
        """The next id of a block; None until the controller has given one."""
        blocks = self.broker.producer_ids
        producer_id = None if blocks.waiting else blocks.take()
        self._ask_for_ids(now)
        return producer_id

    def _ask_for_ids(self, now: Now) -> None:
        if self.broker.producer_ids.should_ask(now):
            self.broker.host.allocate_producer_ids()

    # -- changes --

    @property
    def _version(self) -> int:
        return self.broker.image.feature(FEATURE)

    def _change(self, owned: Owned, held: Coordinated, following: Transaction, now: Now, done: Done) -> None:
        """Write the next state of an id; it holds when the record is committed, and `done` hears of it.

        When the write fails or its time is over, the id keeps the state it has, as with Apache Kafka, although the
        record may still be committed.  Nobody acts on that record: what is written next overrules it here, and
        for whoever loads the log.  Without a next one, whoever loads the log completes it.
        """
        held.pending = following.state

        def written(error: ErrorCode) -> None:
            held.pending = None
            if error:
                done(error)
                return
            held.current = following
            if following.state.ending:
                self._send_markers(owned, held, now)
            done(ErrorCode.NONE)

        self.log.write(owned, [transaction_record(held.id, following, self._version)], now, written)

    def _abort_open(self, owned: Owned, held: Coordinated, now: Now, done: Done) -> None:
        """Fence the producer of an open transaction and abort it."""
        outcome = abort_open(held, self._version, lambda: self._new_producer_id(now), now.wall_ms)
        if isinstance(outcome, Decided):
            self._change(owned, held, outcome.next, now, done)
        else:
            assert isinstance(outcome, ErrorCode)
            done(outcome)

    # -- ends --

    def _send_markers(self, owned: Owned, held: Coordinated, now: Now) -> None:
        """The decision is committed: all partitions hear of it."""
        current = held.current
        commit = current.state is State.PREPARE_COMMIT
        held.pending = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
        held.ending = Ending(
            current.producer_id,
            current.epoch,
            commit=commit,
            coordinator_epoch=owned.epoch,
            transaction_version=current.client_version,
            partitions=current.partitions,
            on_done=lambda now: self._complete(owned, held, now),
        )
        self.markers.begin(held.ending, now)

    def _complete(self, owned: Owned, held: Coordinated, now: Now) -> None:
        """All partitions have their markers: write that down, until it is written."""
        following = held.current.completed(now.wall_ms)

        def written(error: ErrorCode) -> None:
            if not error:
                held.current = following
                held.pending = held.ending = None
            elif self.log.owns(owned):
                self._retries.append(_Retry(now.mono + RETRY_S, owned, held))

        self.log.write(owned, [transaction_record(held.id, following, self._version)], now, written)

    # -- partitions of the state log come and go --

    def _loaded(self, owned: Owned, now: Now) -> None:
        """What another coordinator decided and did not complete is completed here.

        The first producer will come soon: it should not have to come again for want of a producer id.
        """
        self._ask_for_ids(now)
        for held in list(owned.ids.values()):
            if held.current.state.ending:
                self._send_markers(owned, held, now)

    def _lost(self, owned: Owned) -> None:
        for held in owned.ids.values():
            if held.ending is not None:
                self.markers.withdraw(held.ending)

    # -- the clock --

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        if self._walk.running:
            return 0.0
        times = [retry.when for retry in self._retries]
        for at in (self.log.next_deadline(), self.markers.next_deadline()):
            if at is not None:
                times.append(at)
        for owned in self.log.all_owned():
            if owned.ids:
                times.append(self._next_timeouts or 0.0)
                break
        return min(times) if times else None

    def tick(self, now: Now) -> None:
        """Load a slice, ask again, abort what lasts too long, forget what is too old."""
        self.log.tick(now)
        self.markers.tick(now)
        due = [retry for retry in self._retries if retry.when <= now.mono]
        if due:
            self._retries = [retry for retry in self._retries if retry.when > now.mono]
            for retry in due:
                self._complete(retry.owned, retry.held, now)
        if self._next_timeouts is None:
            self._next_timeouts = now.mono + self._timeout_interval
            self._next_expiry = now.mono + self._expiry_interval
        elif now.mono >= self._next_timeouts and not self._walk.running:
            self._next_timeouts = now.mono + self._timeout_interval
            self._expires = now.mono >= self._next_expiry and self.broker.clock_agrees
            if self._expires:
                self._next_expiry = now.mono + self._expiry_interval
            self._walk.begin([(one, held) for one in self.log.all_owned() for held in one.ids.values()])
        for owned, held in self._walk.slice(CHECKED_PER_STEP):
            self._look_at(owned, held, now)

    def _look_at(self, owned: Owned, held: Coordinated, now: Now) -> None:
        current = held.current
        if held.pending is not None or not self.log.owns(owned):
            return
        if current.state is State.ONGOING:
            if held.lasts_too_long(now):
                self.timed_out += 1
                self._on_timeout(held.id, current)
                self._abort_open(owned, held, now, _ignore)
        elif self._expires and current.updated_ms <= now.wall_ms - self._expiration_ms:
            self._forget(owned, held, now)

    def _forget(self, owned: Owned, held: Coordinated, now: Now) -> None:
        """Nobody has used the id for long."""
        held.pending = State.DEAD

        def written(error: ErrorCode) -> None:
            held.pending = None
            if not error and owned.ids.get(held.id) is held:
                del owned.ids[held.id]

        self.log.write(owned, [tombstone(held.id, now.wall_ms)], now, written)

    def statistics(self) -> TransactionsStatistics:
        """Counts, computed now."""
        every = [held.current.state for owned in self.log.all_owned() for held in owned.ids.values()]
        return TransactionsStatistics(
            ids=len(every),
            ongoing=sum(state is State.ONGOING for state in every),
            ending=sum(state.ending for state in every),
            unwritten=len(self._retries),
            loading=self.log.loading,
            timed_out=self.timed_out,
            unreadable=self.log.unreadable,
        )

    def __repr__(self) -> str:
        return f"<Transactions in {self.log!r}>"


def _ignore(error: ErrorCode) -> None:
    """A transaction whose time is over is looked at again when its abort could not be written."""


def _nobody(transactional_id: str, state: Transaction) -> None:
    """Who hears of transactions before there is a node."""
