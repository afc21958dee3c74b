"""Topics and settings: the active controller makes changes, this node answers reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.controller.decisions.describe_configs import describe_configs as describe
from barnabas.server.api.quorum import submit
from barnabas.server.net.context import RequestContext
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.wire.schemas.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

if TYPE_CHECKING:
    from barnabas.server.loop.runtime import Services

__all__ = ["alter_configs", "create_partitions", "create_topics", "delete_topics", "describe_configs"]


def create_topics(
    node: Services, context: RequestContext, request: CreateTopicsRequest
) -> asyncio.Future[Message]:
    """CreateTopics (key 19; KIP-4): answered when they are committed, and made as far as this node has them."""
    return node.applier.after(submit(node, context, request))


def delete_topics(
    node: Services, context: RequestContext, request: DeleteTopicsRequest
) -> asyncio.Future[Message]:
    """DeleteTopics (key 20; KIP-4, KIP-516)."""
    return node.applier.after(submit(node, context, request))


def create_partitions(
    node: Services, context: RequestContext, request: CreatePartitionsRequest
) -> asyncio.Future[Message]:
    """CreatePartitions (key 37; KIP-195)."""
    return node.applier.after(submit(node, context, request))


def alter_configs(node: Services, context: RequestContext, request: Message) -> asyncio.Future[Message]:
    """IncrementalAlterConfigs (key 44; KIP-339) and AlterConfigs (key 33)."""
    return submit(node, context, request)


def describe_configs(
    node: Services, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """DescribeConfigs (key 32; KIP-133, KIP-226)."""
    return describe(node.quorum.image, node.config, request, node.node_id)
