"""Guards of topics and of settings: each item of a request is allowed or refused by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from barnabas.broker.ports import Operation
from barnabas.controller.image import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_LOGGERS,
    RESOURCE_METRICS,
    RESOURCE_TOPIC,
)
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, ZERO_UUID
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler, Row
from barnabas.server.rights.rights import Rights, then
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.configs import DescribeConfigsResponse, DescribeConfigsResult
from barnabas.wire.schemas.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

__all__ = ["alter_configs", "create_partitions", "create_topics", "delete_topics", "describe_configs"]

_CLUSTER_WIDE = (RESOURCE_BROKER, RESOURCE_LOGGERS, RESOURCE_METRICS)
_DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _with_refused(
    row: Row,
    request: Message,
    field: str,
    answered: str,
    denied: list[Any],
    error: KafkaError,
    go_on: Callable[[Message], Any],
) -> Any:
    """The answer to the items of `field` that are not denied, with one row more for each that is."""
    if not denied:
        return go_on(request)
    assert row.refused is not None
    refusal = row.refused(replace(request, **{field: denied}), error)
    gone = set(map(id, denied))
    left = [item for item in getattr(request, field) if id(item) not in gone]
    if not left:
        return refusal
    rows = getattr(refusal, answered)
    return then(
        go_on(replace(request, **{field: left})),
        lambda answer: replace(answer, **{answered: [*getattr(answer, answered), *rows]}),
    )


def create_topics(
    rights: Rights, row: Row, context: RequestContext, request: CreateTopicsRequest, handler: Handler
) -> Any:
    """CreateTopics: CREATE on the cluster, or on each topic.  Settings are shown by DESCRIBE_CONFIGS only."""
    named = Counter(topic.name for topic in request.topics)
    every = rights.cluster(context, Operation.CREATE, asked=False)
    denied = [
        topic
        for topic in request.topics
        if named[topic.name] == 1  # (what is named twice is no question of rights)
        and topic.name != METADATA_TOPIC
        and not (every or rights.topic(context, Operation.CREATE, topic.name))
    ]

    def hide_settings(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        rows = [
            one
            if one.error_code or rights.topic(context, Operation.DESCRIBE_CONFIGS, one.name, asked=False)
            else replace(
                one,
                topic_config_error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
                num_partitions=-1,
                replication_factor=-1,
                configs=[],
            )
            for one in answer.topics
        ]
        return replace(answer, topics=rows)

    return _with_refused(
        row,
        request,
        "topics",
        "topics",
        denied,
        _DENIED,
        lambda allowed: then(handler(context, allowed), hide_settings),
    )


def create_partitions(
    rights: Rights, row: Row, context: RequestContext, request: CreatePartitionsRequest, handler: Handler
) -> Any:
    """CreatePartitions: ALTER on each topic."""
    named = Counter(topic.name for topic in request.topics)
    denied = [
        topic
        for topic in request.topics
        if named[topic.name] == 1 and not rights.topic(context, Operation.ALTER, topic.name)
    ]
    return _with_refused(
        row, request, "topics", "results", denied, _DENIED, lambda allowed: handler(context, allowed)
    )


def delete_topics(
    rights: Rights, row: Row, context: RequestContext, request: DeleteTopicsRequest, handler: Handler
) -> Any:
    """DeleteTopics: DELETE on the cluster, or on each topic.

    Without DESCRIBE nobody hears whether a name exists, nor which name an id has.
    """
    if rights.cluster(context, Operation.DELETE, asked=False):
        return handler(context, request)
    image = rights.image
    by_name = Counter([*request.topic_names, *(t.name for t in request.topics if t.name is not None)])
    by_id = Counter(topic.topic_id for topic in request.topics if topic.name is None)
    refused: list[DeletableTopicResult] = []

    def refusal_of(name: str | None, topic_id: Any) -> DeletableTopicResult | None:
        shown = name
        if name is None:
            known = image.topics.get(topic_id)
            if topic_id == ZERO_UUID or by_id[topic_id] > 1 or known is None:
                return None  # no question of rights
            name = known.name
            if rights.topic(context, Operation.DELETE, name):
                return None
            shown = name if rights.topic(context, Operation.DESCRIBE, name, asked=False) else None
        elif by_name[name] > 1 or topic_id != ZERO_UUID:
            return None
        elif rights.topic(context, Operation.DESCRIBE, name):
            if image.topic(name) is None or rights.topic(context, Operation.DELETE, name):
                return None
        return DeletableTopicResult(
            name=shown,
            topic_id=topic_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="Topic authorization failed.",
        )

    names: list[str] = []
    for name in request.topic_names:
        if (refusal := refusal_of(name, ZERO_UUID)) is None:
            names.append(name)
        else:
            refused.append(refusal)
    topics = []
    for topic in request.topics:
        if (refusal := refusal_of(topic.name, topic.topic_id)) is None:
            topics.append(topic)
        else:
            refused.append(refusal)
    if not names and not topics and refused:
        return DeleteTopicsResponse(responses=refused)
    answer = handler(context, replace(request, topic_names=names, topics=topics))
    return then(answer, lambda done: replace(done, responses=[*done.responses, *refused]))


def _may(rights: Rights, context: RequestContext, operation: Operation, resource: Any) -> ErrorCode:
    """Why the settings of a resource are not for the sender; NONE: they are, or there is no such kind."""
    if resource.resource_type in _CLUSTER_WIDE:
        allowed, code = rights.cluster(context, operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif resource.resource_type == RESOURCE_TOPIC:
        allowed = rights.topic(context, operation, resource.resource_name)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif resource.resource_type == RESOURCE_GROUP:
        allowed = rights.group(context, operation, resource.resource_name)
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        return ErrorCode.NONE
    return ErrorCode.NONE if allowed else code


def alter_configs(rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler) -> Any:
    """AlterConfigs and IncrementalAlterConfigs: ALTER_CONFIGS on each resource."""
    named = Counter((one.resource_type, one.resource_name) for one in request.resources)
    denied: dict[ErrorCode, list[Any]] = {}
    for one in request.resources:
        if named[one.resource_type, one.resource_name] > 1:
            continue
        if code := _may(rights, context, Operation.ALTER_CONFIGS, one):
            denied.setdefault(code, []).append(one)
    go_on: Callable[[Message], Any] = lambda allowed: handler(context, allowed)  # noqa: E731
    for code, items in denied.items():
        go_on = _one_more(row, items, KafkaError(code), go_on)
    return go_on(request)


def _one_more(
    row: Row, items: list[Any], error: KafkaError, go_on: Callable[[Message], Any]
) -> Callable[[Message], Any]:
    return lambda request: _with_refused(row, request, "resources", "responses", items, error, go_on)


def describe_configs(
    rights: Rights, row: Row, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """DescribeConfigs: DESCRIBE_CONFIGS on each resource."""
    allowed, refused = [], []
    for one in request.resources:
        code = _may(rights, context, Operation.DESCRIBE_CONFIGS, one)
        if not code:
            allowed.append(one)
            continue
        refused.append(
            DescribeConfigsResult(
                error_code=int(code),
                error_message=KafkaError(code).message,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                configs=[],
            )
        )
    if not allowed and refused:
        return DescribeConfigsResponse(results=refused)
    answer = handler(context, replace(request, resources=allowed))
    return then(answer, lambda done: replace(done, results=[*done.results, *refused]))
