"""Positions committed in transactions: TxnOffsetCommit, and the markers in `__consumer_offsets` (KIP-98, KIP-447).

They are written at once, as records of the transaction, and wait in `PendingOffsets` until its marker comes.
Members of a group name their generation; producers of older releases name none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from barnabas.broker.groups.consumer.checks import stale_commit, txn_commit_refusal
from barnabas.broker.groups.group import ClassicGroup, GroupState
from barnabas.broker.groups.offsets import CommitWaiting, GroupOffsets
from barnabas.broker.groups.records import CommittedOffset, offset_record
from barnabas.broker.ports import RequestContext
from barnabas.broker.replicas.broker import Broker
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.txn_markers import TxnMarker, append_marker
from barnabas.broker.txn_verification import Question
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.producers.state import VerificationGuard
from barnabas.model import Now, ProducerId
from barnabas.wire.codec.message import replace
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["TxnOffsets"]

_ABORTABLE_SINCE = 4
_ADDED_SINCE = 5
_BY_ID_SINCE = 6
"""Versions of TxnOffsetCommit: the client knows TRANSACTION_ABORTABLE; we have the partition added (KIP-890);
topics have ids instead of names, and the client knows the errors of groups of KIP-848 (KIP-1319)."""
_NO_SEQUENCE = -1

_Errors = dict[tuple[str, int], ErrorCode]


class OffsetsJournal(Protocol):
    """Where groups are written."""

    def partition_for(self, group_id: str) -> int:
        """Return the partition of __consumer_offsets that a group belongs to; NO_PARTITION without the topic."""
        ...

    def led(self, index: int) -> Partition | None:
        """That partition, if its groups are here and loaded."""
        ...

    def append_batch(
        self,
        partition: Partition,
        batch: bytearray,
        now: Now,
        done: Callable[[ErrorCode], None],
        guard: VerificationGuard | None,
    ) -> None:
        """Append; `done` once it is committed, or with the error a client gets."""
        ...


class TxnOffsets:
    """Transactions on the positions of groups.  `refusal` says why this node does not answer for a group."""

    def __init__(
        self,
        broker: Broker,
        offsets: GroupOffsets,
        journal: OffsetsJournal,
        refusal: Callable[[str], ErrorCode | None],
    ) -> None:
        self.broker = broker
        self.offsets = offsets
        self.journal = journal
        self.refusal = refusal

    def __repr__(self) -> str:
        return f"<TxnOffsets {self.offsets.pending!r}>"

    # -- TxnOffsetCommit -------------------------------------------------------------------------------

    def commit(
        self, context: RequestContext, request: TxnOffsetCommitRequest, now: Now
    ) -> TxnOffsetCommitResponse | CommitWaiting:
        """Serve one TxnOffsetCommit request."""
        version = context.version
        if version >= _BY_ID_SINCE:
            request = self._named(request)
        partition = self.journal.led(self.journal.partition_for(request.group_id))
        missing = self._missing(request, version)
        asked = {(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions}
        if asked == missing.keys():
            return _answer(request, missing)
        error = self.refusal(request.group_id)
        if error or partition is None:
            return _answer(request, missing, error or ErrorCode.NOT_COORDINATOR)
        waiting = CommitWaiting(self.offsets.membership.parked)
        verifications = self.broker.verifications
        producer_id, epoch = request.producer_id, request.producer_epoch
        if not verifications.needed(partition, producer_id, epoch, add=version >= _ADDED_SINCE):
            self._append(partition, request, version, waiting, None, now)
            return waiting.response if waiting.done else waiting

        def verified(error: ErrorCode, guard: VerificationGuard, now: Now) -> None:
            if error:
                waiting.complete(_answer(request, missing, _TOLD.get(error, error)))
            else:
                self._append(partition, request, version, waiting, guard, now)

        question = Question(
            request.transactional_id,
            producer_id,
            epoch,
            partition.topic,
            partition.index,
            add=version >= _ADDED_SINCE,
            abortable=version >= _ABORTABLE_SINCE,
        )
        try:
            verifications.begin(partition, question, _NO_SEQUENCE, now, verified)
        except KafkaError as fenced:
            waiting.complete(_answer(request, missing, fenced.code))
        return waiting.response if waiting.done else waiting

    def _append(
        self,
        partition: Partition,
        request: TxnOffsetCommitRequest,
        version: int,
        waiting: CommitWaiting,
        guard: VerificationGuard | None,
        now: Now,
    ) -> None:
        """The transaction is verified: check, and write what may be kept."""
        group_id = request.group_id
        if error := self.refusal(group_id) or self._check(request, version):
            waiting.complete(_answer(request, self._missing(request, version), error))
            return
        errors: _Errors = {}
        kept: dict[tuple[str, int], CommittedOffset] = {}
        for position, wanted, error in self._positions(request, version, now):
            errors[position] = error
            if not error:
                kept[position] = wanted
        if error := self._stale(request, version, kept):
            waiting.complete(_answer(request, self._missing(request, version), error))
            return
        if not kept:
            waiting.complete(_answer(request, errors))
            return

        classic = self.offsets.membership.groups
        if group_id not in classic and group_id not in self.offsets.consumer_groups:
            classic[group_id] = ClassicGroup(group_id, now)

        def written(error: ErrorCode) -> None:
            self.offsets.landed(group_id, kept)
            if not error:
                self.offsets.pending.add(partition.index, request.producer_id, group_id, kept)
            waiting.complete(_answer(request, errors, error))

        self.offsets.took_off(group_id, kept)
        records = [offset_record(group_id, *position, found) for position, found in kept.items()]
        batch = _batch(records, request.producer_id, request.producer_epoch)
        self.journal.append_batch(partition, batch, now, written, guard)

    def _named(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitRequest:
        """Return the request with the names of its topics; a topic that is not there has none."""
        topics = self.offsets.image().topics
        named = [
            replace(wanted, name=topic.name if (topic := topics.get(wanted.topic_id)) is not None else "")
            for wanted in request.topics
        ]
        return replace(request, topics=named)

    def _check(self, request: TxnOffsetCommitRequest, version: int) -> ErrorCode | None:
        """Why its sender may not commit for the group."""
        if request.producer_id < 0:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        membership = self.offsets.membership
        group = membership.groups.get(request.group_id)
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        if (consumer := self.offsets.consumer_groups.get(request.group_id)) is not None:
            refused = txn_commit_refusal(consumer, member_id, generation, request.group_instance_id)
            return refused and _known_to(version, refused)
        if group is None:
            return _known_to(version, ErrorCode.GROUP_ID_NOT_FOUND) if generation >= 0 else None
        if generation < 0 and group.state is GroupState.EMPTY:
            return None
        if generation >= 0 or member_id or request.group_instance_id is not None:
            if error := membership.check_member(group, member_id, request.group_instance_id):
                return error
            if generation != group.generation:
                return ErrorCode.ILLEGAL_GENERATION
        return None

    def _stale(
        self, request: TxnOffsetCommitRequest, version: int, kept: Mapping[tuple[str, int], CommittedOffset]
    ) -> ErrorCode | None:
        """Return the error of a member of a group of KIP-848 that lost a partition, or got it in a later epoch."""
        consumer = self.offsets.consumer_groups.get(request.group_id)
        if consumer is None or not request.member_id:
            return None
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        for (_, index), found in kept.items():
            if error := stale_commit(consumer, member_id, epoch, found.topic_id, index):
                return _known_to(version, error)
        return None

    def _missing(self, request: TxnOffsetCommitRequest, version: int) -> _Errors:
        """The partitions that are not there: they are refused without a look at the group or the producer."""
        topics = self.offsets.image().topics_by_name
        return {
            (wanted.name, one.partition_index): _not_there(wanted, version)
            for wanted in request.topics
            for one in wanted.partitions
            if wanted.name not in topics or one.partition_index not in topics[wanted.name].partitions
        }

    def _positions(
        self, request: TxnOffsetCommitRequest, version: int, now: Now
    ) -> Iterator[tuple[tuple[str, int], CommittedOffset, ErrorCode]]:
        image = self.offsets.image()
        for wanted in request.topics:
            topic = image.topics_by_name.get(wanted.name)
            for one in wanted.partitions:
                metadata = one.committed_metadata or ""
                if topic is None or one.partition_index not in topic.partitions:
                    error = _not_there(wanted, version)
                else:
                    error = self.offsets.check_metadata(metadata)
                committed = CommittedOffset(
                    offset=one.committed_offset,
                    leader_epoch=one.committed_leader_epoch,
                    metadata=metadata,
                    commit_ms=now.wall_ms,
                )
                if topic is not None:
                    committed = committed._replace(topic_id=topic.id)
                yield (wanted.name, one.partition_index), committed, error

    # -- markers ---------------------------------------------------------------------------------------

    def complete(
        self, partition: Partition, marker: TxnMarker, now: Now, done: Callable[[ErrorCode], None]
    ) -> None:
        """A transaction ended: write its marker, and let its positions count, or go, when that is committed."""
        if self.journal.led(partition.index) is not partition:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # its groups are being loaded, or not ours
            return

        def written(error: ErrorCode) -> None:
            if not error:
                self.offsets.end_transaction(partition.index, marker.producer_id, commit=marker.commit)
            done(error)

        append_marker(self.broker, partition, marker, now, written)


def _batch(records: list[Record], producer_id: ProducerId, epoch: int) -> bytearray:
    """Records of a transaction, as Apache Kafka's coordinator writes them: it numbers nothing."""
    return write_batch(
        [record._replace(offset=number) for number, record in enumerate(records)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )


_TOLD = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}
"""What a client hears instead: it tries again, and at the first looks for no other coordinator."""


def _not_there(wanted: TxnOffsetCommitRequestTopic, version: int) -> ErrorCode:
    """Return the error of a partition that is not there; only a topic that was asked for by id may lack a name."""
    by_id = version >= _BY_ID_SINCE and not wanted.name
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    """Return the error as a client of this version knows it."""
    if version < _BY_ID_SINCE and error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _answer(
    request: TxnOffsetCommitRequest, errors: _Errors, error: ErrorCode = ErrorCode.NONE
) -> TxnOffsetCommitResponse:
    """Each partition's own error, else the one of all."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get((topic.name, one.partition_index)) or error,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
