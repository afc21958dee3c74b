"""Fixtures for pytest, found by themselves when barnabas is installed.

    def test_my_service(kafka):
        run_my_service(bootstrap=kafka.bootstrap)

`kafka` is one node for the whole session (one per worker with pytest-xdist); `topic` is a name that no other
test uses there.  `kafka_node` is a node for one test alone, to kill or to restart; `kafka_cluster(3)` makes three.
`kafka_module` is one node for the tests of a module, with the settings of its fixture `kafka_settings` and the
users of its fixture `kafka_users`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count

import pytest

from barnabas.testing.cluster import Cluster

__all__ = [
    "kafka",
    "kafka_cluster",
    "kafka_emptied",
    "kafka_module",
    "kafka_node",
    "kafka_settings",
    "kafka_users",
    "topic",
]

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
def kafka_emptied(kafka: Cluster) -> Iterator[Cluster]:
    """The session's node, from which every topic and group is deleted after the test."""
    yield kafka
    kafka.clean()


@pytest.fixture(scope="module")
def kafka_settings() -> Mapping[str, str]:
    """Settings of `kafka_module`, under Kafka's names; a module says its own in a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def kafka_users() -> Mapping[str, str]:
    """Names and passwords of who may log in at `kafka_module`, where a module says so: {"ada": "secret"}."""
    return {}


@pytest.fixture(scope="module")
def kafka_module(kafka_settings: Mapping[str, str], kafka_users: Mapping[str, str]) -> Iterator[Cluster]:
    """A real node for the tests of one module, with the module's `kafka_settings` and `kafka_users`."""
    with Cluster(kafka_settings, users=kafka_users) as cluster:
        yield cluster


@pytest.fixture
def kafka_node() -> Iterator[Cluster]:
    """A real node for one test, which may kill and restart it."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster() -> Iterator[Callable[..., Cluster]]:
    """`kafka_cluster(3)` -> three real nodes for one test; `kafka_cluster(3, {"num.partitions": "6"}, users)`."""
    with ExitStack() as stack:

        def made(
            nodes: int = 3,
            settings: Mapping[str, str] | None = None,
            users: Mapping[str, str] | None = None,
        ) -> Cluster:
            return stack.enter_context(Cluster(settings, nodes=nodes, users=users))

        yield made
