"""A node over a simulated disk."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node
from tests.broker.plain_nodes import KINDS, WAYS

from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.sim.kernel.disk import MemoryDisk


@pytest.fixture(autouse=True)
def no_files_of_earlier_worlds() -> None:
    """Nodes over simulated disks are not closed.  If many files of theirs counted as open still, those of this
    test would be closed or synced in their stead."""
    OPEN_FILES.forget_all()


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def node(disk: MemoryDisk) -> Node:
    """A node with a topic `t` of one partition that it leads, and syncs before it acknowledges."""
    node = Node(disk)
    node.create("t")
    return node


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Of the client that fetches."""
    return str(request.param)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """In which a node takes its fetches."""
    return str(request.param)
