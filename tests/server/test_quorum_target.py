"""A target set of controllers is listed as a reassignment of the metadata partition while it is under way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.server.quorum_node import Node, formatted, run, running

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC, Endpoint, ReplicaKey, Uuid
from barnabas.raft.membership.target import TARGET, TargetReplica, write_target
from barnabas.server.api.reassignments import ReassignmentApi, ongoing
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)


def seen(target: str | None, *voters: int) -> tuple[list[int], list[int], list[int]] | None:
    """What is listed as replicas, to come and to go, with this note in the log and these voters."""
    config = {} if target is None else {TARGET: target}
    image = SimpleNamespace(cluster_config=lambda: config)
    topic = ongoing(image, SimpleNamespace(ids=voters))  # type: ignore[arg-type]
    if topic is None:
        return None
    assert topic.name == METADATA_TOPIC
    [row] = topic.partitions
    return row.replicas, row.adding_replicas, row.removing_replicas


def test_a_target_shows_what_is_to_come_and_to_go_until_it_is_reached() -> None:
    """KIP-642: progress can be watched; the voters of each step stand in DescribeQuorum."""
    target = write_target(
        tuple(
            TargetReplica(ReplicaKey(n, Uuid.of(1, n)), (Endpoint("CONTROLLER", "h", n),)) for n in (4, 5, 6)
        )
    )
    assert seen(target, 1, 2, 3) == ([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3])
    assert seen(target, 2, 4, 5) == ([4, 5, 6, 2], [6], [2])
    assert seen(None, 4, 5, 6) is None


async def asked(node: Node, partition: int, replicas: list[int] | None) -> ErrorCode:
    """The answer to this target."""
    rows = [ReassignablePartition(partition_index=partition, replicas=replicas)]
    topics = [ReassignableTopic(name=METADATA_TOPIC, partitions=rows)]
    request = AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=topics)
    answer = await ReassignmentApi(node.quorum).alter(
        SimpleNamespace(version=1, principal="User:ANONYMOUS", client_host="127.0.0.1"), request
    )  # type: ignore[arg-type]
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    return ErrorCode(answer.responses[0].partitions[0].error_code)


def test_a_target_is_checked_by_the_active_controller_and_another_one_says_that_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-642 says NOT_LEADER; every request that the controller decides is refused with NOT_CONTROLLER."""

    async def story() -> None:
        async with running(formatted()) as node:
            assert await asked(node, 0, [1]) is ErrorCode.NONE, "as it is"
            assert await asked(node, 0, [1, 2]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert await asked(node, 0, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            assert await asked(node, 1, [1]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            monkeypatch.setattr(type(node.quorum), "is_active_controller", property(lambda _: False))
            with pytest.raises(KafkaError) as refused:
                await asked(node, 0, [1])
            assert refused.value.code is ErrorCode.NOT_CONTROLLER
            monkeypatch.undo()

    run(story)


def test_a_quorum_without_a_target_lists_nothing() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            assert ongoing(node.quorum.image, node.quorum.voters) is None

    run(story)
