"""How a request is refused as a whole where its answer has no place for that: item by item.

CreateTopics and the like answer per topic or per resource only.  When no controller can be reached, or the
one that was asked is none any more, every item gets that error, as Apache Kafka does it; without this the
connection would have to end.
"""

from __future__ import annotations

import asyncio

from barnabas.errors import KafkaError
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
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

__all__ = ["refusal", "spelled_out"]


def refusal(request: Message, error: KafkaError) -> Message | None:
    """The answer that refuses every item of `request`; None where the answer has its own error field."""
    code, why = error.code, error.message
    if isinstance(request, CreateTopicsRequest):
        created = [
            CreatableTopicResult(name=t.name, error_code=code, error_message=why) for t in request.topics
        ]
        return CreateTopicsResponse(topics=created)
    if isinstance(request, DeleteTopicsRequest):
        deleted = [
            DeletableTopicResult(name=t.name, topic_id=t.topic_id, error_code=code, error_message=why)
            for t in request.topics
        ]
        deleted += [
            DeletableTopicResult(name=name, error_code=code, error_message=why)
            for name in request.topic_names
        ]
        return DeleteTopicsResponse(responses=deleted)
    if isinstance(request, CreatePartitionsRequest):
        grown = [
            CreatePartitionsTopicResult(name=t.name, error_code=code, error_message=why)
            for t in request.topics
        ]
        return CreatePartitionsResponse(results=grown)
    if isinstance(request, AlterConfigsRequest):
        altered = AlterConfigsResponseAlterConfigsResourceResponse
        return AlterConfigsResponse(
            responses=[
                altered(
                    error_code=code,
                    error_message=why,
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                )
                for r in request.resources
            ]
        )
    if isinstance(request, IncrementalAlterConfigsRequest):
        changed = IncrementalAlterConfigsResponseAlterConfigsResourceResponse
        return IncrementalAlterConfigsResponse(
            responses=[
                changed(
                    error_code=code,
                    error_message=why,
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                )
                for r in request.resources
            ]
        )
    return None


def spelled_out(request: Message, future: asyncio.Future[Message]) -> asyncio.Future[Message]:
    """The same future, but a refusal as a whole becomes an answer that refuses each item."""
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
        answer = refusal(request, error) if isinstance(error, KafkaError) else None
        if answer is None:
            later.set_exception(error)
        else:
            later.set_result(answer)

    future.add_done_callback(ended)
    return later
