"""The consumer groups of this broker: ConsumerGroupHeartbeat, and what is written and replayed for it.

A heartbeat is decided, written, replayed; its answer leaves when what it rests on is committed, also what an
earlier heartbeat of the group wrote.  A write that the log refuses at once changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from barnabas.broker.groups.consumer import records
from barnabas.broker.groups.consumer.checks import check_request
from barnabas.broker.groups.consumer.decisions import (
    REFRESH_MS,
    ConsumerGroupSettings,
    Step,
    decide_fence,
    decide_heartbeat,
    decide_patterns,
    leaver,
)
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import LEFT, LEFT_FOR_NOW, ConsumerMember, MemberState
from barnabas.broker.groups.consumer.migration import downgraded, upgraded
from barnabas.broker.groups.consumer.patterns import PatternSearch, patterns_with, search_wanted
from barnabas.broker.groups.consumer.records import ConsumerKey
from barnabas.broker.groups.consumer.sessions import NEVER, Sessions
from barnabas.broker.groups.consumer.writing import GroupWriting
from barnabas.broker.groups.group import ClassicGroup, GroupState
from barnabas.broker.groups.membership import Membership
from barnabas.broker.groups.offsets import CommitWaiting
from barnabas.broker.groups.records import group_record, group_tombstone, too_long
from barnabas.broker.ports import RequestContext
from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.model import Epoch, Now
from barnabas.ports import Buffer
from barnabas.wire.codec.message import Message
from barnabas.wire.records import Record
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.wire.schemas.group_records import ClassicMemberMetadata
from barnabas.wire.schemas.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

__all__ = ["ConsumerGroups", "refused"]

_Response = TypeVar("_Response", bound=Message)

LEAVE_MANY_FROM = 3
"""First version of LeaveGroup that names several members."""
STEP_S = 0.001
"""Pause between two steps of a search for topics."""


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
        visible: Callable[[RequestContext, str], bool] = lambda context, topic: True,
    ) -> None:
        """`visible` says whether the sender of a request may see a topic."""
        self.groups = groups
        self._visible = visible
        self.membership = membership
        self.journal = membership.journal
        self.settings = settings
        self.image = image
        self.writing = GroupWriting(groups, membership)
        self._sessions = Sessions(self.journal, self._fence)
        self._searches: dict[str, PatternSearch] = {}
        self._topics_version = -1
        """The metadata's offset when topics were created last, as far as known here."""

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        """The node's settings with those that were set on the group."""
        return self.settings.with_own(self.image().group_config(group_id))

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
            group, before, classic = self._group_for(request, now)
            member_id = request.member_id or str(self.membership.randomness.uuid())
            image = self.image()
            settings = self.settings_of(group.id)
            step, answer = decide_heartbeat(group, member_id, context, request, image, settings, now)
        except KafkaError as error:
            return refused(error.code, error.message)
        wanted = self.search_is_due(group, step.after, now)
        if error_code := self.take(group, step, now, before=before):
            return refused(error_code)
        if classic is not None:
            self._was_classic(group, classic, now)
        if wanted:
            self.search_patterns(group, step.after, now, context)
        return self.when_safe(group.id, answer, refused, now)

    def take(
        self,
        group: ConsumerGroup,
        step: Step,
        now: Now,
        *,
        before: Sequence[Record] = (),
        classic: ClassicMemberMetadata | None = None,
    ) -> ErrorCode:
        """Write a member's step and set its deadlines; `classic` is what one of the classic protocol said."""
        if error := self.writing.append(group, step.changes, now, before):
            return error
        member = step.after
        if step.refreshed is not None:
            group.refresh_ms, group.refresh_epoch = now.wall_ms + REFRESH_MS, step.refreshed
        if classic is not None:
            self.alive(group, member, classic.session_timeout_ms, now)
            self._sessions.revoke_within(group.id, member.id, None, member.rebalance_timeout_ms / 1000, now)
            return error
        self.alive(group, member, self.settings_of(group.id).session_ms, now)
        if step.moved:
            self._watch_revoking(group, member, now)
        return error

    def when_safe(
        self, group_id: str, answer: _Response, refused: Callable[[ErrorCode], _Response], now: Now
    ) -> _Response | CommitWaiting:
        """The answer now, or when the last write of the group is committed."""
        return self.writing.when_safe(group_id, answer, refused, now)

    def _group_for(
        self, request: ConsumerGroupHeartbeatRequest, now: Now
    ) -> tuple[ConsumerGroup, list[Record], ClassicGroup | None]:
        """The group of a heartbeat, what is written before it, and the classic group that it was.

        A classic group that is empty makes room; one with members is upgraded with the first member of ours.
        """
        group = self.groups.get(request.group_id)
        if group is not None:
            return group, [], None
        if request.member_epoch != 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {request.group_id}")
        classic = self.membership.groups.get(request.group_id)
        if classic is None:
            return ConsumerGroup(request.group_id), [], None
        before = [group_tombstone(request.group_id, now.wall_ms)]
        if classic.state is GroupState.EMPTY:
            return ConsumerGroup(request.group_id), before, None
        if not self.settings.upgrades:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{request.group_id} is a classic group, and group.consumer.migration.policy keeps it one",
            )
        group, changes = upgraded(classic, self.image(), self.settings.most_members)
        before += [records.to_record(change, now.wall_ms) for change in changes]
        return group, before, classic

    def _was_classic(self, group: ConsumerGroup, classic: ClassicGroup, now: Now) -> None:
        """A classic group was upgraded: who waits in it joins again, and the others' sessions begin anew."""
        self.membership.rebalance.forget(classic, ErrorCode.REBALANCE_IN_PROGRESS)
        for member in group.members.values():
            if member.classic is not None:
                self.alive(group, member, member.classic.session_timeout_ms, now)

    # -- deadlines of members ---------------------------------------------------------------------------

    def alive(self, group: ConsumerGroup, member: ConsumerMember, session_ms: int, now: Now) -> None:
        """A member was heard."""
        self._sessions.alive(group.id, member.id, session_ms / 1000, now)

    def synced(self, group: ConsumerGroup, member: ConsumerMember, session_ms: int, now: Now) -> None:
        """A classic member fetched its assignment."""
        self._sessions.revoked(group.id, member.id)
        self.alive(group, member, session_ms, now)

    def rejoin_within(self, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
        """A classic member was told to join again; the time for that begins once."""
        if self._sessions.is_late_at(group.id, member.id) == NEVER:
            self._sessions.revoke_within(group.id, member.id, None, member.rebalance_timeout_ms / 1000, now)

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
        member, changes = leaver(group, request)
        if changes:
            error = self.writing.append(group, changes, now)
        else:
            error = self._put_out(group, [member], now)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return refused(error) if error else self.when_safe(group.id, answer, refused, now)

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
        if code := self._put_out(group, list(gone.values()), now):
            return LeaveGroupResponse(error_code=code)
        return self.when_safe(group.id, answer, lambda error: LeaveGroupResponse(error_code=error), now)

    def _fence(self, group_id: str, member_id: str, epoch: int | None, now: Now) -> bool:
        """A member was silent, or kept what it should give up, for too long."""
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None or (epoch is not None and member.epoch != epoch):
            return True
        return not self._put_out(group, [member], now)

    def _put_out(self, group: ConsumerGroup, gone: Sequence[ConsumerMember], now: Now) -> ErrorCode:
        """Members are out of the group; where only classic ones stay, it is a classic group again."""
        ids = {member.id for member in gone}
        rest = [member for member in group.members.values() if member.id not in ids]
        if self._all_classic(rest):
            try:
                return self._downgrade(group, rest, group.epoch, now)
            except WireError:  # what a member wrote cannot be read: the group stays as it is
                pass
        error = self.writing.append(group, decide_fence(group, gone, self.image()), now)
        for member_id in () if error else ids:
            self._sessions.forget(group.id, member_id)
        return error

    # -- back to the classic protocol --------------------------------------------------------------------

    def _all_classic(self, members: Sequence[ConsumerMember]) -> bool:
        """Whether a group of these members goes back to the classic protocol."""
        settings = self.settings
        fits = settings.downgrades and 0 < len(members) <= settings.most_classic_members
        return fits and all(member.classic is not None for member in members)

    def _downgrade(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], generation: Epoch, now: Now
    ) -> ErrorCode:
        classic, assignments = downgraded(group, members, generation, self.image(), now)
        written = [records.to_record(change, now.wall_ms) for change in records.forgotten(group)]
        written.append(group_record(classic, assignments, now.wall_ms, rebalances=True))
        if error := self.writing.write(group.id, written, now):
            return error
        del self.groups[group.id]
        self._sessions.forget(group.id)
        self._searches.pop(group.id, None)
        self.membership.groups[group.id] = classic
        self.membership.rebalance.watch(classic, now)
        self.membership.rebalance.begin(classic, now)
        return ErrorCode.NONE

    def downgrade_if_classic(self, group: ConsumerGroup, generation: Epoch, now: Now) -> bool:
        """A classic member came in the place of the last one that spoke the protocol of KIP-848.

        `generation` is the group's epoch before that: what the others were told, and Apache Kafka goes on with.
        Whether the group is a classic one now; what cannot be written is tried with the next member.
        """
        members = list(group.members.values())
        if self._all_classic(members):
            with suppress(WireError):
                return not self._downgrade(group, members, generation, now)
        return False

    def make_room(self, group_id: str, now: Now) -> ErrorCode:
        """A classic group comes under a name: a consumer group that is empty goes, one with members stays.

        INCONSISTENT_GROUP_PROTOCOL where it stays; a code of the coordinator where it could not be written.
        """
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.NONE
        if group.members:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error := self.writing.append(group, records.forgotten(group), now):
            return error
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
        self.writing.loaded(group.id)
        session_s = self.settings_of(group.id).session_ms / 1000
        for member in group.members.values():
            self._sessions.alive(group.id, member.id, session_s, now)
            self._watch_revoking(group, member, now)

    def unload(self, group_id: str) -> None:
        """Another node coordinates a group from now on."""
        self.groups.pop(group_id, None)
        self._sessions.forget(group_id)
        self.writing.forget(group_id)
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

    def search_is_due(self, group: ConsumerGroup, member: ConsumerMember, now: Now) -> bool:
        """Whether a member's next step calls for it; asked before the step, which may drop a pattern."""
        refresh_ms = self.settings.pattern_refresh_ms
        return search_wanted(group, member, now.wall_ms, self._topics_version, refresh_ms)

    def search_patterns(
        self, group: ConsumerGroup, member: ConsumerMember, now: Now, context: RequestContext
    ) -> None:
        """Look up the topics of a group's patterns, unless that is being done: those that this member may see."""
        if group.id in self._searches:
            return
        image = self.image()
        patterns, visible = patterns_with(group, member), partial(self._visible, context)
        search = PatternSearch(patterns, image.topics_by_name, image.offset, now.wall_ms, visible)
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
        if not self.writing.append(group, changes, now) and epoch is not None:
            group.refresh_ms, group.refresh_epoch = now.wall_ms + REFRESH_MS, epoch

    def __repr__(self) -> str:
        return f"<ConsumerGroups {len(self.groups)}>"
