"""Consumer groups: where their coordinator is, and the requests that go to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.purgatory import Waiting
from barnabas.controller.image import MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from barnabas.server.api.auto_topics import AutoTopics
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import events
from barnabas.server.replication.leader_suspicion import Ask, LeaderSuspicion, others_lead
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
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.transactions.state_log import StateLog
    from barnabas.wire.schemas.consumer_groups import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupHeartbeatRequest,
    )
    from barnabas.wire.schemas.groups import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
    from barnabas.wire.schemas.transactions import TxnOffsetCommitRequest

__all__ = ["GroupApi"]

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPIC_OF_TYPE = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
"""Type of a key -> the topic whose leaders coordinate what has such keys."""
BATCHED_FROM = 4
LONGEST_OPENING_S = 2.0
LOOK_AGAIN_S = 0.005
"""Seconds between two looks at whether a coordinator serves a key by now."""
PROTOCOL_NAMED_FROM = 5
"""First version of SyncGroup in which members must name the protocol and its type."""


class GroupApi:
    """The groups that this node coordinates, and the way to those of others.

    `ask` asks leaders whether they live, for `suspicion`.
    """

    __slots__ = (
        "_addresses",
        "_ask",
        "_groups",
        "_image",
        "_runtime",
        "_suspicion",
        "_topics",
        "_transactions",
    )

    def __init__(
        self,
        runtime: Runtime,
        groups: Groups,
        transactions: StateLog,
        image: MetadataImage,
        addresses: Addresses,
        topics: AutoTopics,
        suspicion: LeaderSuspicion,
        ask: Ask,
    ) -> None:
        self._runtime = runtime
        self._groups = groups
        self._transactions = transactions
        self._image = image
        self._addresses = addresses
        self._topics = topics
        self._suspicion = suspicion
        self._ask = ask

    def find_coordinator(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> FindCoordinatorResponse | asyncio.Future[Message]:
        """FindCoordinator (key 10; KIP-699): the node that leads the key's partition of its coordinators' topic.

        The first group, or the first transactional id, of a cluster creates that topic; its client is answered
        when it is there.
        """
        name = TOPIC_OF_TYPE.get(request.key_type)
        if name is None:
            return self._find(context, request)
        topic = self._image.topic(name)
        if topic is None:
            return self._runtime.tasks.start(
                self._create_then_find(context, request, name), "find-coordinator"
            )
        if others_lead([topic], self._runtime.node_id):
            return self._runtime.tasks.start(self._find_when_led(context, request, name), "find-coordinator")
        return self._find(context, request)

    async def _find_when_led(
        self, context: RequestContext, request: FindCoordinatorRequest, name: str
    ) -> Message:
        """The answer once no coordinator is in doubt."""
        await self._suspicion.settled(lambda: filter(None, [self._image.topic(name)]), self._ask)
        return self._find(context, request)

    async def _create_then_find(
        self, context: RequestContext, request: FindCoordinatorRequest, name: str
    ) -> Message:
        await self._topics.try_to_create([name])
        await self._opened(request, name)
        return self._find(context, request)

    async def _opened(self, request: FindCoordinatorRequest, name: str) -> None:
        """Wait until this node serves those of the keys that it coordinates, for `LONGEST_OPENING_S` at most.

        A new topic's logs are opened a few at a time.  A client that heard before that nobody coordinates its key
        would ask again after a pause of its own, which is much longer.
        """
        place, me = self._place(request.key_type), self._runtime.node_id
        clock = self._runtime.clock
        until = clock.now().mono + LONGEST_OPENING_S
        waiting = request.coordinator_keys or [request.key]
        while clock.now().mono < until:
            waiting = [key for key in waiting if not self._serves(request.key_type, key)]
            states = [self._image.partition(name, place(key)) for key in waiting]
            own = [state.index for state in states if state is not None and state.leader == me]
            if not own:
                return
            for index in own:
                self._groups.broker.reconciler.hasten(TopicPartition(name, index))
            await asyncio.sleep(LOOK_AGAIN_S)

    def _find(self, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if context.version >= BATCHED_FROM:
            return FindCoordinatorResponse(
                coordinators=[
                    self._coordinator(context, request.key_type, key) for key in request.coordinator_keys
                ]
            )
        found = self._coordinator(context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )

    def _coordinator(self, context: RequestContext, key_type: int, key: str) -> Coordinator:
        def refused(code: ErrorCode, message: str) -> Coordinator:
            return Coordinator(
                key=key, node_id=NO_NODE, host="", port=-1, error_code=int(code), error_message=message
            )

        name = TOPIC_OF_TYPE.get(key_type)
        if name is None:
            what = "share groups are not served" if key_type == SHARE else f"there is no type {key_type}"
            return refused(ErrorCode.INVALID_REQUEST, f"there is no such coordinator here: {what}")
        image = self._image
        state = image.partition(name, self._place(key_type)(key))
        broker = image.brokers.get(state.leader) if state is not None else None
        if broker is None or broker.fenced:
            return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not available")
        if broker.id == self._runtime.node_id and not self._serves(key_type, key):
            return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is loading")
        host, port = self._addresses.of(context, broker.id, broker.endpoints)
        if port < 0:
            return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has no such listener")
        return Coordinator(key=key, node_id=broker.id, host=host, port=port)

    def _place(self, key_type: int) -> Callable[[str], int]:
        return self._groups.partition_for if key_type == GROUP else self._transactions.partition_for

    def _serves(self, key_type: int, key: str) -> bool:
        """Return whether this node answers for the key by now, so that clients may ask it at once."""
        if key_type == GROUP:
            return self._groups.coordinated(key) is None
        return not isinstance(self._transactions.owner(key), ErrorCode)

    def join(self, context: RequestContext, request: JoinGroupRequest) -> Message | Waiting:
        """JoinGroup (key 11)."""
        return self._groups.join(context, request, self._runtime.clock.now())

    def sync(self, context: RequestContext, request: SyncGroupRequest) -> Message | Waiting:
        """SyncGroup (key 14)."""
        named = request.protocol_type is not None and request.protocol_name is not None
        if context.version >= PROTOCOL_NAMED_FROM and not named:
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return self._groups.sync(context, request, self._runtime.clock.now())

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> Message | Waiting:
        """Heartbeat (key 12)."""
        return self._groups.heartbeat(context, request, self._runtime.clock.now())

    def leave(self, context: RequestContext, request: LeaveGroupRequest) -> Message | Waiting:
        """LeaveGroup (key 13)."""
        return self._groups.leave(context, request, self._runtime.clock.now())

    def commit(self, context: RequestContext, request: OffsetCommitRequest) -> Message | Waiting:
        """OffsetCommit (key 8)."""
        return self._groups.commit(context, request, self._runtime.clock.now())

    def commit_in_transaction(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> Message | Waiting:
        """TxnOffsetCommit (key 28; KIP-98, KIP-447)."""
        return self._groups.transactions.commit(context, request, self._runtime.clock.now())

    def fetch_offsets(self, context: RequestContext, request: OffsetFetchRequest) -> Message | Waiting:
        """OffsetFetch (key 9)."""
        return self._groups.fetch_offsets(context, request, self._runtime.clock.now())

    def consumer_heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> Message | Waiting:
        """ConsumerGroupHeartbeat (key 68; KIP-848)."""
        if not self._groups.serves_consumer_groups:
            events.emit(
                events.GROUP_PROTOCOL,
                reason="",
                group=request.group_id,
                client=context.client_host,
                client_id=context.client_id,
                next="set group.version to 1 (`barnabas features`), or group.protocol=classic in the client",
            )
        return self._groups.consumer_heartbeat(context, request, self._runtime.clock.now())

    def consumer_describe(
        self, context: RequestContext, request: ConsumerGroupDescribeRequest
    ) -> Message | Waiting:
        """ConsumerGroupDescribe (key 69; KIP-848)."""
        return self._groups.consumer_describe(context, request, self._runtime.clock.now())

    def describe(self, context: RequestContext, request: DescribeGroupsRequest) -> Message | Waiting:
        """DescribeGroups (key 15)."""
        return self._groups.describe(context, request, self._runtime.clock.now())

    def list_groups(self, context: RequestContext, request: ListGroupsRequest) -> Message | Waiting:
        """ListGroups (key 16)."""
        return self._groups.list(context, request, self._runtime.clock.now())

    def delete(self, context: RequestContext, request: DeleteGroupsRequest) -> Message | Waiting:
        """DeleteGroups (key 42)."""
        return self._groups.delete(context, request, self._runtime.clock.now())

    def delete_offsets(self, context: RequestContext, request: OffsetDeleteRequest) -> Message | Waiting:
        """OffsetDelete (key 47)."""
        return self._groups.delete_offsets(context, request, self._runtime.clock.now())
