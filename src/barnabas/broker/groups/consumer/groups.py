"""The consumer groups of this broker: ConsumerGroupHeartbeat, and what is written and replayed for it.

A heartbeat is decided, written, replayed; its answer leaves when what it rests on is committed, also what an
earlier heartbeat of the group wrote.  A write that the log refuses at once changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.broker.groups.consumer import records
from barnabas.broker.groups.consumer.checks import check_request
from barnabas.broker.groups.consumer.decisions import (
    REFRESH_MS,
    Beat,
    ConsumerGroupSettings,
    decide_fence,
    decide_heartbeat,
    decide_leave,
    decide_patterns,
)
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import LEFT, LEFT_FOR_NOW, ConsumerMember, MemberState
from barnabas.broker.groups.consumer.patterns import PatternSearch, patterns_with, search_wanted
from barnabas.broker.groups.consumer.records import Change, ConsumerKey
from barnabas.broker.groups.consumer.sessions import Sessions
from barnabas.broker.groups.group import GroupState
from barnabas.broker.groups.membership import Membership
from barnabas.broker.groups.offsets import CommitWaiting
from barnabas.broker.groups.records import group_tombstone, too_long
from barnabas.broker.ports import RequestContext
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now
from barnabas.ports import Buffer
from barnabas.wire.records import Record
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.schemas.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

__all__ = ["ConsumerGroups", "refused"]

LEAVE_MANY_FROM = 3
"""First version of LeaveGroup that names several members."""
STEP_S = 0.001
"""Pause between two steps of a search for topics."""


class _Write:
    """Records of a group on their way, and who waits for them."""

    __slots__ = ("error", "waiters")

    def __init__(self) -> None:
        self.error: ErrorCode | None = None
        self.waiters: list[Callable[[ErrorCode], None]] = []

    def finish(self, error: ErrorCode) -> None:
        """They are committed, or they failed."""
        self.error = error
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter(error)

    def then(self, waiter: Callable[[ErrorCode], None]) -> None:
        """Tell this one, too."""
        if self.error is None:
            self.waiters.append(waiter)
        else:
            waiter(self.error)

    def __repr__(self) -> str:
        return f"<_Write {'open' if self.error is None else self.error.name}>"


def refused(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """Why a heartbeat is refused."""
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)


class ConsumerGroups:
    """All consumer groups of the partitions of __consumer_offsets that this node leads.

    `groups` is shared with the offsets; `membership` has the classic groups, whose names are taken here, too.
    """

    def __init__(
        self,
        groups: dict[str, ConsumerGroup],
        membership: Membership,
        settings: ConsumerGroupSettings,
        image: Callable[[], MetadataImage],
    ) -> None:
        self.groups = groups
        self.membership = membership
        self.journal = membership.journal
        self.settings = settings
        self.image = image
        self._sessions = Sessions(self.journal, self._fence)
        self._last: dict[str, _Write] = {}
        """The last write of a group that is not committed yet."""
        self._searches: dict[str, PatternSearch] = {}
        self._topics_version = -1
        """The metadata's offset when topics were created last, as far as known here."""

    # -- heartbeats -------------------------------------------------------------------------------------

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> ConsumerGroupHeartbeatResponse | CommitWaiting:
        """A member joins, is alive, or leaves."""
        try:
            check_request(request, context.version, self.settings.assignors)
            names = (request.group_id, request.member_id, request.instance_id, request.rack_id)
            if any(map(too_long, names)):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a name in the heartbeat is too long")
            if request.member_epoch in (LEFT, LEFT_FOR_NOW):
                return self._leave(request, now)
            group, before = self._group_for(request, now)
            member_id = request.member_id or str(self.membership.randomness.uuid())
            beat = decide_heartbeat(group, member_id, context, request, self.image(), self.settings, now)
        except KafkaError as error:
            return refused(error.code, error.message)
        write = self._append(group, beat.changes, now, before)
        if write is not None and write.error:
            return refused(write.error)
        self._heard(group, beat, now)
        return self._answer(group, beat.answer)

    def _group_for(
        self, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> tuple[ConsumerGroup, list[Record]]:
        """The group of a heartbeat, and what is written before it: a classic group that is empty makes room."""
        group = self.groups.get(request.group_id)
        if group is not None:
            return group, []
        if request.member_epoch != 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
        classic = self.membership.groups.get(request.group_id)
        if classic is None:
            return ConsumerGroup(request.group_id), []
        if classic.state is not GroupState.EMPTY:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{request.group_id} is a classic group with members: let them leave first",
            )
        return ConsumerGroup(request.group_id), [group_tombstone(request.group_id, now.wall_ms)]

    def _heard(self, group: ConsumerGroup, beat: Beat, now: Now) -> None:
        """A heartbeat was taken: its member's deadlines, and the group's patterns."""
        member = beat.after
        if beat.refreshed is not None:
            group.refresh_ms, group.refresh_epoch = now.wall_ms + REFRESH_MS, beat.refreshed
        self._sessions.alive(group.id, member.id, self.settings.session_ms / 1000, now)
        if beat.moved:
            self._watch_revoking(group, member, now)
        self._search_if_wanted(group, beat, now)

    def _watch_revoking(self, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            seconds = member.rebalance_timeout_ms / 1000
            self._sessions.revoke_within(group.id, member.id, member.epoch, seconds, now)
        else:
            self._sessions.revoked(group.id, member.id)

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> ConsumerGroupHeartbeatResponse | CommitWaiting:
        group = self.groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
        beat = decide_leave(group, request, self.image())
        write = self._append(group, beat.changes, now)
        if write is not None and write.error:
            return refused(write.error)
        if beat.after.id not in group.members:
            self._sessions.forget(group.id, beat.after.id)
        return self._answer(group, beat.answer)

    def leave_classic(
        self, version: int, request: LeaveGroupRequest, now: Now
    ) -> LeaveGroupResponse | CommitWaiting:
        """LeaveGroup for members of a consumer group: an administrator removes them."""
        group = self.groups[request.group_id]
        gone: dict[str, ConsumerMember] = {}
        results = []
        identities = (
            request.members if version >= LEAVE_MANY_FROM else [MemberIdentity(member_id=request.member_id)]
        )
        for identity in identities:
            member = group.members.get(identity.member_id)
            error = ErrorCode.NONE
            if identity.group_instance_id is not None:
                member = group.static_member(identity.group_instance_id)
                if member is not None and identity.member_id not in ("", member.id):
                    error = ErrorCode.FENCED_INSTANCE_ID
            if member is None:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            elif not error:
                gone[member.id] = member
            results.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        answer = LeaveGroupResponse(members=results)
        if version < LEAVE_MANY_FROM:
            answer = LeaveGroupResponse(error_code=results[0].error_code)
        if not gone:
            return answer
        write = self._append(group, decide_fence(group, list(gone.values()), self.image()), now)
        assert write is not None
        waiting = CommitWaiting(self.membership.parked)
        write.then(lambda error: waiting.complete(LeaveGroupResponse(error_code=error) if error else answer))
        if not write.error:
            for member_id in gone:
                self._sessions.forget(group.id, member_id)
        return waiting

    def _fence(self, group_id: str, member_id: str, epoch: int | None, now: Now) -> bool:
        """A member was silent, or kept what it should give up, for too long."""
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None or (epoch is not None and member.epoch != epoch):
            return True
        write = self._append(group, decide_fence(group, [member], self.image()), now)
        if write is not None and write.error:
            return False
        self._sessions.forget(group_id, member_id)
        return True

    # -- writing ----------------------------------------------------------------------------------------

    def _append(
        self, group: ConsumerGroup, changes: Sequence[Change], now: Now, before: Sequence[Record] = ()
    ) -> _Write | None:
        """Write changes of a group and replay them; None when there are none.

        With the write's error at once set, nothing was written and the group is as it was.
        """
        if not changes:
            return None
        write = _Write()
        written = [records.to_record(change, now.wall_ms) for change in changes]
        self.journal.write(group.id, [*before, *written], now, write.finish)
        if write.error:
            return write
        self.membership.groups.pop(group.id, None)
        self.groups[group.id] = group
        for change, record in zip(changes, written, strict=True):
            records.replay(group, change.key, record.value)
        if write.error is None:
            self._last[group.id] = write
            write.then(lambda error: self._settled(group.id, write))
        return write

    def _settled(self, group_id: str, write: _Write) -> None:
        if self._last.get(group_id) is write:
            del self._last[group_id]

    def _answer(
        self, group: ConsumerGroup, answer: ConsumerGroupHeartbeatResponse
    ) -> ConsumerGroupHeartbeatResponse | CommitWaiting:
        """The answer now, or when the last write of the group is committed."""
        write = self._last.get(group.id)
        if write is None:
            return answer
        waiting = CommitWaiting(self.membership.parked)
        write.then(lambda error: waiting.complete(refused(error) if error else answer))
        return waiting

    def make_room(self, group_id: str, now: Now) -> ErrorCode:
        """A classic group comes under a name: a consumer group that is empty goes, one with members stays.

        INCONSISTENT_GROUP_PROTOCOL where it stays; a code of the coordinator where it could not be written.
        """
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.NONE
        if group.members:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        write = self._append(group, records.forgotten(group), now)
        if write is not None and write.error:
            return write.error
        del self.groups[group_id]
        return ErrorCode.NONE

    # -- loading ----------------------------------------------------------------------------------------

    def replay(self, key: ConsumerKey, value: Buffer | None) -> None:
        """Take a record of a partition that is being loaded.  Raises WireError."""
        group = self.groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            classic = self.membership.groups.get(key.group_id)
            if classic is not None and classic.protocol_type is None:
                del self.membership.groups[key.group_id]  # only positions had been read
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id)
        if not records.replay(group, key, value):
            del self.groups[key.group_id]

    def watch(self, group: ConsumerGroup, now: Now) -> None:
        """A group was loaded: the deadlines of its members begin now."""
        self._topics_version = max(self._topics_version, self.image().offset)
        for member in group.members.values():
            self._sessions.alive(group.id, member.id, self.settings.session_ms / 1000, now)
            self._watch_revoking(group, member, now)

    def unload(self, group_id: str) -> None:
        """Another node coordinates a group from now on."""
        self.groups.pop(group_id, None)
        self._sessions.forget(group_id)
        self._last.pop(group_id, None)
        self._searches.pop(group_id, None)

    # -- topics -----------------------------------------------------------------------------------------

    def topics_changed(self, delta: ImageDelta) -> None:
        """Groups look at their topics anew with the next heartbeat when some were created, grew or went."""
        if delta.topics_created:
            self._topics_version = delta.image.offset
        changed = {topic.name for topic in delta.topics_created.values()}
        changed |= {topic.name for topic in delta.topics_deleted.values()}
        for topic_id, partitions in delta.partitions.items():
            topic = delta.image.topics.get(topic_id)
            if topic is not None and any(
                before is None or before.replicas != topic.partitions[index].replicas
                for index, before in partitions.items()
                if index in topic.partitions
            ):
                changed.add(topic.name)
        if not changed:
            return
        for group in self.groups.values():
            if not group.topics.isdisjoint(changed):
                group.refresh_ms = group.refresh_epoch = 0

    def _search_if_wanted(self, group: ConsumerGroup, beat: Beat, now: Now) -> None:
        """Look up the topics of a group's patterns, unless that was done lately."""
        patterns = patterns_with(group, beat.after)
        if not patterns or group.id in self._searches:
            return
        refresh_ms = self.settings.pattern_refresh_ms
        if search_wanted(group, patterns, now.wall_ms, self._topics_version, refresh_ms):
            image = self.image()
            search = PatternSearch(patterns, image.topics_by_name, image.offset, now.wall_ms)
            self._searches[group.id] = search
            self.journal.at(now.mono, lambda later: self._search(group, search, later))

    def _search(self, group: ConsumerGroup, search: PatternSearch, now: Now) -> None:
        if self._searches.get(group.id) is not search or self.groups.get(group.id) is not group:
            return
        if search.step():
            self.journal.at(now.mono + STEP_S, lambda later: self._search(group, search, later))
            return
        del self._searches[group.id]
        changes, epoch = decide_patterns(group, search.resolved(), self.image())
        write = self._append(group, changes, now)
        if epoch is not None and (write is None or not write.error):
            group.refresh_ms, group.refresh_epoch = now.wall_ms + REFRESH_MS, epoch

    def __repr__(self) -> str:
        return f"<ConsumerGroups {len(self.groups)}>"
