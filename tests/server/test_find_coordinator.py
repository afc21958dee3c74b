"""FindCoordinator names a node that answers for the key by now: not every client asks a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, Now, TopicPartition
from barnabas.server.api.groups import GROUP, SHARE, TRANSACTION, GroupApi
from barnabas.server.api.transactions import TransactionApi
from barnabas.wire.schemas.groups import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.wire.schemas.transactions import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

HERE, THERE = 1, 2


def api(leader: int, *, serves: bool) -> GroupApi:
    """The API of node 1, in a cluster in which `leader` leads the coordinators' partitions."""
    refusal = None if serves else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    brokers = {id_: SimpleNamespace(id=id_, fenced=False, endpoints=()) for id_ in (HERE, THERE)}
    stubs: dict[str, Any] = {
        "runtime": SimpleNamespace(node_id=HERE),
        "groups": SimpleNamespace(partition_for=lambda key: 0, coordinated=lambda key: refusal),
        "transactions": SimpleNamespace(partition_for=lambda key: 0, owner=lambda key: refusal or object()),
        "image": SimpleNamespace(
            partition=lambda name, index: SimpleNamespace(leader=leader),
            brokers=brokers,
            topic=lambda name: SimpleNamespace(partitions={}),
        ),
        "addresses": SimpleNamespace(of=lambda context, id_, endpoints: (f"b{id_}", 9092)),
        "topics": None,
        "suspicion": None,
        "ask": None,
    }
    return GroupApi(**stubs)


@pytest.mark.parametrize("kind", [GROUP, TRANSACTION])
@pytest.mark.parametrize(
    ("leader", "serves", "found"),
    [
        (HERE, True, (0, HERE)),
        (HERE, False, (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)),
        (THERE, False, (0, THERE)),
    ],
)
def test_a_coordinator_that_still_loads_is_not_available(
    kind: int, leader: int, serves: bool, found: tuple[int, int]
) -> None:
    context: Any = SimpleNamespace(version=6)
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"])
    answer = api(leader, serves=serves).find_coordinator(context, request)
    assert isinstance(answer, FindCoordinatorResponse)
    (one,) = answer.coordinators
    assert (one.error_code, one.node_id) == found


@pytest.mark.parametrize(("kind", "why"), [(SHARE, "share groups are not served"), (7, "no type 7")])
def test_a_coordinator_that_nobody_serves_is_refused_for_good_and_by_name(kind: int, why: str) -> None:
    """Whoever asks would retry what is refused for now."""
    context: Any = SimpleNamespace(version=6)
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
    answer = api(HERE, serves=True).find_coordinator(context, request)
    assert isinstance(answer, FindCoordinatorResponse)
    (one,) = answer.coordinators
    assert one.error_code == ErrorCode.INVALID_REQUEST and why in (one.error_message or "")


async def answered(ask: Callable[[], Awaitable[Any]]) -> Any:
    return await ask()


def test_the_first_client_is_answered_when_its_partition_is_opened() -> None:
    """It would ask again after half a second or more; of a new topic's logs its own is opened first."""
    first = api(HERE, serves=False)
    opened: list[int] = []

    def hasten(tp: TopicPartition) -> None:
        opened.append(tp.partition)
        first._groups.coordinated = lambda key: None  # type: ignore[method-assign]

    async def create(names: list[str]) -> None:
        found = SimpleNamespace(partitions={})
        first._image.topic = lambda name: found  # type: ignore[method-assign, assignment, return-value]

    stubs: Any = first
    stubs._groups.broker = SimpleNamespace(reconciler=SimpleNamespace(hasten=hasten))
    stubs._runtime.clock = SimpleNamespace(now=lambda: Now(1.0, 1))
    stubs._runtime.tasks = SimpleNamespace(start=lambda work, name: asyncio.ensure_future(work))
    stubs._image.topic = lambda name: None
    stubs._image.partition = lambda name, index: SimpleNamespace(leader=HERE, index=index)
    stubs._topics = SimpleNamespace(try_to_create=create)
    context: Any = SimpleNamespace(version=6)
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["k"])
    answer = asyncio.run(answered(lambda: stubs.find_coordinator(context, request)))
    assert [(one.error_code, one.node_id) for one in answer.coordinators] == [(0, HERE)]
    assert opened == [0]


def test_a_transaction_makes_the_topic_of_offsets_where_no_group_was_before() -> None:
    made: list[str] = []

    async def create(names: list[str]) -> None:
        made.extend(names)

    refusal = AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    runtime: Any = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: Now(1.0, 1)),
        tasks=SimpleNamespace(start=lambda work, name: asyncio.ensure_future(work)),
    )
    requests: Any = SimpleNamespace(add_offsets=lambda context, request, now: refusal)
    topics: Any = SimpleNamespace(try_to_create=create)
    offsets: Any = TransactionApi(runtime, None, requests, topics)  # type: ignore[arg-type]
    context: Any = SimpleNamespace(version=3)
    request = AddOffsetsToTxnRequest(group_id="g")
    answer = asyncio.run(answered(lambda: offsets.add_offsets(context, request)))
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert made == [OFFSETS_TOPIC]
