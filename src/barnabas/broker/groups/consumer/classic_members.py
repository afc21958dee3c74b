"""Members of the classic protocol in a group of KIP-848: JoinGroup, SyncGroup and Heartbeat, one member at a time.

JoinGroup does for them what the heartbeat does for the others: it hands in the subscription and what the member
owns, and takes the next step towards its target.  SyncGroup fetches the assignment, and Heartbeat says when
there is a reason to join again.
"""

from __future__ import annotations

from barnabas.broker.groups.consumer.checks import check_instance, check_room, known_member
from barnabas.broker.groups.consumer.decisions import Asked, advance, replacement
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.groups import ConsumerGroups
from barnabas.broker.groups.consumer.member import ConsumerMember, MemberState
from barnabas.broker.groups.consumer.migration import (
    CONSUMER_PROTOCOL,
    assignment_bytes,
    owned_partitions,
    subscription_of,
    supports,
)
from barnabas.broker.groups.membership import MEMBER_ID_FROM, Membership
from barnabas.broker.groups.offsets import CommitWaiting
from barnabas.broker.groups.rebalance import refused_join
from barnabas.broker.ports import RequestContext
from barnabas.errors import ErrorCode, KafkaError, WireError
from barnabas.model import Now
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolSubscription
from barnabas.wire.schemas.group_records import ClassicMemberMetadata, ClassicProtocol
from barnabas.wire.schemas.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

__all__ = ["ClassicMembers"]


class ClassicMembers:
    """The classic members of `consumers`; `membership` has the bounds of their protocol."""

    def __init__(self, consumers: ConsumerGroups, membership: Membership) -> None:
        self.consumers = consumers
        self.limits = membership.limits
        self.randomness = membership.randomness

    # -- JoinGroup --------------------------------------------------------------------------------------

    def join(
        self, context: RequestContext, request: JoinGroupRequest, now: Now
    ) -> JoinGroupResponse | CommitWaiting:
        """A member joins, or joins again to take its next step."""
        consumers, group = self.consumers, self.consumers.groups[request.group_id]
        try:
            member_id = self._admit(context, request, group)
            asked, metadata = self._asked(context, request, group, member_id)
            step = advance(group, asked, consumers.image(), consumers.settings_of(group.id), now)
        except KafkaError as error:
            said = request.member_id if error.code is ErrorCode.INVALID_SESSION_TIMEOUT else ""
            return refused_join(error.code, said, context.version)
        if not request.member_id and request.group_instance_id is None and context.version >= MEMBER_ID_FROM:
            return refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id, context.version)
        former, generation = group.static_member(request.group_instance_id), group.epoch
        wanted = consumers.search_is_due(group, step.after, now)
        if error_code := consumers.take(group, step, now, classic=metadata):
            return refused_join(error_code, request.member_id, context.version)
        if wanted:
            consumers.search_patterns(group, step.after, now, context)
        # a static member that takes the place of the last one of KIP-848 joins the classic group next
        classic = former is not None and consumers.downgrade_if_classic(group, generation, now)
        answer = JoinGroupResponse(
            generation_id=asked.before.epoch if classic else step.after.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=metadata.supported_protocols[0].name,
            member_id=member_id,
        )
        return consumers.when_safe(
            group.id, answer, lambda error: refused_join(error, member_id, context.version), now
        )

    def _admit(self, context: RequestContext, request: JoinGroupRequest, group: ConsumerGroup) -> str:
        """The id of the member, when it may join at all.  Raises KafkaError."""
        if not self.limits.min_session <= request.session_timeout_ms / 1000 <= self.limits.max_session:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        settings = self.consumers.settings
        names = [protocol.name for protocol in request.protocols]
        if not (settings.upgrades or settings.downgrades) or not supports(
            group, request.protocol_type, names
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or str(self.randomness.uuid())
        check_room(group, member_id, settings.most_members)
        return member_id

    def _asked(
        self, context: RequestContext, request: JoinGroupRequest, group: ConsumerGroup, member_id: str
    ) -> tuple[Asked, ClassicMemberMetadata]:
        metadata = ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in request.protocols
            ],
        )
        asked = self._member(request, group, member_id)
        try:
            said = subscription_of(metadata.supported_protocols)
        except WireError as error:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a subscription cannot be read"
            ) from error
        after = self._updated(asked.before, context, request, said)._replace(classic=metadata)
        reported = owned_partitions(said, self.consumers.image())
        return asked._replace(after=after, reported=reported), metadata

    def _member(self, request: JoinGroupRequest, group: ConsumerGroup, member_id: str) -> Asked:
        """The member as the group has it, or a new one, or one in the place of a static one that restarted."""
        instance = request.group_instance_id
        if instance is None:
            member = group.members.get(member_id, ConsumerMember(member_id))
            return Asked(member, member, None, [], None)
        if request.member_id:
            member = check_instance(group, instance, member_id)
            return Asked(member, member, None, [], None)
        former = group.static_member(instance)
        if former is None:
            return Asked(ConsumerMember(member_id), ConsumerMember(member_id), None, [], None)
        member, replaced, changes = replacement(group, former, member_id)
        return Asked(member, member, replaced, changes, None)

    def _updated(
        self,
        member: ConsumerMember,
        context: RequestContext,
        request: JoinGroupRequest,
        said: ConsumerProtocolSubscription,
    ) -> ConsumerMember:
        timeout = request.rebalance_timeout_ms
        return member._replace(
            instance_id=request.group_instance_id or member.instance_id,
            rack_id=said.rack_id or member.rack_id,
            rebalance_timeout_ms=timeout if timeout >= 0 else request.session_timeout_ms,
            topics=frozenset(said.topics),
            regex="",
            client_id=context.client_id or "",
            client_host=f"/{context.client_host}",
        )

    # -- SyncGroup and Heartbeat ------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, now: Now) -> SyncGroupResponse | CommitWaiting:
        """A member fetches what it shall read."""
        group = self.consumers.groups[request.group_id]
        try:
            member, metadata = self._classic(group, request.member_id, request.group_instance_id)
            if member.epoch != request.generation_id:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            name = metadata.supported_protocols[0].name
            known = {"type": CONSUMER_PROTOCOL, "name": name}
            said = {"type": request.protocol_type, "name": request.protocol_name}
            if any(value is not None and value != known[what] for what, value in said.items()):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            assignment = assignment_bytes(member.assigned, metadata, self.consumers.image())
        except WireError:  # (of a record that no client wrote)
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self.consumers.rejoin_within(group, member, now)
            return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        self.consumers.synced(group, member, metadata.session_timeout_ms, now)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment,
        )
        return self.consumers.when_safe(
            group.id, answer, lambda error: SyncGroupResponse(error_code=error), now
        )

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> ErrorCode:
        """A member is alive; it hears whether it shall join again, to give up or to get something."""
        group = self.consumers.groups[request.group_id]
        try:
            member, metadata = self._classic(group, request.member_id, request.group_instance_id)
        except KafkaError as error:
            return error.code
        if member.epoch != request.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self.consumers.alive(group, member, metadata.session_timeout_ms, now)
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        ):
            self.consumers.rejoin_within(group, member, now)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _classic(
        self, group: ConsumerGroup, member_id: str, instance: str | None
    ) -> tuple[ConsumerMember, ClassicMemberMetadata]:
        """A member that speaks the classic protocol.  Raises KafkaError."""
        if instance is None:
            member = known_member(group, member_id)
        else:
            member = check_instance(group, instance, member_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member, member.classic

    def __repr__(self) -> str:
        return f"<ClassicMembers of {self.consumers}>"
