"""A request refused as a whole, where its answer speaks of single items only."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.server.api.item_errors import create_topics, spelled_out
from barnabas.server.api.table import served_on
from barnabas.wire.codec.message import Message, encode
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    UpdateFeaturesRequest,
)
from barnabas.wire.schemas.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

ERROR = KafkaError(ErrorCode.NOT_CONTROLLER, "there is no active controller")
REQUESTS: list[Message] = [
    CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")]),
    DeleteTopicsRequest(topic_names=["a", "b"]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="a"), DeleteTopicState(topic_id=Uuid(b"i" * 16))]),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a"), CreatePartitionsTopic(name="b")]),
    AlterConfigsRequest(
        resources=[
            AlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name=name) for name in "ab"
        ]
    ),
    IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name=name)
            for name in "ab"
        ]
    ),
]


def refusal(request: Message, error: KafkaError) -> Message:
    """What the table's row for this request makes of the error."""
    (refused,) = (row.refused for row in served_on("B") if row.key == request.KEY)
    assert refused is not None
    return refused(request, error)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.NAME)
def test_every_item_is_refused_and_the_answer_can_be_sent(request_: Message) -> None:
    answer = refusal(request_, ERROR)
    assert answer.KEY == request_.KEY
    items = next(
        getattr(answer, name) for name in ("topics", "responses", "results") if hasattr(answer, name)
    )
    assert [item.error_code for item in items] == [ErrorCode.NOT_CONTROLLER] * 2
    assert encode(answer, answer.VERSIONS[1])


def test_an_answer_with_an_error_of_its_own_is_left_to_it() -> None:
    rows = {row.key: row for row in served_on("B")}
    assert rows[UpdateFeaturesRequest.KEY].refused is None


def test_a_future_that_fails_becomes_the_answer_and_any_other_error_stays_one() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        refused: asyncio.Future[Message] = loop.create_future()
        answered = spelled_out(create_topics, REQUESTS[0], refused)
        refused.set_exception(ERROR)
        assert (await answered) == create_topics(REQUESTS[0], ERROR)
        broken: asyncio.Future[Message] = loop.create_future()
        failing = spelled_out(create_topics, REQUESTS[0], broken)
        broken.set_exception(ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            await failing

    asyncio.run(story())


def test_a_future_that_fails_when_nobody_waits_any_more_is_not_reported_as_lost() -> None:
    reported: list[dict[str, Any]] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: reported.append(context))
        refused: asyncio.Future[Message] = loop.create_future()
        spelled_out(create_topics, REQUESTS[0], refused).cancel()
        refused.set_exception(ERROR)
        await asyncio.sleep(0)
        del refused
        gc.collect()

    asyncio.run(story())
    assert reported == []
