"""A transactional producer as a machine: what it asks next, and what an answer means (KIP-98, KIP-890).

It has no socket; `transactions` and `aio.transactions` send what it asks.

    NEW -- init --> READY -- begin --> OPEN -- commit --> ENDING -- end --> READY
                                        OPEN -- an error --> ABORTABLE -- abort --> READY
    anywhere -- another producer took the transactional id --> FENCED

With transaction.version 2 (Kafka 4.0) the first batch and the first offsets add themselves to the transaction,
and each end of one gives the producer another epoch: nothing late of one transaction gets into the next.  Below
it each partition is added by a request of its own, and the epoch is raised only after an abort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, NoReturn

from barnabas.client.producing.batching import Identity
from barnabas.client.security.rights import granting
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import NO_PRODUCER, Epoch, Offset, ProducerId, TopicPartition
from barnabas.wire.codec.message import Message
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

__all__ = ["Exchange", "GroupMember", "ProducerEpoch", "State", "TransactionMachine", "ending_request"]

_SECOND = 2
"""transaction.version from which partitions add themselves and every transaction has an epoch of its own."""
_NOT_BY_ITSELF = 4  # EndTxn, TxnOffsetCommit: later versions are for transaction.version 2
_BY_NAME = 5  # TxnOffsetCommit: later versions name topics by their ids
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
    ENDING = "being committed"
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


class ProducerEpoch(NamedTuple):
    """Who may end a transaction, or begin the next one: anybody who has this, in any process.

    `level` is the transaction.version of the cluster.
    """

    transactional_id: str
    producer_id: ProducerId
    epoch: Epoch
    level: int


class Exchange(NamedTuple):
    """A request, the highest version in which it may be sent, and who takes the answer.

    `heard(response, finalized)` raises KafkaError; `finalized` are the features of the broker that answered.
    """

    request: Message
    limit: int | None
    heard: Callable[[Any, Mapping[str, int]], None]


class TransactionMachine:
    """`TransactionMachine("orders-1", timeout_ms=60000)`.  A shell sends what it asks: `Exchange`s.

    `two_phases`: its transactions have no timeout (KIP-939), so that one that is prepared outlives any downtime.
    """

    def __init__(self, transactional_id: str, *, timeout_ms: int, two_phases: bool = False) -> None:
        if not transactional_id:
            raise ValueError("a transactional id is not empty")
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.two_phases = two_phases
        self.state = State.NEW
        self.failure: BarnabasError | None = None
        """Why the transaction can only be aborted, or why this producer can do nothing more."""
        self.identity = Identity(NO_PRODUCER, -1)
        self._level = 0
        self._raise_epoch = False
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.transactional_id!r} {self.state.value} {self.identity}>"

    @property
    def by_itself(self) -> bool:
        """Whether what is sent adds itself to the transaction (transaction.version 2)."""
        return self._level >= _SECOND

    @property
    def open(self) -> bool:
        """Whether there is a transaction to be ended."""
        return self.state in (State.OPEN, State.ENDING, State.ABORTABLE)

    def produce_version(self, served: int) -> int:
        """The version of a Produce request: 12 says that its partitions add themselves."""
        if self.by_itself:
            return served
        return min(served, ProduceRequest.VERSIONS[1], 11)

    # -- the steps of a transaction --------------------------------------------------------------

    def begins(self) -> Exchange | None:
        """Before a transaction opens: what is to be asked; the first time it fences earlier producers.

        Raises BarnabasError when one is open already, KafkaError for a fenced producer.
        """
        if self.state is State.FENCED:
            self._refuse()
        if self.open:
            raise BarnabasError(
                "a transaction is open already", next_step="commit() or abort() it before the next begin()"
            )
        return self._init() if self.state is State.NEW or self._raise_epoch else None

    def begun(self) -> None:
        """The transaction is open."""
        self._raise_epoch = False
        self.state, self.failure = State.OPEN, None

    def check_open(self) -> None:
        """Raises BarnabasError unless records may be added to the transaction now."""
        if self.state is State.OPEN:
            return
        if self.failure is not None:
            self._refuse()
        if self.state is State.ENDING:
            raise BarnabasError(
                "the transaction is being committed", next_step="begin() another one for this record"
            )
        raise BarnabasError("no transaction is open", next_step="begin() one before you send")

    def commits(self) -> None:
        """What is sent so far is waited for, then `ending`; nothing more gets in.  Raises BarnabasError."""
        if self.state is State.ENDING:
            return  # once more, after a timeout
        self.check_open()
        self.state = State.ENDING

    def failed(self, error: BarnabasError) -> None:
        """A record was refused or given up: the transaction can only be aborted."""
        if isinstance(error, KafkaError) and error.code is ErrorCode.PRODUCER_FENCED:
            self._fenced(error)
        elif self.state in (State.OPEN, State.ENDING):
            self.state, self.failure = State.ABORTABLE, error

    def refused(self, error: KafkaError) -> None:
        """The coordinator did: what that means for this producer."""
        if error.code in _FENCED:
            self._fenced(error)

    def not_added(self, targets: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that are not in the transaction yet."""
        return [target for target in targets if target not in self._partitions]

    def added(self, targets: Iterable[TopicPartition]) -> None:
        """The first batch to these may leave."""
        self._partitions.update(targets)

    def offsets_added(self, group: str) -> None:
        """The offsets of this group may be committed with the transaction."""
        self._groups.add(group)

    def ending(self, *, commit: bool) -> Exchange | None:
        """What ends the transaction; None: nothing was sent or added, and nobody needs to hear.

        Raises BarnabasError when none is open, the error of a record when it can only be aborted.
        """
        if self.state is State.FENCED:
            self._refuse()
        if not self.open:
            raise BarnabasError("no transaction is open", next_step="begin() one first")
        if commit and self.state is State.ABORTABLE:
            self._refuse()
        return self._end(commit) if self._partitions or self._groups else None

    def ended(self, *, commit: bool) -> None:
        """The coordinator has it: committed or aborted."""
        self._raise_epoch = not commit and not self.by_itself
        self._partitions.clear()
        self._groups.clear()
        self.state, self.failure = State.READY, None

    # -- across processes ------------------------------------------------------------------------

    def claims(self) -> Exchange:
        """What makes this producer the only one of its id; what another one has open is aborted.

        Raises KafkaError for a fenced producer, BarnabasError when a transaction is open here.
        """
        self.begins()
        self.identity, self._raise_epoch = Identity(NO_PRODUCER, -1), False
        return self._init()

    def claimed(self) -> None:
        """The id is this producer's."""
        self.state = State.READY

    def producer_epoch(self) -> ProducerEpoch:
        """Who this producer is now: with it another process goes on as this one (`resume`)."""
        return ProducerEpoch(
            self.transactional_id, self.identity.producer_id, self.identity.epoch, self._level
        )

    def resume(self, claim: ProducerEpoch) -> None:
        """Go on as the producer that claimed the id, unless another one has claimed it since."""
        self.identity, self._level = Identity(claim.producer_id, claim.epoch), claim.level
        self.state = State.READY

    def prepared(self) -> ProducerEpoch | None:
        """Everything is acknowledged: whoever has this ends the transaction (KIP-939); None: it is empty.

        The next `begin` here would abort it, if it is not ended before.
        """
        if self.state is not State.ENDING:
            self.check_open()
        found = self.producer_epoch() if self._partitions or self._groups else None
        self._partitions.clear()
        self._groups.clear()
        self.identity = Identity(NO_PRODUCER, -1)
        self.state, self.failure = State.NEW, None
        return found

    # -- requests --------------------------------------------------------------------------------

    def _init(self) -> Exchange:
        def heard(response: Any, finalized: Mapping[str, int]) -> None:
            code = ErrorCode(response.error_code)
            _raise(
                code,
                f"beginning as {self.transactional_id}",
                granting(code, "Write", self.transactional_id),
            )
            self._level = finalized.get("transaction.version", 0)
            self.identity = Identity(response.producer_id, response.producer_epoch)

        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            enable2_pc=self.two_phases,
        )
        return Exchange(request, None, heard)

    def adding(self, targets: Iterable[TopicPartition]) -> Exchange | None:
        """What adds these partitions to the transaction; None: they add themselves, or there are none."""
        by_topic: dict[str, list[int]] = {}
        for topic, partition in targets:
            by_topic.setdefault(topic, []).append(partition)
        if self.by_itself or not by_topic:
            return None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()
            ],
        )
        return Exchange(request, _LAST_BY_CLIENTS, self._heard_of_partitions)

    def _heard_of_partitions(self, response: Any, finalized: Mapping[str, int]) -> None:
        codes = {
            f"{topic.name}-{result.partition_index}": ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        worst = [pair for pair in codes.items() if pair[1] not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        for where, code in worst or [pair for pair in codes.items() if pair[1]]:
            said = f"adding {where} to the transaction of {self.transactional_id}"
            topic = where.rpartition("-")[0]
            raise KafkaError(code, said, next_step=granting(code, "Write", topic))

    def adding_offsets(self, group: str) -> Exchange | None:
        """What adds the offsets of this group to the transaction; None: they add themselves, or are in it."""
        if self.by_itself or group in self._groups:
            return None

        def heard(response: Any, finalized: Mapping[str, int]) -> None:
            _raise(response.error_code, f"adding the offsets of group {group} to the transaction")

        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group,
        )
        return Exchange(request, None, heard)

    def committing_offsets(self, offsets: Mapping[TopicPartition, Offset], member: GroupMember) -> Exchange:
        """What commits these offsets with the transaction, for the coordinator of the group (KIP-447)."""
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
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=t, partitions=parts) for t, parts in by_topic.items()],
        )

        def heard(response: Any, finalized: Mapping[str, int]) -> None:
            for topic in response.topics:
                for data in topic.partitions:
                    _raise(
                        data.error_code, f"offset of {topic.name}-{data.partition_index} in the transaction"
                    )

        return Exchange(request, _BY_NAME if self._limit is None else self._limit, heard)

    def _end(self, commit: bool) -> Exchange:
        def heard(response: Any, finalized: Mapping[str, int]) -> None:
            check(response, finalized)
            if response.producer_id >= 0:
                self.identity = Identity(response.producer_id, response.producer_epoch)

        request, limit, check = ending_request(self.producer_epoch(), commit=commit)
        return Exchange(request, limit, heard)

    @property
    def _limit(self) -> int | None:
        return _limit_at(self._level)

    # -- errors ----------------------------------------------------------------------------------

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


def ending_request(producer: ProducerEpoch, *, commit: bool) -> Exchange:
    """EndTxn for the transaction that this producer has open, whoever sends it."""

    def heard(response: Any, finalized: Mapping[str, int]) -> None:
        doing = "committing" if commit else "aborting"
        _raise(response.error_code, f"{doing} as {producer.transactional_id}")

    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )
    return Exchange(request, _limit_at(producer.level), heard)


def _limit_at(level: int) -> int | None:
    """The highest version of EndTxn and TxnOffsetCommit at a transaction.version."""
    return None if level >= _SECOND else _NOT_BY_ITSELF


def _raise(code: int, doing: str, next_step: str | None = None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), doing, next_step=next_step)
