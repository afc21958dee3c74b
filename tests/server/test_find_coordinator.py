"""FindCoordinator names a node that answers for the key by now: not every client asks a second time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.errors import ErrorCode
from barnabas.server.api.groups import GROUP, TRANSACTION, GroupApi
from barnabas.wire.schemas.groups import FindCoordinatorRequest, FindCoordinatorResponse

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
