"""How a request is refused as a whole where its answer has no place for that: item by item.

CreateTopics and the like answer per topic or per resource only.  When no controller can be reached, or the
one that was asked is none any more, every item gets that error, as Apache Kafka does it; without this the
connection would have to end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from barnabas.errors import KafkaError
from barnabas.model import ZERO_UUID
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from barnabas.wire.schemas.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from barnabas.wire.schemas.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from barnabas.wire.schemas.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

__all__ = [
    "alter_client_quotas",
    "alter_configs",
    "alter_user_scram_credentials",
    "create_acls",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_topics",
    "incremental_alter_configs",
    "spelled_out",
]


def create_topics(request: CreateTopicsRequest, error: KafkaError) -> Message:
    """CreateTopics refused."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> Message:
    """DeleteTopics refused."""
    asked = [(topic.name, topic.topic_id) for topic in request.topics]
    asked += [(name, ZERO_UUID) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
            )
            for name, topic_id in asked
        ]
    )


def create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> Message:
    """CreatePartitions refused."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


def create_acls(request: CreateAclsRequest, error: KafkaError) -> Message:
    """CreateAcls refused."""
    refusal = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[refusal] * len(request.creations))


def delete_acls(request: DeleteAclsRequest, error: KafkaError) -> Message:
    """DeleteAcls refused."""
    refusal = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))


def alter_configs(request: AlterConfigsRequest, error: KafkaError) -> Message:
    """AlterConfigs refused."""
    refused = AlterConfigsResponseAlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=[
            refused(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def incremental_alter_configs(request: IncrementalAlterConfigsRequest, error: KafkaError) -> Message:
    """IncrementalAlterConfigs refused."""
    refused = IncrementalAlterConfigsResponseAlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(
        responses=[
            refused(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def alter_client_quotas(request: AlterClientQuotasRequest, error: KafkaError) -> Message:
    """AlterClientQuotas refused."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=error.code,
                error_message=error.message,
                entity=[
                    AlterClientQuotasResponseEntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def alter_user_scram_credentials(request: AlterUserScramCredentialsRequest, error: KafkaError) -> Message:
    """AlterUserScramCredentials refused."""
    names = [*(change.name for change in request.deletions), *(change.name for change in request.upsertions)]
    refused = AlterUserScramCredentialsResult
    return AlterUserScramCredentialsResponse(
        results=[
            refused(user=name, error_code=error.code, error_message=error.message)
            for name in dict.fromkeys(names)
        ]
    )


def spelled_out(
    refused: Callable[[Any, KafkaError], Message] | None, request: Message, future: asyncio.Future[Message]
) -> asyncio.Future[Message]:
    """The same future, but a refusal as a whole becomes the answer of `refused`, where there is such a one."""
    later: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def ended(future: asyncio.Future[Message]) -> None:
        error = None if future.cancelled() else future.exception()  # read also where nobody waits any more
        if later.done():
            return
        if future.cancelled():
            later.cancel()
            return
        if error is None:
            later.set_result(future.result())
            return
        if refused is None or not isinstance(error, KafkaError):
            later.set_exception(error)
        else:
            later.set_result(refused(request, error))

    future.add_done_callback(ended)
    return later
