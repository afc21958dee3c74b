"""A target set of controllers is listed as a reassignment of the metadata partition while it is under way."""

from __future__ import annotations

from types import SimpleNamespace

from tests.server.quorum_node import formatted, run, running

from barnabas.model import METADATA_TOPIC, Endpoint, ReplicaKey, Uuid
from barnabas.raft.reassign import TARGET, Member, write_target
from barnabas.server.quorum_target import ongoing


def seen(target: str | None, *voters: int) -> tuple[list[int], list[int], list[int]] | None:
    """What is listed as replicas, to come and to go, with this note in the log and these voters."""
    config = {} if target is None else {TARGET: target}
    image = SimpleNamespace(cluster_config=lambda: config)
    topic = ongoing(SimpleNamespace(image=image, voters=SimpleNamespace(ids=voters)))  # type: ignore[arg-type]
    if topic is None:
        return None
    assert topic.name == METADATA_TOPIC
    [row] = topic.partitions
    return row.replicas, row.adding_replicas, row.removing_replicas


def test_a_target_shows_what_is_to_come_and_to_go_until_it_is_reached() -> None:
    """KIP-642: progress can be watched; the voters of each step stand in DescribeQuorum."""
    target = write_target(
        tuple(Member(ReplicaKey(n, Uuid.of(1, n)), (Endpoint("CONTROLLER", "h", n),)) for n in (4, 5, 6))
    )
    assert seen(target, 1, 2, 3) == ([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3])
    assert seen(target, 2, 4, 5) == ([4, 5, 6, 2], [6], [2])
    assert seen(None, 4, 5, 6) is None


def test_a_quorum_without_a_target_lists_nothing() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            assert ongoing(node.quorum) is None

    run(story)
