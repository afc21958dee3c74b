"""Fixtures for pytest, found by themselves when barnabas is installed.

    def test_my_service(kafka):
        run_my_service(bootstrap=kafka.bootstrap)

`kafka` is one node for the whole session (one per worker with pytest-xdist); `topic` is a name that no other
test uses there.  `kafka_node` is a node for one test alone, to kill or to restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import pytest

from barnabas.testing.cluster import Cluster

__all__ = ["kafka", "kafka_node", "topic"]

_LONGEST_TOPIC = 200
"""Characters: Kafka allows 249, and directories add the partition."""
_numbers = count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Cluster]:
    """A real node for the session: `kafka.bootstrap` is its address."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name for this test's topic, its group or both: `test_orders_are_sent` gets "orders-are-sent-1".

    The topic is not made; the first who writes makes it.
    """
    words = re.sub(r"[^a-zA-Z0-9._]+", "-", request.node.name.removeprefix("test_").replace("_", "-"))
    return f"{words[:_LONGEST_TOPIC].strip('-')}-{next(_numbers)}"


@pytest.fixture
def kafka_node() -> Iterator[Cluster]:
    """A real node for one test, which may kill and restart it."""
    with Cluster() as cluster:
        yield cluster
