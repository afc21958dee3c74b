"""What a transactional producer says to its coordinator, and how far its transaction is (KIP-98, KIP-890).

    NEW -- init --> READY -- begin --> OPEN -- end --> READY
                                        OPEN -- an error --> ABORTABLE -- abort --> READY
    anywhere -- another producer took the transactional id --> FENCED

With transaction.version 2 (Kafka 4.0) the first batch and the first offsets add themselves to the transaction,
and each end of one gives the producer another epoch: nothing late of one transaction gets into the next.  Below
it each partition is added by a request of its own, and the epoch is raised only after an abort.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NoReturn, TypeVar

from barnabas.client.blocking import BlockingConnection
from barnabas.client.cluster import Cluster
from barnabas.client.producing.batching import Identity
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NO_PRODUCER, Offset, TopicPartition
from barnabas.wire.schemas.produce import ProduceRequest
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

__all__ = ["GroupMember", "State", "Transactions"]

T = TypeVar("T")
_SECOND = 2
"""transaction.version from which partitions add themselves and every transaction has an epoch of its own."""
_LAST_BY_CLIENTS = 3  # AddPartitionsToTxn: later versions are for brokers
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class State(Enum):
    """How far the transaction of a producer is."""

    NEW = "new"
    READY = "ready"
    OPEN = "open"
    ABORTABLE = "to be aborted"
    FENCED = "fenced"


class GroupMember:
    """Who read the offsets that are committed with a transaction: a group, and its member if there is one."""

    __slots__ = ("generation", "group", "member_id")

    def __init__(self, group: str, member_id: str = "", generation: int = -1) -> None:
        self.group = group
        self.member_id = member_id
        self.generation = generation

    def __repr__(self) -> str:
        return f"<GroupMember {self.group!r} {self.member_id!r} generation={self.generation}>"


class Transactions:
    """`Transactions(cluster, "orders-1", timeout_ms=60000)`; `cluster` is for it alone.

    Safe to use from the producer's thread and the user's.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, timeout_ms: int) -> None:
        if not transactional_id:
            raise ValueError("a transactional id is not empty")
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.state = State.NEW
        self.failure: BarnabasError | None = None
        """Why the transaction can only be aborted, or why this producer can do nothing more."""
        self.identity = Identity(NO_PRODUCER, -1)
        self._level = 0
        self._raise_epoch = False
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._coordinator: BlockingConnection | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Transactions {self.transactional_id!r} {self.state.value} {self.identity}>"

    @property
    def by_itself(self) -> bool:
        """Whether what is sent adds itself to the transaction (transaction.version 2)."""
        return self._level >= _SECOND

    def produce_version(self, served: int) -> int:
        """The version of a Produce request: 12 says that its partitions add themselves."""
        if self.by_itself:
            return served
        return min(served, ProduceRequest.VERSIONS[1], 11)

    # -- the steps of a transaction --------------------------------------------------------------

    def begin(self) -> None:
        """Open a transaction; the first one asks for the producer's identity, which fences earlier producers.

        Raises BarnabasError when one is open, KafkaError when the coordinator refuses.
        """
        with self._lock:
            if self.state is State.FENCED:
                self._refuse()
            if self.state in (State.OPEN, State.ABORTABLE):
                raise BarnabasError(
                    "a transaction is open already",
                    next_step="commit() or abort() it before the next begin()",
                )
            if self.state is State.NEW or self._raise_epoch:
                self._init()
            self.failure = None
            self.state = State.OPEN

    def check_open(self) -> None:
        """Raises BarnabasError unless records may be added to the transaction now."""
        if self.state is State.OPEN:
            return
        if self.failure is not None:
            self._refuse()
        raise BarnabasError("no transaction is open", next_step="begin() one before you send")

    def failed(self, error: BarnabasError) -> None:
        """A record was refused or given up: the transaction can only be aborted."""
        with self._lock:
            if isinstance(error, KafkaError) and error.code is ErrorCode.PRODUCER_FENCED:
                self._fenced(error)
            elif self.state is State.OPEN:
                self.state, self.failure = State.ABORTABLE, error

    def add(self, targets: Iterable[TopicPartition]) -> None:
        """Before the first batch to these partitions leaves.  Raises KafkaError, ConnectionFailed."""
        with self._lock:
            new = [target for target in targets if target not in self._partitions]
            if new and not self.by_itself:
                try:
                    self._at_coordinator(lambda connection: self._add(connection, new))
                except KafkaError as error:
                    self._hear(error)
                    raise
            self._partitions.update(new)

    def send_offsets(self, offsets: Mapping[TopicPartition, Offset], member: GroupMember) -> None:
        """The group's offsets are committed if the transaction is.  Raises KafkaError (KIP-447)."""
        with self._lock:
            self.check_open()
            try:
                if member.group not in self._groups and not self.by_itself:
                    self._at_coordinator(lambda connection: self._add_offsets(connection, member.group))
                self._groups.add(member.group)
                self.cluster.retrying(
                    lambda: self._commit_offsets(self.cluster.coordinator(member.group), offsets, member)
                )
            except KafkaError as error:
                self._hear(error)
                self.failed(error)
                raise

    def end(self, *, commit: bool) -> None:
        """Commit or abort.  Raises KafkaError; after one that is not about fencing it may be tried again.

        What was neither sent nor added needs no word to the coordinator.
        """
        with self._lock:
            if self.state is State.FENCED:
                self._refuse()
            if self.state not in (State.OPEN, State.ABORTABLE):
                raise BarnabasError("no transaction is open", next_step="begin() one first")
            if commit and self.state is State.ABORTABLE:
                self._refuse()
            if self._partitions or self._groups:
                try:
                    self._at_coordinator(lambda connection: self._end(connection, commit))
                except KafkaError as error:
                    self._hear(error)
                    raise
            self._raise_epoch = not commit and not self.by_itself
            self._partitions.clear()
            self._groups.clear()
            self.state, self.failure = State.READY, None

    # -- requests --------------------------------------------------------------------------------

    def _init(self) -> None:
        def ask(connection: BlockingConnection) -> None:
            response = connection.request(
                InitProducerIdRequest(
                    transactional_id=self.transactional_id,
                    transaction_timeout_ms=self.timeout_ms,
                    producer_id=self.identity.producer_id,
                    producer_epoch=self.identity.epoch,
                )
            )
            _raise(response.error_code, f"beginning as {self.transactional_id}")
            self._level = connection.finalized.get("transaction.version", 0)
            self.identity = Identity(response.producer_id, response.producer_epoch)

        try:
            self._at_coordinator(ask)
        except KafkaError as error:
            self._hear(error)
            raise
        self._raise_epoch = False

    def _add(self, connection: BlockingConnection, targets: Iterable[TopicPartition]) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in targets:
            by_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()
            ],
        )
        response = connection.request(request, min(connection.version_of(request), _LAST_BY_CLIENTS))
        codes = {
            f"{topic.name}-{result.partition_index}": ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        worst = [pair for pair in codes.items() if pair[1] not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        for where, code in worst or [pair for pair in codes.items() if pair[1]]:
            raise KafkaError(code, f"adding {where} to the transaction of {self.transactional_id}")

    def _add_offsets(self, connection: BlockingConnection, group: str) -> None:
        response = connection.request(
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                group_id=group,
            )
        )
        _raise(response.error_code, f"adding the offsets of group {group} to the transaction")

    def _commit_offsets(
        self, connection: BlockingConnection, offsets: Mapping[TopicPartition, Offset], member: GroupMember
    ) -> None:
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=t, partitions=parts) for t, parts in by_topic.items()],
        )
        version = connection.version_of(request)
        response = connection.request(request, version if self.by_itself else min(version, 4))
        for topic_data in response.topics:
            for data in topic_data.partitions:
                _raise(
                    data.error_code, f"offset of {topic_data.name}-{data.partition_index} in the transaction"
                )

    def _end(self, connection: BlockingConnection, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=commit,
        )
        version = connection.version_of(request)
        response: Any = connection.request(request, version if self.by_itself else min(version, 4))
        _raise(response.error_code, f"{'committing' if commit else 'aborting'} as {self.transactional_id}")
        if response.producer_id >= 0:
            self.identity = Identity(response.producer_id, response.producer_epoch)

    def _at_coordinator(self, talk: Callable[[BlockingConnection], T]) -> T:
        """Talk to the coordinator, found again where it moved or broke."""

        def attempt() -> T:
            if self._coordinator is None or self._coordinator.closed:
                self._coordinator = self.cluster.coordinator(self.transactional_id, transaction=True)
            return talk(self._coordinator)

        def look_again() -> None:
            self._coordinator = None

        return self.cluster.retrying(attempt, on_retry=look_again)

    # -- errors ----------------------------------------------------------------------------------

    def _hear(self, error: KafkaError) -> None:
        """What a refusal of the coordinator means for this producer."""
        if error.code in _FENCED:
            self._fenced(error)

    def _fenced(self, error: KafkaError) -> None:
        self.state = State.FENCED
        self.failure = KafkaError(
            error.code,
            f"another producer works as {self.transactional_id}, or this one was silent for too long",
            next_step="close this producer; what it did not commit is aborted",
        )

    def _refuse(self) -> NoReturn:
        assert self.failure is not None
        raise self.failure


def _raise(code: int, doing: str) -> None:
    if code:
        raise KafkaError(ErrorCode(code), doing)
