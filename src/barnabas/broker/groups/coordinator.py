"""The group coordinator: which groups this node coordinates, and the entry point of all their requests.

A group belongs to one partition of __consumer_offsets, chosen by the hash of its name; the leader of that
partition coordinates the group.  When this node starts to lead a partition, it reads it from the start (in
slices, so that nothing else waits), and then knows its groups and their offsets.  Until then it answers
COORDINATOR_LOAD_IN_PROGRESS. It writes every change there first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

from barnabas.broker.groups import describing
from barnabas.broker.groups.consumer.classic_members import ClassicMembers
from barnabas.broker.groups.consumer.decisions import ConsumerGroupSettings
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.groups import ConsumerGroups, refused
from barnabas.broker.groups.forgetting import Forgetting
from barnabas.broker.groups.group import ClassicGroup, Parked
from barnabas.broker.groups.loading import Loading
from barnabas.broker.groups.membership import Membership
from barnabas.broker.groups.offsets import CommitWaiting, GroupOffsets, commit_answer
from barnabas.broker.groups.placement import grown, partition_of, tell
from barnabas.broker.groups.rebalance import GroupLimits, refused_join
from barnabas.broker.groups.records import too_long
from barnabas.broker.groups.replaying import Replaying
from barnabas.broker.groups.timers import Timer, Timers
from barnabas.broker.groups.txn_offsets import TxnOffsets
from barnabas.broker.ports import RequestContext
from barnabas.broker.purgatory import Waiting
from barnabas.broker.replicas.broker import Broker
from barnabas.broker.replicas.partition import Partition
from barnabas.broker.requests.append_internal import append_internal, call_when_safe
from barnabas.config import Config
from barnabas.controller.image import ImageDelta
from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError, StorageError
from barnabas.log.producers.state import VerificationGuard
from barnabas.log.segments.damage import DamagedError
from barnabas.model import OFFSETS_TOPIC, Now, Offset, TopicId
from barnabas.ports import Randomness
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.schemas.consumer_groups import DescribedGroup as DescribedConsumerGroup
from barnabas.wire.schemas.groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["Groups"]

CHECKED_PER_STEP = 100
"""Groups that are looked at in one step of the walk over what is too old."""
GROUP_VERSION = "group.version"
"""The feature whose level 1 brings the groups of KIP-848."""
MOST_WAITING = 100_000
"""Requests of members that may be parked at a time."""

_Answer = TypeVar("_Answer")


class Groups:
    """All groups of the partitions of __consumer_offsets that this node leads."""

    def __init__(
        self,
        config: Config,
        randomness: Randomness,
        broker: Broker,
        *,
        append: Callable[..., Offset] = append_internal,
    ) -> None:
        """`append` puts a batch of records into a partition that `broker` leads."""
        self.broker = broker
        self._append = append
        self.timeout = config.int("offsets.commit.timeout.ms") / 1000
        self.check_interval = config.int("offsets.retention.check.interval.ms") / 1000
        self.groups: dict[str, ClassicGroup] = {}
        limits = GroupLimits(
            min_session=config.int("group.min.session.timeout.ms") / 1000,
            max_session=config.int("group.max.session.timeout.ms") / 1000,
            initial_delay=config.int("group.initial.rebalance.delay.ms") / 1000,
            max_size=config.int("group.max.size"),
            max_waiting=MOST_WAITING,
        )
        self.membership = Membership(self.groups, limits, self, randomness)
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.offsets = GroupOffsets(
            self.membership,
            lambda: broker.image,
            self.consumer_groups,
            most_metadata=config.int("offset.metadata.max.bytes"),
            retention_ms=config.int("offsets.retention.minutes") * 60_000,
        )
        self.consumers = ConsumerGroups(
            self.consumer_groups,
            self.membership,
            ConsumerGroupSettings.of(config),
            lambda: broker.image,
            broker.may_see,
        )
        self.classic_members = ClassicMembers(self.consumers, self.membership)
        self.protocols = frozenset(config.list("group.coordinator.rebalance.protocols"))
        self.forgetting = Forgetting(self.groups, self.consumers, self.offsets, self, self._refusal_of_any)
        self.transactions = TxnOffsets(broker, self.offsets, self, self._refusal)
        self.replaying = Replaying(
            self.groups, self.membership, self.consumers, self.offsets, self.partition_for
        )
        self._led: dict[int, Partition] = {}
        self._loading: dict[int, Loading] = {}
        self._timers = Timers()
        self._next_check: float | None = None
        self._to_check: deque[str] = deque()
        self.unreadable = 0
        """Records that loading left out, because no release known here writes such."""
        broker.on_leadership(self._leadership)

    # -- where a group lives ---------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        """Return the partition of __consumer_offsets that a group belongs to; NO_PARTITION without the topic."""
        return partition_of(self.broker.image, OFFSETS_TOPIC, group_id)

    def coordinated(self, group_id: str) -> ErrorCode | None:
        """Why this node does not answer for a group now; None when it does."""
        index = self.partition_for(group_id)
        if index in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if index not in self._led:
            return ErrorCode.NOT_COORDINATOR
        return None

    def _refusal(self, group_id: str) -> ErrorCode | None:
        return self._refusal_of_any(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def _refusal_of_any(self, group_id: str) -> ErrorCode | None:
        """Also a group without a name has positions, as with Kafka: old clients commit and fetch them."""
        return ErrorCode.INVALID_GROUP_ID if too_long(group_id) else self.coordinated(group_id)

    def _leadership(self, partition: Partition, leads: bool, epoch: int) -> None:
        if partition.topic != OFFSETS_TOPIC:
            return
        index = partition.index
        if leads:
            if index not in self._led and index not in self._loading:
                self._loading[index] = Loading(partition, partial(self.replaying.end, index))
            return
        self._loading.pop(index, None)
        if self._led.pop(index, None) is not None:
            self.replaying.forget(index, self._is_here)

    def _is_here(self, group_id: str) -> bool:
        index = self.partition_for(group_id)
        return index in self._led or index in self._loading

    # -- loading ---------------------------------------------------------------------------------------

    def _load_some(self, now: Now) -> None:
        """One step with one partition.  One that cannot be read is not coordinated here."""
        index, loading = next(iter(self._loading.items()))
        partition = loading.partition
        try:
            more = loading.step(partial(self.replaying.replay, loading), now)
        except StorageError as error:
            del self._loading[index]
            self.replaying.forget(index, self._is_here)
            self.broker.storage_failed(partition, error, now)
            return
        except CorruptRecordError as error:
            del self._loading[index]
            self.replaying.forget(index, self._is_here)
            self.unreadable += 1
            if isinstance(error, DamagedError):
                self.broker.damage_found(partition, error, now)
            return
        finally:
            self.unreadable += loading.unreadable
            loading.unreadable = 0
        if more:
            return
        del self._loading[index]
        self._led[index] = partition
        for group in self.groups.values():
            if self.partition_for(group.id) == index:
                self.membership.rebalance.watch(group, now)
        for consumer in self.consumer_groups.values():
            if self.partition_for(consumer.id) == index:
                self.consumers.watch(consumer, now)

    # -- the journal and the clock of the groups -------------------------------------------------------

    def write(
        self, group_id: str, records: list[Record], now: Now, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append to the group's partition; `done` hears what a client of the coordinator would."""
        partition = self._led.get(self.partition_for(group_id))
        if partition is None:
            done(ErrorCode.NOT_COORDINATOR)
            return
        numbered = [record._replace(offset=number) for number, record in enumerate(records)]
        self.append_batch(partition, write_batch(numbered), now, done)

    def append_batch(
        self,
        partition: Partition,
        batch: bytearray,
        now: Now,
        done: Callable[[ErrorCode], None],
        guard: VerificationGuard | None = None,
    ) -> None:
        """Append a batch of records; `guard`: its transaction was verified with it."""

        def written(error: ErrorCode) -> None:
            tell(done, error)

        try:
            self._append(self.broker, partition, batch, now, written, timeout_s=self.timeout, guard=guard)
        except KafkaError as error:
            tell(done, error.code)

    def when_safe(self, group_id: str, now: Now, done: Callable[[ErrorCode], None]) -> None:
        """`done` once everything that the group's partition has now is committed, or with an error."""
        partition = self._led.get(self.partition_for(group_id))
        if partition is None:
            done(ErrorCode.NOT_COORDINATOR)
        elif (end := partition.log.log_end_offset) <= partition.high_watermark:
            done(ErrorCode.NONE)
        else:
            told = partial(tell, done)
            call_when_safe(self.broker, partition, end, now, told, timeout_s=self.timeout)

    def load_anew(self, group_id: str) -> None:
        """What was written of a group found no room on the disk, and the group here is as if it had."""
        partition = self._led.get(self.partition_for(group_id))
        if partition is not None and not partition.offline:
            for leads in (False, True):
                self._leadership(partition, leads, partition.leader_epoch)

    def _load_all_anew(self) -> None:
        """Know only what each partition has of the groups that belong to it by now."""
        here = {**self._led, **{index: one.partition for index, one in self._loading.items()}}
        self._led.clear()
        self._loading.clear()
        for index in here:
            self.replaying.forget(index, self._is_here)
        for partition in here.values():
            self._leadership(partition, True, partition.leader_epoch)

    def led(self, index: int) -> Partition | None:
        """A partition of __consumer_offsets whose groups are here and loaded."""
        return self._led.get(index)

    def at(self, when: float, wake: Callable[[Now], None]) -> Timer:
        """Call back at `when` (monotonic seconds)."""
        return self._timers.at(when, wake)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do; 0 while a partition is being loaded."""
        if self._loading:
            return 0.0
        next_timer = self._timers.next_deadline()
        times = [] if next_timer is None else [next_timer]
        if self._to_check:
            return 0.0
        if self.groups or self.consumer_groups or self.offsets.committed:
            times.append(self._next_check or 0.0)
        return min(times, default=None)

    def tick(self, now: Now) -> None:
        """Load a slice, let timers fire, forget what is too old."""
        if self._loading:
            self._load_some(now)
        self._timers.tick(now)
        if self._next_check is None:
            self._next_check = now.mono + self.check_interval
        elif now.mono >= self._next_check:
            self._next_check = now.mono + self.check_interval
            if not self._to_check and self.broker.clock_agrees:  # else every position is too old
                self._to_check.extend(
                    self.groups.keys() | self.consumer_groups | self.offsets.committed.keys()
                )
        for _ in range(min(CHECKED_PER_STEP, len(self._to_check))):
            self.forgetting.forget_old(self._to_check.popleft(), now)

    def topic_deleted(self, name: str, topic_id: TopicId, now: Now) -> None:
        """A topic is gone: so are the positions in it."""
        self.forgetting.topic_deleted(name, topic_id, now)

    def metadata_changed(self, delta: ImageDelta, now: Now) -> None:
        """The metadata changed: groups hear of their topics."""
        if grown(delta, OFFSETS_TOPIC):
            self._load_all_anew()
        self.consumers.topics_changed(delta)
        for topic in delta.topics_deleted.values():
            self.topic_deleted(topic.name, topic.id, now)

    def stop(self, now: Now) -> None:
        """Answer everybody who waits."""
        for group in self.groups.values():
            self.membership.rebalance.forget(group, ErrorCode.NOT_COORDINATOR)

    # -- requests --------------------------------------------------------------------------------------

    def join(
        self, context: RequestContext, request: JoinGroupRequest, now: Now
    ) -> JoinGroupResponse | Parked | CommitWaiting:
        """JoinGroup."""
        error = self._refusal(request.group_id)
        names = [context.client_id, request.group_instance_id, request.protocol_type]
        if not error and any(map(too_long, [*names, *(one.name for one in request.protocols)])):
            error = ErrorCode.INVALID_REQUEST
        if not error and (group := self.consumer_groups.get(request.group_id)) and group.members:
            return _now_or_later(self.classic_members.join(context, request, now))
        if not error and not request.member_id:  # (who has an id is not known in a group that is not there)
            error = self.consumers.make_room(request.group_id, now)
        if error:
            return refused_join(error, request.member_id, context.version)
        return _now_or_later(self.membership.join(context, request, now))

    def sync(
        self, context: RequestContext, request: SyncGroupRequest, now: Now
    ) -> SyncGroupResponse | Parked | CommitWaiting:
        """SyncGroup."""
        if error := self._refusal(request.group_id):
            return SyncGroupResponse(error_code=error)
        if request.group_id in self.consumer_groups:
            return _now_or_later(self.classic_members.sync(request, now))
        return _now_or_later(self.membership.sync(context, request, now))

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest, now: Now) -> HeartbeatResponse:
        """Heartbeat.  While the group is being loaded the member hears that all is well."""
        error = self._refusal(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE
        elif error is None:
            members = self.classic_members if request.group_id in self.consumer_groups else self.membership
            error = members.heartbeat(request, now)
        return HeartbeatResponse(error_code=error)

    def leave(
        self, context: RequestContext, request: LeaveGroupRequest, now: Now
    ) -> LeaveGroupResponse | CommitWaiting:
        """LeaveGroup."""
        if error := self._refusal(request.group_id):
            return LeaveGroupResponse(error_code=error)
        if request.group_id in self.consumer_groups:
            return _now_or_later(self.consumers.leave_classic(context.version, request, now))
        return self.membership.leave(context, request, now)

    def commit(
        self, context: RequestContext, request: OffsetCommitRequest, now: Now
    ) -> OffsetCommitResponse | CommitWaiting:
        """OffsetCommit."""
        if error := self._refusal_of_any(request.group_id):
            return commit_answer(request, lambda name, id, index: error)
        return _now_or_later(self.offsets.commit(context, request, now))

    def fetch_offsets(
        self, context: RequestContext, request: OffsetFetchRequest, now: Now
    ) -> OffsetFetchResponse:
        """OffsetFetch."""
        return self.offsets.fetch(context, request, self._refusal_of_any)

    def delete_offsets(
        self, context: RequestContext, request: OffsetDeleteRequest, now: Now
    ) -> OffsetDeleteResponse | CommitWaiting:
        """OffsetDelete."""
        if error := self._refusal(request.group_id):
            return OffsetDeleteResponse(error_code=error)
        return _now_or_later(self.offsets.delete(request, now))

    def describe(
        self, context: RequestContext, request: DescribeGroupsRequest, now: Now
    ) -> DescribeGroupsResponse:
        """DescribeGroups.  A group nobody knows is Dead (from version 6 on: GROUP_ID_NOT_FOUND)."""
        groups = [
            DescribedGroup(group_id=name, error_code=error)
            if (error := self._refusal_of_any(name))
            else describing.described(name, self.groups.get(name), context.version)
            for name in request.groups
        ]
        if request.include_authorized_operations:
            groups = describing.with_operations(groups, self.broker.authorizer, context)
        return DescribeGroupsResponse(groups=groups)

    def consumer_heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> ConsumerGroupHeartbeatResponse | CommitWaiting:
        """ConsumerGroupHeartbeat (KIP-848)."""
        if not self.serves_consumer_groups:
            return refused(
                ErrorCode.UNSUPPORTED_VERSION, "the cluster does not serve group.protocol=consumer"
            )
        if request.group_id and (error := self._refusal(request.group_id)):
            return refused(error)
        return _now_or_later(self.consumers.heartbeat(context, request, now))

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether KIP-848 is in force: the cluster's group.version, and group.coordinator.rebalance.protocols."""
        return "consumer" in self.protocols and self.broker.image.feature(GROUP_VERSION) > 0

    def consumer_describe(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest, now: Now
    ) -> ConsumerGroupDescribeResponse:
        """ConsumerGroupDescribe (KIP-848)."""
        image, assignors = self.broker.image, self.consumers.settings.assignors
        unserved = None if self.serves_consumer_groups else ErrorCode.UNSUPPORTED_VERSION
        groups = [
            DescribedConsumerGroup(group_id=name, error_code=error)
            if (error := unserved or self._refusal(name))
            else describing.described_consumer(name, self.consumer_groups.get(name), image, assignors)
            for name in request.group_ids
        ]
        if request.include_authorized_operations:
            groups = describing.with_operations(groups, self.broker.authorizer, context)
        return ConsumerGroupDescribeResponse(groups=groups)

    def list(self, context: RequestContext, request: ListGroupsRequest, now: Now) -> ListGroupsResponse:
        """ListGroups; states and types are compared without case."""
        behind = self._loading or self.broker.reconciler.awaits(OFFSETS_TOPIC)  # else a group is on no list
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if behind else ErrorCode.NONE
        groups = describing.listed(self.groups.values(), self.consumer_groups.values(), request)
        return ListGroupsResponse(error_code=error, groups=groups)

    def delete(
        self, context: RequestContext, request: DeleteGroupsRequest, now: Now
    ) -> DeleteGroupsResponse | CommitWaiting:
        """DeleteGroups: only groups that are empty, with their positions."""
        return _now_or_later(self.forgetting.delete(request, now))

    def statistics(self) -> describing.GroupsStatistics:
        """Counts, computed now."""
        return describing.GroupsStatistics(
            groups=len(self.groups) + len(self.consumer_groups),
            members=sum(len(group.members) for group in self.groups.values())
            + sum(len(group.members) for group in self.consumer_groups.values()),
            offsets=sum(len(known) for known in self.offsets.committed.values()),
            waiting=self.membership.parked.count,
            loading=len(self._loading),
            unreadable=self.unreadable,
        )

    def __repr__(self) -> str:
        return f"<Groups {len(self.groups)} in {len(self._led)} partitions, {len(self._loading)} loading>"


def _now_or_later(answer: _Answer) -> _Answer:
    """The answer itself, where a waiter was answered already."""
    if isinstance(answer, Waiting) and answer.done:
        return cast(_Answer, answer.response)
    return answer
