"""A disk that takes seconds for a sync is noticed at once, and what lies there is led elsewhere meanwhile."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch

from barnabas.errors import ErrorCode
from barnabas.sim.kernel.disk import MemoryDisk


@pytest.fixture
def node(disk: MemoryDisk) -> Node:
    node = Node(disk)
    node.create("t")
    return node


def runs(node: Node, seconds: float) -> None:
    """Let time pass while the syncs that were handed out run in their threads."""
    for sync in node.held:
        sync.running = True  # type: ignore[union-attr]
    for _ in range(round(seconds / 0.25)):
        node.after(0.25)


def test_a_sync_of_seconds_makes_its_directory_unfit_to_lead_until_it_is_fast_again(node: Node) -> None:
    node.produce(batch("a"))
    node.write()
    runs(node, 1.0)
    assert node.broker.unfit_directories == []
    runs(node, 1.0)
    assert node.broker.unfit_directories == [node.broker.logs.directories[0].directory_id]
    node.sync()
    runs(node, 55)
    assert node.broker.unfit_directories != []
    runs(node, 10)
    assert node.broker.unfit_directories == []
    assert node.outside.speeds == [True, False]


def test_syncs_that_wait_for_a_thread_make_no_slow_disk(node: Node) -> None:
    node.produce(batch("a"))
    node.write()
    for _ in range(20):
        node.after(0.25)
    assert node.outside.speeds == []


def test_a_node_that_stood_still_does_not_blame_its_disk(node: Node) -> None:
    node.produce(batch("a"))
    node.write()
    runs(node, 0.5)
    node.after(30.0)
    assert node.outside.speeds == []
    node.sync()
    runs(node, 2.0)
    assert node.outside.speeds == []


def test_producers_go_to_the_new_leaders_though_the_metadata_come_late(node: Node) -> None:
    """What is given away is told by the answer of a heartbeat: the metadata log may lie on the slow disk, too."""
    node.create("two", replicas=(1, 2))
    waiting = [node.produce(batch("a"), topic, timeout_ms=60_000) for topic in ("t", "two")]
    node.write()
    runs(node, 2.0)
    assert not any(answer.here for answer in waiting)
    known = node.broker.applied_offset
    node.broker.gave_away(known)
    assert not waiting[1].here, "nothing was given away that this node does not know of"
    node.broker.gave_away(known + 1)
    assert waiting[1].error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not waiting[0].here, "nobody else has it"
    late = node.produce(batch("b"), "two", timeout_ms=60_000)
    node.write()
    runs(node, 0.5)
    assert late.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_full_directory_is_unfit_to_lead(node: Node) -> None:
    (directory,) = node.broker.logs.directories
    directory.full = True
    assert node.broker.unfit_directories == [directory.directory_id]
