"""What a guard has at hand: the authorizer, the metadata, and a way to go on when an answer comes later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.broker.ports import Authorizer, Operation, ResourceType
from barnabas.broker.purgatory import Waiting
from barnabas.controller.image import MetadataImage
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Now
from barnabas.security.acl import CLUSTER_NAME
from barnabas.server.loop.tasks import after
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Handler, Row

__all__ = ["Guard", "Rights", "then"]


class Rights:
    """Who may do what, as the metadata of this node have it now."""

    __slots__ = ("authorizer", "image")

    def __init__(self, authorizer: Authorizer, image: MetadataImage) -> None:
        self.authorizer = authorizer
        self.image = image

    def cluster(self, context: RequestContext, operation: Operation, *, asked: bool = True) -> bool:
        """Whether the sender may do that to the cluster."""
        return self.authorizer.authorize(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, asked=asked)

    def require_cluster(self, context: RequestContext, operation: Operation) -> None:
        """Raises KafkaError CLUSTER_AUTHORIZATION_FAILED."""
        if not self.cluster(context, operation):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def topic(self, context: RequestContext, operation: Operation, name: str, *, asked: bool = True) -> bool:
        """Whether the sender may do that to the topic, which need not exist."""
        return self.authorizer.authorize(context, operation, ResourceType.TOPIC, name, asked=asked)

    def group(self, context: RequestContext, operation: Operation, name: str, *, asked: bool = True) -> bool:
        """Whether the sender may do that to the group."""
        return self.authorizer.authorize(context, operation, ResourceType.GROUP, name, asked=asked)

    def require_group(self, context: RequestContext, operation: Operation, name: str) -> None:
        """Raises KafkaError GROUP_AUTHORIZATION_FAILED."""
        if not self.group(context, operation, name):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def transaction(
        self, context: RequestContext, operation: Operation, name: str, *, asked: bool = True
    ) -> bool:
        """Whether the sender may do that to the transactional id."""
        return self.authorizer.authorize(context, operation, ResourceType.TRANSACTIONAL_ID, name, asked=asked)

    def topic_name(self, topic: Any) -> str | None:
        """The name of a topic that a request names by name or by id; None for an id that nobody has."""
        if topic.name:
            return str(topic.name)
        known = self.image.topics.get(topic.topic_id)
        return None if known is None else known.name


Guard = Callable[[Rights, Row, RequestContext, Any, Handler], Any]
"""Stands before a handler: calls it with what the sender may have done, and answers for the rest."""


class _Continued(Waiting):
    """The answer that `make` makes of another one, which is still to come."""

    __slots__ = ("_first",)

    def __init__(self, first: Waiting, make: Callable[[Any], Any]) -> None:
        super().__init__(float("inf"))
        self._first = first
        first.on_done = lambda response: self.complete(None if response is None else make(response))

    def cancel(self) -> None:
        self._first.cancel()
        super().cancel()

    def expired(self, now: Now) -> None:
        raise AssertionError("the first answer has the deadline")


def then(answer: Any, make: Callable[[Any], Any]) -> Any:
    """What `make` makes of an answer: at once, or when it comes."""
    if isinstance(answer, asyncio.Future):
        return after(answer, make)
    if isinstance(answer, Waiting):
        return make(answer.response) if answer.done else _Continued(answer, make)
    return None if answer is None else make(answer)
