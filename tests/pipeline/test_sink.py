"""The sink's two phases over a real node: every row of a micro-batch is there once, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pipeline.sink_histories import History, committed

from barnabas.client.admin.admin import Admin
from barnabas.pipeline.sink.task import _Worker
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


def test_a_worker_prepares_nothing_twice_under_one_id_while_queries_take_turns() -> None:
    """One Spark session runs several queries, and its workers tasks of all of them."""
    worker = _Worker()
    turns = [("a", 5), ("b", 3), ("a", 5), ("b", 3), ("a", 4), ("a", 5)]
    ids = [worker.next_id(name, batch) for name, batch in turns]
    assert len(set(ids)) == len(turns)
    assert worker.next_id("a", 6) == ids[0], "the next micro-batch uses them again"
