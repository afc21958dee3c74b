"""A node over a simulated disk."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node
from tests.broker.plain_nodes import KINDS, WAYS

from barnabas.sim.kernel.disk import MemoryDisk


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
