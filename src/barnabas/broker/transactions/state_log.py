"""The partitions of __transaction_state that this node leads: loading them, finding ids in them, writing to them.

An id belongs to one partition, chosen by the hash of its name.  When this node begins to lead a partition it
reads it from the start (in slices, so that nothing else waits).  It answers COORDINATOR_LOAD_IN_PROGRESS until
then, and until everything that it read is committed: what could still be lost must not reach a partition as a
marker.  `epoch`, the leader epoch, goes with every marker, so that one of an older coordinator loses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.broker.groups.loading import Loading
from barnabas.broker.groups.placement import COORDINATOR_ERRORS, partition_of
from barnabas.broker.replicas.broker import Broker
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.transactions.records import read_transaction
from barnabas.broker.transactions.state import Coordinated
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, StorageError
from barnabas.log.segments.damage import DamagedError
from barnabas.model import TRANSACTIONS_TOPIC, Epoch, Now, Offset
from barnabas.wire.records import Record, write_batch

__all__ = ["Owned", "StateLog"]

LOOK_AGAIN_S = 0.01
"""Seconds between two looks at whether what was read is committed."""


class Owned:
    """One partition that this node leads in one epoch, and the ids in it."""

    __slots__ = ("epoch", "ids", "index", "partition")

    def __init__(self, partition: Partition, epoch: Epoch) -> None:
        self.partition = partition
        self.index = partition.index
        self.epoch = epoch
        self.ids: dict[str, Coordinated] = {}

    def __repr__(self) -> str:
        return f"<Owned {self.index} epoch={self.epoch} ids={len(self.ids)}>"


class StateLog:
    """What this node has of __transaction_state.

    `on_loaded` is called when a partition has been read and is committed, `on_lost` when it is led no more.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        timeout_s: float,
        append: Callable[..., Offset],
        on_loaded: Callable[[Owned, Now], None],
        on_lost: Callable[[Owned], None],
    ) -> None:
        self._broker = broker
        self._timeout_s = timeout_s
        self._append = append
        self._on_loaded = on_loaded
        self._on_lost = on_lost
        self._led: dict[int, Owned] = {}
        self._loading: dict[int, tuple[Owned, Loading]] = {}
        self._uncommitted: dict[int, tuple[Owned, Offset]] = {}
        """Read, but up to that offset not yet safe on every in-sync replica."""
        self._next_look = 0.0
        self.unreadable = 0
        """Records that loading left out, because no release known here writes such."""
        broker.on_leadership(self._leadership)

    # -- where an id lives --

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of __transaction_state that an id belongs to; NO_PARTITION without the topic."""
        return partition_of(self._broker.image, TRANSACTIONS_TOPIC, transactional_id)

    def owner(self, transactional_id: str) -> Owned | ErrorCode:
        """The partition that holds an id, or why this node does not answer for it now."""
        index = self.partition_for(transactional_id)
        if index in self._loading or index in self._uncommitted:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self._led.get(index, ErrorCode.NOT_COORDINATOR)

    def owns(self, owned: Owned) -> bool:
        """Whether it is led still, in the same epoch."""
        return self._led.get(owned.index) is owned

    @property
    def loading(self) -> int:
        """How many partitions are not ready yet."""
        return len(self._loading) + len(self._uncommitted)

    def all_owned(self) -> Iterator[Owned]:
        """The partitions that are ready."""
        return iter(self._led.values())

    # -- leading and loading --

    def _leadership(self, partition: Partition, leads: bool, epoch: Epoch) -> None:
        if partition.topic != TRANSACTIONS_TOPIC:
            return
        index = partition.index
        self._loading.pop(index, None)
        self._uncommitted.pop(index, None)
        if (lost := self._led.pop(index, None)) is not None:
            self._on_lost(lost)
        if leads:  # in a new epoch too: what was in flight in the old one was given up
            self._loading[index] = (Owned(partition, epoch), Loading(partition))

    def next_deadline(self) -> float | None:
        """When `tick` has something to do; 0 while a partition is being read."""
        if self._loading:
            return 0.0
        return self._next_look if self._uncommitted else None

    def tick(self, now: Now) -> None:
        """Read a slice; see whether what was read is committed."""
        if self._loading:
            self._load_some(now)
        if self._uncommitted and self._next_look <= now.mono:
            self._next_look = now.mono + LOOK_AGAIN_S
            for index, (owned, end) in list(self._uncommitted.items()):
                if owned.partition.high_watermark >= end:
                    del self._uncommitted[index]
                    self._led[index] = owned
                    self._on_loaded(owned, now)

    def _load_some(self, now: Now) -> None:
        """One step with one partition.  One that cannot be read is not coordinated here."""
        index, (owned, loading) = next(iter(self._loading.items()))

        def replay(record: Record, now: Now) -> None:
            found = read_transaction(record)
            if found is None:
                return
            transactional_id, state = found
            if state is None:
                owned.ids.pop(transactional_id, None)
            else:
                owned.ids[transactional_id] = Coordinated(transactional_id, state)

        try:
            more = loading.step(replay, now)
        except StorageError as error:
            del self._loading[index]
            self._broker.storage_failed(owned.partition, error, now)
            return
        except CorruptRecordError as error:
            del self._loading[index]
            self.unreadable += 1
            if isinstance(error, DamagedError):
                self._broker.damage_found(owned.partition, error, now)
            return
        finally:
            self.unreadable += loading.unreadable
            loading.unreadable = 0
        if not more:
            del self._loading[index]
            self._uncommitted[index] = (owned, loading.position)
            self._next_look = now.mono

    # -- writing --

    def write(self, owned: Owned, records: list[Record], now: Now, done: Callable[[ErrorCode], None]) -> None:
        """Append; `done` hears what a client would, when the records are safe or surely not known to be.

        It hears NOT_COORDINATOR when the partition is led no more, or in another epoch.
        """

        def written(error: ErrorCode) -> None:
            if not self.owns(owned):
                error = ErrorCode.NOT_COORDINATOR
            done(COORDINATOR_ERRORS.get(error, error))

        if not self.owns(owned):
            done(ErrorCode.NOT_COORDINATOR)
            return
        batch = write_batch([record._replace(offset=number) for number, record in enumerate(records)])
        try:
            self._append(self._broker, owned.partition, batch, now, written, timeout_s=self._timeout_s)
        except KafkaError as error:
            done(COORDINATOR_ERRORS.get(error.code, error.code))

    def __repr__(self) -> str:
        return f"<StateLog {len(self._led)} partitions, {self.loading} loading>"
