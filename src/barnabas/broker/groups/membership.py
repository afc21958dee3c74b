"""Who is in a group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

A rebalance in words: members hand in what they support and wait (`join`); when all have come, or the time is
over, a generation begins and each is told who leads (`rebalance`); the leader hands in the assignment,
which is written to the log before anybody is told (`sync`).  Answers follow Apache Kafka's classic groups.
"""

from __future__ import annotations

from functools import partial

from barnabas.broker.groups.group import (
    NEW_MEMBER_JOIN_TIMEOUT,
    ClassicGroup,
    GroupState,
    Member,
    Parked,
    ParkedRequests,
    Protocols,
)
from barnabas.broker.groups.rebalance import (
    GroupJournal,
    GroupLimits,
    Rebalance,
    generation_answer,
    refused_join,
)
from barnabas.broker.groups.records import group_record
from barnabas.broker.ports import RequestContext
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.ports import Randomness
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["Membership"]

MEMBER_ID_FROM = 4
"""First JoinGroup version in which a new dynamic member must come back with the id it was given."""
SKIP_ASSIGNMENT_FROM = 9


class Membership:
    """Moves groups.  `groups` is shared with the coordinator, which finds, loads and forgets them."""

    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        limits: GroupLimits,
        journal: GroupJournal,
        randomness: Randomness,
    ) -> None:
        self.groups = groups
        self.limits = limits
        self.journal = journal
        self.randomness = randomness
        self.rebalance = Rebalance(groups, limits, journal)
        self.parked = ParkedRequests()

    # -- JoinGroup -------------------------------------------------------------------------------------

    def join(
        self, context: RequestContext, request: JoinGroupRequest, now: Now
    ) -> JoinGroupResponse | Parked:
        """Enter a group or a new generation of it."""
        member_id, version = request.member_id, context.version
        if not self.limits.min_session <= request.session_timeout_ms / 1000 <= self.limits.max_session:
            return refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, member_id, version)
        if self.parked.count >= self.limits.max_waiting:
            return refused_join(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, version)
        group = self.groups.get(request.group_id)
        if group is None:
            if member_id:
                return refused_join(ErrorCode.UNKNOWN_MEMBER_ID, member_id, version)
            group = self.groups[request.group_id] = ClassicGroup(request.group_id, now)
        protocols: Protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        if not self._has_room(group, member_id):
            group.no_longer_pending(member_id)
            return refused_join(ErrorCode.GROUP_MAX_SIZE_REACHED, "", version)
        if not group.supports(request.protocol_type, protocols):
            return refused_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id, version)
        if not member_id:
            return self._join_without_id(group, context, request, protocols, now)
        return self._join_with_id(group, context, request, protocols, now)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING:
            return (
                member is not None and member.joining is not None
            ) or group.waiting_to_join < self.limits.max_size
        return member is not None or len(group.members) < self.limits.max_size

    def _join_without_id(
        self,
        group: ClassicGroup,
        context: RequestContext,
        request: JoinGroupRequest,
        protocols: Protocols,
        now: Now,
    ) -> JoinGroupResponse | Parked:
        instance = request.group_instance_id
        new_id = f"{instance if instance is not None else context.client_id or ''}-{self._uuid()}"
        if instance is not None:
            if instance in group.static:
                return self._replace_static(group, context, request, protocols, new_id, now)
            return self._add(group, context, request, protocols, new_id, now)
        if context.version >= MEMBER_ID_FROM:
            if len(group.pending) >= self.limits.max_waiting:
                return refused_join(ErrorCode.COORDINATOR_NOT_AVAILABLE, "", context.version)
            until = now.mono + request.session_timeout_ms / 1000
            expired = partial(self._pending_expired, group, new_id)
            group.pending[new_id] = self.journal.at(until, expired)
            return refused_join(ErrorCode.MEMBER_ID_REQUIRED, new_id, context.version)
        return self._add(group, context, request, protocols, new_id, now)

    def _uuid(self) -> str:
        text = self.randomness.uuid().hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def _join_with_id(
        self,
        group: ClassicGroup,
        context: RequestContext,
        request: JoinGroupRequest,
        protocols: Protocols,
        now: Now,
    ) -> JoinGroupResponse | Parked:
        member_id = request.member_id
        if member_id in group.pending:
            if (
                request.group_instance_id is not None
            ):  # the id was given to a dynamic member: Kafka fails on it
                return refused_join(ErrorCode.UNKNOWN_SERVER_ERROR, "", context.version)
            return self._add(group, context, request, protocols, member_id, now)
        if error := self.check_member(group, member_id, request.group_instance_id):
            return refused_join(error, member_id, context.version)
        member = group.members[member_id]
        if group.state is GroupState.PREPARING:
            return self._update_and_rebalance(group, member, context, request, protocols, now)
        if group.state is GroupState.COMPLETING:
            if member.protocols == protocols:
                return generation_answer(group, member)
            return self._update_and_rebalance(group, member, context, request, protocols, now)
        if group.state is GroupState.STABLE:
            if member_id == group.leader_id or member.protocols != protocols:
                return self._update_and_rebalance(group, member, context, request, protocols, now)
            return generation_answer(group, member)
        return refused_join(ErrorCode.UNKNOWN_MEMBER_ID, member_id, context.version)

    def check_member(self, group: ClassicGroup, member_id: str, instance: str | None) -> ErrorCode | None:
        """Check a member's ids: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, or None when they are right."""
        if instance is not None:
            owner = group.static.get(instance)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _add(
        self,
        group: ClassicGroup,
        context: RequestContext,
        request: JoinGroupRequest,
        protocols: Protocols,
        member_id: str,
        now: Now,
    ) -> Parked:
        session = request.session_timeout_ms / 1000
        member = Member(
            member_id,
            instance_id=request.group_instance_id,
            client_id=context.client_id or "",
            client_host=f"/{context.client_host}",
            session_timeout=session,
            rebalance_timeout=request.rebalance_timeout_ms / 1000
            if request.rebalance_timeout_ms >= 0
            else session,
            protocols=protocols,
        )
        member.is_new = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        group.newcomer = True
        parked = self._park_join(group, member, context.version)
        member.expires = now.mono + NEW_MEMBER_JOIN_TIMEOUT
        self.rebalance.arm(group, member)
        self.rebalance.go_on(group, now)
        return parked

    def _update_and_rebalance(
        self,
        group: ClassicGroup,
        member: Member,
        context: RequestContext,
        request: JoinGroupRequest,
        protocols: Protocols,
        now: Now,
    ) -> Parked:
        self._update(member, context, request, protocols)
        parked = self._park_join(group, member, context.version)
        self.rebalance.go_on(group, now)
        return parked

    def _update(
        self, member: Member, context: RequestContext, request: JoinGroupRequest, protocols: Protocols
    ) -> None:
        member.protocols = protocols
        member.client_id = context.client_id or ""
        member.client_host = f"/{context.client_host}"
        member.session_timeout = request.session_timeout_ms / 1000
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_timeout = request.rebalance_timeout_ms / 1000

    def _park_join(self, group: ClassicGroup, member: Member, version: int) -> Parked:
        if member.joining is not None:  # the same member asked again over another connection
            again = refused_join(ErrorCode.REBALANCE_IN_PROGRESS, member.id, member.joining.version)
            member.joining.complete(again)
        member.joining = Parked(member, self.parked, lambda parked: self._join_gone(group, parked), version)
        return member.joining

    def _join_gone(self, group: ClassicGroup, parked: Parked) -> None:
        """The connection of a JoinGroup ended.  A newcomer goes with it: it would hold up the others for the
        whole rebalance timeout.  A member that was in the group before keeps its place until its session ends."""

        def drop(now: Now) -> None:
            member = parked.member
            if self.groups.get(group.id) is group and member.joining is parked and member.is_new:
                self.rebalance.drop(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
                self.rebalance.after_loss(group, now)

        if parked.member.is_new and not parked.member.is_static:
            self.journal.at(0.0, drop)

    def _replace_static(
        self,
        group: ClassicGroup,
        context: RequestContext,
        request: JoinGroupRequest,
        protocols: Protocols,
        new_id: str,
        now: Now,
    ) -> JoinGroupResponse | Parked:
        """A static member restarted: it comes without an id and takes its old place (KIP-345)."""
        assert request.group_instance_id is not None
        member = group.members[group.static[request.group_instance_id]]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        if member.joining is not None:
            member.joining.complete(refused_join(fenced, member.id, member.joining.version))
        if member.syncing is not None:
            member.syncing.complete(SyncGroupResponse(error_code=fenced))
        old_leader = group.leader_id
        before = group.protocol
        group.rename(member, new_id)
        self._update(member, context, request, protocols)
        member.expires = now.mono + member.session_timeout
        self.rebalance.arm(group, member)
        if group.state is not GroupState.STABLE or group.choose_protocol() != before:
            parked = self._park_join(group, member, context.version)
            self.rebalance.go_on(group, now)
            return parked
        parked = self._park_join(group, member, context.version)
        assignments = {id: found.assignment for id, found in group.members.items()}
        knows_skip = context.version >= SKIP_ASSIGNMENT_FROM
        leads = group.leader_id == new_id

        def written(error: ErrorCode) -> None:
            if member.joining is not parked:
                return
            if error:
                parked.complete(refused_join(error, new_id, parked.version))
                return
            answer = generation_answer(group, member)
            if leads and not knows_skip:
                answer = JoinGroupResponse(
                    generation_id=group.generation,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol,
                    leader=old_leader or "",
                    member_id=new_id,
                )
            elif leads:
                answer = generation_answer(group, member, skip_assignment=True)
            parked.complete(answer)

        self.journal.write(group.id, [group_record(group, assignments, now.wall_ms)], now, written)
        return parked

    # -- SyncGroup -------------------------------------------------------------------------------------

    def sync(
        self, context: RequestContext, request: SyncGroupRequest, now: Now
    ) -> SyncGroupResponse | Parked:
        """The leader hands in the assignments; each member gets its own."""
        group = self.groups.get(request.group_id)
        error = self._check_sync(group, request)
        if error or group is None:
            return SyncGroupResponse(error_code=error or ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            return self._assignment_answer(group, member, ErrorCode.NONE)
        if self.parked.count >= self.limits.max_waiting:
            return SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if member.syncing is not None:
            member.syncing.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        parked = member.syncing = Parked(
            member, self.parked, lambda gone: gone.complete(None), context.version
        )
        if member.id == group.leader_id:
            given = {one.member_id: bytes(one.assignment) for one in request.assignments}
            self._write_assignments(group, {id: given.get(id, b"") for id in group.members}, now)
        return parked

    def _check_sync(self, group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode | None:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if error := self.check_member(group, request.member_id, request.group_instance_id):
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        for said, known in (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol),
        ):
            if said is not None and said != known:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else None

    def _write_assignments(self, group: ClassicGroup, assignments: dict[str, bytes], now: Now) -> None:
        generation = group.generation

        def written(error: ErrorCode) -> None:
            if group.state is not GroupState.COMPLETING or group.generation != generation:
                return  # the group moved on: what was written is overtaken by the next generation
            if error:
                for member in list(group.members.values()):
                    if member.syncing is not None:
                        member.syncing.complete(self._assignment_answer(group, member, error))
                self.rebalance.begin(group, now)
                return
            for member in group.members.values():
                member.assignment = assignments.get(member.id, b"")
            group.move(GroupState.STABLE, now)
            for member in list(group.members.values()):
                if member.syncing is not None:
                    member.expires = max(member.expires, now.mono + member.session_timeout)
                    member.syncing.complete(self._assignment_answer(group, member, ErrorCode.NONE))

        self.journal.write(group.id, [group_record(group, assignments, now.wall_ms)], now, written)

    def _assignment_answer(self, group: ClassicGroup, member: Member, error: ErrorCode) -> SyncGroupResponse:
        return SyncGroupResponse(
            error_code=error,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            assignment=b"" if error else member.assignment,
        )

    # -- Heartbeat and LeaveGroup ----------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> ErrorCode:
        """A member is alive; the answer tells it whether it must join again."""
        group = self.groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if error := self.check_member(group, request.member_id, request.group_instance_id):
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.alive(group.members[request.member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def alive(self, member: Member, now: Now) -> None:
        """The session of a member begins anew."""
        if not member.is_new:
            member.expires = now.mono + member.session_timeout

    def leave(self, context: RequestContext, request: LeaveGroupRequest, now: Now) -> LeaveGroupResponse:
        """Remove members, at their own or an administrator's request (empty member id with an instance id)."""
        group = self.groups.get(request.group_id)
        if context.version < 3:
            error = self._leave_one(group, request.member_id, None, now)
            if group is not None and error == ErrorCode.NONE:
                self.rebalance.after_loss(group, now)
            return LeaveGroupResponse(error_code=error)
        results = []
        for identity in request.members:
            error = self._leave_one(group, identity.member_id, identity.group_instance_id, now)
            results.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        if group is not None and any(result.error_code == 0 for result in results):
            self.rebalance.after_loss(group, now)
        return LeaveGroupResponse(members=results)

    def _leave_one(
        self, group: ClassicGroup | None, member_id: str, instance: str | None, now: Now
    ) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.no_longer_pending(member_id):
            return ErrorCode.NONE
        if not member_id and instance is not None:
            member_id = group.static.get(instance, "")
        if error := self.check_member(group, member_id, instance):
            return error
        self.rebalance.drop(group, group.members[member_id], ErrorCode.UNKNOWN_MEMBER_ID)
        return ErrorCode.NONE

    # -- timers ----------------------------------------------------------------------------------------

    def _pending_expired(self, group: ClassicGroup, member_id: str, now: Now) -> None:
        if group.no_longer_pending(member_id) and self.groups.get(group.id) is group:
            self.rebalance.after_loss(group, now) if group.state is GroupState.PREPARING else None
