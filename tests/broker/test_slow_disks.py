"""A disk that takes seconds for a sync is noticed at once, and what lies there is led elsewhere meanwhile."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch

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


def test_a_full_directory_is_unfit_to_lead(node: Node) -> None:
    (directory,) = node.broker.logs.directories
    directory.full = True
    assert node.broker.unfit_directories == [directory.directory_id]
