"""Guards of committed positions: the group first, then each topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.broker.ports import Operation
from barnabas.errors import ErrorCode, KafkaError
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler, Row
from barnabas.server.rights.rights import Rights, then
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.groups import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas.wire.schemas.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["commit", "commit_in_transaction", "delete", "fetch"]

_GROUPS_FROM = 8
_TOP_LEVEL_ERROR_FROM = 2
_GROUP, _TOPIC = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED

_Refuse = Callable[[Any, ErrorCode], Any]


def _committed(topic: Any, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


def _committed_in_transaction(topic: Any, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


def _deleted(topic: Any, code: ErrorCode) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in topic.partitions
        ],
    )


def _of_topics(
    rights: Rights,
    context: RequestContext,
    request: Message,
    handler: Handler,
    empty: type[Message],
    refuse: _Refuse,
) -> Any:
    """READ on each topic of `request`; the others are answered by `refuse`."""
    allowed, refused = [], []
    for topic in request.topics:  # type: ignore[attr-defined]  # each of these requests has topics
        name = topic.name if not hasattr(topic, "topic_id") else rights.topic_name(topic)
        if name is None or rights.topic(context, Operation.READ, name):
            allowed.append(topic)
        else:
            refused.append(refuse(topic, _TOPIC))
    if not refused:
        return handler(context, request)
    if not allowed:
        return empty(topics=refused)  # type: ignore[call-arg]
    answer = handler(context, replace(request, topics=allowed))
    return then(answer, lambda done: replace(done, topics=[*done.topics, *refused]))


def commit(
    rights: Rights, row: Row, context: RequestContext, request: OffsetCommitRequest, handler: Handler
) -> Any:
    """OffsetCommit: READ on the group, and on each topic."""
    if not rights.group(context, Operation.READ, request.group_id):
        return OffsetCommitResponse(topics=[_committed(topic, _GROUP) for topic in request.topics])
    return _of_topics(rights, context, request, handler, OffsetCommitResponse, _committed)


def commit_in_transaction(
    rights: Rights, row: Row, context: RequestContext, request: TxnOffsetCommitRequest, handler: Handler
) -> Any:
    """TxnOffsetCommit: WRITE on the transactional id, READ on the group, READ on each topic."""
    code = ErrorCode.NONE
    if not rights.transaction(context, Operation.WRITE, request.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not rights.group(context, Operation.READ, request.group_id):
        code = _GROUP
    if code:
        return TxnOffsetCommitResponse(
            topics=[_committed_in_transaction(topic, code) for topic in request.topics]
        )
    return _of_topics(rights, context, request, handler, TxnOffsetCommitResponse, _committed_in_transaction)


def delete(
    rights: Rights, row: Row, context: RequestContext, request: OffsetDeleteRequest, handler: Handler
) -> Any:
    """OffsetDelete: DELETE on the group, READ on each topic.

    The group is asked also where no topic is left: what is wrong with it is said first.
    """
    if not rights.group(context, Operation.DELETE, request.group_id):
        raise KafkaError(_GROUP)
    refused = [topic for topic in request.topics if not rights.topic(context, Operation.READ, topic.name)]
    if not refused:
        return handler(context, request)
    names = {topic.name for topic in refused}
    allowed = [topic for topic in request.topics if topic.name not in names]
    answer = handler(context, replace(request, topics=allowed))
    return then(
        answer,
        lambda done: (
            done
            if done.error_code
            else replace(done, topics=[*done.topics, *(_deleted(topic, _TOPIC) for topic in refused)])
        ),
    )


def fetch(
    rights: Rights, row: Row, context: RequestContext, request: OffsetFetchRequest, handler: Handler
) -> Any:
    """OffsetFetch: DESCRIBE on each group, and on each topic; of all topics, those that may be seen."""
    if context.version < _GROUPS_FROM:
        return _fetch_of_one(rights, context, request, handler)
    groups: list[Any] = []
    denied: dict[str, list[Any]] = {}
    without: list[OffsetFetchResponseGroup] = []
    for group in request.groups:
        if not rights.group(context, Operation.DESCRIBE, group.group_id):
            without.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=_GROUP))
        elif group.topics is None:
            groups.append(group)
        else:
            hidden = [topic for topic in group.topics if not _may_see(rights, context, topic)]
            gone = set(map(id, hidden))
            denied[group.group_id] = hidden
            groups.append(replace(group, topics=[topic for topic in group.topics if id(topic) not in gone]))
    if not groups:
        return OffsetFetchResponse(groups=without)

    def shown(group: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if group.error_code:
            return group
        seen = [
            topic for topic in group.topics if _may_see(rights, context, topic, asked=False)
        ]  # (of all topics, where none were named)
        refused = [_unseen(topic) for topic in denied.get(group.group_id, ())]
        return replace(group, topics=[*seen, *refused])

    answer = handler(context, replace(request, groups=groups))
    return then(answer, lambda done: replace(done, groups=[*map(shown, done.groups), *without]))


def _may_see(rights: Rights, context: RequestContext, topic: Any, *, asked: bool = True) -> bool:
    name = rights.topic_name(topic)
    return name is None or rights.topic(context, Operation.DESCRIBE, name, asked=asked)


def _unseen(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, committed_leader_epoch=-1, error_code=_TOPIC
            )
            for index in topic.partition_indexes
        ],
    )


def _fetch_of_one(
    rights: Rights, context: RequestContext, request: OffsetFetchRequest, handler: Handler
) -> Any:
    """The versions that ask for one group."""

    def refused(topic: Any, code: ErrorCode) -> OffsetFetchResponseTopic:
        return OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, committed_leader_epoch=-1, error_code=code
                )
                for index in topic.partition_indexes
            ],
        )

    if not rights.group(context, Operation.DESCRIBE, request.group_id):
        if context.version >= _TOP_LEVEL_ERROR_FROM:
            return OffsetFetchResponse(error_code=_GROUP)
        return OffsetFetchResponse(topics=[refused(topic, _GROUP) for topic in request.topics or ()])
    hidden = {
        topic.name
        for topic in request.topics or ()
        if not rights.topic(context, Operation.DESCRIBE, topic.name)
    }
    without = [refused(topic, _TOPIC) for topic in request.topics or () if topic.name in hidden]
    if hidden:
        left = [topic for topic in request.topics or () if topic.name not in hidden]
        request = replace(request, topics=left)

    def shown(done: OffsetFetchResponse) -> OffsetFetchResponse:
        if done.error_code:
            return done
        seen = [
            topic
            for topic in done.topics
            if rights.topic(context, Operation.DESCRIBE, topic.name, asked=False)
        ]
        return replace(done, topics=[*seen, *without])

    return then(handler(context, request), shown)
