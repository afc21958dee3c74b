"""What DescribeGroups and ListGroups say of groups."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.broker.groups.group import ClassicGroup, GroupState
from barnabas.errors import ErrorCode
from barnabas.wire.schemas.groups import (
    DescribedGroup,
    DescribedGroupMember,
    ListedGroup,
    ListGroupsRequest,
)

__all__ = ["described", "listed"]


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
                member_assignment=member.assignment if chosen else b"",
            )
            for member in group.members.values()
        ],
    )


def listed(groups: Iterable[ClassicGroup], request: ListGroupsRequest) -> list[ListedGroup]:
    """The groups of the states and types that are asked for; they are compared without case."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return [
        ListedGroup(
            group_id=group.id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type="classic",
        )
        for group in groups
        if (not states or group.state.value.lower() in states) and (not types or "classic" in types)
    ]
