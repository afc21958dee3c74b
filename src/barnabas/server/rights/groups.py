"""Guards of groups, of their members, and of who coordinates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.ports import Operation
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler, Row
from barnabas.server.rights.rights import Rights, then
from barnabas.wire.codec.message import replace
from barnabas.wire.schemas.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from barnabas.wire.schemas.consumer_groups import DescribedGroup as DescribedConsumerGroup
from barnabas.wire.schemas.groups import (
    Coordinator,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    ListGroupsRequest,
    SyncGroupRequest,
)

__all__ = [
    "consumer_describe",
    "consumer_heartbeat",
    "delete",
    "describe",
    "find_coordinator",
    "join",
    "list_groups",
    "member",
    "sync",
]

_BATCHED_FROM = 4
_PROTOCOL_NONE_FROM = 7
_SYNC_NAMED_FROM = 5
"""First version of SyncGroup in which the handler refuses who does not name protocol and type."""
_GROUP, _TRANSACTION = 0, 1
_GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def find_coordinator(
    rights: Rights, row: Row, context: RequestContext, request: FindCoordinatorRequest, handler: Handler
) -> Any:
    """FindCoordinator: DESCRIBE on the group or on the transactional id."""

    def denied(key: str) -> ErrorCode:
        if request.key_type == _GROUP and not rights.group(context, Operation.DESCRIBE, key):
            return _GROUP_DENIED
        if request.key_type == _TRANSACTION and not rights.transaction(context, Operation.DESCRIBE, key):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    if context.version < _BATCHED_FROM:
        if code := denied(request.key):
            return FindCoordinatorResponse(
                error_code=code, error_message=KafkaError(code).message, node_id=NO_NODE, host="", port=-1
            )
        return handler(context, request)
    codes = {key: denied(key) for key in request.coordinator_keys}
    allowed = [key for key in request.coordinator_keys if not codes[key]]

    def whole(done: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(done.coordinators)
        return replace(
            done,
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=NO_NODE,
                    host="",
                    port=-1,
                    error_code=codes[key],
                    error_message=KafkaError(codes[key]).message,
                )
                if codes[key]
                else next(found)
                for key in request.coordinator_keys
            ],
        )

    if not allowed and codes:
        return whole(FindCoordinatorResponse())
    return then(handler(context, replace(request, coordinator_keys=allowed)), whole)


def member(rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Heartbeat, LeaveGroup: READ on the group."""
    rights.require_group(context, Operation.READ, request.group_id)
    return handler(context, request)


def sync(
    rights: Rights, row: Row, context: RequestContext, request: SyncGroupRequest, handler: Handler
) -> Any:
    """SyncGroup: READ on the group.  Who does not say its protocol hears of that first, as with Kafka."""
    named = request.protocol_type is not None and request.protocol_name is not None
    if named or context.version < _SYNC_NAMED_FROM:
        rights.require_group(context, Operation.READ, request.group_id)
    return handler(context, request)


def join(
    rights: Rights, row: Row, context: RequestContext, request: JoinGroupRequest, handler: Handler
) -> Any:
    """JoinGroup: READ on the group."""
    if not rights.group(context, Operation.READ, request.group_id):
        return JoinGroupResponse(
            error_code=_GROUP_DENIED,
            generation_id=-1,
            protocol_name=None if context.version >= _PROTOCOL_NONE_FROM else "",
            member_id="",
        )
    return handler(context, request)


def consumer_heartbeat(
    rights: Rights,
    row: Row,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    handler: Handler,
) -> Any:
    """ConsumerGroupHeartbeat: READ on the group, DESCRIBE on each topic that is named."""
    rights.require_group(context, Operation.READ, request.group_id)
    for name in request.subscribed_topic_names or ():
        if not rights.topic(context, Operation.DESCRIBE, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return handler(context, request)


def _described(
    rights: Rights,
    context: RequestContext,
    names: list[str],
    ask: Callable[[list[str]], Any],
    refuse: Callable[[str], Any],
    empty: Callable[[list[Any]], Any],
) -> Any:
    refused = [refuse(name) for name in names if not rights.group(context, Operation.DESCRIBE, name)]
    if not refused:
        return ask(names)
    denied = {one.group_id for one in refused}
    allowed = [name for name in names if name not in denied]
    if not allowed:
        return empty(refused)
    return then(ask(allowed), lambda done: replace(done, groups=[*refused, *done.groups]))


def describe(
    rights: Rights, row: Row, context: RequestContext, request: DescribeGroupsRequest, handler: Handler
) -> Any:
    """DescribeGroups: DESCRIBE on each group."""
    return _described(
        rights,
        context,
        request.groups,
        lambda names: handler(context, replace(request, groups=names)),
        lambda name: DescribedGroup(group_id=name, error_code=_GROUP_DENIED),
        lambda refused: DescribeGroupsResponse(groups=refused),
    )


def consumer_describe(
    rights: Rights,
    row: Row,
    context: RequestContext,
    request: ConsumerGroupDescribeRequest,
    handler: Handler,
) -> Any:
    """ConsumerGroupDescribe: DESCRIBE on each group, and on every topic that it reads (else nothing of it)."""
    answer = _described(
        rights,
        context,
        request.group_ids,
        lambda names: handler(context, replace(request, group_ids=names)),
        lambda name: DescribedConsumerGroup(group_id=name, error_code=_GROUP_DENIED),
        lambda refused: ConsumerGroupDescribeResponse(groups=refused),
    )

    def shown(group: DescribedConsumerGroup) -> DescribedConsumerGroup:
        topics = {
            topic.topic_name
            for one in group.members
            for assignment in (one.assignment, one.target_assignment)
            for topic in assignment.topic_partitions
        }
        if all(rights.topic(context, Operation.DESCRIBE, name, asked=False) for name in topics):
            return group
        return DescribedConsumerGroup(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=_HIDDEN_TOPICS,
        )

    return then(answer, lambda done: replace(done, groups=[shown(group) for group in done.groups]))


def list_groups(
    rights: Rights, row: Row, context: RequestContext, request: ListGroupsRequest, handler: Handler
) -> Any:
    """ListGroups: all with DESCRIBE on the cluster, else those with DESCRIBE on the group."""
    answer = handler(context, request)
    if rights.cluster(context, Operation.DESCRIBE, asked=False):
        return answer
    return then(
        answer,
        lambda done: replace(
            done,
            groups=[
                group
                for group in done.groups
                if rights.group(context, Operation.DESCRIBE, group.group_id, asked=False)
            ],
        ),
    )


def delete(
    rights: Rights, row: Row, context: RequestContext, request: DeleteGroupsRequest, handler: Handler
) -> Any:
    """DeleteGroups: DELETE on each group."""
    names = list(dict.fromkeys(request.groups_names))
    denied = [name for name in names if not rights.group(context, Operation.DELETE, name)]
    if not denied:
        return handler(context, request)
    refused = [DeletableGroupResult(group_id=name, error_code=_GROUP_DENIED) for name in denied]
    allowed = [name for name in names if name not in set(denied)]
    if not allowed:
        return DeleteGroupsResponse(results=refused)
    answer = handler(context, replace(request, groups_names=allowed))
    return then(answer, lambda done: replace(done, results=[*done.results, *refused]))
