"""The one table of what is served."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable

from tests.server.harness import World, decoded

from barnabas.broker.ports import Operation, RequestContext, ResourceType
from barnabas.errors import ErrorCode
from barnabas.server.api.table import TABLE, served_on
from barnabas.wire.registry import API
from barnabas.wire.schemas.groups import HeartbeatRequest

NEVER_FOR_CLIENTS = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 10_642, 10_643}
"""APIs between nodes: a client listener must not serve them."""


def test_each_kind_of_listener_serves_an_api_once() -> None:
    for kind in "BC":
        counted = Counter(row.key for row in served_on(kind))
        assert [key for key, times in counted.items() if times > 1] == []


def test_a_client_listener_serves_nothing_that_is_between_nodes() -> None:
    assert not {row.key for row in served_on("B")} & NEVER_FOR_CLIENTS


def test_advertised_versions_are_versions_the_codec_knows_and_are_stable() -> None:
    for row in TABLE:
        api = API[row.key]
        assert api.first <= row.low <= row.high <= api.last_stable, api.name


def test_old_clients_find_the_versions_they_insist_on() -> None:
    """librdkafka wants exactly these (facts of its source); others negotiate."""
    ranges = {row.key: (row.low, row.high) for row in served_on("B")}
    for key, version in ((23, 2), (11, 0), (10, 0), (12, 0), (13, 0), (14, 0), (8, 2), (9, 1), (2, 1)):
        low, high = ranges[key]
        assert low <= version <= high, API[key].name


def test_every_handler_is_a_method_that_takes_the_context_and_the_request() -> None:
    for row in TABLE:
        assert list(inspect.signature(row.handler).parameters) == ["self", "context", "request"]


def test_every_request_is_put_to_the_authorizer(play: Callable[..., None]) -> None:
    class Strict:
        """Says no to everything, and remembers what it was asked."""

        def __init__(self) -> None:
            self.asked: list[tuple[str, Operation, ResourceType, str]] = []

        def authorize(
            self, context: RequestContext, operation: Operation, resource: ResourceType, name: str
        ) -> bool:
            self.asked.append((context.principal, operation, resource, name))
            return False

    async def scenario(world: World) -> None:
        strict = world.requests.authorizer = Strict()
        client = await world.client()
        client.send(HeartbeatRequest(), 4)
        answer = decoded(12, 4, (await client.answer())[1])
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert strict.asked == [("User:ANONYMOUS", Operation.ANY, ResourceType.CLUSTER, "kafka-cluster")]

    play(scenario)
