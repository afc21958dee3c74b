"""Consumer groups: where their coordinator is, and the requests that go to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_NODE, OFFSETS_TOPIC
from barnabas.server.api.metadata import create_topics
from barnabas.server.net.addresses import node_address
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import events
from barnabas.server.replication.leader_suspicion import others_lead
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.groups import (
    Coordinator,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from barnabas.server.loop.runtime import Services
    from barnabas.wire.schemas.consumer_groups import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from barnabas.wire.schemas.groups import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

__all__ = [
    "commit",
    "consumer_heartbeat",
    "delete",
    "delete_offsets",
    "describe",
    "fetch_offsets",
    "find_coordinator",
    "heartbeat",
    "join",
    "leave",
    "list_groups",
    "sync",
]

GROUP, TRANSACTION = 0, 1
BATCHED_FROM = 4


def find_coordinator(
    node: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | asyncio.Future[Message]:
    """FindCoordinator (key 10; KIP-699): the node that leads the group's partition of `__consumer_offsets`.

    The first group of a cluster creates that topic; its client is answered when it is there.
    """
    topic = node.quorum.image.topic(OFFSETS_TOPIC)
    if request.key_type == GROUP and topic is None:
        return node.tasks.start(_create_then_find(node, context, request), "find-coordinator")
    if topic is not None and others_lead([topic], node.node_id):
        return node.tasks.start(_find_when_led(node, context, request), "find-coordinator")
    return _find(node, context, request)


async def _find_when_led(node: Services, context: RequestContext, request: FindCoordinatorRequest) -> Message:
    """The answer once no coordinator is in doubt."""
    await node.doubts.settled(lambda: filter(None, [node.quorum.image.topic(OFFSETS_TOPIC)]))
    return _find(node, context, request)


async def _create_then_find(
    node: Services, context: RequestContext, request: FindCoordinatorRequest
) -> Message:
    with suppress(KafkaError):  # the answer below says that there is no coordinator yet
        await create_topics(node, context, [OFFSETS_TOPIC])
    return _find(node, context, request)


def _find(
    node: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if context.version >= BATCHED_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                _coordinator(node, context, request.key_type, key) for key in request.coordinator_keys
            ]
        )
    found = _coordinator(node, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _coordinator(node: Services, context: RequestContext, key_type: int, key: str) -> Coordinator:
    def refused(code: ErrorCode, message: str) -> Coordinator:
        return Coordinator(
            key=key, node_id=NO_NODE, host="", port=-1, error_code=int(code), error_message=message
        )

    if key_type == TRANSACTION:
        return refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not served by this release"
        )
    if key_type != GROUP:
        return refused(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type} here")
    image = node.quorum.image
    state = image.partition(OFFSETS_TOPIC, node.groups.partition_for(key))
    broker = image.brokers.get(state.leader) if state is not None else None
    if broker is None or broker.fenced:
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not available")
    host, port = node_address(node, context, broker.id, broker.endpoints)
    if port < 0:
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has no such listener")
    return Coordinator(key=key, node_id=broker.id, host=host, port=port)


def join(node: Services, context: RequestContext, request: JoinGroupRequest) -> Message | Waiting:
    """JoinGroup (key 11)."""
    return node.groups.join(context, request, node.clock.now())


def sync(node: Services, context: RequestContext, request: SyncGroupRequest) -> Message | Waiting:
    """SyncGroup (key 14)."""
    return node.groups.sync(context, request, node.clock.now())


def heartbeat(node: Services, context: RequestContext, request: HeartbeatRequest) -> Message | Waiting:
    """Heartbeat (key 12)."""
    return node.groups.heartbeat(context, request, node.clock.now())


def leave(node: Services, context: RequestContext, request: LeaveGroupRequest) -> Message | Waiting:
    """LeaveGroup (key 13)."""
    return node.groups.leave(context, request, node.clock.now())


def commit(node: Services, context: RequestContext, request: OffsetCommitRequest) -> Message | Waiting:
    """OffsetCommit (key 8)."""
    return node.groups.commit(context, request, node.clock.now())


def fetch_offsets(node: Services, context: RequestContext, request: OffsetFetchRequest) -> Message | Waiting:
    """OffsetFetch (key 9)."""
    return node.groups.fetch_offsets(context, request, node.clock.now())


def consumer_heartbeat(
    node: Services, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat (key 68; KIP-848): refused, as by an Apache Kafka whose group.version is 0.

    It is in the table all the same: librdkafka waits for ever without a word where the API is missing.
    """
    from barnabas.wire.schemas.consumer_groups import ConsumerGroupHeartbeatResponse  # rarely needed

    events.emit(
        events.GROUP_PROTOCOL,
        reason="",
        group=request.group_id,
        client=context.client_host,
        client_id=context.client_id,
        next="set group.protocol=classic in the client",
    )
    return ConsumerGroupHeartbeatResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        error_message="the consumer group protocol of KIP-848 is not served: set group.protocol=classic",
    )


def describe(node: Services, context: RequestContext, request: DescribeGroupsRequest) -> Message | Waiting:
    """DescribeGroups (key 15)."""
    return node.groups.describe(context, request, node.clock.now())


def list_groups(node: Services, context: RequestContext, request: ListGroupsRequest) -> Message | Waiting:
    """ListGroups (key 16)."""
    return node.groups.list(context, request, node.clock.now())


def delete(node: Services, context: RequestContext, request: DeleteGroupsRequest) -> Message | Waiting:
    """DeleteGroups (key 42)."""
    return node.groups.delete(context, request, node.clock.now())


def delete_offsets(
    node: Services, context: RequestContext, request: OffsetDeleteRequest
) -> Message | Waiting:
    """OffsetDelete (key 47)."""
    return node.groups.delete_offsets(context, request, node.clock.now())
