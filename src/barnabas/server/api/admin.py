"""Further requests of administrators: partitions by page, resources with settings, quotas, ACLs.

Everything here only reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.ports import Operation, ResourceType, allowed, authorized_operations
from barnabas.controller.decisions.client_quotas import describe_client_quotas
from barnabas.controller.decisions.describe_configs import describe_configs
from barnabas.controller.decisions.topic_names import is_valid
from barnabas.controller.decisions.users.scram_users import describe_user_scram_credentials
from barnabas.controller.image import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_LOGGERS,
    RESOURCE_METRICS,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionState,
    Topic,
)
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import INTERNAL_TOPICS, NO_NODE, NodeId
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.context import RequestContext
from barnabas.server.observe import levels
from barnabas.wire.codec.message import replace
from barnabas.wire.metadata import DelegationTokenRecord
from barnabas.wire.schemas.acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.wire.schemas.cluster import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from barnabas.wire.schemas.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from barnabas.wire.schemas.quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from barnabas.wire.schemas.sasl import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.server.rights.authorizer import NodeAuthorizer

__all__ = ["AdminApi"]


class AdminApi:
    """Answers from the metadata, as this node has them."""

    __slots__ = ("_authorizer", "_image", "_runtime")

    def __init__(self, runtime: Runtime, image: MetadataImage, authorizer: NodeAuthorizer | None) -> None:
        self._runtime = runtime
        self._image = image
        self._authorizer = authorizer

    def describe_topic_partitions(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsResponse:
        """DescribeTopicPartitions (key 75; KIP-966): partitions in pages, by topic name, with the ELR."""
        cursor, image = request.cursor, self._image
        named = {asked.name for asked in request.topics}
        names = {name for name in named or image.topics_by_name if self._may_see(context, name, bool(named))}
        if cursor is not None and (cursor.partition_index < 0 or (named and cursor.topic_name not in named)):
            wrong = [_absent(asked.name, ErrorCode.INVALID_REQUEST) for asked in request.topics]
            return DescribeTopicPartitionsResponse(topics=wrong)
        most = self._runtime.config.int("max.request.partition.size.limit")
        room = max(1, min(request.response_partition_limit, most))
        found: list[DescribeTopicPartitionsResponseTopic] = []
        following: DescribeTopicPartitionsResponseCursor | None = None
        reachable = {b.id for b in image.alive_brokers() if b.endpoint(context.listener) is not None}
        for name in sorted(names):
            if cursor is not None and name < cursor.topic_name:
                continue
            if room == 0:
                following = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
                break
            topic = image.topic(name)
            if topic is None:
                known = is_valid(name)
                found.append(
                    _absent(
                        name,
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.INVALID_TOPIC_EXCEPTION,
                        self._operations(context, name),
                    )
                )
                continue
            first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
            states = [state for index, state in sorted(topic.partitions.items()) if index >= first]
            rows = [self._shown(state, context.listener, reachable) for state in states[:room]]
            found.append(_page(topic, rows, self._operations(context, name)))
            if len(states) > room:
                following = DescribeTopicPartitionsResponseCursor(
                    topic_name=name, partition_index=states[room].index
                )
                break
            room -= len(states)
        hidden = sorted(named - names)  # (also what does not exist: nobody hears whether it does)
        found += [_absent(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in hidden]
        return DescribeTopicPartitionsResponse(topics=found, next_cursor=following)

    def _may_see(self, context: RequestContext, name: str, asked: bool) -> bool:
        return allowed(self._authorizer, context, Operation.DESCRIBE, ResourceType.TOPIC, name, asked=asked)

    def _operations(self, context: RequestContext, name: str) -> int:
        return authorized_operations(ResourceType.TOPIC, self._authorizer, context, name)

    def _shown(
        self, state: PartitionState, listener: str, reachable: set[NodeId]
    ) -> DescribeTopicPartitionsResponsePartition:
        """One partition.  That nobody leads it is no error here, unlike in Metadata."""
        return DescribeTopicPartitionsResponsePartition(
            partition_index=state.index,
            leader_id=state.leader if state.leader in reachable else NO_NODE,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            eligible_leader_replicas=list(state.elr),
            last_known_elr=list(state.last_known_elr),
            offline_replicas=self._image.offline_replicas(state, listener),
        )

    def list_config_resources(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesResponse:
        """ListConfigResources (key 74; KIP-714, KIP-1142): names of what has settings, by kind."""
        image = self._image
        known = (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_LOGGERS, RESOURCE_METRICS, RESOURCE_GROUP)
        kinds = [RESOURCE_METRICS] if context.version == 0 else request.resource_types or known
        if wrong := [kind for kind in kinds if kind not in known]:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"settings of kind {wrong[0]} cannot be listed")
        names: dict[int, list[str]] = {
            RESOURCE_TOPIC: list(image.topics_by_name),
            RESOURCE_BROKER: [str(broker) for broker in image.brokers],
            RESOURCE_LOGGERS: [str(broker) for broker in image.brokers],
            RESOURCE_METRICS: [name for kind, name in image.configs if kind == RESOURCE_METRICS],
            RESOURCE_GROUP: [name for kind, name in image.configs if kind == RESOURCE_GROUP],
        }
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=kind)
                for kind in dict.fromkeys(kinds)
                for name in sorted(names[kind])
            ]
        )

    def describe_configs(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse:
        """DescribeConfigs (key 32; KIP-133, KIP-226)."""
        asked = any(resource.resource_type == RESOURCE_LOGGERS for resource in request.resources)
        found = levels.levels() if asked else {}
        return describe_configs(self._image, self._runtime.config, request, self._runtime.node_id, found)

    def describe_users(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        """DescribeUserScramCredentials (key 50; KIP-554): which credentials users have, not what they are."""
        return describe_user_scram_credentials(self._image, request)

    def describe_tokens(
        self, context: RequestContext, request: DescribeDelegationTokenRequest
    ) -> DescribeDelegationTokenResponse:
        """DescribeDelegationToken (key 41; KIP-48): one's own, and others with a right on them."""
        from barnabas.controller.decisions.users.delegation_tokens import describe_tokens, secret_of

        if not (secret := secret_of(self._runtime.config)):
            return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

        def may_see(token: DelegationTokenRecord) -> bool:
            who, on, of = self._authorizer, ResourceType.DELEGATION_TOKEN, ResourceType.USER
            return allowed(who, context, Operation.DESCRIBE, on, token.token_id, asked=False) or allowed(
                who, context, Operation.DESCRIBE_TOKENS, of, token.owner, asked=False
            )

        sender, version = context.principal, context.version
        return describe_tokens(self._image, secret, request, sender, version, may_see)

    def describe_client_quotas(
        self, context: RequestContext, request: DescribeClientQuotasRequest
    ) -> DescribeClientQuotasResponse:
        """DescribeClientQuotas (key 48; KIP-546)."""
        return describe_client_quotas(self._image, request)

    def describe_acls(self, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
        """DescribeAcls (key 29; KIP-140); in a field of ours, whom this node refused what lately."""
        from barnabas.controller.decisions.acls import describe_acls, require_authorizer  # rarely asked
        from barnabas.server.rights.shown import shown

        require_authorizer(self._runtime.config)
        answer = describe_acls(self._image, request)
        if request.why and self._authorizer is not None:
            return replace(answer, refusals=shown(self._authorizer.refusals))
        return answer


def _absent(name: str, code: ErrorCode, operations: int = -(2**31)) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=int(code),
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _page(
    topic: Topic, partitions: list[DescribeTopicPartitionsResponsePartition], operations: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
        partitions=partitions,
    )
