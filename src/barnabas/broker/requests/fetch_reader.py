"""What a fetch reads: the way of one request through its positions, and the answer.

It looks only at those of which there may be something to say (`sessions`); the answer to a request that belongs
to no session names all of them.  Nobody looks into the records: an answer holds slices of files, which become
bytes only when they leave.

How far: a consumer reads up to the high watermark, or up to the last stable offset if it wants only committed
transactions; a follower reads up to the acknowledged end.  The first partition with data returns at least one
whole batch, however large (KIP-74); after that the limits count.

Where: at the leader.  A consumer that states its rack (KIP-392) may read at any replica, up to the high
watermark known there, and the leader may send it to a replica that is nearer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.broker.requests.nearest_replica import nearest_replica
from barnabas.broker.sessions import TOPIC_IDS_SINCE, Asker, FetchPlan, FetchPosition
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.reading import check
from barnabas.log.searching import aborted_transactions
from barnabas.log.segments.damage import DamagedError
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import NO_EPOCH, NO_NODE, Epoch, NodeId, Now, Offset, TopicPartition, Uuid
from barnabas.security.acl import CLUSTER_NAME
from barnabas.wire.replica_fetch import PlainAnswer
from barnabas.wire.schemas.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.hosted_partitions import HostedTopic
    from barnabas.broker.replicas.partition import Partition
    from barnabas.log.log import Log
    from barnabas.wire.codec.declaration import LazyBytes

    _Place = tuple[FetchPosition, HostedTopic | None, Partition | None]
    """A position, and what it reads; None where that is not here."""

__all__ = ["READ_COMMITTED", "FetchReader", "Found", "diverging_from", "rights_of"]

READ_COMMITTED = 1
_CURRENT_LEADER_SINCE = 12
_ENDPOINTS_SINCE = 16
_STORAGE_ERROR_SINCE = 6
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Found:
    """What one position of a fetch found."""

    __slots__ = (
        "aborted",
        "counts_for",
        "diverging",
        "error",
        "high_watermark",
        "known",
        "log_start",
        "partition",
        "position",
        "records",
        "replica",
        "stable",
    )

    def __init__(self, position: FetchPosition, error: int = 0) -> None:
        self.position = position
        self.partition: Partition | None = None
        """What it reads from; None where that was not asked."""
        self.error = error
        self.high_watermark: Offset = -1
        self.stable: Offset = -1
        self.log_start: Offset = -1
        self.records: LazyBytes | bytes = b""
        self.counts_for = 0
        """Bytes that the records count for where the client waits for so many."""
        self.diverging: tuple[Epoch, Offset] | None = None
        self.replica: NodeId = NO_NODE
        """Where the consumer should read instead."""
        self.aborted: list[AbortedTransaction] | None = None
        self.known = False
        """Whether, once this is told, there is nothing more to say until something moves."""


def _is_told(one: Found) -> bool:
    """Whether the client knows the offsets that were found."""
    position = one.position
    return one.high_watermark == position.high_watermark and one.log_start == position.log_start


def rights_of(broker: Broker, context: RequestContext) -> tuple[str, int] | None:
    """What the rights of a fetch hang on: whose it is, and the generation of the ACLs; None: no authorizer."""
    authorizer = broker.authorizer
    return None if authorizer is None else (context.principal, authorizer.generation)


def diverging_from(log: Log, last_epoch: Epoch, offset: Offset) -> tuple[Epoch, Offset] | None:
    """Where the log of a client left ours (KIP-320, KIP-595), None where it did not; (-1, -1): unknown.

    The client's ends at `offset`, and its last record has this epoch (below 0: it does not say).
    """
    if last_epoch < 0:
        return None
    epoch, end = log.end_offset_for_epoch(last_epoch)
    if epoch < last_epoch or end < offset:
        return epoch, end
    return None


class FetchReader:
    """One request's way through its positions.

    `refused` holds errors that no reading can change; `doubted` the positions from which a follower reads again
    what it had before.
    """

    __slots__ = (
        "broker",
        "by_id",
        "committed",
        "context",
        "doubted",
        "max_bytes",
        "plan",
        "rack",
        "refused",
        "replica",
        "version",
    )

    def __init__(
        self, broker: Broker, context: RequestContext, request: FetchRequest, version: int, plan: FetchPlan
    ) -> None:
        self.broker = broker
        self.context = context
        self.version = version
        self.plan = plan
        self.by_id = version >= TOPIC_IDS_SINCE
        self.replica: NodeId = request.replica_state.replica_id if version >= 15 else request.replica_id
        self.committed = request.isolation_level == READ_COMMITTED and self.replica < 0
        self.max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
        self.rack = request.rack_id if self.replica < 0 else ""
        self.refused: dict[tuple[str | Uuid, int], ErrorCode] = {}
        self.doubted: set[FetchPosition] = set()

    def asker(self, request: FetchRequest) -> Asker:
        """Who asks, and what its answers depend on besides its positions."""
        epoch = request.replica_state.replica_epoch if self.version >= 15 and self.replica >= 0 else -1
        elsewhere = bool(self.rack) and self.broker.rack_aware
        generation, rights = self.broker.generation if elsewhere else -1, rights_of(self.broker, self.context)
        return Asker(self.replica, epoch, self.committed, self.rack if elsewhere else "", generation, rights)

    def topic(self, key: str | Uuid) -> HostedTopic | None:
        return self.broker.topic_with(key) if self.by_id else self.broker.topic(key)  # type: ignore[arg-type]

    def places(self) -> list[_Place]:
        """Every position of which there may be something to say, with what it reads."""
        session = self.plan.session
        found: list[_Place] = []
        for position in session.marked:
            topic = self.topic(position.topic)
            partition = topic.partitions.get(position.index) if topic is not None else None
            session.found(position, partition)
            found.append((position, topic, partition))
        return found

    def record_follower(self, places: list[_Place], epoch: int, now: Now) -> None:
        """A follower asks for an offset: it holds what lies below.

        One that names a partition anew, at the offset where it was before, may have refused what it was sent.
        """
        for position, _, partition in places:
            if partition is None or partition.unavailable(position.current_leader_epoch):
                continue
            log, offset = partition.log, position.offset
            if diverging_from(log, position.last_fetched_epoch, offset) is not None:
                continue
            if not log.log_start_offset <= offset <= log.log_end_offset:
                continue
            known = partition.leading.progress.get(self.replica)
            if position.log_start < 0 and known is not None and known.log_end == offset:
                self.doubted.add(position)
            if not partition.fetched_by(self.replica, offset, position.replica_log_start, now, epoch):
                self.refused[position.topic, position.index] = (
                    ErrorCode.NOT_LEADER_OR_FOLLOWER
                    if position.current_leader_epoch == NO_EPOCH
                    else ErrorCode.UNKNOWN_LEADER_EPOCH
                )
            elif self.replica not in partition.leading.isr:
                self.broker.in_sync.consider(partition, self.replica, now)

    def read(self, places: list[_Place], now: Now) -> tuple[list[Found], int, bool]:
        """Read these positions: what was found, the bytes it counts for, and whether the answer must not wait.

        The bytes are those of all positions of the request: there are none in those that are at rest.
        """
        found: list[Found] = []
        total = counts_for = 0
        urgent = False
        session, incremental = self.plan.session, self.plan.incremental
        for place in places:
            one = self._read_one(place, self.max_bytes - total, total == 0, now)
            total += len(one.records)
            counts_for += one.counts_for
            if one.error or one.diverging is not None or one.replica >= 0 or self._is_waited_for(one):
                urgent = True
            if one.known and (not incremental or _is_told(one)):
                session.rest(one.position)
            found.append(one)
        return found, counts_for, urgent

    def _is_waited_for(self, one: Found) -> bool:
        """Whether a follower is answered at once without records: a client waits for its log start to move, or
        reads there up to the high watermark that it knows."""
        position = one.position
        if self.replica < 0 or position.log_start < 0:
            return False
        if position.log_start != one.log_start:
            return True
        return self.broker.rack_aware and position.high_watermark != one.high_watermark

    def _read_one(self, place: _Place, left: int, first: bool, now: Now) -> Found:
        position, topic, partition = place
        if topic is None:
            if self.by_id:
                return Found(position, ErrorCode.UNKNOWN_TOPIC_ID)
            if self.broker.authorizer is not None and not self._may_read(cast(str, position.topic)):
                return Found(
                    position, ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )  # (whether it exists is not said)
            return Found(position, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        broker = self.broker
        if broker.authorizer is not None and not self._may_read(topic.name):
            return Found(position, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if partition is None:
            return Found(position, self._error(broker.missing(topic.name, position.index)))
        if self.refused and (refusal := self.refused.get((position.topic, position.index))):
            return Found(position, refusal)
        epoch = position.current_leader_epoch
        if partition.offline or not partition.is_leader or (epoch != -1 and epoch != partition.leader_epoch):
            error = partition.unavailable(epoch)
            if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or not self.rack:
                return Found(position, self._error(error))
        log = partition.log
        offset = position.offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return Found(position, ErrorCode.OFFSET_OUT_OF_RANGE)
        one = Found(position)
        one.partition = partition
        one.log_start = log.log_start_offset
        one.high_watermark = partition.high_watermark
        one.stable = partition.last_stable_offset
        if self.rack and broker.rack_aware and partition.is_leader:
            one.replica = nearest_replica(
                partition, broker.image, offset, self.rack, self.context.listener, now
            )
            if one.replica >= 0:
                return one
        if position.last_fetched_epoch >= 0:
            diverging = diverging_from(log, position.last_fetched_epoch, offset)
            if diverging is not None:
                if diverging == (-1, -1):
                    return Found(position, ErrorCode.OFFSET_OUT_OF_RANGE)
                one.diverging = diverging
                return one
        if self.replica >= 0:
            end = log.acknowledged_end_offset
            if partition.settings.leader_throttled and self.replica not in partition.leading.isr:
                if broker.leader_quota.exceeded(now):
                    return one
        else:
            end = one.stable if self.committed else one.high_watermark
        if offset >= end:
            one.known = self.replica < 0 or self.replica in partition.leading.isr
        elif first or left > 0:
            self._read_records(one, partition, end, left, first, now)
        if self.committed and one.aborted is None and not one.error:
            one.aborted = []
        return one

    def _read_records(
        self, one: Found, partition: Partition, end: Offset, left: int, first: bool, now: Now
    ) -> None:
        position = one.position
        try:
            size = max(0, min(position.max_bytes, left))
            one.records = found = partition.log.read(position.offset, size, end, at_least_one=first)
            one.counts_for = found.counts_for
            if position in self.doubted:
                check(partition.log, position.offset, found)
            if self.committed and len(one.records):
                one.aborted = [
                    AbortedTransaction(producer_id=gone.producer_id, first_offset=gone.first_offset)
                    for gone in aborted_transactions(partition.log, position.offset, end, found)
                ]
            if OPEN_FILES.short:
                one.records = found.read()  # a slice would hold a descriptor until it is sent
        except StorageError as error:
            self.broker.storage_failed(partition, error, now)
            one.records = b""
            one.error = self._error(ErrorCode.KAFKA_STORAGE_ERROR)
        except DamagedError as error:
            one.error = self.broker.damage_found(partition, error, now)
            one.records = b""
        except KafkaError as error:
            one.records = b""
            one.error = error.code

    def may_replicate(self) -> bool:
        """Whether the sender may fetch as a follower; who may not moves no high watermark."""
        authorizer, context = self.broker.authorizer, self.context
        return allowed(authorizer, context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def _may_read(self, name: str) -> bool:
        if self.replica >= 0:
            return self.may_replicate()
        return allowed(self.broker.authorizer, self.context, Operation.READ, ResourceType.TOPIC, name)

    def _error(self, error: ErrorCode) -> ErrorCode:
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self.version < _STORAGE_ERROR_SINCE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error

    # ---- the answer --------------------------------------------------------------------------------------

    def respond(self, found: list[Found], now: Now) -> FetchResponse | PlainAnswer:
        """Make the answer, and remember in the session what the client is told by it."""
        plan = self.plan
        session = plan.session
        if plan.incremental:
            if session.epoch != plan.epoch or session.ended:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        elif plan.create:
            self.broker.sessions.create(session, now)
        self.count(found, now)
        responses: list[FetchableTopicResponse] = []
        by_topic: dict[str | Uuid, list[PartitionData]] = {}
        leaders: set[NodeId] = set()
        for one in found:
            if not self.news(one) and plan.incremental:
                continue
            key = one.position.topic
            partitions = by_topic.get(key)
            if partitions is None:
                partitions = by_topic[key] = []
                if self.by_id:
                    responses.append(FetchableTopicResponse(topic_id=cast(Uuid, key), partitions=partitions))
                else:
                    responses.append(FetchableTopicResponse(topic=cast(str, key), partitions=partitions))
            partitions.append(self._partition_data(one, leaders))
        session.move_to_end([one.position for one in found if len(one.records)])
        if not session.id:
            session.end()
        endpoints = self._endpoints(leaders) if leaders and self.version >= _ENDPOINTS_SINCE else []
        return FetchResponse(session_id=session.id, responses=responses, node_endpoints=endpoints)

    def count(self, found: list[Found], now: Now) -> None:
        """Count the bytes of an answer, which may have been read more than once while it waited.

        Those of a follower count for the throttle, in sync or not; only followers that are not in sync wait.
        """
        follower, quota = self.replica >= 0, self.broker.leader_quota
        if follower and not quota.limited:
            return
        for one in found:
            partition, size = one.partition, len(one.records)
            if partition is None or not size:
                continue
            if not follower:
                partition.leading.traffic.bytes_out += size
            elif partition.settings.leader_throttled:
                quota.record(size, now)

    def news(self, one: Found) -> bool:
        """Whether this must be told in an incremental answer; remembers that it was."""
        position = one.position
        news = (
            bool(one.error)
            or len(one.records) > 0
            or one.diverging is not None
            or one.replica >= 0
            or not _is_told(one)
        )
        position.high_watermark = -1 if one.error else one.high_watermark
        position.log_start = one.log_start
        if one.known:
            self.plan.session.rest(position)
        return news

    def _partition_data(self, one: Found, leaders: set[NodeId]) -> PartitionData:
        position = one.position
        if not one.error and one.diverging is None:
            return PartitionData(
                partition_index=position.index,
                high_watermark=one.high_watermark,
                last_stable_offset=one.stable,
                log_start_offset=one.log_start,
                aborted_transactions=one.aborted,
                preferred_read_replica=one.replica,
                records=one.records,
            )
        if one.diverging is not None:
            epoch, end = one.diverging
            return PartitionData(
                partition_index=position.index,
                high_watermark=one.high_watermark,
                last_stable_offset=one.stable,
                log_start_offset=one.log_start,
                diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end),
                aborted_transactions=None,
                records=b"",
            )
        topic = self.topic(position.topic) if one.error in _MOVED else None
        if topic is not None and self.version >= _CURRENT_LEADER_SINCE:
            leader, leader_epoch = self.broker.leader_of(TopicPartition(topic.name, position.index))
            leaders.add(leader)
            return PartitionData(
                partition_index=position.index,
                error_code=one.error,
                high_watermark=-1,
                current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=leader_epoch),
                aborted_transactions=None,
                records=b"",
            )
        return PartitionData(
            partition_index=position.index,
            error_code=one.error,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )

    def _endpoints(self, leaders: set[NodeId]) -> list[NodeEndpoint]:
        return [
            NodeEndpoint(node_id=node, host=endpoint.host, port=endpoint.port, rack=rack)
            for node, endpoint, rack in self.broker.endpoints(sorted(leaders), self.context.listener)
        ]
