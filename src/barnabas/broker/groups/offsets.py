"""The offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete, and how long offsets are kept.

A commit is written first and counts when it is committed; until then a fetch returns the offset before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from barnabas.broker.groups.consumer.checks import commit_refusal, fetch_refusal, stale_commit
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.group import ClassicGroup, GroupState, ParkedRequests
from barnabas.broker.groups.membership import Membership
from barnabas.broker.groups.pending_offsets import PendingOffsets
from barnabas.broker.groups.records import (
    CommittedOffset,
    offset_record,
    offset_tombstone,
    subscribed_topics,
)
from barnabas.broker.ports import RequestContext
from barnabas.broker.purgatory import Waiting
from barnabas.controller.image import MetadataImage, Topic
from barnabas.errors import ErrorCode
from barnabas.model import NO_OFFSET, NO_TIMESTAMP, ZERO_UUID, Now, ProducerId, TopicId
from barnabas.wire.records import Record
from barnabas.wire.schemas.groups import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

__all__ = ["CommitWaiting", "GroupOffsets"]

TOPIC_IDS_FROM = 10
GROUP_ID_NOT_FOUND_FROM = 9

MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Codes of partitions that are not there."""

Position = tuple[str, int]
"""Topic name and partition."""


class CommitWaiting(Waiting):
    """A commit that is written and not yet safe.  Its partition's append has the deadline."""

    __slots__ = ("_all",)

    def __init__(self, parked: ParkedRequests) -> None:
        super().__init__(float("inf"))
        self._all = parked
        parked.count += 1

    def release(self) -> None:
        self._all.count -= 1

    def expired(self, now: Now) -> None:
        raise AssertionError("the append answers a commit")


def utf16_length(text: str) -> int:
    """Characters as Java counts them: what offset.metadata.max.bytes bounds."""
    return len(text.encode("utf-16-le")) // 2


class GroupOffsets:
    """The positions of all groups this node coordinates."""

    def __init__(
        self,
        membership: Membership,
        image: Callable[[], MetadataImage],
        consumer_groups: Mapping[str, ConsumerGroup],
        *,
        most_metadata: int,
        retention_ms: int,
    ) -> None:
        self.membership = membership
        self.image = image
        self.consumer_groups = consumer_groups
        self.most_metadata = most_metadata
        self.retention_ms = retention_ms
        self.committed: dict[str, dict[Position, CommittedOffset]] = {}
        self.pending = PendingOffsets()
        """Positions of transactions that are open."""
        self._in_flight: dict[str, dict[Position, int]] = {}

    # -- OffsetCommit ----------------------------------------------------------------------------------

    def commit(
        self, context: RequestContext, request: OffsetCommitRequest, now: Now
    ) -> OffsetCommitResponse | CommitWaiting:
        """Keep positions.  Some partitions may be refused while the others are kept.

        What is not there is refused without a look at the group.
        """
        errors: dict[tuple[str, TopicId, int], ErrorCode] = {}
        kept: dict[Position, CommittedOffset] = {}
        for wanted in request.topics:
            topic = self._topic(context.version, wanted.name, wanted.topic_id)
            for partition in wanted.partitions:
                key = (wanted.name, wanted.topic_id, partition.partition_index)
                errors[key] = self._check_position(context.version, topic, partition)
                if not errors[key] and topic is not None:
                    kept[(topic.name, partition.partition_index)] = CommittedOffset(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.committed_metadata or "",
                        commit_ms=now.wall_ms,
                        expire_ms=now.wall_ms + request.retention_time_ms
                        if request.retention_time_ms >= 0
                        else NO_TIMESTAMP,
                        topic_id=topic.id,
                    )
        missing = {key: error for key, error in errors.items() if error in MISSING}
        refused = self._check_commit(context, request, now) if len(missing) < len(errors) else None
        consumer = self.consumer_groups.get(request.group_id)
        if consumer is not None and not refused:
            refused = _stale_position(consumer, request, kept)
        if refused:
            return commit_answer(request, lambda name, id, index: missing.get((name, id, index)) or refused)
        if not kept:
            return commit_answer(request, lambda name, id, index: errors[(name, id, index)])
        waiting = CommitWaiting(self.membership.parked)
        group_id = request.group_id

        def written(error: ErrorCode) -> None:
            self.landed(group_id, kept)
            if not error:
                self.committed.setdefault(group_id, {}).update(kept)
                self.pending.superseded(group_id, kept)
            waiting.complete(
                commit_answer(request, lambda name, id, index: errors[(name, id, index)] or error)
            )

        records = [offset_record(group_id, *position, found) for position, found in kept.items()]
        self.took_off(group_id, kept)
        self.membership.journal.write(group_id, records, now, written)
        return waiting

    def took_off(self, group_id: str, positions: Iterable[Position]) -> None:
        """A commit of these is written, and not yet safe."""
        flying = self._in_flight.setdefault(group_id, {})
        for position in positions:
            flying[position] = flying.get(position, 0) + 1

    def landed(self, group_id: str, positions: Iterable[Position]) -> None:
        """It is safe, or nobody knows any more."""
        flying = self._in_flight[group_id]
        for position in positions:
            flying[position] -= 1
            if not flying[position]:
                del flying[position]
        if not flying:
            del self._in_flight[group_id]

    def in_flight(self, group_id: str) -> set[Position]:
        """Positions of which a commit is written and not yet safe, or of a transaction that is open."""
        return {*self._in_flight.get(group_id, ()), *self.pending.of_group(group_id)}

    def replay(
        self, index: int, producer_id: ProducerId, group_id: str, position: Position, kept: CommittedOffset
    ) -> None:
        """A commit is read from a partition of __consumer_offsets; it may be of a transaction."""
        if producer_id >= 0:
            self.pending.add(index, producer_id, group_id, {position: kept})
        else:
            self.committed.setdefault(group_id, {})[position] = kept
            self.pending.superseded(group_id, [position])

    def end_transaction(self, index: int, producer_id: ProducerId, *, commit: bool) -> None:
        """A transaction ended in a partition of __consumer_offsets: its positions count now, or are gone."""
        for group_id, kept in self.pending.end(index, producer_id).items():
            if commit and kept:
                self.committed.setdefault(group_id, {}).update(kept)

    def _check_commit(
        self, context: RequestContext, request: OffsetCommitRequest, now: Now
    ) -> ErrorCode | None:
        group = self.membership.groups.get(request.group_id)
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        if (consumer := self.consumer_groups.get(request.group_id)) is not None:
            return commit_refusal(consumer, member_id, generation, context.version)
        if group is None:
            if generation >= 0:
                newer = context.version >= GROUP_ID_NOT_FOUND_FROM
                return ErrorCode.GROUP_ID_NOT_FOUND if newer else ErrorCode.ILLEGAL_GENERATION
            self.membership.groups[request.group_id] = ClassicGroup(request.group_id, now)
            return None
        if generation < 0 and group.state is GroupState.EMPTY:
            return None
        if not member_id and request.group_instance_id is None and group.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if error := self.membership.check_member(group, member_id, request.group_instance_id):
            return error
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if group.state in (GroupState.STABLE, GroupState.PREPARING):
            self.membership.alive(group.members[member_id], now)
        return None

    def _check_position(
        self, version: int, topic: Topic | None, partition: OffsetCommitRequestPartition
    ) -> ErrorCode:
        if topic is None:
            by_id = version >= TOPIC_IDS_FROM
            return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.partition_index not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.check_metadata(partition.committed_metadata or "")

    def check_metadata(self, metadata: str) -> ErrorCode:
        """Whether a client may keep so much beside a position."""
        if utf16_length(metadata) > self.most_metadata:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _topic(self, version: int, name: str, topic_id: TopicId) -> Topic | None:
        image = self.image()
        return image.topics.get(topic_id) if version >= TOPIC_IDS_FROM else image.topics_by_name.get(name)

    # -- OffsetFetch -----------------------------------------------------------------------------------

    def fetch(
        self,
        context: RequestContext,
        request: OffsetFetchRequest,
        coordinated: Callable[[str], ErrorCode | None],
    ) -> OffsetFetchResponse:
        """Positions of one group (up to version 7) or of several."""
        if context.version >= 8:
            return OffsetFetchResponse(
                groups=[
                    self._fetch_group(context.version, group, coordinated, request.require_stable)
                    for group in request.groups
                ]
            )
        if error := coordinated(request.group_id):
            return OffsetFetchResponse(error_code=error, topics=[])
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ]
        found = self._positions(context.version, request.group_id, topics, request.require_stable)
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=one.partition_index,
                            committed_offset=one.committed_offset,
                            committed_leader_epoch=one.committed_leader_epoch,
                            metadata=one.metadata,
                            error_code=one.error_code,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in found
            ]
        )

    def _fetch_group(
        self,
        version: int,
        wanted: OffsetFetchRequestGroup,
        coordinated: Callable[[str], ErrorCode | None],
        stable: bool,
    ) -> OffsetFetchResponseGroup:
        error = coordinated(wanted.group_id)
        consumer = self.consumer_groups.get(wanted.group_id)
        if error is None and consumer is not None and not self._asks_for_nothing(version, wanted):
            error = fetch_refusal(consumer, wanted.member_id, wanted.member_epoch)
        if error:
            return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error)
        return OffsetFetchResponseGroup(
            group_id=wanted.group_id, topics=self._positions(version, wanted.group_id, wanted.topics, stable)
        )

    def _asks_for_nothing(self, version: int, wanted: OffsetFetchRequestGroup) -> bool:
        """Whether none of the topics is there, by their ids: then nobody asks who sends the request."""
        if version < TOPIC_IDS_FROM or not wanted.topics:
            return False
        return not any(topic.topic_id in self.image().topics for topic in wanted.topics)

    def _positions(
        self, version: int, group_id: str, topics: list[OffsetFetchRequestTopics] | None, stable: bool
    ) -> list[OffsetFetchResponseTopics]:
        """`stable`: positions that an open transaction may change are refused (KIP-447)."""
        known = self.committed.get(group_id, {})
        open_ = set(self.pending.of_group(group_id)) if stable else set()
        if topics is None:
            wanted: dict[str, list[int]] = {}
            for name, index in known:
                wanted.setdefault(name, []).append(index)
            image = self.image()
            topics = [
                OffsetFetchRequestTopics(
                    name=name,
                    topic_id=topic.id if (topic := image.topics_by_name.get(name)) else ZERO_UUID,
                    partition_indexes=indexes,
                )
                for name, indexes in wanted.items()
            ]
        answer = []
        for wanted_topic in topics:
            topic = self._topic(version, wanted_topic.name, wanted_topic.topic_id)
            name = topic.name if topic is not None else wanted_topic.name
            missing = version >= TOPIC_IDS_FROM and topic is None
            answer.append(
                OffsetFetchResponseTopics(
                    name=name,
                    topic_id=wanted_topic.topic_id,
                    partitions=[
                        _position_answer(index, known.get((name, index)), topic, missing)
                        if missing or (name, index) not in open_
                        else _unstable(index)
                        for index in wanted_topic.partition_indexes
                    ],
                )
            )
        return answer

    # -- forgetting ------------------------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest, now: Now) -> OffsetDeleteResponse | CommitWaiting:
        """Forget positions of a group in topics that none of its members reads."""
        group = self.membership.groups.get(request.group_id)
        if (consumer := self.consumer_groups.get(request.group_id)) is not None:
            subscribed: Set[str] | None = consumer.topics
        elif group is None:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        elif group.members and group.protocol_type != "consumer":
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        else:
            subscribed = subscribed_topics(group) if group.members else set()
        known = {*self.committed.get(request.group_id, ()), *self.pending.of_group(request.group_id)}
        topics = self.image().topics_by_name
        gone = []
        answer = OffsetDeleteResponse(topics=[])
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                position = (topic.name, one.partition_index)
                read = subscribed is None or topic.name in subscribed
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if read else ErrorCode.NONE
                if topic.name not in topics or one.partition_index not in topics[topic.name].partitions:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not error and position in known:
                    gone.append(position)
                partitions.append(
                    OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=error)
                )
            answer.topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        if not gone:
            return answer
        waiting = CommitWaiting(self.membership.parked)

        def written(error: ErrorCode) -> None:
            if not error:
                self.drop(request.group_id, gone)
            waiting.complete(OffsetDeleteResponse(error_code=error) if error else answer)

        self.membership.journal.write(
            request.group_id, self.tombstones(request.group_id, gone, now), now, written
        )
        return waiting

    def tombstones(self, group_id: str, positions: list[Position], now: Now) -> list[Record]:
        return [offset_tombstone(group_id, *position, now.wall_ms) for position in positions]

    def drop(self, group_id: str, positions: list[Position]) -> None:
        """Forget positions in memory (their tombstones are committed, or their topic is gone)."""
        self.pending.drop(group_id, positions)
        known = self.committed.get(group_id)
        if known is None:
            return
        for position in positions:
            known.pop(position, None)
        if not known:
            del self.committed[group_id]

    def of_topic(self, name: str, topic_id: TopicId) -> dict[str, list[Position]]:
        """Positions in a topic that was deleted, by group.  A topic made anew under the name is another one."""
        found = self.pending.of_topic(name)
        for group_id, known in self.committed.items():
            for position, committed in known.items():
                if position[0] == name and committed.topic_id in (topic_id, ZERO_UUID):
                    if position not in (positions := found.setdefault(group_id, [])):
                        positions.append(position)
        return found

    def expired(self, group_id: str, now: Now) -> list[Position]:
        """Positions of a group whose time is over (offsets.retention.minutes)."""
        found = []
        group = self.membership.groups.get(group_id)
        flying = self.in_flight(group_id)
        stable = group is not None and group.state is GroupState.STABLE
        read: Set[str] | None = subscribed_topics(group) if stable and group is not None else None
        if (consumer := self.consumer_groups.get(group_id)) is not None:
            read = consumer.topics
        for position, committed in self.committed.get(group_id, {}).items():
            unread = read is not None and position[0] not in read
            since = committed.commit_ms if unread else self._kept_since(group_id, group, committed)
            if committed.expire_ms != NO_TIMESTAMP:
                over = now.wall_ms >= committed.expire_ms
            else:
                over = since is not None and now.wall_ms - since >= self.retention_ms
            if over and position not in flying:
                found.append(position)
        return found

    def _kept_since(
        self, group_id: str, group: ClassicGroup | None, committed: CommittedOffset
    ) -> int | None:
        if group_id in self.consumer_groups:
            return None  # somebody reads this topic
        if group is None or group.protocol_type is None:
            return committed.commit_ms
        return max(group.since_ms, committed.commit_ms) if group.state is GroupState.EMPTY else None


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
    )


def _stale_position(
    group: ConsumerGroup, request: OffsetCommitRequest, kept: Mapping[Position, CommittedOffset]
) -> ErrorCode | None:
    """Why a member commits too late: it lost a partition, or got it in a later epoch than it knows."""
    epoch = request.generation_id_or_member_epoch
    for (_, index), found in kept.items():
        if error := stale_commit(group, request.member_id, epoch, found.topic_id, index):
            return error
    return None


def _position_answer(
    index: int, committed: CommittedOffset | None, topic: Topic | None, missing: bool
) -> OffsetFetchResponsePartitions:
    if missing:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
    other = committed is not None and topic is not None and committed.topic_id not in (topic.id, ZERO_UUID)
    if committed is None or other:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def commit_answer(
    request: OffsetCommitRequest, error: Callable[[str, TopicId, int], ErrorCode]
) -> OffsetCommitResponse:
    """An answer with an error for each partition asked for (name, topic id, index)."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=error(topic.name, topic.topic_id, one.partition_index),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
