"""The reading of one position: what a fetch is told of one partition.

Nobody looks into the records: a row holds slices of files, which become bytes only when they leave.

How far: a consumer reads up to the high watermark, or up to the last stable offset if it wants only committed
transactions; a follower reads up to the acknowledged end.  The first partition with data returns at least one
whole batch, however large (KIP-74); after that the limits count.

Where: at the leader.  A consumer that states its rack (KIP-392) may read at any replica, up to the high
watermark known there, and the leader may send it to a replica that is nearer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.broker.ports import Operation, RequestContext, ResourceType, allowed
from barnabas.broker.requests.nearest_replica import nearest_replica
from barnabas.broker.sessions import Asker, FetchPosition
from barnabas.errors import ErrorCode, KafkaError, StorageError
from barnabas.log.reading import check, just_written
from barnabas.log.searching import aborted_transactions
from barnabas.log.segments.damage import DamagedError
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import NO_EPOCH, Epoch, NodeId, Now, Offset, TopicPartition, Uuid
from barnabas.security.acl import CLUSTER_NAME
from barnabas.wire.plane.fetch_asked import Terms
from barnabas.wire.plane.fetch_told import Extra, ToldRow

if TYPE_CHECKING:
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.replicas.hosted_partitions import HostedTopic
    from barnabas.broker.replicas.partition import Partition
    from barnabas.log.log import Log
    from barnabas.wire.codec.declaration import Part

__all__ = ["Reader", "diverging_from"]

_READ_COMMITTED = 1
_CURRENT_LEADER_SINCE = 12
_STORAGE_ERROR_SINCE = 6
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_Told = tuple[ToldRow, int]
"""A row, and the bytes that its records count for where the client waits for so many."""


def diverging_from(log: Log, last_epoch: Epoch, offset: Offset) -> tuple[Epoch, Offset] | None:
    """Find where the log of a client left ours (KIP-320, KIP-595): None if it did not, (-1, -1) if unknown.

    The client's ends at `offset`, and its last record has this epoch (below 0: it does not say).
    """
    if last_epoch < 0:
        return None
    epoch, end = log.end_offset_for_epoch(last_epoch)
    if epoch < last_epoch or end < offset:
        return epoch, end
    return None


class Reader:
    """The reader of one client: a consumer, or a follower (`replica` is its node, else below 0)."""

    __slots__ = ("broker", "by_id", "committed", "context", "rack", "replica", "replica_epoch", "version")

    def __init__(self, broker: Broker, context: RequestContext, terms: Terms) -> None:
        self.broker = broker
        self.context = context
        self.version = terms.version
        self.by_id = terms.by_id
        self.replica: NodeId = terms.replica
        self.replica_epoch = terms.replica_epoch if terms.replica >= 0 else -1
        self.committed = terms.isolation_level == _READ_COMMITTED and self.replica < 0
        self.rack = terms.rack if self.replica < 0 else ""

    def asker(self) -> Asker:
        """Return who asks, and what its answers depend on besides its positions."""
        broker, authorizer = self.broker, self.broker.authorizer
        elsewhere = bool(self.rack) and broker.rack_aware
        generation = broker.generation if elsewhere else -1
        rights = None if authorizer is None else (self.context.principal, authorizer.generation)
        rack = self.rack if elsewhere else ""
        return Asker(self.replica, self.replica_epoch, self.committed, rack, generation, rights)

    # ---- where -------------------------------------------------------------------------------------------

    def _topic(self, key: bytes) -> HostedTopic | None:
        return self.broker.topic_with(Uuid(key)) if self.by_id else self.broker.topic(key.decode())

    def locate(self, position: FetchPosition) -> None:
        """Find the partition of a position, if it is here and the client may read it."""
        topic = self._topic(position.topic)
        partition = None if topic is None else topic.partitions.get(position.index)
        if topic is not None and partition is not None and not self._may_read(topic.name, asked=False):
            partition = None
        position.session.found(position, partition)
        position.located_in = self.broker.generation if partition is not None else -1

    def _may_read(self, name: str, *, asked: bool = True) -> bool:
        authorizer, context = self.broker.authorizer, self.context
        if self.replica >= 0:
            operation, resource, name = Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        else:
            operation, resource = Operation.READ, ResourceType.TOPIC
        return allowed(authorizer, context, operation, resource, name, asked=asked)

    def _nowhere(self, position: FetchPosition) -> _Told:
        """Say why there is nothing to be read."""
        broker, topic = self.broker, self._topic(position.topic)
        if topic is None:
            if self.by_id:
                return self._refusal(position, ErrorCode.UNKNOWN_TOPIC_ID)
            if broker.authorizer is not None and not self._may_read(position.topic.decode()):
                return self._refusal(position, ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # (it may exist)
            return self._refusal(position, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self._may_read(topic.name):
            return self._refusal(position, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._refusal(position, broker.missing(topic.name, position.index))

    def _refusal(self, position: FetchPosition, error: ErrorCode) -> _Told:
        position.at_end = False
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self.version < _STORAGE_ERROR_SINCE:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        extra = None
        if error in _MOVED and self.version >= _CURRENT_LEADER_SINCE:
            if (topic := self._topic(position.topic)) is not None:
                extra = Extra(leader=self.broker.leader_of(TopicPartition(topic.name, position.index)))
        return (position.index, error, -1, -1, -1, None, -1, b"", extra), 0

    def endpoints(self, leaders: Iterable[NodeId]) -> tuple[tuple[NodeId, str, int, str | None], ...]:
        """Return where these nodes listen: node id, host, port, rack."""
        found = self.broker.endpoints(sorted(leaders), self.context.listener)
        return tuple((node, endpoint.host, endpoint.port, rack) for node, endpoint, rack in found)

    # ---- what --------------------------------------------------------------------------------------------

    def read(self, position: FetchPosition, left: int, first: bool, fetched: bool, now: Now) -> _Told:
        """Read one position that was located: the row, and the bytes that its records count for.

        `left` bytes may still be read, but the `first` records of an answer are one batch at least.  `fetched`:
        the client asks now, so a follower holds what lies below its offset.
        """
        partition = position.partition
        if partition is None:
            return self._nowhere(position)
        log, offset, index = partition.log, position.offset, position.index
        start, epoch = log.log_start_offset, position.current_leader_epoch
        if not (
            partition.is_leader
            and not partition.offline
            and (epoch == NO_EPOCH or epoch == partition.leader_epoch)
            and start <= offset <= log.log_end_offset
            and (position.last_fetched_epoch < 0 or position.last_fetched_epoch == log.epochs.latest)
            and not self.rack
        ):  # (a call less where all is well: 4 % of a consumer's fetch)
            if (instead := self._instead(position, partition, now)) is not None:
                return instead
        high_watermark = end = partition.high_watermark
        stable = high_watermark if log.producers.first_unstable_offset < 0 else partition.last_stable_offset
        follower = self.replica
        if follower >= 0:
            if fetched and (error := self._follows(position, partition, now)):
                return self._refusal(position, error)
            end = partition.replicated_end
            in_sync = follower in partition.leading.isr
            if partition.settings.leader_throttled and not in_sync and self.broker.leader_quota.exceeded(now):
                return self._offsets(position, partition)
            position.at_end = offset >= end and in_sync
        else:
            if self.committed:
                end = stable
            position.at_end = offset >= end
        aborted: Iterable[tuple[int, Offset]] | None = () if self.committed else None
        if offset >= end or not (first or left > 0):
            return (index, 0, high_watermark, stable, start, aborted, -1, b"", None), 0
        size = position.max_bytes
        if not 0 <= size <= left:
            size = max(0, left) if size > 0 else 0
        if follower >= 0 and log.active.fresh is not None and not position.doubted:
            if (fresh := just_written(log, offset, size, end)) is not None:
                return (index, 0, high_watermark, stable, start, None, -1, fresh, None), len(fresh)
        try:
            found = log.read(offset, size, end, at_least_one=first)
            if position.doubted:
                check(log, offset, found)
            if self.committed and found.size:
                gone = aborted_transactions(log, offset, end, found)
                aborted = [(one.producer_id, one.first_offset) for one in gone]
            # (a slice would hold a descriptor until it is sent)
            records: Part = found.read() if OPEN_FILES.short else found
        except StorageError as failed:
            self.broker.storage_failed(partition, failed, now)
            return self._refusal(position, ErrorCode.KAFKA_STORAGE_ERROR)
        except DamagedError as damaged:
            return self._refusal(position, self.broker.damage_found(partition, damaged, now))
        except KafkaError as refused:
            return self._refusal(position, refused.code)
        return (index, 0, high_watermark, stable, start, aborted, -1, records, None), found.counts_for

    def _instead(self, position: FetchPosition, partition: Partition, now: Now) -> _Told | None:
        """Find what is told instead of records: an error, a nearer replica, where the logs part; None: nothing."""
        epoch, log, offset = position.current_leader_epoch, partition.log, position.offset
        if (
            partition.offline
            or not partition.is_leader
            or (epoch != NO_EPOCH and epoch != partition.leader_epoch)
        ):
            error = partition.unavailable(epoch)
            if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or not self.rack:
                return self._refusal(position, error)
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return self._refusal(position, ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.rack and self.broker.rack_aware and partition.is_leader:
            image, listener = self.broker.image, self.context.listener
            nearest = nearest_replica(partition, image, offset, self.rack, listener, now)
            if nearest >= 0:
                return self._offsets(position, partition, replica=nearest)
        last_epoch = position.last_fetched_epoch
        if last_epoch < 0 or last_epoch == log.epochs.latest:
            return None
        diverging = diverging_from(log, last_epoch, offset)
        if diverging == (-1, -1):
            return self._refusal(position, ErrorCode.OFFSET_OUT_OF_RANGE)
        return None if diverging is None else self._offsets(position, partition, extra=Extra(diverging))

    def _offsets(
        self,
        position: FetchPosition,
        partition: Partition,
        *,
        replica: NodeId = -1,
        extra: Extra | None = None,
    ) -> _Told:
        """Tell of offsets, and of no records."""
        position.at_end = False
        offsets = partition.high_watermark, partition.last_stable_offset, partition.log.log_start_offset
        return (position.index, 0, *offsets, None, replica, b"", extra), 0

    def _follows(self, position: FetchPosition, partition: Partition, now: Now) -> ErrorCode:
        """A follower asks for an offset: it holds what lies below.  Return why it may not; NONE: it may.

        One that names a partition anew, at the offset where it was before, may have refused what it was sent.
        """
        replica, offset = self.replica, position.offset
        known = partition.leading.progress.get(replica)
        position.doubted = position.log_start < 0 and known is not None and known.log_end == offset
        if not partition.fetched_by(replica, offset, position.replica_log_start, now, self.replica_epoch):
            unstated = position.current_leader_epoch == NO_EPOCH
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if unstated else ErrorCode.UNKNOWN_LEADER_EPOCH
        if replica not in partition.leading.isr:
            self.broker.in_sync.consider(partition, replica, now)
        return ErrorCode.NONE

    def count_replicated(self, position: FetchPosition, size: int, now: Now) -> None:
        """Count the bytes of an answer's records for the throttle, of replicas in sync or not.

        Only followers that are not in sync wait.  The records may have been read more than once meanwhile.
        """
        partition, quota = position.partition, self.broker.leader_quota
        if quota.limited and partition is not None and partition.settings.leader_throttled:
            quota.record(size, now)

    def __repr__(self) -> str:
        return f"<Reader {'of consumers' if self.replica < 0 else f'for {self.replica}'} v{self.version}>"
