"""What DescribeGroups, ConsumerGroupDescribe and ListGroups say of groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember, Target
from barnabas.broker.groups.consumer.subscriptions import preferred_assignor
from barnabas.broker.groups.group import ClassicGroup, GroupState
from barnabas.broker.ports import Authorizer, RequestContext, ResourceType, authorized_operations
from barnabas.controller.image import MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import TopicId
from barnabas.wire.codec.message import replace
from barnabas.wire.schemas import consumer_groups as wire
from barnabas.wire.schemas.groups import (
    DescribedGroup,
    DescribedGroupMember,
    ListedGroup,
    ListGroupsRequest,
)

__all__ = ["GroupsStatistics", "described", "described_consumer", "listed", "with_operations"]

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1

_Group = TypeVar("_Group", DescribedGroup, wire.DescribedGroup)


class GroupsStatistics(NamedTuple):
    """Counts for the metrics."""

    groups: int
    members: int
    offsets: int
    waiting: int
    loading: int
    unreadable: int


def with_operations(
    groups: Iterable[_Group], authorizer: Authorizer | None, context: RequestContext
) -> list[_Group]:
    """Described groups with what the sender may do with each (KIP-430)."""
    return [
        group
        if group.error_code
        else replace(
            group,
            authorized_operations=authorized_operations(
                ResourceType.GROUP, authorizer, context, group.group_id
            ),
        )
        for group in groups
    ]


def described(group_id: str, group: ClassicGroup | None, version: int) -> DescribedGroup:
    """One group.  One that nobody knows is Dead (from version 6 on: GROUP_ID_NOT_FOUND)."""
    if group is None:
        missing = version >= 6
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if missing else None,
        )
    chosen = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=chosen or "",
        members=[
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(chosen) if chosen else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def described_consumer(
    group_id: str, group: ConsumerGroup | None, image: MetadataImage, assignors: Sequence[str]
) -> wire.DescribedGroup:
    """One consumer group of KIP-848; GROUP_ID_NOT_FOUND for a name that has none."""
    if group is None:
        return wire.DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"there is no consumer group {group_id}",
        )
    return wire.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.assignors, assignors),
        members=[
            _described_member(member, group.target.get(member.id, {}), image)
            for member in group.members.values()
        ],
    )


def _described_member(member: ConsumerMember, target: Target, image: MetadataImage) -> wire.Member:
    """A member; what it shall give up it still has."""
    owned: dict[TopicId, set[int]] = {}
    for has in (member.assigned, member.revoking):
        for topic, partitions in has.items():
            owned.setdefault(topic, set()).update(partitions)
    return wire.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_described_partitions(owned, image),
        target_assignment=_described_partitions(target, image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _described_partitions(
    partitions: Mapping[TopicId, Collection[int]], image: MetadataImage
) -> wire.ConsumerGroupDescribeResponseAssignment:
    """Partitions with the names of their topics; topics that are gone are left out."""
    return wire.ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            wire.ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes)
            )
            for topic_id, indexes in partitions.items()
            if (topic := image.topics.get(topic_id)) is not None
        ]
    )


def listed(
    classic: Iterable[ClassicGroup], consumer: Iterable[ConsumerGroup], request: ListGroupsRequest
) -> list[ListedGroup]:
    """The groups of the states and types that are asked for; they are compared without case."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [(group.id, group.protocol_type or "", group.state.value, "classic") for group in classic]
    groups += [(group.id, "consumer", group.state.value, "consumer") for group in consumer]
    return [
        ListedGroup(group_id=group_id, protocol_type=protocol, group_state=state, group_type=kind)
        for group_id, protocol, state, kind in groups
        if (not states or state.lower() in states) and (not types or kind in types)
    ]
