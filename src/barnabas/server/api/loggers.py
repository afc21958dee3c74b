"""IncrementalAlterConfigs about the loggers of this node (KIP-412), which no controller decides.

The other resources of such a request go their usual way, and the answers are put together again.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from barnabas.broker.ports import Authorizer, Operation, ResourceType, allowed
from barnabas.controller.decisions.configs import ConfigOperation
from barnabas.controller.decisions.describe_configs import check_logger_node
from barnabas.controller.image import RESOURCE_LOGGERS
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.security.acl import CLUSTER_NAME
from barnabas.server.loop.tasks import after
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler
from barnabas.server.observe import levels
from barnabas.wire.codec.message import Message, replace
from barnabas.wire.schemas.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)

__all__ = ["LoggersFirst"]

_Row = IncrementalAlterConfigsResponseAlterConfigsResourceResponse


class LoggersFirst:
    """Changes levels of this node's loggers; `others` takes everything else of a request."""

    __slots__ = ("_authorizer", "_node_id", "_others")

    def __init__(self, node_id: NodeId, others: Handler, authorizer: Authorizer | None = None) -> None:
        self._node_id = node_id
        self._others = others
        self._authorizer = authorizer

    def serve(
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> Message | asyncio.Future[Message]:
        """IncrementalAlterConfigs (key 44)."""
        answer: Message | asyncio.Future[Message]
        if not any(resource.resource_type == RESOURCE_LOGGERS for resource in request.resources):
            answer = self._others(context, request)
            return answer
        rows = self._changed(context, request)
        others = [r for r in request.resources if r.resource_type != RESOURCE_LOGGERS]
        if not others:
            return IncrementalAlterConfigsResponse(responses=list(rows.values()))
        answer = self._others(context, replace(request, resources=others))
        if isinstance(answer, Message):
            return _in_order(request, rows, answer)
        return after(answer, lambda decided: _in_order(request, rows, decided))

    def _changed(self, context: RequestContext, request: IncrementalAlterConfigsRequest) -> dict[int, _Row]:
        """Change the levels; the row of the answer for each resource of loggers, by its place in the request."""
        names = Counter(r.resource_name for r in request.resources if r.resource_type == RESOURCE_LOGGERS)
        rows: dict[int, _Row] = {}
        for place, resource in enumerate(request.resources):
            if resource.resource_type != RESOURCE_LOGGERS:
                continue
            code, message = ErrorCode.NONE, None
            try:
                if names[resource.resource_name] > 1:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, "the resource is in the request more than once"
                    )
                cluster = (ResourceType.CLUSTER, CLUSTER_NAME)
                if not allowed(self._authorizer, context, Operation.ALTER_CONFIGS, *cluster):
                    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                self._change(resource, only_tried=request.validate_only)
            except KafkaError as error:
                code, message = error.code, error.message
            rows[place] = _Row(
                error_code=code,
                error_message=message,
                resource_type=RESOURCE_LOGGERS,
                resource_name=resource.resource_name,
            )
        return rows

    def _change(
        self, resource: IncrementalAlterConfigsRequestAlterConfigsResource, *, only_tried: bool
    ) -> None:
        """All levels of one resource, or none of them.  Raises KafkaError."""
        for name, count in Counter(change.name for change in resource.configs).items():
            if count > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is in the request more than once")
        for change in resource.configs:
            if change.value is None and change.config_operation != ConfigOperation.DELETE:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.name} has no value")
        check_logger_node(resource.resource_name, self._node_id)
        for change in resource.configs:
            _check(change)
        if only_tried:
            return
        for change in resource.configs:
            if change.config_operation == ConfigOperation.SET:
                assert change.value is not None
                levels.set_level(change.name, change.value)
            else:
                levels.unset_level(change.name)

    def __repr__(self) -> str:
        return f"<LoggersFirst of node {self._node_id} before {self._others!r}>"


def _check(change: IncrementalAlterConfigsRequestAlterableConfig) -> None:
    """Raise KafkaError unless this can be done to a logger."""
    if change.config_operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the level of a logger can only be set or deleted")
    if not levels.exists(change.name):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {change.name[:60]!r}")
    if change.config_operation == ConfigOperation.DELETE:
        if change.name == levels.ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the root logger keeps a level")
    elif change.value not in levels.LEVELS:
        known = ", ".join(levels.LEVELS)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{change.value!r:.40} is no level; levels are {known}")


def _in_order(request: IncrementalAlterConfigsRequest, rows: dict[int, _Row], answer: Message) -> Message:
    """The answer to the other resources with these rows at their places."""
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    left = iter(answer.responses)
    responses = [rows[place] if place in rows else next(left) for place in range(len(request.resources))]
    return replace(answer, responses=responses)
