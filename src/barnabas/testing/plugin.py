"""Fixtures for pytest, found by themselves when barnabas is installed.

    def test_my_service(kafka):
        run_my_service(bootstrap=kafka.bootstrap)

`kafka` is one node for the whole session (one per worker with pytest-xdist); give topics names of your own
per test.  `kafka_node` is a node for one test alone, to kill or to restart.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing.cluster import Cluster

__all__ = ["kafka", "kafka_node"]


@pytest.fixture(scope="session")
def kafka() -> Iterator[Cluster]:
    """A real node for the session: `kafka.bootstrap` is its address."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_node() -> Iterator[Cluster]:
    """A real node for one test, which may kill and restart it."""
    with Cluster() as cluster:
        yield cluster
