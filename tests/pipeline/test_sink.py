"""The sink's two phases over a real node: every row of a micro-batch is there once, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pipeline.sink_histories import History, committed

from barnabas.client.admin.admin import Admin
from barnabas.testing.cluster import Cluster as Kafka

SEEDS = 24


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Kafka() as kafka:
        yield kafka.bootstrap


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_dies_every_row_is_there_once(bootstrap: str, seed: int) -> None:
    topic = f"out-{seed}"
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
    history = History(bootstrap, topic, f"sink-{seed}", seed)
    history.run()
    assert committed(bootstrap, topic) == history.expected()
