"""Topics and settings: the active controller makes changes, this node answers reads."""

from __future__ import annotations

import asyncio

from barnabas.controller.decisions.describe_configs import describe_configs as describe
from barnabas.controller.image import MetadataImage
from barnabas.server.api.quorum import QuorumApi
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import RequestContext
from barnabas.server.replication.applier import Applier
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.wire.schemas.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

__all__ = ["TopicApi"]


class TopicApi:
    """Changes are answered when `applier` has carried them out here."""

    __slots__ = ("_applier", "_controller", "_image", "_runtime")

    def __init__(
        self, runtime: Runtime, controller: QuorumApi, image: MetadataImage, applier: Applier
    ) -> None:
        self._runtime = runtime
        self._controller = controller
        self._image = image
        self._applier = applier

    def create_topics(self, context: RequestContext, request: CreateTopicsRequest) -> asyncio.Future[Message]:
        """CreateTopics (key 19; KIP-4): answered when this node has made what was committed."""
        return self._applier.after(self._controller.submit(context, request))

    def delete_topics(self, context: RequestContext, request: DeleteTopicsRequest) -> asyncio.Future[Message]:
        """DeleteTopics (key 20; KIP-4, KIP-516)."""
        return self._applier.after(self._controller.submit(context, request))

    def create_partitions(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> asyncio.Future[Message]:
        """CreatePartitions (key 37; KIP-195)."""
        return self._applier.after(self._controller.submit(context, request))

    def alter_configs(self, context: RequestContext, request: Message) -> asyncio.Future[Message]:
        """IncrementalAlterConfigs (key 44; KIP-339) and AlterConfigs (key 33)."""
        return self._controller.submit(context, request)

    def describe_configs(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        """DescribeConfigs (key 32; KIP-133, KIP-226)."""
        return describe(self._image, self._runtime.config, request, self._runtime.node_id)
