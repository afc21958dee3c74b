"""The line of requests to the controller: whatever a request does to its decision, the line goes on."""

from __future__ import annotations

import asyncio

import pytest
from tests.controller.cluster import Cluster

from barnabas.errors import ErrorCode, KafkaError
from barnabas.server.kraft.proposals import Proposals, Submission
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest


def test_a_request_that_meets_an_error_of_ours_is_refused_and_nothing_else_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1)
    requests = Proposals()
    requests.controller = cluster.controller
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])

    async def both() -> tuple[BaseException | None, Submission | None]:
        loop = asyncio.get_running_loop()
        odd, plain = loop.create_future(), loop.create_future()
        requests.add(Submission(request, 7, odd))
        requests.add(Submission(request, 7, plain))
        with monkeypatch.context() as broken:
            broken.setattr("barnabas.controller.decisions.topics.create_topics", lambda view, asked: 1 // 0)
            cluster.controller._deciders.clear()
            assert requests.decide_next(cluster.offset, 1, cluster.now) is None
        cluster.controller._deciders.clear()
        return odd.exception(), requests.decide_next(cluster.offset, 1, cluster.now)

    error, decided = asyncio.run(both())
    assert isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert decided is not None and decided.records
