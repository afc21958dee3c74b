"""The fixtures that barnabas brings to pytest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import Producer
from barnabas.client.admin.admin import Admin
from barnabas.testing import Cluster


@pytest.fixture(scope="module")
def kafka_settings() -> dict[str, str]:
    """What this module's node is told."""
    return {"num.partitions": "3"}


def test_a_module_has_a_node_with_its_settings(kafka_module: Cluster, topic: str) -> None:
    with Admin(kafka_module.bootstrap) as admin:
        admin.create_topic(topic)
        assert len(admin.describe_topic(topic).partitions) == 3


def test_a_test_gets_as_many_nodes_as_it_asks_for(kafka_cluster: Callable[..., Cluster]) -> None:
    kafka = kafka_cluster(2, {"num.partitions": "2"})
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic("t")
        assert {len(p.replicas) for p in admin.describe_topic("t").partitions.values()} == {2}
        assert [voter.id for voter in admin.quorum().voters] == [1, 2]


def test_a_test_leaves_its_node_empty_one(kafka_emptied: Cluster, topic: str) -> None:
    with Producer(kafka_emptied.bootstrap) as producer:
        producer.send(topic, b"one").result(60)


def test_a_test_leaves_its_node_empty_two(kafka_emptied: Cluster) -> None:
    kafka_emptied.clean()
    with Admin(kafka_emptied.bootstrap) as admin:
        assert admin.topics() == []
