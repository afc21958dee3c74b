"""Who decides what is too old: the leader, by a clock that agrees with the controller's."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.replication import Replicas

from barnabas.sim.kernel.disk import MemoryDisk

YEAR_S = 365 * 86400
SMALL = {
    "log_segment_bytes": "1048576",
    "log_retention_check_interval_ms": "1000",
    "log_retention_ms": "60000",
}


def retains(node: Node) -> None:
    """Apply retention, and all that follows from it."""
    for _ in range(3):
        node.mono += 2
        node.broker.maintain(node.now)
        node.turn()


@pytest.fixture
def three() -> Replicas:
    three = Replicas(**SMALL)
    for value in ("a", "b"):
        three.produce(value)
        three.settle()
        for id_ in (1, 2, 3):
            three[id_].log.roll(three.nodes[id_].now)
    return three


def test_a_follower_whose_clock_is_a_year_ahead_keeps_what_its_leader_keeps(three: Replicas) -> None:
    follower = three.nodes[3]
    follower.wall += YEAR_S * 1000
    retains(follower)
    assert three[3].log_start_offset == 0 and three.values(3) == ["a"]


def test_a_follower_deletes_what_its_leader_deleted(three: Replicas) -> None:
    leader = three.nodes[1]
    leader.wall += YEAR_S * 1000
    retains(leader)
    assert three[1].log_start_offset == 2
    three.settle()
    retains(three.nodes[3])
    assert three[3].log_start_offset == 2


def test_a_leader_whose_clock_is_off_deletes_nothing_for_its_age_and_goes_on_by_size(
    disk: MemoryDisk,
) -> None:
    node = Node(disk, **SMALL)
    node.create("t")
    node.create("big", retention_bytes="0")
    node.broker.clock_agrees = False
    for topic in ("t", "big"):
        node.append(batch("a"), topic)
        node.broker.partition(topic, 0).log.roll(node.now)  # type: ignore[union-attr]
    node.wall += YEAR_S * 1000
    retains(node)
    starts = [node.broker.partition(topic, 0).log_start_offset for topic in ("t", "big")]  # type: ignore[union-attr]
    assert starts == [0, 1]
    node.broker.clock_agrees = True
    retains(node)
    assert node.broker.partition("t", 0).log_start_offset == 1  # type: ignore[union-attr]


def test_a_follower_without_room_frees_some_as_its_leader_would(three: Replicas) -> None:
    """It fetches nothing, so it hears of nothing that its leader deletes."""
    follower = three.nodes[3]
    follower.wall += 120_000
    three[3].no_room = True
    retains(follower)
    assert three[3].log_start_offset == 2


def test_compaction_rests_while_the_clock_is_off(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(disk, **SMALL)
    stepped: list[bool] = []
    monkeypatch.setattr(
        type(node.broker.maintenance.cleaner),
        "step",
        lambda cleaner, now: stepped.append(node.broker.clock_agrees),
    )
    for agrees in (True, False):
        node.broker.clock_agrees = agrees
        retains(node)
    assert stepped == [True] * 3
